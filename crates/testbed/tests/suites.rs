//! The suites against frozen answers: what the real server said, the embedded one has to say.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "suites/chaos.rs"]
mod chaos;
#[path = "suites/crash.rs"]
mod crash;
#[path = "suites/cron.rs"]
mod cron_inputs;
#[path = "suites/inputs.rs"]
mod inputs;
#[path = "suites/podgc.rs"]
mod pod_gc;
#[path = "suites/ttl.rs"]
mod ttl_inputs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use caretaker_testbed::collector::Collector;
use caretaker_testbed::compare::{Allowed, differences};
use caretaker_testbed::objects::{
    CRDS, DEPLOYMENTS, JOBS, VOLCANO_JOBS, mk_deployment, mk_job, mk_volcano_job,
};
use caretaker_testbed::script::perform::Theatre;
use caretaker_testbed::script::{Script, model};
use caretaker_testbed::session::{Ask, Session};
use caretaker_testbed::suites::stage::Stage;
use caretaker_testbed::suites::{
    Ending, Need, Outcome, Play, Scenario, Theme, api, cron, gc, podgc, ttl, workloads,
};
use caretaker_testbed::target::Target;
use caretaker_testbed::transcript;
use serde_json::Value;

/// How many random scripts `cargo test` performs; `cargo xtask conformance gc-random` performs more.
const SCRIPTS: u64 = 24;

fn data(suite: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(suite)
}

fn frozen(suite: &str, theme: &Theme) -> BTreeMap<String, Vec<Value>> {
    let file = data(suite).join(format!("{}.json", theme.name));
    let text =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    transcript::read(&text)
        .expect("frozen answers are JSON")
        .into_iter()
        .collect()
}

fn allowed(suite: &str) -> Allowed {
    let text =
        fs::read_to_string(data(suite).join("allowed.txt")).expect("every suite has this file");
    Allowed::parse(&text).expect("rows of the allow file")
}

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    api::THEMES.iter().flat_map(|theme| theme.scenarios)
}

