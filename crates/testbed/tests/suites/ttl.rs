//! Finished Jobs, a server, the TTL controllers and something between them: clocks that differ, answers that come late,
//! deletes that are overtaken, and a restart that finds ten thousand of them.

use std::time::Duration;

use caretaker_testbed::checkers::{History, Known, violations};
use caretaker_testbed::collector::{Collector, NAME};
use caretaker_testbed::crash::{Cast, Generation};
use caretaker_testbed::objects::JOBS;
use caretaker_testbed::suites::stage::{Made, Stage};
use caretaker_testbed::suites::ttl::{end, ended, job};
use caretaker_testbed::target::Target;
use caretaker_testbed::wire::{Act, Asked, Fate, Log, Meddler, Reply, Who, Wire};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::sleep;

/// What `--controllers` calls it.
const TTL: &str = "ttl-after-finished-controller";
const DISCOVERY: Duration = Duration::from_secs(30);
/// Time enough for feeds to have listed everything.
const SETTLED: Duration = Duration::from_secs(3);

/// A server, and users of it.
struct World {
    target: Target,
    stage: Stage,
    log: Log,
    since: u64,
}

// === impl World ===

impl World {
    async fn new() -> Self {
        let target = Target::embedded();
        let log = Log::default();
        let users = Wire::new(target.client(), Who::User, &log, None);
        let through = target.through(users.client());
        let stage = Stage::set(&through, &Collector::Standing, "ttl".to_owned()).await;
        let since = History::now(target.client()).await.unwrap();
        Self {
            target,
            stage,
            log,
            since,
        }
    }

