//! CronJobs whose controllers crash, for years, and while clocks jump: no schedule time has two Jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use caretaker_machinery::cron::{CronSchedule, zone};
use caretaker_machinery::rng::Rng;
use caretaker_testbed::checkers::KnownKind;
use caretaker_testbed::controllers::process::{ControllerProcess, ProcessOptions};
use caretaker_testbed::crash::cases::cron::{OF_BATCH, OF_VOLCANO};
use caretaker_testbed::crash::{MOMENTS, run};
use caretaker_testbed::environment::Environment;
use caretaker_testbed::fixtures::CreatedObject;
use caretaker_testbed::objects::EVENTS;
use caretaker_testbed::session::Ask;
use caretaker_testbed::suites::cron::{BATCH, JobDialect, VOLCANO};
use caretaker_testbed::wire::{
    CrashMoment, FakeReply, FaultInjector, RequestFate, RequestSender, Wire, WireRequest,
};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::convergent_case;

/// Changes requests so that they break a rule.
type Breaks = fn(&WireRequest<'_>) -> RequestFate;

#[tokio::test(start_paused = true)]
async fn checkers_notice_a_broken_cron_controller() {
    let cases: [(&str, Breaks, &str); 3] = [
        ("batch_tick", writes_specs, "S4: more than the status"),
        (
            "batch_replace",
            creates_unowned_jobs,
            "S6: a Job was created without an owner",
        ),
        ("batch_replace", skips_deletes, "S7: "),
    ];
    for (name, breaks, rule) in cases {
        let run = run(convergent_case(name), &|_| Some(Box::new(breaks))).await;
        let found = match &run {
            Ok(run) => run.violations.join(" "),
            Err(why) => why.clone(),
        };
        assert!(
            found.contains(rule),
            "{name} should break {rule:?}: {found}"
        );
    }
}

fn is_status(asked: &WireRequest<'_>) -> bool {
    *asked.method == Method::PATCH && asked.uri.ends_with("/cronjobs/a/status")
}

fn writes_specs(asked: &WireRequest<'_>) -> RequestFate {
    if !is_status(asked) {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["annotations"] = json!({"x": "y"});
    RequestFate::Body(body)
}

fn creates_unowned_jobs(asked: &WireRequest<'_>) -> RequestFate {
    if *asked.method != Method::POST || !asked.is_effect {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["ownerReferences"] = json!([]);
    RequestFate::Body(body)
}

fn skips_deletes(asked: &WireRequest<'_>) -> RequestFate {
    match *asked.method == Method::DELETE && asked.uri.contains("/jobs/old") {
        true => RequestFate::Reply(FakeReply::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )),
        false => RequestFate::Pass,
    }
}

static KINDS: [&JobDialect; 2] = [&BATCH, &VOLCANO];

/// An environment with CronJobs of one dialect.
struct CronWorld {
    kind: &'static JobDialect,
    env: Environment,
}

/// Time for the controllers to do their work, by their clock.
const WORKED: Duration = Duration::from_secs(3);

// === impl CronWorld ===

impl CronWorld {
    async fn new(kind: &'static JobDialect) -> Self {
        let env = Environment::recorded("cron").await.unwrap();
        kind.define(&env).await.unwrap();
        Self { kind, env }
    }

    async fn cron(&self, name: &str, spec: Value) -> CreatedObject {
        let cron = self.kind.mk_cron(name, spec);
        self.env.make(&self.kind.crons, cron).await.unwrap()
    }

    fn start(&self, injector: Option<Box<dyn FaultInjector>>) -> (Wire, ControllerProcess) {
        let kind = self.kind;
        let kinds = [KnownKind::new(kind.jobs.clone(), kind.api_version, "Job")];
        let options = ProcessOptions {
            names: if kind.is_volcano() {
                OF_VOLCANO
            } else {
                OF_BATCH
            },
            kinds: &kinds,
            discovery: Duration::from_secs(3_600),
            ahead: SignedDuration::ZERO,
        };
        self.env.start_process(&options, injector).unwrap()
    }

    fn now(&self) -> Timestamp {
        self.env.target().clock().unwrap().now()
    }

    /// Moves the clock of server and controllers and gives them time to react.
    async fn jump(&self, by: SignedDuration) {
        self.env.target().clock().unwrap().jump(by).unwrap();
        sleep(WORKED).await;
    }

    /// Moves the clock to a second before a time and lets it pass.
    async fn pass(&self, time: Timestamp) {
        let before = time.duration_since(self.now()) - SignedDuration::from_secs(1);
        self.jump(before.max(SignedDuration::ZERO)).await;
    }

    /// Lets the next minute begin; returns it in minutes since 1970.
    async fn pass_minute(&self) -> i64 {
        let minute = self.now().as_second() / 60 + 1;
        self.pass(Timestamp::from_second(minute * 60).unwrap())
            .await;
        minute
    }

    async fn jobs(&self) -> Vec<Value> {
        self.env.list(&self.kind.jobs).await.unwrap()
    }

    /// Ends every active Job, as a Job controller would.
    async fn run_jobs(&self) {
        let status = json!({"status": self.kind.ended("Complete", self.now())});
        let jobs = self.jobs().await;
        let runs = |job: &&Value| {
            let status = &job["status"];
            status["conditions"].is_null() && status["state"].is_null()
        };
        for job in jobs.iter().filter(runs) {
            let name = job["metadata"]["name"].as_str().unwrap();
            let jobs = self.kind.jobs.collection(self.env.ns());
            let patch = Ask::merge_patch(format!("{jobs}/{name}/status"), &status);
            self.env.send(patch, &[200]).await.unwrap();
        }
    }

    /// The names of the Jobs that the controllers created, even if the answer got lost.
    fn made(&self) -> Vec<String> {
        let acts = self.env.log().acts().into_iter();
        let made = acts.filter(|act| act.method == Method::POST && act.status == 201);
        let made = made.filter(|act| act.who == RequestSender::Controllers);
        made.map(|act| act.answer["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The number of schedule times with a Job; none may have two.
    fn served(&self) -> usize {
        let made = self.made();
        let distinct: BTreeSet<&String> = made.iter().collect();
        assert_eq!(distinct.len(), made.len(), "a slot had two Jobs");
        made.len()
    }

    async fn count(&self, jobs: usize) {
        self.env.count(&self.kind.jobs, jobs).await.unwrap();
    }
}

/// A year of a zone with summer time: a Job for every slot that the schedule has, made in that very second.
#[tokio::test(start_paused = true)]
async fn a_year_of_a_zone_with_summer_time() {
    for (kind, text, count) in [
        (&BATCH, "30 2 * * *", 365),
        (&BATCH, "0 2,3 25,29 3,10 *", 8),
        (&VOLCANO, "0 2,3 25,29 3,10 *", 8),
    ] {
        let world = CronWorld::new(kind).await;
        let zone = zone::find("Europe/Berlin").unwrap();
        let schedule = CronSchedule::parse(text).unwrap();
        let spec =
            json!({"schedule": text, "timeZone": "Europe/Berlin", "successfulJobsHistoryLimit": 2});
        world.cron("a", spec).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        let end = world.now() + SignedDuration::from_hours(365 * 24);
        let slots: Vec<Timestamp> = schedule
            .slots(world.now(), &zone)
            .take_while(|slot| *slot < end)
            .collect();
        for slot in &slots {
            world.pass(*slot).await;
            let jobs = world.jobs().await;
            let newest = jobs
                .iter()
                .map(|job| job["metadata"]["creationTimestamp"].clone());
            assert_eq!(
                newest.max_by_key(ToString::to_string).unwrap(),
                format!("{slot:.0}"),
                "{text}"
            );
            world.run_jobs().await;
        }
        let names: Vec<String> = slots
            .iter()
            .map(|slot| format!("a-{}", slot.as_second() / 60))
            .collect();
        assert_eq!(world.made(), names);
        assert_eq!(names.len(), count, "{text}: {names:?}");
        sleep(WORKED).await;
        world.count(2).await;
    }
}

/// Crashes at a random request.
struct RandomCrash {
    left: usize,
    moment: CrashMoment,
}

impl FaultInjector for RandomCrash {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        if !asked.is_effect {
            return RequestFate::Pass;
        }
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => RequestFate::End(self.moment),
            _ => RequestFate::Pass,
        }
    }
}

/// Many CronJobs whose finished Jobs are deleted at once, many minutes, and controllers that crash all the time. Returns the
/// number of schedule times with a Job.
async fn ticks_with_crashes(kind: &'static JobDialect, crons: usize, minutes: usize) -> usize {
    let world = CronWorld::new(kind).await;
    for number in 0..crons {
        let spec = match number % 2 {
            0 => json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 0}}}),
            _ => json!({"successfulJobsHistoryLimit": 0}),
        };
        world.cron(&format!("c{number}"), spec).await;
    }
    let mut rng = Rng::seeded(8);
    let mut crashes = 0;
    let processes = async {
        loop {
            let crash = RandomCrash {
                left: 1 + rng.below(1_000),
                moment: MOMENTS[rng.below(MOMENTS.len())],
            };
            let (wire, _process) = world.start(Some(Box::new(crash)));
            wire.until_cut().await;
            crashes += 1;
        }
    };
    let users = async {
        for _ in 0..minutes {
            let slot = format!("-{}", world.pass_minute().await);
            let is_of_slot =
                |job: &&Value| job["metadata"]["name"].as_str().unwrap().ends_with(&slot);
            // The process after a crash has the rest of the minute to create the Jobs.
            for _ in 0..10 {
                if world.jobs().await.iter().filter(is_of_slot).count() == crons {
                    break;
                }
                sleep(WORKED).await;
            }
            world.run_jobs().await;
            sleep(WORKED).await;
        }
        sleep(Duration::from_secs(10)).await;
    };
    tokio::select! {
        biased;
        () = processes => {}
        () = users => {}
    }
    assert!(crashes > crons * minutes / 400, "{crashes} crashes");
    world.served()
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_ticks_with_crashes_have_a_job_each() {
    assert_eq!(ticks_with_crashes(&BATCH, 40, 250).await, 10_000);
}

