//! Convergent cases of the garbage collector and the TTL controllers: each way in which they delete something, with as
//! few requests as possible.

pub mod cron;
pub mod podgc;

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};

use crate::case::{CaseBody, CaseNeed, CheckResult, ConvergentSteps, TestCase};
use crate::checkers::KnownKind;
use crate::controllers::COLLECTOR as NAME;
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{
    CONFIG_MAPS, CRON_JOBS, JOBS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS, VOLCANO_CRON_JOBS,
    VOLCANO_JOBS, mk_config_map, mk_object, with,
};
use crate::suites::cron::{BATCH, JobDialect, VOLCANO};
use crate::suites::{CaseSuite, CaseTheme};

/// The names of the TTL controllers for `--controllers`.
const TTL_NAME: &str = "ttl-after-finished-controller";
const VOLCANO_TTL_NAME: &str = "gc-controller";

/// A finalizer that only the case removes.
const HOLD: &str = "example.com/hold";

/// The kinds of all cases, and those of them that the garbage collector watches.
pub fn kinds(is_volcano: bool) -> (Vec<KnownKind>, Vec<KnownKind>) {
    let of_volcano = |resource, kind: &str| {
        is_volcano.then(|| KnownKind::new(resource, "batch.volcano.sh/v1alpha1", kind))
    };
    let mut watched = vec![
        KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
        KnownKind::new(SECRETS, "v1", "Secret"),
        KnownKind::new(JOBS, "batch/v1", "Job"),
    ];
    watched.extend(of_volcano(VOLCANO_JOBS, "Job"));
    let mut kinds = watched.clone();
    kinds.extend([
        KnownKind::new(SERVICE_ACCOUNTS, "v1", "ServiceAccount"),
        KnownKind::new(CRON_JOBS, "batch/v1", "CronJob"),
        KnownKind::new(PODS, "v1", "Pod"),
        KnownKind::new(NODES, "v1", "Node"),
    ]);
    kinds.extend(of_volcano(VOLCANO_CRON_JOBS, "CronJob"));
    (kinds, watched)
}

/// A row of a table: `crash_case!(name, create, act)`, in which the controller `NAME` of the caller crashes, with the
/// `undetermined` objects if there are any; `crash_case!("prefix", create, act of DIALECT, controllers)` is about one of
/// the two dialects of Jobs.
macro_rules! crash_case {
    ($name:ident, $create:ident, $act:ident $(, $undetermined:literal)*) => {
        $crate::crash::cases::crash_case!(@ stringify!($name), ConvergentSteps {
            controllers: &[NAME],
            is_volcano: false,
            create: |env| $create(env).boxed_local(),
            act: |env, created| $act(env, created).boxed_local(),
            undetermined: &[$($undetermined),*],
        })
    };
    ($prefix:literal, $create:ident, $act:ident of $dialect:ident, $controllers:expr) => {
        $crate::crash::cases::crash_case!(@ concat!($prefix, stringify!($create)), ConvergentSteps {
            controllers: $controllers,
            is_volcano: $dialect.is_volcano(),
            create: |env| $create(&$dialect, env).boxed_local(),
            act: |env, created| $act(&$dialect, env, created).boxed_local(),
            undetermined: &[],
        })
    };
    (@ $name:expr, $steps:expr) => {
        TestCase {
            name: $name,
            needs: &[CaseNeed::EmbeddedOnly],
            deviation: None,
            body: CaseBody::Convergent($steps),
        }
    };
}
pub(crate) use crash_case;

/// The convergent cases.
pub static SUITE: CaseSuite = CaseSuite {
    name: "crash",
    controllers: &[],
    themes: &[
        CaseTheme {
            name: "gc",
            cases: CASES,
        },
        CaseTheme {
            name: "cron",
            cases: cron::CASES,
        },
        CaseTheme {
            name: "podgc",
            cases: podgc::CASES,
        },
    ],
};

