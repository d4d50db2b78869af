//! One restore from its begin to its end: creates the objects, saves the store, lets users and `run` work, restores the
//! store, and checks what is left.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::objects::{
    CRON_JOB, ClusterUsers, DEPENDENTS, Family, MadeObject, NAMESPACE, OWNERS, ObjectLosses, RELIC,
    until, wait_for,
};
use super::proxy::{HeldLists, ProxyRules, RestoreProxy};
use super::{ListOrder, RestoreRow};
use crate::cargo::Running;
use crate::http::{HttpCall, HttpClient, read_text};
use crate::real::{Identity, Instance, Options, RestoreMode};

/// A part of what `/readyz` says about watches that are open and silent.
const BLIND: &str = "watches are open and show nothing, not even bookmarks";

const CONTROLLERS: &str = "garbage-collector-controller,cronjob-controller";
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];
/// Dependents of each kind in a family whose owner is deleted after the store was saved.
const KEPT_EACH: usize = 16;
/// Dependents of each kind in the smaller families.
const FEW_EACH: usize = 4;
/// Time without a request about our objects after which the controllers count as idle.
const QUIET: Duration = Duration::from_secs(4);
/// Time for what may or may not happen: the old build never collects the dependents of a deleted kind.
const CHANCE: Duration = Duration::from_secs(15);

/// One case in progress.
pub(super) struct RestoreCase<'a> {
    row: RestoreRow,
    users: ClusterUsers,
    proxy: RestoreProxy,
    caretaker: &'a Path,
    /// The kubeconfig of `run`, which names the proxy.
    kubeconfig: PathBuf,
    /// The port of `run`'s health pages.
    health_port: u16,
    failures: Vec<String>,
}

/// All objects of a case.
struct RestoreWorld {
    /// Their owners are deleted after the store was saved, and their dependents are collected or orphaned.
    kept: Vec<Family>,
    /// The same, but writes to their dependents are refused until the restore.
    interrupted: Vec<Family>,
    /// Their owners are deleted before the store is saved: garbage also after the restore.
    garbage: Vec<Family>,
    /// Dependents of a kind that is removed before the store is saved.
    relics: Vec<MadeObject>,
    cron_job: MadeObject,
}

// === impl RestoreCase ===

impl<'a> RestoreCase<'a> {
    /// Runs a case on a new instance and returns its failures. The output of `run` is appended to `log`.
    pub(super) fn run(row: RestoreRow, caretaker: &'a Path, log: &Path) -> Result<Vec<String>> {
        let name = format!("restore-{}", std::process::id());
        let mut instance = Instance::start(&name, &Options::default())?;
        let users = ClusterUsers::new(instance.client(Identity::Admin)?);
        users.prepare()?;
        let mut case = Self {
            row,
            users,
            kubeconfig: instance.dir().join("proxy.kubeconfig"),
            proxy: RestoreProxy::start(instance.client(Identity::Ordinary)?)?,
            caretaker,
            health_port: free_port()?,
            failures: Vec::new(),
        };
        case.restore(&mut instance, log)?;
        instance.stop()?;
        Ok(case.failures)
    }

    fn restore(&mut self, instance: &mut Instance, log: &Path) -> Result<()> {
        self.refuse_writes(&["garbage-", "relic-"]);
        let _run = self.start_run(log)?;
        self.collects_canaries("before")?;
        let world = self.create_world()?;
        self.delete_early(&world)?;
        let file = instance.dir().join("snapshot.db");
        instance.save(&file)?;
        self.delete_late(&world)?;
        let mut watched = self.proxy.watched();
        watched.remove(RELIC.plural);
        self.set_rules(self.first_held(), &["interrupted-"]);
        let stopped = Instant::now();
        instance.restore(&file, self.row.mode, &Options::default())?;
        self.set_rules(self.first_held(), &[]);
        self.let_list(stopped, &watched)?;
        self.settle(stopped, &watched)?;
        self.check(&world)?;
        self.works_on(&world)
    }