#[tokio::test(start_paused = true)]
async fn two_thousand_ticks_of_volcanos_with_crashes_have_a_job_each() {
    assert_eq!(ticks_with_crashes(&VOLCANO, 40, 50).await, 2_000);
}

/// An Event is still refreshed after hours.
#[tokio::test(start_paused = true)]
async fn jobs_that_never_end_are_forbidden_or_replaced() {
    for (kind, policy, minutes, made, reason) in [
        (&BATCH, "Forbid", 300, 1, "JobAlreadyActive"),
        (&BATCH, "Replace", 300, 300, "SuccessfulDelete"),
        (&VOLCANO, "Forbid", 60, 1, "ForbidConcurrent"),
        (&VOLCANO, "Replace", 60, 60, "ReplaceConcurrent"),
    ] {
        let world = CronWorld::new(kind).await;
        world.cron("a", json!({"concurrencyPolicy": policy})).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        for _ in 0..minutes {
            world.pass_minute().await;
            world.count(1).await;
        }
        assert_eq!(world.made().len(), made, "{policy}");
        let events = world.env.list(&EVENTS).await.unwrap();
        let events = events.iter().filter(|event| event["reason"] == reason);
        let last = events.filter_map(|event| event["lastTimestamp"].as_str());
        let last: Timestamp = last.max().unwrap().parse().unwrap();
        let ago = world.now().duration_since(last);
        assert!(ago < SignedDuration::from_mins(10), "{reason}: {ago}");
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_that_jump_start_the_latest_slot_once() {
    for kind in KINDS {
        let world = CronWorld::new(kind).await;
        world.cron("a", json!({})).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        let minutes = SignedDuration::from_mins;
        // An hour ahead: the latest slot. An hour back: nothing, until the hour is over again.
        for (by, made) in [
            (60, 1),
            (-60, 1),
            (30, 1),
            (29, 1),
            (2, 2),
            (101, 3),
            (1_000_000, 4),
            (-500_000, 4),
        ] {
            world.jump(minutes(by)).await;
            assert_eq!(world.served(), made, "{by} minutes");
        }
    }
}

/// Two processes that both believe to be the only one.
#[tokio::test(start_paused = true)]
async fn two_leaders_at_a_tick_make_one_job() {
    let specs = [
        json!({}),
        json!({"successfulJobsHistoryLimit": 0}),
        json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 0}}}),
    ];
    for kind in KINDS {
        let world = CronWorld::new(kind).await;
        for (number, spec) in specs.iter().enumerate() {
            world.cron(&format!("c{number}"), spec.clone()).await;
        }
        let _leaders = [world.start(None), world.start(None)];
        sleep(WORKED).await;
        for minute in 1..=20 {
            world.pass_minute().await;
            assert_eq!(world.served(), minute * specs.len());
            world.run_jobs().await;
            sleep(WORKED).await;
        }
    }
}

