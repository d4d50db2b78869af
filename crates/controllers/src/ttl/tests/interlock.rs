//! The interlock: Jobs of CronJobs stay until their tick is recorded.

use jiff::tz::TimeZone;

use super::*;
use crate::runtime::call::{CallFailure, FailureKind};
use crate::runtime::controller::AnsweredCall;

/// The slot of these Jobs, in minutes.
const MINUTE: i64 = 1_767_225_600 / 60 - 1;

fn catalog_with_crons(is_served: bool) -> Arc<KindCatalog> {
    let mut kinds: Vec<ApiKind> = catalog().iter().map(|(_, kind)| kind.clone()).collect();
    let crons = kinds.clone().into_iter().map(|job| ApiKind {
        kind: "CronJob".into(),
        resource: "cronjobs".into(),
        ..job
    });
    kinds.extend(crons);
    let all = KindCatalog::default().with(kinds.clone());
    Arc::new(match is_served {
        true => all,
        false => all.with(kinds.into_iter().take(2)),
    })
}

fn crons(row: &FinishingKind) -> KindId {
    catalog_with_crons(true).id(row.group, "cronjobs").unwrap()
}

/// A controller with the interlock, and a CronJob that was created an hour ago, merged with `changes`.
fn mk_with(row: &'static FinishingKind, changes: Value) -> TtlController {
    let settings = TtlSettings {
        cron_zone: Some(TimeZone::UTC),
        ..TtlSettings::default()
    };
    let mut ttl = TtlController::new(row, settings);
    observe(&mut ttl, &ObservedChange::Catalog(catalog_with_crons(true)));
    apply(&mut ttl, &cron(row, changes));
    ttl
}

fn cron(row: &FinishingKind, changes: Value) -> Arc<ObjectRecord> {
    let mut cron = json!({"metadata": {"name": "nightly", "namespace": "shop", "uid": "c", "resourceVersion": "1",
        "creationTimestamp": at(-3_600)}});
    merge(&mut cron, changes);
    Arc::new(decode(crons(row), cron.to_string().as_bytes(), RecordView::Full).unwrap())
}

/// A finished Job of the CronJob with a TTL of 0, merged with `changes`.
fn tick(row: &FinishingKind, changes: Value) -> Arc<ObjectRecord> {
    let end = json!({"phase": "Completed", "lastTransitionTime": at(-10)});
    let condition = json!({"type": "Complete", "status": "True", "lastTransitionTime": at(-10)});
    let owner = json!({"apiVersion": row.api_version, "kind": "CronJob", "name": "nightly", "uid": "c", "controller": true});
    let mut job = json!({
        "metadata": {"name": format!("nightly-{MINUTE}"), "ownerReferences": [owner]},
        "spec": {"ttlSecondsAfterFinished": 0},
        "status": {"state": end, "conditions": [condition]},
    });
    merge(&mut job, changes);
    mk_job(row, job)
}

fn recorded(minutes_ago: i64) -> Value {
    let last = Timestamp::from_second((MINUTE - minutes_ago) * 60).unwrap();
    json!({"metadata": {"resourceVersion": "2"}, "status": {"lastScheduleTime": last}})
}

/// The rule id of the decision about a Job that was just applied.
fn becomes(ttl: &mut TtlController, job: &Arc<ObjectRecord>) -> &'static str {
    apply(ttl, job);
    rule(&ttl.decide(&uid(), NOW))
}

#[test]
fn a_job_stays_until_its_tick_is_recorded() {
    for row in [&BATCH, &VOLCANO] {
        let mut ttl = mk_with(row, json!({}));
        assert_eq!(becomes(&mut ttl, &tick(row, json!({}))), "TickUnrecorded");
        // The record of an older tick does not free the Job.
        assert_eq!(apply(&mut ttl, &cron(row, recorded(1))), [uid()]);
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), "TickUnrecorded");
        let mut newer = recorded(0);
        newer["metadata"]["resourceVersion"] = "3".into();
        assert_eq!(apply(&mut ttl, &cron(row, newer)), [uid()], "it is woken");
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
        // An older copy does not revoke the record.
        apply(&mut ttl, &cron(row, json!({})));
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
    }
}