    /// Starts controllers whose clock is so many seconds ahead.
    async fn start(
        &self,
        names: &[&str],
        ahead: i64,
        fate: impl FnMut(&Asked<'_>) -> Fate + Send + 'static,
    ) -> Generation {
        let meddler: Box<dyn Meddler> = Box::new(fate);
        let wire = Wire::new(
            self.target.client(),
            Who::Controllers,
            &self.log,
            Some(meddler),
        );
        let cast = Cast {
            names,
            kinds: &kinds(),
            discovery: DISCOVERY,
            ahead: SignedDuration::from_secs(ahead),
        };
        let generation = Generation::start(&self.target, &wire, &cast).unwrap();
        sleep(SETTLED).await;
        generation
    }

    async fn job(&self, name: &str, ttl_secs: i64) -> Made {
        job(&self.stage, name, Some(ttl_secs)).await.unwrap()
    }

    async fn end(&self, job: &Made) -> Timestamp {
        end(&self.stage, job, "Complete", 0).await.unwrap()
    }

    /// Methods and answers of the TTL controller's requests about single Jobs.
    fn asked(&self) -> Vec<(Method, u16)> {
        let is_ours = |act: &Act| act.who == Who::Controllers && act.method != Method::PATCH;
        let acts = self.log.acts().into_iter().filter(is_ours);
        acts.map(|act| (act.method, act.status)).collect()
    }

    async fn set_ttl(&self, job: &Made, ttl_secs: i64) {
        let patch = json!({"spec": {"ttlSecondsAfterFinished": ttl_secs}});
        self.stage.change(job, patch).await.unwrap();
    }

    /// The server's time goes on, and then a Job is there or not.
    async fn is_there_after(&self, secs: u64, job: &Made) -> bool {
        sleep(Duration::from_secs(secs)).await;
        self.stage.look(job).await.unwrap().is_some()
    }

    async fn check_history(&self) {
        let history = History::read(self.target.client(), &kinds(), self.since).await;
        let found = violations(&history.unwrap(), &self.log.acts());
        assert!(found.is_empty(), "{found:?}");
    }
}

fn kinds() -> Vec<Known> {
    vec![Known::new(JOBS, "batch/v1", "Job")]
}

fn pass(_: &Asked<'_>) -> Fate {
    Fate::Pass
}

/// Deletes take two seconds to arrive.
fn slow_deletes(asked: &Asked<'_>) -> Fate {
    match *asked.method {
        Method::DELETE => Fate::Late(Duration::from_secs(2)),
        _ => Fate::Pass,
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_the_second_and_costs_one_request() {
    let world = World::new().await;
    let _controllers = world.start(&[NAME, TTL], 0, pass).await;
    let job = world.job("a", 100).await;
    world.end(&job).await;
    assert!(world.is_there_after(99, &job).await);
    assert!(!world.is_there_after(2, &job).await);
    assert_eq!(world.asked(), [(Method::DELETE, 200)]);
    world.check_history().await;
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_is_raised_while_the_delete_is_on_its_way_counts() {
    let world = World::new().await;
    let _controllers = world.start(&[NAME, TTL], 0, slow_deletes).await;
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
    let world = World::new().await;
    let _controllers = world.start(&[NAME, TTL], 0, slow_deletes).await;
    let job = world.job("a", 10).await;
    world.end(&job).await;
    sleep(Duration::from_secs(11)).await;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    world.stage.change(&job, touch).await.unwrap();
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
async fn what_went_or_was_replaced_meanwhile_is_left_alone() {
    for is_replaced in [false, true] {
        let world = World::new().await;
        let _controllers = world.start(&[NAME, TTL], 0, slow_deletes).await;
        let first = world.job("a", 10).await;
        world.end(&first).await;
        sleep(Duration::from_secs(11)).await;
        let options = json!({"propagationPolicy": "Background"});
        world.stage.delete(&first, options).await.unwrap();
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
async fn a_delete_that_fails_is_tried_again_and_holds_up_nobody() {
    let world = World::new().await;
    let refused =
        |asked: &Asked<'_>| match *asked.method == Method::DELETE && asked.uri.ends_with("/a") {
            true => Fate::Reply(Reply::failure(500, "InternalError")),
            false => Fate::Pass,
        };
    let _controllers = world.start(&[NAME, TTL], 0, refused).await;
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
        let world = World::new().await;
        let _controllers = world.start(&[NAME, TTL], ahead, pass).await;
        let (job, other) = (world.job("a", 60).await, world.job("b", 120).await);
        let finish = world.end(&job).await;
        world.end(&other).await;
        assert!(world.is_there_after(54, &job).await, "{ahead}: too soon");
        assert!(!world.is_there_after(12, &job).await, "{ahead}: too late");
        assert!(world.is_there_after(48, &other).await, "{ahead}: too soon");
        assert!(!world.is_there_after(12, &other).await, "{ahead}: too late");
        assert!(world.stage.now().await.unwrap() > finish);
        if !(1..=5).contains(&ahead) {
            world.check_history().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_deletes_nothing_too_soon_and_holds_up_nothing() {
    for jump in [3_600, -3_600] {
        let world = World::new().await;
        // A clock of their own, which is a second behind until it jumps.
        let generation = world.start(&[NAME, TTL], -1, pass).await;
        let (job, canary) = (world.job("a", 600).await, world.job("canary", 1).await);
        world.end(&job).await;
        world.end(&canary).await;
        assert!(!world.is_there_after(5, &canary).await);
        generation
            .clock()
            .jump(SignedDuration::from_secs(jump))
            .unwrap();
        assert!(world.is_there_after(585, &job).await, "{jump}: too soon");
        assert!(!world.is_there_after(30, &job).await, "{jump}: too late");
        world.check_history().await;
    }
}

/// The answer that is on its way tells the server's time, and that counts at once.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_while_an_answer_is_on_its_way_deletes_nothing_too_soon() {
    let slow = |asked: &Asked<'_>| match asked.is_effect {
        true => Fate::Late(Duration::from_secs(2)),
        false => Fate::Pass,
    };
    let world = World::new().await;
    let generation = world.start(&[NAME, TTL], -1, slow).await;
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
    generation.clock().jump(hour).unwrap();
    assert!(world.is_there_after(500, &job).await, "too soon");
    assert!(!world.is_there_after(120, &job).await, "too late");
    world.check_history().await;
}

/// A restart with ten thousand Jobs whose time is long over: one delete for each, and nobody waits for a backoff.
#[tokio::test(start_paused = true)]
async fn ten_thousand_expired_jobs_go_at_one_request_each() {
    const JOBS_MAX: usize = 10_000;
    let mut world = World::new().await;
    // What users do need not be written down here, which costs more than doing it.
    world.stage = Stage::set(&world.target, &Collector::Standing, "many".to_owned()).await;
    let then = world.stage.now().await.unwrap() - SignedDuration::from_secs(3_600);
    let status = ended("Complete", then, Some(then));
    for number in 0..JOBS_MAX {
        let job = world.job(&format!("a-{number}"), 60).await;
        let status = status.clone();
        world.stage.change_status(&job, status).await.unwrap();
    }
    let later = world.job("later", 86_400).await;
    world.end(&later).await;
    let before = world.log.acts().len();
    // Without the collector they stay, deleted in the foreground.
    let _controllers = world.start(&[TTL], 0, pass).await;
    sleep(Duration::from_secs(30)).await;
    let acts = world.log.acts();
    let deletes = acts[before..].iter().filter(|act| act.status == 200);
    assert_eq!(
        deletes.filter(|act| act.method == Method::DELETE).count(),
        JOBS_MAX
    );
    assert_eq!(acts.len() - before, JOBS_MAX, "nothing else was asked");
    world.stage.untouched(&[&later]).await.unwrap();
}