/// A second before the slot, and right after its Job was made: its successor has the next slot, and that one only.
#[tokio::test(start_paused = true)]
async fn a_cron_job_that_is_made_again_around_a_tick_starts_no_slot_twice() {
    for kind in KINDS {
        let world = CronWorld::new(kind).await;
        let mut cron = world.cron("a", json!({})).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        for minute in 1..=6 {
            let is_before = minute % 2 == 0;
            if is_before {
                let left = SignedDuration::from_secs(59 - world.now().as_second() % 60);
                world.env.target().clock().unwrap().jump(left).unwrap();
            } else {
                world.pass_minute().await;
            }
            let background = json!({"propagationPolicy": "Background"});
            world.env.delete(&cron, background).await.unwrap();
            cron = world.cron("a", json!({})).await;
            sleep(WORKED).await;
            assert_eq!(world.served(), minute);
        }
    }
}

/// Ten thousand CronJobs in the same minute: two requests each, and nothing else.
#[tokio::test(start_paused = true)]
async fn ten_thousand_cron_jobs_in_one_minute_cost_two_requests_each() {
    for (kind, crons) in [(&BATCH, 10_000), (&VOLCANO, 1_000)] {
        let world = CronWorld::new(kind).await;
        for number in 0..crons {
            world
                .cron(&format!("c{number}"), json!({"schedule": "30 * * * *"}))
                .await;
        }
        let (_wire, _process) = world.start(None);
        sleep(WORKED).await;
        let before = world.env.log().effects();
        assert_eq!(before, 0, "those that wait cost nothing");
        world.jump(SignedDuration::from_mins(31)).await;
        sleep(Duration::from_secs(60)).await;
        world.count(crons).await;
        let acts = world
            .env
            .log()
            .acts()
            .into_iter()
            .filter(|act| act.who == RequestSender::Controllers);
        let of_cron = acts.filter(|act| act.method != Method::GET);
        assert_eq!(of_cron.count(), 2 * crons);
    }
}