/// The slot is a minute old. Its status cannot be written, so nothing records it.
#[test]
fn a_job_stays_no_longer_than_its_slot_can_be_served() {
    let rows = [
        // The next slot comes four minutes later.
        (json!({"schedule": "4-59/5 * * * *"}), Some(250)),
        (
            json!({"schedule": "4-59/5 * * * *", "startingDeadlineSeconds": 100}),
            Some(50),
        ),
        (
            json!({"schedule": "4-59/5 * * * *", "suspend": true}),
            Some(250),
        ),
        // It has just come; clocks may differ by ten seconds.
        (json!({"schedule": "0 * * * *"}), Some(10)),
        // Clocks there are 5 h 45 min ahead.
        (
            json!({"schedule": "30 * * * *", "timeZone": "Asia/Kathmandu"}),
            Some(2_710),
        ),
        (json!({"schedule": "0 0 30 2 *"}), None),
    ];
    for (spec, secs) in rows {
        let mut ttl = mk_with(&BATCH, json!({"spec": spec}));
        let job = tick(&BATCH, json!({}));
        assert_eq!(becomes(&mut ttl, &job), "TickUnrecorded", "{spec}");
        let end = secs.map(|secs| NOW + SignedDuration::from_secs(secs));
        let next = end.map_or(NextStep::Rest, NextStep::At);
        assert_eq!(ttl.decide(&uid(), NOW).next, next, "{spec}");
        let end = end.unwrap_or(NOW + SignedDuration::from_hours(100_000));
        let rule_then = if secs.is_some() {
            "Expired"
        } else {
            "TickUnrecorded"
        };
        assert_eq!(rule(&ttl.decide(&uid(), end)), rule_then, "{spec}");
        let before = end - SignedDuration::from_secs(1);
        assert_eq!(
            rule(&ttl.decide(&uid(), before)),
            "TickUnrecorded",
            "{spec}"
        );
    }
}

#[test]
fn a_job_that_is_kept_for_its_slot_gets_an_event_after_ten_seconds() {
    let mut ttl = mk_with(&BATCH, json!({"spec": {"schedule": "4-59/5 * * * *"}}));
    assert_eq!(
        becomes(&mut ttl, &tick(&BATCH, json!({}))),
        "TickUnrecorded"
    );
    let early = ttl.decide(&uid(), NOW - SignedDuration::from_secs(1));
    assert_eq!((early.notes.len(), early.next), (0, NextStep::At(NOW)));
    let notes = ttl.decide(&uid(), NOW).notes;
    let [note] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert_eq!((note.reason, &*note.about.kind), ("TickUnrecorded", "Job"));
    assert_eq!(
        note.message,
        "its TTL has expired, but it stays until the status of CronJob nightly records its slot 2025-12-31T23:59:00Z, \
        at the latest until 2026-01-01T00:04:10Z"
    );
}

#[test]
fn a_recorded_tick_does_not_hold_its_job() {
    for minutes_ago in [0, -1, -60] {
        let mut ttl = mk_with(&BATCH, recorded(minutes_ago));
        assert_eq!(becomes(&mut ttl, &tick(&BATCH, json!({}))), "Expired");
    }
}

#[test]
fn jobs_without_the_name_of_a_slot_expire() {
    // Names by `kubectl create job --from` and `schedule run`, and names of times that are no slots.
    let names = [
        "manual".to_owned(),
        "nightly-m4x7k2p".to_owned(),
        "nightly-1".to_owned(),
        format!("nightly-{}", MINUTE - 61),
        format!("nightly-{}", MINUTE + 100_000),
        format!("other-{MINUTE}"),
        format!("nightly-0{MINUTE}"),
    ];
    for name in names {
        let mut ttl = mk_with(&BATCH, json!({}));
        let job = tick(
            &BATCH,
            json!({"metadata": {"name": name, "annotations": {"cronjob.kubernetes.io/instantiate": "manual"}}}),
        );
        assert_eq!(becomes(&mut ttl, &job), "Expired", "{name}");
    }
    let owners = [
        json!([]),
        json!([{"kind": "CronJob", "name": "nightly", "uid": "c"}]),
        json!([{"kind": "Deployment", "name": "nightly", "uid": "c", "controller": true}]),
    ];
    for owners in owners {
        let mut ttl = mk_with(&BATCH, json!({}));
        let job = tick(&BATCH, json!({"metadata": {"ownerReferences": owners}}));
        assert_eq!(becomes(&mut ttl, &job), "Expired", "{owners}");
    }
}

