//! Small scenarios for crashes: each way in which the collector ends something, with as few requests as will do.

pub mod cron;
pub mod podgc;

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::Scenario;
use crate::checkers::Known;
use crate::collector::NAME;
use crate::objects::{
    CONFIG_MAPS, CRON_JOBS, JOBS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS, VOLCANO_CRON_JOBS,
    VOLCANO_JOBS, mk_config_map, mk_object, with,
};
use crate::suites::Checked;
use crate::suites::cron::{BATCH, Kind, VOLCANO};
use crate::suites::stage::{Made, Stage, blocking, owned};

/// What `--controllers` calls the ones that end Jobs.
const TTL_NAME: &str = "ttl-after-finished-controller";
const VOLCANO_TTL_NAME: &str = "gc-controller";

/// A finalizer of the scenario's own.
const HOLD: &str = "example.com/hold";

/// The kinds that scenarios use, and those of them that a collector looks at.
pub fn kinds(is_volcano: bool) -> (Vec<Known>, Vec<Known>) {
    let of_volcano = |resource, kind: &str| {
        is_volcano.then(|| Known::new(resource, "batch.volcano.sh/v1alpha1", kind))
    };
    let mut watched = vec![
        Known::new(CONFIG_MAPS, "v1", "ConfigMap"),
        Known::new(SECRETS, "v1", "Secret"),
        Known::new(JOBS, "batch/v1", "Job"),
    ];
    watched.extend(of_volcano(VOLCANO_JOBS, "Job"));
    let mut kinds = watched.clone();
    kinds.extend([
        Known::new(SERVICE_ACCOUNTS, "v1", "ServiceAccount"),
        Known::new(CRON_JOBS, "batch/v1", "CronJob"),
        Known::new(PODS, "v1", "Pod"),
        Known::new(NODES, "v1", "Node"),
    ]);
    kinds.extend(of_volcano(VOLCANO_CRON_JOBS, "CronJob"));
    (kinds, watched)
}

/// A row of a table: `scenario!(name, open)` has the functions `make` and `act` of the module `name`, and whoever is `NAME`
/// there dies; `scenario!(name of KIND, controllers)` is about one of two kinds of Jobs.
macro_rules! scenario {
    ($name:ident, $open:expr) => {
        Scenario {
            name: stringify!($name),
            controllers: &[NAME],
            is_volcano: false,
            make: |stage| $name::make(stage).boxed_local(),
            act: |stage, made| $name::act(stage, made).boxed_local(),
            open: $open,
        }
    };
    ($name:ident of $kind:ident, $controllers:expr) => {
        Scenario {
            name: concat!(stringify!($name), " of ", stringify!($kind)),
            controllers: $controllers,
            is_volcano: $kind.is_volcano(),
            make: |stage| $name::make(&$kind, stage).boxed_local(),
            act: |stage, made| $name::act(&$kind, stage, made).boxed_local(),
            open: &[],
        }
    };
}
pub(crate) use scenario;

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario!(background_fan, &[]),
    scenario!(foreground_chain, &[]),
    scenario!(orphan, &[]),
    scenario!(blocking_ring, &[]),
    scenario!(one_owner_of_two_is_gone, &[]),
    scenario!(one_owner_of_two_waits, &[]),
    scenario!(absent_owner, &[]),
    scenario!(unlisted_owner, &[]),
    scenario!(foreground_becomes_orphan, &[]),
    scenario!(foreground_becomes_orphan_at_once, &["a", "b", "c"]),
    scenario!(ttl of BATCH, &[NAME, TTL_NAME]),
    scenario!(ttl of VOLCANO, &[NAME, VOLCANO_TTL_NAME]),
];

/// Makes a ConfigMap with these owners.
async fn map(stage: &Stage, name: &str, owners: &[Value]) -> Checked<Made> {
    stage
        .make(&CONFIG_MAPS, owned(mk_config_map(name), owners))
        .await
}

/// Makes a Secret with these owners.
async fn secret(stage: &Stage, name: &str, owners: &[Value]) -> Checked<Made> {
    stage
        .make(&SECRETS, owned(mk_object("v1", "Secret", name), owners))
        .await
}

/// A ConfigMap that a finalizer of the scenario holds.
fn held(name: &str) -> Value {
    with(
        mk_config_map(name),
        json!({"metadata": {"finalizers": [HOLD]}}),
    )
}

async fn delete(stage: &Stage, made: &Made, policy: &str) -> Checked {
    stage
        .delete(made, json!({"propagationPolicy": policy}))
        .await
}

mod background_fan {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let root = map(stage, "root", &[]).await?;
        for (child, grandchild) in [("a", "aa"), ("b", "bb")] {
            let child = secret(stage, child, &[root.reference()]).await?;
            map(stage, grandchild, &[child.reference()]).await?;
        }
        map(stage, "free", &[]).await?;
        Ok(vec![root])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Background").await
    }
}

mod foreground_chain {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let root = map(stage, "root", &[]).await?;
        let middle = secret(stage, "middle", &[blocking(root.reference())]).await?;
        map(stage, "leaf", &[blocking(middle.reference())]).await?;
        Ok(vec![root])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Foreground").await
    }
}

