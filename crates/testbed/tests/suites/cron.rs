//! CronJobs whose controllers die at every request, for years, and while clocks jump: no slot has two Jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use caretaker_machinery::cron::{Schedule, zone};
use caretaker_machinery::rng::Rng;
use caretaker_testbed::checkers::Known;
use caretaker_testbed::collector::Collector;
use caretaker_testbed::crash::scenarios::cron::{OF_BATCH, OF_VOLCANO, SCENARIOS};
use caretaker_testbed::crash::{Cast, Generation, MOMENTS, crash_everywhere, crash_twice, play};
use caretaker_testbed::objects::EVENTS;
use caretaker_testbed::session::Ask;
use caretaker_testbed::suites::cron::{BATCH, Kind, VOLCANO};
use caretaker_testbed::suites::stage::{Made, Stage};
use caretaker_testbed::target::Target;
use caretaker_testbed::wire::{Asked, Fate, Log, Meddler, Moment, Reply, Who, Wire};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn cron_controllers_that_die_at_any_request_end_like_those_that_live() {
    for scenario in SCENARIOS {
        let runs = crash_everywhere(scenario).await;
        let runs = runs.unwrap_or_else(|why| panic!("{why}"));
        assert!(runs >= 6, "{}: only {runs} runs", scenario.name);
    }
}

