//! Finished Jobs and the TTL controllers under clocks that differ, late answers, overtaken deletes, and a restart that finds
//! ten thousand expired Jobs.

use std::time::Duration;

use caretaker_testbed::checkers::KnownKind;
use caretaker_testbed::controllers::process::{ControllerProcess, ProcessOptions};
use caretaker_testbed::controllers::{COLLECTOR, ControllerSource};
use caretaker_testbed::environment::Environment;
use caretaker_testbed::fixtures::CreatedObject;
use caretaker_testbed::objects::JOBS;
use caretaker_testbed::suites::ttl::{end, ended, job};
use caretaker_testbed::wire::{
    FakeReply, RecordedRequest, RequestFate, RequestSender, WireRequest,
};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::sleep;

/// The name for `--controllers`.
const TTL: &str = "ttl-after-finished-controller";
const DISCOVERY: Duration = Duration::from_secs(30);
/// Time for the feeds to list everything.
const SETTLED: Duration = Duration::from_secs(3);

/// An environment with Jobs.
struct TtlWorld {
    env: Environment,
}

// === impl TtlWorld ===

impl TtlWorld {
    async fn new() -> Self {
        let env = Environment::recorded("ttl").await.unwrap();
        Self { env }
    }

    /// Starts controllers whose clock is `ahead` seconds ahead.
    async fn start(
        &self,
        names: &[&str],
        ahead: i64,
        fate: impl FnMut(&WireRequest<'_>) -> RequestFate + Send + 'static,
    ) -> ControllerProcess {
        let options = ProcessOptions {
            names,
            kinds: &kinds(),
            discovery: DISCOVERY,
            ahead: SignedDuration::from_secs(ahead),
        };
        let (_, process) = self
            .env
            .start_process(&options, Some(Box::new(fate)))
            .unwrap();
        sleep(SETTLED).await;
        process
    }

    async fn job(&self, name: &str, ttl_secs: i64) -> CreatedObject {
        job(&self.env, name, Some(ttl_secs)).await.unwrap()
    }

    async fn end(&self, job: &CreatedObject) -> Timestamp {
        end(&self.env, job, "Complete", 0).await.unwrap()
    }

    /// Methods and statuses of the TTL controller's requests about single Jobs.
    fn asked(&self) -> Vec<(Method, u16)> {
        let is_ours = |act: &RecordedRequest| {
            act.who == RequestSender::Controllers && act.method != Method::PATCH
        };
        let acts = self.env.log().acts().into_iter().filter(is_ours);
        acts.map(|act| (act.method, act.status)).collect()
    }

    async fn set_ttl(&self, job: &CreatedObject, ttl_secs: i64) {
        let patch = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
        self.env.change(job, patch).await.unwrap();
    }

    /// Whether a Job exists after this time.
    async fn is_there_after(&self, secs: u64, job: &CreatedObject) -> bool {
        sleep(Duration::from_secs(secs)).await;
        self.env.look(job).await.unwrap().is_some()
    }

    async fn check_history(&self) {
        let found = self.env.violations(&kinds()).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

fn kinds() -> Vec<KnownKind> {
    vec![KnownKind::new(JOBS, "batch/v1", "Job")]
}

fn pass(_: &WireRequest<'_>) -> RequestFate {
    RequestFate::Pass
}

/// Deletes take two seconds to arrive.
fn slow_deletes(asked: &WireRequest<'_>) -> RequestFate {
    match *asked.method {
        Method::DELETE => RequestFate::Late(Duration::from_secs(2)),
        _ => RequestFate::Pass,
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_the_second_and_costs_one_request() {
    let world = TtlWorld::new().await;
    let _controllers = world.start(&[COLLECTOR, TTL], 0, pass).await;
    let job = world.job("a", 100).await;
    world.end(&job).await;
    assert!(world.is_there_after(99, &job).await);
    assert!(!world.is_there_after(2, &job).await);
    assert_eq!(world.asked(), [(Method::DELETE, 200)]);
    world.check_history().await;
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_is_raised_while_the_delete_is_on_its_way_counts() {
    let world = TtlWorld::new().await;
    let _controllers = world.start(&[COLLECTOR, TTL], 0, slow_deletes).await;
    let job = world.job("a", 10).await;
    world.end(&job).await;
    assert!(world.is_there_after(11, &job).await);
    assert_eq!(world.asked(), [], "the delete is on its way");
    world.set_ttl(&job, 100).await;
    assert!(world.is_there_after(60, &job).await);
    let again = [(Method::DELETE, 409), (Method::GET, 200)];
    assert_eq!(world.asked(), again);
    assert!(!world.is_there_after(60, &job).await);
    assert_eq!(world.asked()[2..], [(Method::DELETE, 200)]);
    world.check_history().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_only_touched_goes_with_the_version_it_has() {
    let world = TtlWorld::new().await;
    let _controllers = world.start(&[COLLECTOR, TTL], 0, slow_deletes).await;
    let job = world.job("a", 10).await;
    world.end(&job).await;
    sleep(Duration::from_secs(11)).await;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    world.env.change(&job, touch).await.unwrap();
    assert!(!world.is_there_after(10, &job).await);
    let expected = [
        (Method::DELETE, 409),
        (Method::GET, 200),
        (Method::DELETE, 200),
    ];
    assert_eq!(world.asked(), expected);
    world.check_history().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_or_replaced_meanwhile_is_left_alone() {
    for is_replaced in [false, true] {
        let world = TtlWorld::new().await;
        let _controllers = world.start(&[COLLECTOR, TTL], 0, slow_deletes).await;
        let first = world.job("a", 10).await;
        world.end(&first).await;
        sleep(Duration::from_secs(11)).await;
        let options = json!({"propagationPolicy": "Background"});
        world.env.delete(&first, options).await.unwrap();
        let expected = if is_replaced {
            let second = world.job("a", 0).await;
            assert!(world.is_there_after(600, &second).await);
            vec![(Method::DELETE, 409), (Method::GET, 200)]
        } else {
            sleep(Duration::from_secs(600)).await;
            vec![(Method::DELETE, 404)]
        };
        assert_eq!(world.asked(), expected, "and nothing more is tried");
        world.check_history().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_retried_and_delays_no_other() {
    let world = TtlWorld::new().await;
    let refused = |asked: &WireRequest<'_>| match *asked.method == Method::DELETE
        && asked.uri.ends_with("/a")
    {
        true => RequestFate::Reply(FakeReply::failure(500, "InternalError")),
        false => RequestFate::Pass,
    };
    let _controllers = world.start(&[COLLECTOR, TTL], 0, refused).await;
    let (a, b) = (world.job("a", 0).await, world.job("b", 0).await);
    world.end(&a).await;
    world.end(&b).await;
    assert!(!world.is_there_after(2, &b).await);
    assert!(world.is_there_after(600, &a).await);
    let tries = world.asked().len();
    assert!(tries < 40, "{tries} requests");
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_counts_if_ours_is_far_from_it() {
    for ahead in [3_600, -3_600, 6, -6, 4, -4, 0] {
        let world = TtlWorld::new().await;
        let _controllers = world.start(&[COLLECTOR, TTL], ahead, pass).await;
        let (job, other) = (world.job("a", 60).await, world.job("b", 120).await);
        let finish = world.end(&job).await;
        world.end(&other).await;
        assert!(world.is_there_after(54, &job).await, "{ahead}: too soon");
        assert!(!world.is_there_after(12, &job).await, "{ahead}: too late");
        assert!(world.is_there_after(48, &other).await, "{ahead}: too soon");
        assert!(!world.is_there_after(12, &other).await, "{ahead}: too late");
        assert!(world.env.now().await.unwrap() > finish);
        if !(1..=5).contains(&ahead) {
            world.check_history().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_deletes_nothing_too_soon_and_holds_up_nothing() {
    for jump in [3_600, -3_600] {
        let world = TtlWorld::new().await;
        // A clock of their own, which is a second behind until it jumps.
        let process = world.start(&[COLLECTOR, TTL], -1, pass).await;
        let (job, canary) = (world.job("a", 600).await, world.job("canary", 1).await);
        world.end(&job).await;
        world.end(&canary).await;
        assert!(!world.is_there_after(5, &canary).await);
        process
            .clock()
            .jump(SignedDuration::from_secs(jump))
            .unwrap();
        assert!(world.is_there_after(585, &job).await, "{jump}: too soon");
        assert!(!world.is_there_after(30, &job).await, "{jump}: too late");
        world.check_history().await;
    }
}

/// The pending answer carries the server's time, which counts at once.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_while_an_answer_is_on_its_way_deletes_nothing_too_soon() {
    let slow = |asked: &WireRequest<'_>| match asked.is_effect {
        true => RequestFate::Late(Duration::from_secs(2)),
        false => RequestFate::Pass,
    };
    let world = TtlWorld::new().await;
    let process = world.start(&[COLLECTOR, TTL], -1, slow).await;
    let job = world.job("a", 10).await;
    world.end(&job).await;
    sleep(Duration::from_secs(12)).await;
    world.set_ttl(&job, 600).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        world.asked(),
        [(Method::DELETE, 409)],
        "the read is on its way"
    );
    let hour = SignedDuration::from_secs(3_600);
    process.clock().jump(hour).unwrap();
    assert!(world.is_there_after(500, &job).await, "too soon");
    assert!(!world.is_there_after(120, &job).await, "too late");
    world.check_history().await;
}

/// A restart with ten thousand expired Jobs sends one delete for each, without a backoff.
#[tokio::test(start_paused = true)]
async fn ten_thousand_expired_jobs_go_at_one_request_each() {
    const JOBS_MAX: usize = 10_000;
    let world = TtlWorld::new().await;
    // Recording the users' requests would cost more than the requests.
    let target = world.env.target().clone();
    let users = Environment::new(&target, &ControllerSource::Running, "many".to_owned()).await;
    let then = users.now().await.unwrap() - SignedDuration::from_secs(3_600);
    let status = ended("Complete", then, Some(then));
    for number in 0..JOBS_MAX {
        let job = job(&users, &format!("a-{number}"), Some(60)).await.unwrap();
        users.change_status(&job, status.clone()).await.unwrap();
    }
    let later = world.job("later", 86_400).await;
    world.end(&later).await;
    let before = world.env.log().acts().len();
    // Without the collector they stay, deleted in the foreground.
    let _controllers = world.start(&[TTL], 0, pass).await;
    sleep(Duration::from_secs(30)).await;
    let acts = world.env.log().acts();
    let deletes = acts[before..].iter().filter(|act| act.status == 200);
    assert_eq!(
        deletes.filter(|act| act.method == Method::DELETE).count(),
        JOBS_MAX
    );
    assert_eq!(acts.len() - before, JOBS_MAX, "nothing else was asked");
    world.env.untouched(&[&later]).await.unwrap();
}