mod orphan {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let root = stage.make(&CONFIG_MAPS, held("root")).await?;
        let other = map(stage, "other", &[]).await?;
        let child = map(stage, "child", &[root.reference()]).await?;
        secret(stage, "grandchild", &[child.reference()]).await?;
        let both = [root.reference(), other.reference()];
        secret(stage, "shared", &both).await?;
        Ok(vec![root])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Orphan").await
    }
}

mod blocking_ring {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let a = map(stage, "a", &[]).await?;
        let b = secret(stage, "b", &[blocking(a.reference())]).await?;
        let c = map(stage, "c", &[blocking(b.reference())]).await?;
        let last = json!({"metadata": {"ownerReferences": [blocking(c.reference())]}});
        stage.change(&a, last).await?;
        Ok(vec![a])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Foreground").await
    }
}

mod one_owner_of_two_is_gone {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let (dead, live) = (
            map(stage, "dead", &[]).await?,
            map(stage, "live", &[]).await?,
        );
        let owners = [dead.reference(), live.reference()];
        secret(stage, "shared", &owners).await?;
        secret(stage, "lost", &owners[..1]).await?;
        Ok(vec![dead])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Background").await
    }
}

mod one_owner_of_two_waits {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let (root, live) = (
            map(stage, "root", &[]).await?,
            map(stage, "live", &[]).await?,
        );
        let owners = [blocking(root.reference()), blocking(live.reference())];
        secret(stage, "shared", &owners).await?;
        secret(stage, "lost", &owners[..1]).await?;
        Ok(vec![root])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Foreground").await
    }
}

mod absent_owner {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let absent = stage.absent();
        let living = map(stage, "living", &[]).await?;
        let a = map(stage, "a", std::slice::from_ref(&absent)).await?;
        map(stage, "b", &[a.reference()]).await?;
        map(stage, "kept", &[absent, living.reference()]).await?;
        Ok(Vec::new())
    }

    pub(super) async fn act(_: &Stage, _: &[Made]) -> Checked {
        Ok(())
    }
}

/// An owner of a kind that these controllers do not watch: they have to ask for it.
mod unlisted_owner {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let account = mk_object("v1", "ServiceAccount", "unlisted");
        let owner = stage.make(&SERVICE_ACCOUNTS, account).await?;
        map(stage, "child", &[owner.reference()]).await?;
        let lost = with(owner.reference(), json!({"name": "never"}));
        map(stage, "lost", &[lost]).await?;
        Ok(Vec::new())
    }

    pub(super) async fn act(_: &Stage, _: &[Made]) -> Checked {
        Ok(())
    }
}

/// An owner with three dependents, of which one is held.
async fn held_family(stage: &Stage) -> Checked<Vec<Made>> {
    let root = map(stage, "root", &[]).await?;
    let owner = blocking(root.reference());
    let held = owned(held("held"), std::slice::from_ref(&owner));
    let held = stage.make(&CONFIG_MAPS, held).await?;
    for name in ["a", "b", "c"] {
        secret(stage, name, std::slice::from_ref(&owner)).await?;
    }
    Ok(vec![root, held])
}

mod foreground_becomes_orphan {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        held_family(stage).await
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Foreground").await?;
        // Long enough for controllers that died to be replaced and to catch up.
        tokio::time::sleep(Duration::from_secs(120)).await;
        delete(stage, &made[0], "Orphan").await?;
        tokio::time::sleep(Duration::from_secs(120)).await;
        stage.release(&made[1]).await
    }
}

mod foreground_becomes_orphan_at_once {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        held_family(stage).await
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        delete(stage, &made[0], "Foreground").await?;
        tokio::task::yield_now().await;
        delete(stage, &made[0], "Orphan").await?;
        tokio::time::sleep(Duration::from_secs(120)).await;
        stage.release(&made[1]).await
    }
}

/// A Job whose time is over, one whose time comes, one that is given more time, and one that has none.
mod ttl {
    use super::*;

    async fn job(kind: &Kind, stage: &Stage, name: &str, ttl: Option<u32>) -> Checked<Made> {
        let ttl = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
        stage.make(&kind.jobs, with(kind.mk_job(name), ttl)).await
    }

    pub(super) async fn make(kind: &Kind, stage: &Stage) -> Checked<Vec<Made>> {
        kind.define(stage).await?;
        let over = job(kind, stage, "over", Some(5)).await?;
        map(stage, "of-over", &[blocking(over.reference())]).await?;
        kind.end(stage, &over, "Complete", 60).await?;
        let soon = job(kind, stage, "soon", Some(10)).await?;
        let raised = job(kind, stage, "raised", Some(30)).await?;
        kind.end(stage, &raised, "Failed", 0).await?;
        let kept = job(kind, stage, "kept", None).await?;
        kind.end(stage, &kept, "Complete", 60).await?;
        Ok(vec![soon, raised])
    }

    pub(super) async fn act(kind: &Kind, stage: &Stage, made: &[Made]) -> Checked {
        kind.end(stage, &made[0], "Failed", 0).await?;
        let more = json!({"spec": {"ttlSecondsAfterFinished": 1_000_000}});
        stage.change(&made[1], more).await
    }
}