#[tokio::test(start_paused = true)]
async fn cron_controllers_that_die_twice_end_like_those_that_live() {
    for (seed, scenario) in (0..).zip(SCENARIOS) {
        let mut rng = Rng::seeded(seed);
        let done = crash_twice(scenario, 4, |limit| rng.below(limit)).await;
        done.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// Breaks a rule on the way to the server.
type Breaks = fn(&Asked<'_>) -> Fate;

/// Controllers that do what they must not, and the rule that says so.
#[tokio::test(start_paused = true)]
async fn a_cron_controller_that_is_broken_is_noticed() {
    let cases: [(&str, Breaks, &str); 3] = [
        ("tick of BATCH", writes_specs, "S4: more than the status"),
        (
            "replace of BATCH",
            gives_to_nobody,
            "S6: a Job was made that belongs to nobody",
        ),
        ("replace of BATCH", skips_deletes, "S7: "),
    ];
    for (name, breaks, rule) in cases {
        let scenario = SCENARIOS
            .iter()
            .find(|scenario| scenario.name == name)
            .unwrap();
        let run = play(scenario, &|_| Some(Box::new(breaks))).await;
        let told = match &run {
            Ok(run) => run.violations.join(" "),
            Err(why) => why.clone(),
        };
        assert!(told.contains(rule), "{name} should break {rule:?}: {told}");
    }
}

fn is_status(asked: &Asked<'_>) -> bool {
    *asked.method == Method::PATCH && asked.uri.ends_with("/cronjobs/a/status")
}

fn writes_specs(asked: &Asked<'_>) -> Fate {
    if !is_status(asked) {
        return Fate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["annotations"] = json!({"x": "y"});
    Fate::Body(body)
}

fn gives_to_nobody(asked: &Asked<'_>) -> Fate {
    if *asked.method != Method::POST || !asked.is_effect {
        return Fate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["ownerReferences"] = json!([]);
    Fate::Body(body)
}

fn skips_deletes(asked: &Asked<'_>) -> Fate {
    match *asked.method == Method::DELETE && asked.uri.contains("/jobs/old") {
        true => Fate::Reply(Reply::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )),
        false => Fate::Pass,
    }
}

/// Both kinds.
static KINDS: [&Kind; 2] = [&BATCH, &VOLCANO];

/// A server, users of it, and everything that was asked.
struct World {
    kind: &'static Kind,
    target: Target,
    stage: Stage,
    log: Log,
}

/// What happens between two looks at the world, by the controllers' time.
const WORKED: Duration = Duration::from_secs(3);

// === impl World ===

impl World {
    async fn new(kind: &'static Kind) -> Self {
        let target = Target::embedded();
        let log = Log::default();
        let users = Wire::new(target.client(), Who::User, &log, None);
        let through = target.through(users.client());
        let stage = Stage::set(&through, &Collector::Standing, "cron".to_owned()).await;
        kind.define(&stage).await.unwrap();
        Self {
            kind,
            target,
            stage,
            log,
        }
    }

    async fn cron(&self, name: &str, spec: Value) -> Made {
        let cron = self.kind.mk_cron(name, spec);
        self.stage.make(&self.kind.crons, cron).await.unwrap()
    }

    fn start(&self, meddler: Option<Box<dyn Meddler>>) -> (Wire, Generation) {
        let wire = Wire::new(self.target.client(), Who::Controllers, &self.log, meddler);
        let kind = self.kind;
        let kinds = [Known::new(kind.jobs.clone(), kind.api_version, "Job")];
        let cast = Cast {
            names: if kind.is_volcano() {
                OF_VOLCANO
            } else {
                OF_BATCH
            },
            kinds: &kinds,
            discovery: Duration::from_secs(3_600),
            ahead: SignedDuration::ZERO,
        };
        let generation = Generation::start(&self.target, &wire, &cast).unwrap();
        (wire, generation)
    }

    fn now(&self) -> Timestamp {
        self.target.clock().unwrap().now()
    }

    /// Moves everybody's clock, and lets everybody see that.
    async fn jump(&self, by: SignedDuration) {
        self.target.clock().unwrap().jump(by).unwrap();
        sleep(WORKED).await;
    }

    /// To a second before a time, and past it.
    async fn pass(&self, time: Timestamp) {
        let before = time.duration_since(self.now()) - SignedDuration::from_secs(1);
        self.jump(before.max(SignedDuration::ZERO)).await;
    }

    /// The same with the next minute, which is told in minutes since 1970.
    async fn pass_minute(&self) -> i64 {
        let minute = self.now().as_second() / 60 + 1;
        self.pass(Timestamp::from_second(minute * 60).unwrap())
            .await;
        minute
    }

    /// All Jobs there are.
    async fn jobs(&self) -> Vec<Value> {
        self.stage.list(&self.kind.jobs).await.unwrap()
    }

    /// Ends every Job that runs, as whoever runs them would.
    async fn run_jobs(&self) {
        let status = json!({"status": self.kind.ended("Complete", self.now())}).to_string();
        let jobs = self.jobs().await;
        let runs = |job: &&Value| {
            let status = &job["status"];
            status["conditions"].is_null() && status["state"].is_null()
        };
        for job in jobs.iter().filter(runs) {
            let name = job["metadata"]["name"].as_str().unwrap();
            let jobs = self.kind.jobs.collection(self.stage.ns());
            let patch = Ask::new(Method::PATCH, format!("{jobs}/{name}/status"));
            let patch = patch.body(status.clone());
            let patch = patch.content_type("application/merge-patch+json");
            self.stage.send(patch, &[200]).await.unwrap();
        }
    }

    /// The names of the Jobs that were made, whether or not anybody heard of it.
    fn made(&self) -> Vec<String> {
        let acts = self.log.acts().into_iter();
        let made = acts.filter(|act| act.method == Method::POST && act.status == 201);
        let made = made.filter(|act| act.who == Who::Controllers);
        made.map(|act| act.answer["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// How many slots had a Job; none had two.
    fn served(&self) -> usize {
        let made = self.made();
        let distinct: BTreeSet<&String> = made.iter().collect();
        assert_eq!(distinct.len(), made.len(), "a slot had two Jobs");
        made.len()
    }

    async fn count(&self, jobs: usize) {
        self.stage.count(&self.kind.jobs, jobs).await.unwrap();
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
        let world = World::new(kind).await;
        let zone = zone::find("Europe/Berlin").unwrap();
        let schedule = Schedule::parse(text).unwrap();
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

/// Dies at a request that is drawn.
struct Doomed {
    left: usize,
    moment: Moment,
}

impl Meddler for Doomed {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if !asked.is_effect {
            return Fate::Pass;
        }
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => Fate::End(self.moment),
            _ => Fate::Pass,
        }
    }
}

/// Many CronJobs whose Jobs are gone as soon as they are done, many minutes, and controllers that die all the time. Tells
/// how many slots had a Job.
async fn ticks_with_crashes(kind: &'static Kind, crons: usize, minutes: usize) -> usize {
    let world = World::new(kind).await;
    for number in 0..crons {
        let spec = match number % 2 {
            0 => json!({"jobTemplate": {"spec": {"ttlSecondsAfterFinished": 0}}}),
            _ => json!({"successfulJobsHistoryLimit": 0}),
        };
        world.cron(&format!("c{number}"), spec).await;
    }
    let mut rng = Rng::seeded(8);
    let mut crashes = 0;
    let lives = async {
        loop {
            let doomed = Doomed {
                left: 1 + rng.below(1_000),
                moment: MOMENTS[rng.below(MOMENTS.len())],
            };
            let (wire, _generation) = world.start(Some(Box::new(doomed)));
            wire.until_cut().await;
            crashes += 1;
        }
    };
    let story = async {
        for _ in 0..minutes {
            let slot = format!("-{}", world.pass_minute().await);
            let is_of_slot =
                |job: &&Value| job["metadata"]["name"].as_str().unwrap().ends_with(&slot);
            // Whoever comes after a crash has the rest of the minute to serve it.
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
        () = lives => {}
        () = story => {}
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

/// Whoever looks after hours is told what happened minutes ago.
#[tokio::test(start_paused = true)]
async fn jobs_that_never_end_are_forbidden_or_replaced() {
    for (kind, policy, minutes, made, reason) in [
        (&BATCH, "Forbid", 300, 1, "JobAlreadyActive"),
        (&BATCH, "Replace", 300, 300, "SuccessfulDelete"),
        (&VOLCANO, "Forbid", 60, 1, "ForbidConcurrent"),
        (&VOLCANO, "Replace", 60, 60, "ReplaceConcurrent"),
    ] {
        let world = World::new(kind).await;
        world.cron("a", json!({"concurrencyPolicy": policy})).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        for _ in 0..minutes {
            world.pass_minute().await;
            world.count(1).await;
        }
        assert_eq!(world.made().len(), made, "{policy}");
        let events = world.stage.list(&EVENTS).await.unwrap();
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
        let world = World::new(kind).await;
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
        let world = World::new(kind).await;
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
        let world = World::new(kind).await;
        let mut cron = world.cron("a", json!({})).await;
        let _controllers = world.start(None);
        sleep(WORKED).await;
        for minute in 1..=6 {
            let is_before = minute % 2 == 0;
            if is_before {
                let left = SignedDuration::from_secs(59 - world.now().as_second() % 60);
                world.target.clock().unwrap().jump(left).unwrap();
            } else {
                world.pass_minute().await;
            }
            let background = json!({"propagationPolicy": "Background"});
            world.stage.delete(&cron, background).await.unwrap();
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
        let world = World::new(kind).await;
        for number in 0..crons {
            world
                .cron(&format!("c{number}"), json!({"schedule": "30 * * * *"}))
                .await;
        }
        let (_wire, _generation) = world.start(None);
        sleep(WORKED).await;
        let before = world.log.effects();
        assert_eq!(before, 0, "those that wait cost nothing");
        world.jump(SignedDuration::from_mins(31)).await;
        sleep(Duration::from_secs(60)).await;
        world.count(crons).await;
        let acts = world
            .log
            .acts()
            .into_iter()
            .filter(|act| act.who == Who::Controllers);
        let of_cron = acts.filter(|act| act.method != Method::GET);
        assert_eq!(of_cron.count(), 2 * crons);
    }
}