const CASES: &[TestCase] = &[
    crash_case!(background_fan, background_fan, delete_background),
    crash_case!(foreground_chain, foreground_chain, delete_foreground),
    crash_case!(orphan, orphan, delete_orphan),
    crash_case!(blocking_ring, blocking_ring, delete_foreground),
    crash_case!(
        one_owner_of_two_is_gone,
        one_owner_of_two_is_gone,
        delete_background
    ),
    crash_case!(
        one_owner_of_two_waits,
        one_owner_of_two_waits,
        delete_foreground
    ),
    crash_case!(absent_owner, absent_owner, do_nothing),
    crash_case!(unlisted_owner, unlisted_owner, do_nothing),
    crash_case!(
        foreground_becomes_orphan,
        held_family,
        act_on_foreground_becomes_orphan
    ),
    crash_case!(
        foreground_becomes_orphan_at_once,
        held_family,
        act_on_foreground_becomes_orphan_at_once,
        "a",
        "b",
        "c"
    ),
    crash_case!("batch_", ttl, act_on_ttl of BATCH, &[NAME, TTL_NAME]),
    crash_case!("volcano_", ttl, act_on_ttl of VOLCANO, &[NAME, VOLCANO_TTL_NAME]),
];

async fn map(env: &Environment, name: &str, owners: &[Value]) -> CheckResult<CreatedObject> {
    env.make(&CONFIG_MAPS, owned(mk_config_map(name), owners))
        .await
}

async fn secret(env: &Environment, name: &str, owners: &[Value]) -> CheckResult<CreatedObject> {
    env.make(&SECRETS, owned(mk_object("v1", "Secret", name), owners))
        .await
}

/// A ConfigMap with the finalizer [`HOLD`].
fn held(name: &str) -> Value {
    with(
        mk_config_map(name),
        json!({"metadata": {"finalizers": [HOLD]}}),
    )
}

async fn delete(env: &Environment, made: &CreatedObject, policy: &str) -> CheckResult {
    env.delete(made, json!({"propagationPolicy": policy})).await
}

async fn delete_background(env: &Environment, created: &[CreatedObject]) -> CheckResult {
    delete(env, &created[0], "Background").await
}

async fn delete_foreground(env: &Environment, created: &[CreatedObject]) -> CheckResult {
    delete(env, &created[0], "Foreground").await
}

async fn delete_orphan(env: &Environment, created: &[CreatedObject]) -> CheckResult {
    delete(env, &created[0], "Orphan").await
}

async fn do_nothing(_: &Environment, _: &[CreatedObject]) -> CheckResult {
    Ok(())
}

async fn background_fan(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let root = map(env, "root", &[]).await?;
    for (child, grandchild) in [("a", "aa"), ("b", "bb")] {
        let child = secret(env, child, &[root.reference()]).await?;
        map(env, grandchild, &[child.reference()]).await?;
    }
    map(env, "free", &[]).await?;
    Ok(vec![root])
}

async fn foreground_chain(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let root = map(env, "root", &[]).await?;
    let middle = secret(env, "middle", &[blocking(root.reference())]).await?;
    map(env, "leaf", &[blocking(middle.reference())]).await?;
    Ok(vec![root])
}

async fn orphan(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let root = env.make(&CONFIG_MAPS, held("root")).await?;
    let other = map(env, "other", &[]).await?;
    let child = map(env, "child", &[root.reference()]).await?;
    secret(env, "grandchild", &[child.reference()]).await?;
    let both = [root.reference(), other.reference()];
    secret(env, "shared", &both).await?;
    Ok(vec![root])
}

async fn blocking_ring(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let a = map(env, "a", &[]).await?;
    let b = secret(env, "b", &[blocking(a.reference())]).await?;
    let c = map(env, "c", &[blocking(b.reference())]).await?;
    let last = json!({"metadata": {"ownerReferences": [blocking(c.reference())]}});
    env.change(&a, last).await?;
    Ok(vec![a])
}