#[test]
fn a_deleted_cron_job_does_not_hold_its_jobs() {
    let deleting = json!({"metadata": {"deletionTimestamp": at(-1)}});
    let mut ttl = mk_with(&BATCH, deleting);
    assert_eq!(becomes(&mut ttl, &tick(&BATCH, json!({}))), "Expired");

    let mut ttl = mk_with(&BATCH, json!({}));
    assert_eq!(
        becomes(&mut ttl, &tick(&BATCH, json!({}))),
        "TickUnrecorded"
    );
    let woken = observe(&mut ttl, &ObservedChange::Deleted(cron(&BATCH, json!({}))));
    assert_eq!(woken, [uid()]);
    assert_eq!(
        rule(&ttl.decide(&uid(), NOW)),
        "Expired",
        "the DELETED event was seen"
    );
}

#[test]
fn no_interlock_if_the_cronjob_controller_does_not_run() {
    let mut ttl = mk(&BATCH, TtlSettings::default());
    assert_eq!(becomes(&mut ttl, &tick(&BATCH, json!({}))), "Expired");
    // CronJobs are not served.
    let mut ttl = mk_with(&BATCH, json!({}));
    observe(
        &mut ttl,
        &ObservedChange::Catalog(catalog_with_crons(false)),
    );
    assert_eq!(becomes(&mut ttl, &tick(&BATCH, json!({}))), "Expired");
}

#[test]
fn the_last_copy_of_a_forbidden_cron_job_holds_its_jobs() {
    let state = |state| ObservedChange::Kind(crons(&BATCH), state);
    let mut ttl = mk_with(&BATCH, json!({"spec": {"schedule": "4-59/5 * * * *"}}));
    let job = tick(&BATCH, json!({}));
    assert_eq!(becomes(&mut ttl, &job), "TickUnrecorded");
    assert_eq!(observe(&mut ttl, &state(KindState::Forbidden)), [uid()]);
    let verdict = ttl.decide(&uid(), NOW);
    let end = NOW + SignedDuration::from_secs(250);
    assert_eq!(
        (rule(&verdict), verdict.next),
        ("TickUnrecorded", NextStep::At(end))
    );
    assert_eq!(rule(&ttl.decide(&uid(), end)), "Expired");
}

#[test]
fn no_interlock_if_cron_jobs_may_not_be_read() {
    let state = |state| ObservedChange::Kind(crons(&BATCH), state);
    // Without a schedule the slot never ends, so the wait could last as long as CronJobs are forbidden.
    let mut ttl = mk_with(&BATCH, json!({}));
    let job = tick(&BATCH, json!({}));
    assert_eq!(becomes(&mut ttl, &job), "TickUnrecorded");
    assert_eq!(observe(&mut ttl, &state(KindState::Forbidden)), [uid()]);
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
    assert!(observe(&mut ttl, &state(KindState::Forbidden)).is_empty());
    // Once CronJobs may be read again, they hold their Jobs again.
    assert_eq!(observe(&mut ttl, &state(KindState::Synced)), [uid()]);
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "TickUnrecorded");

    // A CronJob that was never seen.
    observe(
        &mut ttl,
        &ObservedChange::Missing(crons(&BATCH), Uid::from("c")),
    );
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "AsksForCronJob");
    observe(&mut ttl, &state(KindState::Forbidden));
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
}