/// Every play, with those who are at work beside the collector.
fn plays() -> impl Iterator<Item = (&'static Play, &'static [&'static str])> {
    let suites: [(&[&[Play]], &[&str]); 5] = [
        (cron::PLAYS, cron::CONTROLLERS),
        (gc::PLAYS, &[]),
        (podgc::PLAYS, podgc::CONTROLLERS),
        (ttl::PLAYS, ttl::CONTROLLERS),
        (workloads::PLAYS, workloads::CONTROLLERS),
    ];
    suites.into_iter().flat_map(|(plays, others)| {
        plays
            .iter()
            .copied()
            .flatten()
            .map(move |play| (play, others))
    })
}

/// Name and namespace of every scenario and every play: they may all run on one server.
fn named() -> Vec<(&'static str, String)> {
    let scenarios = scenarios().map(|s| (s.name, s.namespace()));
    let plays = plays().map(|(p, _)| (p.name, p.namespace()));
    scenarios.chain(plays).collect()
}

#[test]
fn every_scenario_has_a_name_and_a_namespace_of_its_own() {
    let (mut names, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for (name, ns) in named() {
        assert!(names.insert(name), "{name} is there twice");
        assert!(namespaces.insert(ns), "{name} shares its namespace");
    }
}

#[test]
fn no_namespace_is_part_of_another() {
    // What a scenario leaves is found by its namespace's name.
    let all: Vec<String> = named().into_iter().map(|(_, ns)| ns).collect();
    for a in &all {
        let within: Vec<&String> = all
            .iter()
            .filter(|b| *b != a && b.contains(a.as_str()))
            .collect();
        assert!(within.is_empty(), "{a} is part of {within:?}");
    }
}

#[test]
fn every_scenario_has_frozen_answers_and_there_are_no_others() {
    for theme in api::THEMES {
        let table: BTreeSet<String> = theme.scenarios.iter().map(|s| s.name.to_owned()).collect();
        let frozen: BTreeSet<String> = frozen("api", theme).into_keys().collect();
        assert_eq!(
            table, frozen,
            "{}: record it again from the real server",
            theme.name
        );
    }
}

#[test]
fn every_allowed_difference_names_a_scenario() {
    let names: BTreeSet<&str> = scenarios().map(|s| s.name).collect();
    for name in allowed("api").scenarios() {
        assert!(
            names.contains(name),
            "{name} is allowed to differ, but is no scenario"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_embedded_server_answers_like_the_real_one() {
    let allowed = allowed("api");
    let (mut checks, mut equal, mut reports) = (0, 0, Vec::new());
    for theme in api::THEMES {
        let frozen = frozen("api", theme);
        for scenario in theme.scenarios {
            let Outcome::Ran(ours) = scenario.run(&Target::embedded()).await else {
                continue;
            };
            let real = &frozen[scenario.name];
            let judgement = allowed.judge(scenario.name, differences(real, &ours));
            checks += 1;
            if judgement.is_fine() {
                equal += 1;
            } else {
                reports.push(judgement.report(scenario.name, real));
            }
        }
    }
    assert!(
        reports.is_empty(),
        "{equal} of {checks} are as they should be; the others:\n\n{}",
        reports.join("\n")
    );
}

#[tokio::test(start_paused = true)]
async fn the_controllers_in_process_end_every_play_as_they_should() {
    let (mut passed, mut failed) = (0, Vec::new());
    for (play, others) in plays() {
        match play
            .run(&Target::embedded(), &Collector::InProcess(others))
            .await
        {
            Ending::Passed => passed += 1,
            Ending::Failed(why) => failed.push(format!("{}: {why}", play.name)),
            Ending::Skipped(_) => {}
        }
    }
    assert!(
        failed.is_empty(),
        "{passed} plays ended well; the others:\n\n{}",
        failed.join("\n")
    );
}

#[tokio::test(start_paused = true)]
async fn no_workload_lives_without_actors() {
    let play = &workloads::PLAYS[0][0];
    let target = Target::embedded();
    let stage = Stage::set(&target, &Collector::Standing, play.namespace()).await;
    let Err(why) = (play.run)(&stage).await else {
        panic!("{} ends well", play.name)
    };
    assert!(why.ends_with(" after 150 s"), "{}: {why}", play.name);
}

/// What actors do about a Job of each kind and a Deployment within a minute.
async fn played() -> Vec<String> {
    let target = Target::embedded();
    let actors = target.actors().await.unwrap();
    let session = Session::new(target, "default".to_owned());
    for (resource, object) in [
        (JOBS, mk_job("j")),
        (VOLCANO_JOBS, mk_volcano_job("v")),
        (DEPLOYMENTS, mk_deployment("d")),
    ] {
        let made = session
            .quietly(Ask::post(resource.collection("default"), &object))
            .await;
        assert_eq!(made.status, 201);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let done = actors.evidence.recent();
    done.iter().map(|deed| format!("{deed:?}")).collect()
}

#[tokio::test(start_paused = true)]
async fn actors_do_the_same_every_time() {
    let first = played().await;
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, played().await);
}

#[tokio::test(start_paused = true)]
async fn the_jobs_of_volcanos_cron_jobs_are_like_its_jobs() {
    let target = Target::embedded();
    let _actors = target.actors().await.unwrap();
    let session = Session::new(target, "default".to_owned());
    let spec = async |name: &str, place: &str| {
        let path = format!("{}/{name}.batch.volcano.sh", CRDS.everywhere());
        let definition = session.quietly(Ask::get(path)).await.body;
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        definition.pointer(&format!("{schema}{place}")).cloned()
    };
    let job = spec("jobs", "").await;
    assert!(
        job.as_ref()
            .is_some_and(|job| job["properties"]["tasks"].is_object())
    );
    assert_eq!(
        spec("cronjobs", "/properties/jobTemplate/properties/spec").await,
        job
    );
}

#[tokio::test(start_paused = true)]
async fn no_play_ends_well_when_nobody_is_at_work() {
    // Actors make some plays end well all by themselves.
    let is_alone = |play: &Play| !play.is_fresh() && !play.needs.contains(&Need::Actors);
    for (play, _) in plays().filter(|(play, _)| is_alone(play)) {
        let ending = play.run(&Target::embedded(), &Collector::Standing).await;
        let Ending::Failed(why) = ending else {
            panic!("{}: {ending:?}", play.name)
        };
        // It has waited in vain, and was not refused anything.
        assert!(why.ends_with(" after 150 s"), "{}: {why}", play.name);
    }
}

#[tokio::test(start_paused = true)]
async fn random_scripts_end_as_the_model_says() {
    let scripts: Vec<Script> = (0..SCRIPTS).map(Script::of).collect();
    let target = Target::embedded();
    let mut theatre = Theatre::open(&target, &Collector::InProcess(&[]))
        .await
        .unwrap();
    let ends = theatre.perform(&scripts).await.unwrap();
    let (mut determined, mut races, mut wrong) = (0, 0, Vec::new());
    for (script, ends) in scripts.iter().zip(&ends) {
        for (number, (expected, end)) in model::expected(script).iter().zip(ends).enumerate() {
            match expected.is {
                Some(_) => determined += 1,
                None => races += 1,
            }
            let unlike = expected.unlike(end);
            wrong.extend(unlike.map(|why| format!("{}: {why}\n{script}", script.name(number))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Where everything is a race, nothing is shown.
    assert!(races * 5 < determined, "{races} of {determined}");
}
