//! What plays look at: one look is `Ok` or says what is not so; [`Stage::until`] and [`Stage::stays`] repeat it.
//!
//! Absence of change can only be looked at for a while. On paused time a while costs nothing and is long; on a real
//! server it is short, so plays let a canary fly first where the collector has to have had its chance.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Made, Stage};
use crate::objects::{EVENTS, Resource};
use crate::suites::Checked;

/// Longest wait for what has to happen. The Go collector looks for new kinds every 30 s and may wait 30 s more for
/// those it finds; a kind that comes a moment too late is seen after two such rounds.
const PATIENCE: Duration = Duration::from_secs(150);
/// How long nothing may happen, on a real server.
const QUIET_REAL: Duration = Duration::from_secs(4);
/// How long nothing may happen, on paused time: longer than any collector's rounds.
const QUIET_PAUSED: Duration = Duration::from_secs(90);
/// Pause between two looks.
const STEP: Duration = Duration::from_millis(100);
/// Where the events about objects without a namespace are.
const DEFAULT_NS: &str = "default";
/// Why the collector warns about an owner in another namespace.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";

// === impl Stage ===

impl Stage {
    /// Looks until it is so, or until the collector has ended.
    pub async fn until(&self, look: impl AsyncFn() -> Checked) -> Checked {
        let deadline = Instant::now() + PATIENCE;
        while let Err(why) = look().await {
            self.still_collected()
                .map_err(|end| format!("{why}; {end}"))?;
            if Instant::now() >= deadline {
                return Err(format!("{why}, after {} s", PATIENCE.as_secs()));
            }
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }

    /// Looks for a while whether it stays so.
    pub async fn stays(&self, look: impl AsyncFn() -> Checked) -> Checked {
        let quiet = if self.is_embedded() {
            QUIET_PAUSED
        } else {
            QUIET_REAL
        };
        let end = Instant::now() + quiet;
        while Instant::now() < end {
            look().await?;
            tokio::time::sleep(STEP).await;
        }
        look().await
    }

    /// Waits until these objects are gone.
    pub async fn goes(&self, made: &[&Made]) -> Checked {
        self.until(async || self.gone(made).await).await
    }

    /// Looks for a while whether these objects stay, and nobody deletes them.
    pub async fn remain(&self, made: &[&Made]) -> Checked {
        self.stays(async || self.untouched(made).await).await
    }

    /// These objects are gone.
    pub async fn gone(&self, made: &[&Made]) -> Checked {
        for made in made {
            if self.look(made).await?.is_some() {
                return Err(format!("{} is still there", made.path()));
            }
        }
        Ok(())
    }

    /// These objects are there, and nobody has deleted them.
    pub async fn untouched(&self, made: &[&Made]) -> Checked {
        for made in made {
            if self.there(made).await?["metadata"]["deletionTimestamp"].is_string() {
                return Err(format!("{} is being deleted", made.path()));
            }
        }
        Ok(())
    }

    /// These objects are being deleted, and are still there.
    pub async fn deleting(&self, made: &[&Made]) -> Checked {
        for made in made {
            if !self.there(made).await?["metadata"]["deletionTimestamp"].is_string() {
                return Err(format!("{} is not being deleted", made.path()));
            }
        }
        Ok(())
    }

    /// The object has exactly these owners.
    pub async fn owned_by(&self, made: &Made, owners: &[&Made]) -> Checked {
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
    pub async fn held_by(&self, made: &Made, finalizers: &[&str]) -> Checked {
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

    /// There are so many objects of a resource in the play's namespace.
    pub async fn count(&self, resource: &Resource, meant: usize) -> Checked {
        let found = self.list(resource).await?.len();
        if found != meant {
            return Err(format!(
                "{found} of {} instead of {meant}",
                resource.collection(self.ns())
            ));
        }
        Ok(())
    }

    /// Somebody was warned that the owner of this object is in another namespace.
    pub async fn warned(&self, made: &Made, owner: &Made) -> Checked {
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

    /// The users of this object were told something, for this reason.
    pub async fn told(&self, made: &Made, reason: &str) -> Checked {
        let events = self.items(&EVENTS.collection(made.namespace())).await?;
        let mut about = events.iter().filter(|event| {
            let object = &event["involvedObject"];
            object["uid"] == made.uid() && object["name"] == made.name()
        });
        if about.any(|event| event["reason"] == reason) {
            return Ok(());
        }
        Err(format!("nobody was told {reason} about {}", made.path()))
    }

    /// The object as it is; that it is gone is an error.
    pub async fn there(&self, made: &Made) -> Checked<Value> {
        let object = self.look(made).await?;
        object.ok_or_else(|| format!("{} is gone", made.path()))
    }
}

/// The uids of an object's owners.
fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference["uid"].as_str())
}

/// What an event says.
fn gist(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    [text("type"), text("reason"), text("message")].join(" ")
}