async fn one_owner_of_two_is_gone(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let (dead, live) = (map(env, "dead", &[]).await?, map(env, "live", &[]).await?);
    let owners = [dead.reference(), live.reference()];
    secret(env, "shared", &owners).await?;
    secret(env, "lost", &owners[..1]).await?;
    Ok(vec![dead])
}

async fn one_owner_of_two_waits(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let (root, live) = (map(env, "root", &[]).await?, map(env, "live", &[]).await?);
    let owners = [blocking(root.reference()), blocking(live.reference())];
    secret(env, "shared", &owners).await?;
    secret(env, "lost", &owners[..1]).await?;
    Ok(vec![root])
}

async fn absent_owner(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let absent = env.absent();
    let living = map(env, "living", &[]).await?;
    let a = map(env, "a", std::slice::from_ref(&absent)).await?;
    map(env, "b", &[a.reference()]).await?;
    map(env, "kept", &[absent, living.reference()]).await?;
    Ok(Vec::new())
}

/// An owner of a kind that these controllers do not watch, so they have to read it.
async fn unlisted_owner(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let account = mk_object("v1", "ServiceAccount", "unlisted");
    let owner = env.make(&SERVICE_ACCOUNTS, account).await?;
    map(env, "child", &[owner.reference()]).await?;
    let lost = with(owner.reference(), json!({"name": "never"}));
    map(env, "lost", &[lost]).await?;
    Ok(Vec::new())
}

/// An owner with four dependents, one of which has a finalizer.
async fn held_family(env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    let root = map(env, "root", &[]).await?;
    let owner = blocking(root.reference());
    let held = owned(held("held"), std::slice::from_ref(&owner));
    let held = env.make(&CONFIG_MAPS, held).await?;
    for name in ["a", "b", "c"] {
        secret(env, name, std::slice::from_ref(&owner)).await?;
    }
    Ok(vec![root, held])
}

async fn act_on_foreground_becomes_orphan(
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    delete(env, &made[0], "Foreground").await?;
    // Long enough for a restarted process to catch up.
    tokio::time::sleep(Duration::from_secs(120)).await;
    delete(env, &made[0], "Orphan").await?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    env.release(&made[1]).await
}

async fn act_on_foreground_becomes_orphan_at_once(
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    delete(env, &made[0], "Foreground").await?;
    tokio::task::yield_now().await;
    delete(env, &made[0], "Orphan").await?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    env.release(&made[1]).await
}

/// A Job whose TTL is over, one whose TTL expires, one whose TTL is raised, and one without.
async fn ttl_job(
    dialect: &JobDialect,
    env: &Environment,
    name: &str,
    ttl: Option<u32>,
) -> CheckResult<CreatedObject> {
    let ttl = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
    env.make(&dialect.jobs, with(dialect.mk_job(name), ttl))
        .await
}

async fn ttl(dialect: &JobDialect, env: &Environment) -> CheckResult<Vec<CreatedObject>> {
    dialect.define(env).await?;
    let over = ttl_job(dialect, env, "over", Some(5)).await?;
    map(env, "of-over", &[blocking(over.reference())]).await?;
    dialect.end(env, &over, "Complete", 60).await?;
    let soon = ttl_job(dialect, env, "soon", Some(10)).await?;
    let raised = ttl_job(dialect, env, "raised", Some(30)).await?;
    dialect.end(env, &raised, "Failed", 0).await?;
    let kept = ttl_job(dialect, env, "kept", None).await?;
    dialect.end(env, &kept, "Complete", 60).await?;
    Ok(vec![soon, raised])
}

async fn act_on_ttl(
    dialect: &JobDialect,
    env: &Environment,
    made: &[CreatedObject],
) -> CheckResult {
    dialect.end(env, &made[0], "Failed", 0).await?;
    let more = json!({"spec": {"ttlSecondsAfterFinished": 1_000_000}});
    env.change(&made[1], more).await
}