#[test]
fn held_jobs_are_woken_when_cron_jobs_are_no_longer_served() {
    let gone = [
        vec![ObservedChange::Catalog(catalog_with_crons(false))],
        vec![
            ObservedChange::Catalog(catalog_with_crons(false)),
            ObservedChange::Kind(crons(&BATCH), KindState::Gone),
        ],
    ];
    for changes in gone {
        let mut ttl = mk_with(&BATCH, json!({}));
        assert_eq!(
            becomes(&mut ttl, &tick(&BATCH, json!({}))),
            "TickUnrecorded"
        );
        let woken: Vec<Uid> = changes
            .iter()
            .flat_map(|change| observe(&mut ttl, change))
            .collect();
        assert!(woken.contains(&uid()), "{changes:?}");
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), "Expired");
    }
}

#[test]
fn reads_a_cron_job_that_no_feed_shows() {
    let failed = || {
        ApiAnswer::Failed(CallFailure {
            kind: FailureKind::Unavailable,
            status: Some(500),
            message: String::new(),
            retry_after: None,
        })
    };
    let replaced = json!({"metadata": {"uid": "another"}});
    let cases = [
        (ApiAnswer::Object(cron(&BATCH, json!({}))), "TickUnrecorded"),
        (ApiAnswer::Object(cron(&BATCH, recorded(0))), "Expired"),
        (ApiAnswer::Object(cron(&BATCH, replaced)), "Expired"),
        (ApiAnswer::Absent(AbsenceProof::NotFound), "Expired"),
        (failed(), "AsksForCronJob"),
    ];
    for (answer, becomes_then) in cases {
        let mut ttl = mk_with(&BATCH, json!({}));
        let lost = ObservedChange::Missing(crons(&BATCH), Uid::from("c"));
        observe(&mut ttl, &lost);
        assert_eq!(
            becomes(&mut ttl, &tick(&BATCH, json!({}))),
            "AsksForCronJob"
        );
        let NextStep::Call(call @ ApiCall::Get { .. }) = ttl.decide(&uid(), NOW).next else {
            panic!("the CronJob is not read");
        };
        assert_eq!(
            (&*call.target().name, &*call.target().namespace),
            ("nightly", "shop")
        );
        ttl.answered(AnsweredCall {
            key: &uid(),
            call: &call,
            answer: &answer,
            now: NOW,
            wake: &mut WakeList::default(),
        });
        assert_eq!(rule(&ttl.decide(&uid(), NOW)), becomes_then, "{answer:?}");
    }
}

#[test]
fn the_interlock_starts_at_expiry_and_ends_with_the_job() {
    let mut ttl = mk_with(&BATCH, json!({}));
    let later = tick(&BATCH, json!({"spec": {"ttlSecondsAfterFinished": 60}}));
    assert_eq!(becomes(&mut ttl, &later), "Waits");
    observe(&mut ttl, &ObservedChange::Deleted(later));
    let woken = apply(&mut ttl, &cron(&BATCH, recorded(0)));
    assert!(woken.is_empty(), "no Job waits any more");
}

/// With `--ttl-after-aborted` aborted Jobs expire, and the interlock holds them too.
#[test]
fn an_aborted_job_stays_until_its_tick_is_recorded() {
    let settings = TtlSettings {
        after_aborted: Some(Duration::ZERO),
        cron_zone: Some(TimeZone::UTC),
    };
    let mut ttl = TtlController::new(&VOLCANO, settings);
    observe(&mut ttl, &ObservedChange::Catalog(catalog_with_crons(true)));
    apply(&mut ttl, &cron(&VOLCANO, json!({})));
    let state = json!({"phase": "Aborted", "lastTransitionTime": at(-10)});
    let job = tick(&VOLCANO, json!({"status": {"state": state}}));
    assert_eq!(becomes(&mut ttl, &job), "TickUnrecorded");
    apply(&mut ttl, &cron(&VOLCANO, recorded(0)));
    assert_eq!(rule(&ttl.decide(&uid(), NOW)), "AbortedLongAgo");
}