    /// Starts `caretaker run` behind the proxy.
    fn start_run(&self, log: &Path) -> Result<Running> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.proxy.url()}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        let file = &self.kubeconfig;
        fs::write(file, config.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let output = OpenOptions::new().append(true).open(log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(self.caretaker);
        command
            .arg("run")
            .arg(format!("--kubeconfig={}", file.display()))
            .arg(format!("--controllers={CONTROLLERS}"))
            .arg(format!("--secure-port={}", self.health_port))
            .args(["--take-over", "--leader-elect=false", "-v"])
            .stdout(output.try_clone()?)
            .stderr(output);
        Running::start(&mut command)
    }

    fn create_world(&self) -> Result<RestoreWorld> {
        let family = |prefix: &str, row, policy, each| {
            let prefix = format!("{prefix}-{}", str::to_ascii_lowercase(policy));
            self.users.create_family(&prefix, row, policy, each)
        };
        let mut world = RestoreWorld {
            kept: Vec::new(),
            interrupted: Vec::new(),
            garbage: Vec::new(),
            relics: Vec::new(),
            cron_job: self.users.create(CRON_JOB, "minutely", None)?,
        };
        for row in OWNERS {
            for policy in POLICIES {
                world.kept.push(family("kept", row, policy, KEPT_EACH)?);
                let interrupted = family("interrupted", row, policy, FEW_EACH)?;
                world.interrupted.push(interrupted);
            }
            world
                .garbage
                .push(family("garbage", row, "Background", FEW_EACH)?);
        }
        let relic = self
            .users
            .create_family("relic", RELIC, "Background", FEW_EACH)?;
        world.relics = relic.dependents;
        Ok(world)
    }

    /// Deletes what is already deleted when the store is saved. The refused deletes show that `run` knows.
    fn delete_early(&self, world: &RestoreWorld) -> Result<()> {
        let since = Instant::now();
        for family in &world.garbage {
            self.users.delete(&family.owner, family.policy)?;
        }
        self.users.delete_relic_kind()?;
        until("the deletes of all garbage were refused", || {
            Ok(self.has_tried(dependents(&world.garbage), since))
        })?;
        wait_for(CHANCE, || Ok(self.has_tried(&world.relics, since)))?;
        Ok(())
    }

    /// Deletes all owners and waits until `run` has done everything that it may do.
    fn delete_late(&self, world: &RestoreWorld) -> Result<()> {
        let since = Instant::now();
        self.refuse_writes(&["interrupted-"]);
        for family in world.kept.iter().chain(&world.interrupted) {
            self.users.delete(&family.owner, family.policy)?;
        }
        let collected = world.kept.iter().filter(|family| family.policy != "Orphan");
        let collected = collected.chain(&world.garbage);
        let collected: Vec<&MadeObject> = collected.flat_map(|family| &family.dependents).collect();
        until("all dependents are collected", || {
            Ok(self.users.existing(collected.iter().copied())?.is_empty())
        })?;
        let owners = world.kept.iter().map(|family| &family.owner);
        let owners: Vec<&MadeObject> = owners.collect();
        until("all owners are gone", || {
            Ok(self.users.existing(owners.iter().copied())?.is_empty())
        })?;
        until("the interrupted writes were refused", || {
            Ok(self.has_tried(dependents(&world.interrupted), since))
        })?;
        wait_for(CHANCE, || {
            Ok(self.users.existing(&world.relics)?.is_empty())
        })?;
        until("the CronJob has a status", || {
            let cron_job = self.users.get(&world.cron_job)?;
            Ok(cron_job["status"]["lastScheduleTime"].is_string())
        })
    }

    /// The lists that are held when the server is back.
    fn first_held(&self) -> HeldLists {
        match self.row.order {
            ListOrder::OwnersLast => HeldLists::Everything,
            ListOrder::DependentsLast => held(&DEPENDENTS.map(|row| row.plural)),
            ListOrder::AsTheyCome => HeldLists::Nothing,
        }
    }

    /// Releases the lists in the order of the case.
    fn let_list(&mut self, since: Instant, watched: &BTreeSet<String>) -> Result<()> {
        let all_but = |last: &[&str]| {
            let listed = self.proxy.relisted_since(since);
            let mut first = watched.iter().filter(|it| !last.contains(&it.as_str()));
            first.all(|resource| listed.contains(resource))
        };
        let (owners, dependents) = (
            OWNERS.map(|row| row.plural),
            DEPENDENTS.map(|row| row.plural),
        );
        match self.row.order {
            ListOrder::AsTheyCome => {
                if self.row.mode == RestoreMode::Plain {
                    self.reports_blind_watches(since, watched)?;
                }
                return Ok(());
            }
            ListOrder::OwnersLast => {
                // The interrupted deletes, or the questions about their owners, come while nothing can be listed.
                wait_for(CHANCE, || {
                    let seen = self.proxy.seen_since(since);
                    let mut seen = seen.iter().filter(|request| request.status < 400);
                    Ok(seen.any(|request| request.path.contains("/interrupted-")))
                })?;
                self.set_rules(held(&owners), &[]);
                until("all but the owners' kinds are listed", || {
                    Ok(all_but(&owners))
                })?;
            }
            ListOrder::DependentsLast => {
                until("all but the dependents' kinds are listed", || {
                    Ok(all_but(&dependents))
                })?;
            }
        }
        self.quiet(since)?;
        self.set_rules(HeldLists::Nothing, &[]);
        Ok(())
    }

    /// The server has not reached the versions that the watches ask for, so they show nothing. `/readyz` says so before the
    /// kinds are listed again.
    fn reports_blind_watches(&mut self, since: Instant, watched: &BTreeSet<String>) -> Result<()> {
        let health = HttpClient::unverified(&format!("https://127.0.0.1:{}", self.health_port));
        let mut is_reported = false;
        until("all kinds are listed again", || {
            let page = health.send(HttpCall {
                method: "GET",
                path: "/readyz?verbose",
                ..HttpCall::default()
            });
            let text = page.and_then(|mut page| read_text(&mut page));
            is_reported |= text.is_ok_and(|text| text.contains(BLIND));
            Ok(is_reported || self.proxy.relisted_since(since).is_superset(watched))
        })?;
        if !is_reported {
            let failure = "readyz does not report the watches that show nothing";
            self.failures.push(failure.to_owned());
        }
        Ok(())
    }

    /// Waits until every kind was listed again, new garbage of every kind is collected, and nothing more happens.
    fn settle(&self, since: Instant, watched: &BTreeSet<String>) -> Result<()> {
        let missing = || {
            let listed = self.proxy.relisted_since(since);
            watched.difference(&listed).cloned().collect::<Vec<_>>()
        };
        until("every kind is listed again", || Ok(missing().is_empty()))
            .with_context(|| format!("not listed: {:?}", missing()))?;
        self.collects_canaries("after")?;
        self.quiet(since)
    }

    fn quiet(&self, since: Instant) -> Result<()> {
        until("the controllers are idle", || {
            Ok(self.proxy.quiet_for(NAMESPACE, since) >= QUIET)
        })
    }

    fn check(&mut self, world: &RestoreWorld) -> Result<()> {
        let groups = [("kept", &world.kept), ("interrupted", &world.interrupted)];
        for (name, families) in groups {
            let losses = self.users.losses(dependents(families))?;
            self.expect_none(&format!("dependents of restored owners ({name})"), &losses);
            let owners = families.iter().map(|family| &family.owner);
            let losses = self.users.losses(owners)?;
            self.expect_none(&format!("restored owners ({name})"), &losses);
        }
        let losses = self.users.losses(&world.relics)?;
        self.expect_none("dependents of a kind that is gone", &losses);
        let garbage: Vec<&MadeObject> = dependents(&world.garbage).collect();
        let is_collected = wait_for(CHANCE * 4, || {
            Ok(self.users.existing(garbage.iter().copied())?.is_empty())
        })?;
        if !is_collected {
            let left = self.users.existing(garbage.iter().copied())?.len();
            let all = garbage.len();
            self.failures
                .push(format!("{left} of {all} garbage objects are not collected"));
        }
        self.explains(&world.relics[0])
    }

    fn expect_none(&mut self, what: &str, losses: &ObjectLosses) {
        eprintln!("{what}: {losses}");
        if !losses.is_none() {
            self.failures.push(format!("{what}: {losses}"));
        }
    }

    /// `explain` says why a dependent of a kind that is gone stays.
    fn explains(&mut self, relic: &MadeObject) -> Result<()> {
        let output = Command::new(self.caretaker)
            .args(["explain", "-o", "json", "-n", NAMESPACE])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("{}/{}", relic.row.plural, relic.name))
            .output()
            .context("cannot start explain")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains("\"Unserved\"") {
            let errors = String::from_utf8_lossy(&output.stderr);
            let failure = format!("explain does not name the kind that is gone: {text}{errors}");
            self.failures.push(failure);
        }
        Ok(())
    }

    /// The controllers work with the restored objects: they collect the dependents of owners that are deleted now, and
    /// the CronJob goes on.
    fn works_on(&mut self, world: &RestoreWorld) -> Result<()> {
        let last_time = |cron_job: &Value| {
            let time = &cron_job["status"]["lastScheduleTime"];
            time.as_str().map(str::to_owned)
        };
        let restored = last_time(&self.users.get(&world.cron_job)?);
        let families = || world.kept.iter().chain(&world.interrupted);
        let owners = families().map(|family| &family.owner);
        for (owner, _) in self.users.existing(owners)? {
            self.users.delete(owner, "Background")?;
        }
        let objects: Vec<&MadeObject> = families().flat_map(|family| &family.dependents).collect();
        let are_gone = wait_for(CHANCE * 6, || {
            Ok(self.users.existing(objects.iter().copied())?.is_empty())
        })?;
        if !are_gone {
            let left = self.users.existing(objects.iter().copied())?.len();
            let failure = format!(
                "{left} dependents stay although their owners were deleted after the restore"
            );
            self.failures.push(failure);
        }
        let goes_on = wait_for(CHANCE * 8, || {
            Ok(last_time(&self.users.get(&world.cron_job)?) > restored)
        })?;
        if !goes_on {
            self.failures.push("the CronJob does not go on".to_owned());
        }
        Ok(())
    }

    /// Waits until new garbage of every kind is collected.
    fn collects_canaries(&self, when: &str) -> Result<()> {
        let canaries = DEPENDENTS.map(|row| {
            self.users
                .create_garbage(row, &format!("canary-{when}-{}", row.plural))
        });
        let canaries: Vec<MadeObject> = canaries.into_iter().collect::<Result<_>>()?;
        until("the canaries are collected", || {
            Ok(self.users.existing(&canaries)?.is_empty())
        })
    }

    /// Whether `run` has tried to delete or patch all of these objects since a time.
    fn has_tried<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o MadeObject>,
        since: Instant,
    ) -> bool {
        let seen = self.proxy.seen_since(since);
        let writes = seen.iter().filter(|request| request.is_write());
        let paths = writes.filter_map(|request| request.path.split('?').next());
        let tried: BTreeSet<&str> = paths.collect();
        let mut objects = objects.into_iter();
        objects.all(|object| tried.contains(object.path().as_str()))
    }

    fn refuse_writes(&self, prefixes: &[&'static str]) {
        self.set_rules(HeldLists::Nothing, prefixes);
    }

    fn set_rules(&self, held_lists: HeldLists, prefixes: &[&'static str]) {
        self.proxy.set_rules(ProxyRules {
            held_lists,
            refused_writes: prefixes.to_vec(),
        });
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr().context("the port")?.port())
}

fn held(resources: &[&str]) -> HeldLists {
    HeldLists::Of(resources.iter().map(ToString::to_string).collect())
}

fn dependents(families: &[Family]) -> impl Iterator<Item = &MadeObject> + Clone {
    families.iter().flat_map(|family| &family.dependents)
}
