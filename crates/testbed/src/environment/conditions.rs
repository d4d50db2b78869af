//! Conditions of a case: each check is `Ok` or says what it found; [`Environment::until`] and [`Environment::stays`]
//! repeat a check.
//!
//! That something does not happen can only be observed for a while. On paused time a long while costs nothing. On a real
//! server it is short, so cases first wait for a canary that proves that the controllers have observed the objects.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Environment;
use crate::case::CheckResult;
use crate::fixtures::CreatedObject;
use crate::objects::{EVENTS, Resource};

/// Longest wait for a condition. The Go collector discovers kinds every 30 s and may wait 30 s more for their caches; a
/// kind that appears just after a discovery is watched after two such rounds.
const WITHIN: Duration = Duration::from_secs(150);
/// Time for which a condition has to hold on a real server.
const QUIET_REAL: Duration = Duration::from_secs(4);
/// The same on paused time: longer than two discoveries.
const QUIET_PAUSED: Duration = Duration::from_secs(90);
/// Pause between two checks.
const STEP: Duration = Duration::from_millis(100);
/// The same on paused time, where each check costs processor time and the pause does not.
const STEP_PAUSED: Duration = Duration::from_millis(400);
/// The namespace of Events about cluster-scoped objects.
const DEFAULT_NS: &str = "default";
/// The reason of the Event about an owner in another namespace.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";

// === impl Environment ===

impl Environment {
    /// Waits until a condition holds; fails after [`WITHIN`], or when the controllers have ended.
    pub async fn until(&self, condition: impl AsyncFn() -> CheckResult) -> CheckResult {
        let deadline = Instant::now() + WITHIN;
        while let Err(why) = condition().await {
            self.check_running()
                .map_err(|end| format!("{why}; {end}"))?;
            if Instant::now() >= deadline {
                return Err(format!("{why}, after {} s", WITHIN.as_secs()));
            }
            tokio::time::sleep(self.step()).await;
        }
        Ok(())
    }

    fn step(&self) -> Duration {
        match self.is_embedded() {
            true => STEP_PAUSED,
            false => STEP,
        }
    }

    /// Checks that a condition holds for a while.
    pub async fn stays(&self, condition: impl AsyncFn() -> CheckResult) -> CheckResult {
        let quiet = if self.is_embedded() {
            QUIET_PAUSED
        } else {
            QUIET_REAL
        };
        let end = Instant::now() + quiet;
        while Instant::now() < end {
            condition().await?;
            tokio::time::sleep(self.step()).await;
        }
        condition().await
    }

    /// Waits until these objects are gone.
    pub async fn goes(&self, made: &[&CreatedObject]) -> CheckResult {
        self.until(async || self.gone(made).await).await
    }

    /// Checks for a while that these objects exist and are not being deleted.
    pub async fn remain(&self, made: &[&CreatedObject]) -> CheckResult {
        self.stays(async || self.untouched(made).await).await
    }

    /// These objects are gone.
    pub async fn gone(&self, made: &[&CreatedObject]) -> CheckResult {
        for made in made {
            if self.look(made).await?.is_some() {
                return Err(format!("{} is still there", made.path()));
            }
        }
        Ok(())
    }

    /// These objects exist and are not being deleted.
    pub async fn untouched(&self, made: &[&CreatedObject]) -> CheckResult {
        for made in made {
            if self.there(made).await?["metadata"]["deletionTimestamp"].is_string() {
                return Err(format!("{} is being deleted", made.path()));
            }
        }
        Ok(())
    }

    /// These objects exist and are being deleted.
    pub async fn deleting(&self, made: &[&CreatedObject]) -> CheckResult {
        for made in made {
            if !self.there(made).await?["metadata"]["deletionTimestamp"].is_string() {
                return Err(format!("{} is not being deleted", made.path()));
            }
        }
        Ok(())
    }

    /// The object has exactly these owners.
    pub async fn owned_by(&self, made: &CreatedObject, owners: &[&CreatedObject]) -> CheckResult {
        let object = self.there(made).await?;
        let meant: BTreeSet<&str> = owners.iter().map(|owner| owner.uid()).collect();
        let found: BTreeSet<&str> = owner_uids(&object).collect();
        if found != meant {
            return Err(format!(
                "{} has the owners {found:?} instead of {meant:?}",
                made.path()
            ));
        }
        Ok(())
    }

    /// The object has exactly these finalizers.
    pub async fn held_by(&self, made: &CreatedObject, finalizers: &[&str]) -> CheckResult {
        let object = self.there(made).await?;
        let found = object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten();
        let found: Vec<&str> = found.filter_map(Value::as_str).collect();
        if found != finalizers {
            return Err(format!(
                "{} has the finalizers {found:?} instead of {finalizers:?}",
                made.path()
            ));
        }
        Ok(())
    }

    /// The case's namespace has exactly `meant` objects of a resource.
    pub async fn count(&self, resource: &Resource, meant: usize) -> CheckResult {
        let found = self.list(resource).await?.len();
        if found != meant {
            return Err(format!(
                "{found} of {} instead of {meant}",
                resource.collection(self.ns())
            ));
        }
        Ok(())
    }

    /// The object has a warning Event that its owner is in another namespace.
    pub async fn warned(&self, made: &CreatedObject, owner: &CreatedObject) -> CheckResult {
        let ns = match made.namespace() {
            "" => DEFAULT_NS,
            ns => ns,
        };
        let events = self.items(&EVENTS.collection(ns)).await?;
        let about = |event: &&Value| event["involvedObject"]["uid"] == made.uid();
        let said: Vec<String> = events.iter().filter(about).map(gist).collect();
        let meant = format!(
            "Warning {INVALID_NAMESPACE} ownerRef {} does not exist in namespace {:?}",
            owner.identity_in(made.namespace()),
            made.namespace()
        );
        if !said.contains(&meant) {
            return Err(format!(
                "{} got the events {said:?} instead of {meant:?}",
                made.path()
            ));
        }
        Ok(())
    }

    /// The object has an Event with this reason.
    pub async fn has_event(&self, made: &CreatedObject, reason: &str) -> CheckResult {
        let events = self.items(&EVENTS.collection(made.namespace())).await?;
        let mut about = events.iter().filter(|event| {
            let object = &event["involvedObject"];
            object["uid"] == made.uid() && object["name"] == made.name()
        });
        if about.any(|event| event["reason"] == reason) {
            return Ok(());
        }
        Err(format!("{} has no Event {reason}", made.path()))
    }

    /// The object's current state; an error if it is gone.
    pub async fn there(&self, made: &CreatedObject) -> CheckResult<Value> {
        let object = self.look(made).await?;
        object.ok_or_else(|| format!("{} is gone", made.path()))
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference["uid"].as_str())
}

fn gist(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    [text("type"), text("reason"), text("message")].join(" ")
}
