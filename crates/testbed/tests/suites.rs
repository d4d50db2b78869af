//! What holds across all cases, faults that need a world of their own, and broken controllers that the checkers catch.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "suites/chaos.rs"]
mod chaos;
#[path = "suites/crash.rs"]
mod crash_mutants;
#[path = "suites/cron.rs"]
mod cron_inputs;
#[path = "suites/inputs.rs"]
mod inputs;
#[path = "suites/podgc.rs"]
mod pod_gc;
#[path = "suites/ttl.rs"]
mod ttl_inputs;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use caretaker_testbed::case::{CaseBody, CaseNeed, TestCase};
use caretaker_testbed::compare::AllowedDifferences;
use caretaker_testbed::controllers::ControllerSource;
use caretaker_testbed::crash;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::objects::{
    CRDS, DEPLOYMENTS, JOBS, VOLCANO_JOBS, mk_deployment, mk_job, mk_volcano_job,
};
use caretaker_testbed::session::{Ask, Session};
use caretaker_testbed::suites::{SUITES, api, workloads};
use caretaker_testbed::target::Target;
use caretaker_testbed::transcript;
use caretaker_testbed::wire::{RequestFate, WireRequest};
use http::Method;
use serde_json::Value;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/api")
}

/// The cases that may run on one real server.
fn cases() -> impl Iterator<Item = &'static TestCase> {
    SUITES
        .iter()
        .flat_map(|suite| suite.cases())
        .map(|(_, case)| case)
}

fn convergent_case(name: &str) -> &'static TestCase {
    let mut all = crash::SUITE.cases().map(|(_, case)| case);
    all.find(|case| case.name == name)
        .unwrap_or_else(|| panic!("there is no case {name}"))
}

/// Makes controllers send deletes without preconditions.
fn drops_preconditions(asked: &WireRequest<'_>) -> RequestFate {
    if *asked.method != Method::DELETE {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["preconditions"] = Value::Null;
    RequestFate::Body(body)
}

#[test]
fn no_table_has_lost_its_cases() {
    let count = |is_counted: fn(&TestCase) -> bool| cases().filter(|case| is_counted(case)).count();
    let recorded = count(|case| matches!(case.body, CaseBody::Recorded(_)));
    let checked = count(|case| matches!(case.body, CaseBody::Checked(_)));
    let idle = count(|case| {
        let is_checked = matches!(case.body, CaseBody::Checked(_));
        is_checked && !case.is_fresh() && !case.needs.contains(&CaseNeed::Actors)
    });
    let convergent = crash::SUITE.cases().count();
    assert!(recorded >= 440, "{recorded} API cases");
    assert!(
        checked >= 116 && idle >= 80,
        "{checked} and {idle} controller cases"
    );
    assert!(convergent >= 29, "{convergent} convergent cases");
}

#[test]
fn every_case_has_a_name_and_a_namespace_of_its_own() {
    let (mut names, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let name = case.name;
        assert!(names.insert(name), "{name} occurs twice");
        assert!(
            namespaces.insert(case.namespace()),
            "{name} shares its namespace"
        );
    }
    let convergent = crash::SUITE.cases().map(|(_, case)| case.name);
    for name in convergent {
        assert!(names.insert(name), "{name} occurs twice");
    }
}

#[test]
fn no_namespace_is_part_of_another() {
    // The cleanup finds the objects of a case by its namespace's name.
    let all: Vec<String> = cases().map(TestCase::namespace).collect();
    for a in &all {
        let within: Vec<&String> = all
            .iter()
            .filter(|b| *b != a && b.contains(a.as_str()))
            .collect();
        assert!(within.is_empty(), "{a} is part of {within:?}");
    }
}

#[test]
fn every_api_case_has_a_frozen_transcript_and_there_are_no_others() {
    for theme in api::SUITE.themes {
        let text = fs::read_to_string(data().join(format!("{}.json", theme.name))).unwrap();
        let frozen = transcript::read(&text).expect("frozen transcripts are JSON");
        let frozen: BTreeSet<String> = frozen.into_iter().map(|(name, _)| name).collect();
        let table: BTreeSet<String> = theme.cases.iter().map(|s| s.name.to_owned()).collect();
        let hint = "record it again from the real server";
        assert_eq!(table, frozen, "{}: {hint}", theme.name);
    }
}

#[test]
fn every_allowed_difference_names_a_case() {
    let text = fs::read_to_string(data().join("allowed.txt")).unwrap();
    let allowed = AllowedDifferences::parse(&text).expect("rows of tabs");
    let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
    for name in allowed.cases() {
        assert!(
            names.contains(name),
            "{name} may differ, but there is no such case"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn workload_cases_fail_without_actors() {
    let case = &workloads::SUITE.themes[0].cases[0];
    let CaseBody::Checked(run) = case.body else {
        panic!("{} checks nothing", case.name)
    };
    let source = ControllerSource::Running;
    let env = Environment::new(&Target::embedded(), &source, case.namespace()).await;
    let Err(why) = run(&env).await else {
        panic!("{} passes", case.name)
    };
    assert!(why.ends_with(" after 150 s"), "{}: {why}", case.name);
}

/// The actors' writes about a Job of each dialect and a Deployment within a minute.
async fn actors_writes() -> Vec<String> {
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
    let first = actors_writes().await;
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, actors_writes().await);
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
