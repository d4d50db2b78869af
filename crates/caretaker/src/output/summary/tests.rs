//! Tables of evidence records and the summary lines that they give.

use serde_json::json;

use super::*;

const START: &str = "2026-03-01T12:00:00Z";

fn at(millis: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start + SignedDuration::from_millis(millis)
}

fn steady(millis: i64) -> SteadyTime {
    SteadyTime::at(at(millis))
}

/// Adds a record by a clock that is not set.
fn add(summary: &mut ActionSummary, record: &Evidence) -> Option<String> {
    summary.add(record, SteadyTime::at(record.at))
}

/// `Deployment shop/web`, whose uid is `Deployment-web`.
fn mk_object(kind: &str, name: &str) -> ObjectIdentity {
    ObjectIdentity {
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("{kind}-{name}"),
        ..ObjectIdentity::default()
    }
}

/// A write of the garbage collector that succeeded.
fn mk_record(
    millis: i64,
    rule: &str,
    target: ObjectIdentity,
    cause: Option<ObjectIdentity>,
) -> Evidence {
    let is_delete = ["OwnerAbsent", "OwnerWaiting"].contains(&rule);
    Evidence {
        at: at(millis),
        controller: gc::NAME,
        key: "k".into(),
        verb: if is_delete { "delete" } else { "patch" },
        object: "resource shop/name".into(),
        uid: target.uid.clone(),
        resource_version: "7".into(),
        because: json!({"rule": rule}),
        proof: None,
        status: WriteStatus::Code(200),
        ms: 0,
        error: None,
        reason: "its owner is gone: its deletion was observed".into(),
        cause,
        target,
        group: String::new(),
        resource: "pods".into(),
        policy: None,
        done: true,
        requests: 1,
    }
}

/// A write of another controller.
fn mk_other(
    verb: &'static str,
    rule: &str,
    target: ObjectIdentity,
    cause: Option<ObjectIdentity>,
) -> Evidence {
    Evidence {
        controller: "other-controller",
        verb,
        ..mk_record(0, rule, target, cause)
    }
}

fn mk_failed(record: Evidence, status: WriteStatus, error: &str) -> Evidence {
    Evidence {
        status,
        done: false,
        error: Some(error.into()),
        ..record
    }
}

fn pod(number: usize) -> ObjectIdentity {
    mk_object("Pod", &format!("web-{number}"))
}

fn web() -> Option<ObjectIdentity> {
    Some(mk_object("Deployment", "web"))
}

/// The lines of all records, printed when every group is idle.
fn lines_of(records: impl IntoIterator<Item = Evidence>) -> Vec<String> {
    let mut summary = ActionSummary::default();
    let mut lines = Vec::new();
    for record in records {
        lines.extend(add(&mut summary, &record));
    }
    lines.extend(summary.finish());
    assert_eq!(summary.due(), None);
    lines
}

#[test]
fn failed_writes_count_as_requests_only() {
    let record = |number| mk_record(0, "OwnerAbsent", pod(number), web());
    let failed = |code, error: &str| mk_failed(record(2), WriteStatus::Code(code), error);
    let records = [
        record(0),
        mk_failed(record(1), WriteStatus::Code(409), "conflict"),
        failed(403, "no"),
        failed(500, "broken"),
        record(3),
    ];
    let expected = "deleted 2 objects of Deployment shop/web (owner deleted) in 0 ms, 5 requests";
    assert_eq!(lines_of(records), [expected]);
    assert!(lines_of([failed(403, "no")]).is_empty());
}

#[test]
fn a_cascade_is_one_line_about_its_root() {
    let set = mk_object("ReplicaSet", "web-1");
    let mut records = vec![mk_record(10, "OwnerAbsent", set.clone(), web())];
    records[0].ms = 10;
    for number in 0..213 {
        records.push(mk_record(80, "OwnerAbsent", pod(number), Some(set.clone())));
    }
    let expected =
        "deleted 214 objects of Deployment shop/web (owner deleted) in 80 ms, 214 requests";
    assert_eq!(lines_of(records), [expected]);
}

#[test]
fn other_controllers_are_grouped_by_reason() {
    let expired = |name: &str| mk_other("delete", "Expired", mk_object("Job", name), None);
    let after_read = Evidence {
        requests: 2,
        ..expired("1")
    };
    let aborted = mk_other("delete", "AbortedLongAgo", mk_object("Job", "2"), None);
    let mut lines = lines_of([expired("0"), after_read, aborted]);
    lines.sort_unstable();
    let expected = [
        "deleted 2 Jobs (TTL expired) in 0 ms, 3 requests",
        "deleted Job shop/2 (aborted long ago) in 0 ms, 1 request",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn created_jobs_share_a_line_and_status_updates_are_only_counted() {
    let cron = mk_object("CronJob", "nightly");
    let update = || mk_other("patch", "RecordsStatus", cron.clone(), None);
    let tick = |number: usize| {
        let job = mk_object("Job", &format!("nightly-{number}"));
        let create = mk_other("create", "SlotCame", job, Some(cron.clone()));
        [create, update()]
    };
    let one = "created Job shop/nightly-1 of CronJob shop/nightly in 0 ms, 2 requests";
    assert_eq!(lines_of(tick(1)), [one]);
    let two = "created 2 Jobs in 0 ms, 4 requests";
    assert_eq!(lines_of(tick(1).into_iter().chain(tick(2))), [two]);
    assert_eq!(lines_of([update()]), [""; 0]);
}

#[test]
fn a_mark_before_a_delete_is_not_repeated() {
    let node = ObjectIdentity {
        kind: "Node".into(),
        name: "n".into(),
        ..ObjectIdentity::default()
    };
    let write = |verb, number| mk_other(verb, "NodeGone", pod(number), Some(node.clone()));
    let both = |number| vec![write("patch", number), write("delete", number)];
    let held_back = Evidence {
        status: WriteStatus::DryRun,
        done: false,
        ..write("patch", 1)
    };
    let cases = [
        (
            both(1),
            "deleted Pod shop/web-1 of Node n (Node gone) in 0 ms, 2 requests",
        ),
        (
            [both(1), both(2)].concat(),
            "deleted 2 Pods (Node gone) in 0 ms, 4 requests",
        ),
        (
            vec![write("patch", 1), write("patch", 2)],
            "marked 2 Pods (Node gone) in 0 ms, 2 requests",
        ),
        (
            vec![held_back],
            "would mark Pod shop/web-1 of Node n (Node gone)",
        ),
    ];
    for (records, expected) in cases {
        assert_eq!(lines_of(records), [expected]);
    }
}

#[test]
fn each_action_has_its_verb() {
    let writes = |rule: &'static str, count: usize| {
        (0..count).map(move |number| mk_record(0, rule, pod(number), web()))
    };
    let release = || mk_record(0, "DependentsGone", web().unwrap(), None);
    let cases: Vec<(Vec<Evidence>, &str)> = vec![
        (
            writes("OwnerAbsent", 1).collect(),
            "deleted Pod shop/web-0 of Deployment shop/web (owner deleted) in 0 ms, 1 request",
        ),
        (
            writes("Orphaned", 3).collect(),
            "orphaned 3 objects of Deployment shop/web in 0 ms, 3 requests",
        ),
        (
            writes("LosesOwners", 1).collect(),
            "detached Pod shop/web-0 of Deployment shop/web (other owners remain) in 0 ms, 1 request",
        ),
        (
            writes("Ring", 2).collect(),
            "unblocked 2 objects of Deployment shop/web in 0 ms, 2 requests",
        ),
        (
            vec![release()],
            "released Deployment shop/web in 0 ms, 1 request",
        ),
        (
            writes("Orphaned", 2).chain([release()]).collect(),
            "orphaned 2 objects of Deployment shop/web in 0 ms, 3 requests",
        ),
        (
            writes("OwnerAbsent", 4)
                .chain(writes("LosesOwners", 2))
                .collect(),
            "deleted 4 objects of Deployment shop/web (owner deleted), detached 2 (other owners remain) in 0 ms, 6 requests",
        ),
        (
            vec![mk_record(0, "OwnerAbsent", mk_object("Job", "once"), None)],
            "deleted Job shop/once (owner deleted) in 0 ms, 1 request",
        ),
    ];
    for (records, expected) in cases {
        assert_eq!(lines_of(records), [expected]);
    }
}

#[test]
fn a_dry_run_has_its_own_line() {
    let held_back = |rule, number| Evidence {
        status: WriteStatus::DryRun,
        done: false,
        ..mk_record(0, rule, pod(number), web())
    };
    let records = [
        held_back("OwnerAbsent", 0),
        held_back("OwnerAbsent", 1),
        held_back("Orphaned", 2),
        mk_record(0, "OwnerAbsent", pod(3), web()),
    ];
    let expected = [
        "deleted Pod shop/web-3 of Deployment shop/web (owner deleted) in 0 ms, 1 request",
        "would delete 2 objects of Deployment shop/web (owner deleted), would orphan Pod shop/web-2",
    ];
    assert_eq!(lines_of(records), expected);
}

#[test]
fn lines_come_in_the_order_in_which_their_groups_began() {
    let other = || Some(mk_object("Deployment", "api"));
    let records = [
        mk_record(20, "OwnerAbsent", pod(1), web()),
        mk_record(10, "OwnerAbsent", pod(2), other()),
        mk_record(30, "OwnerAbsent", pod(3), other()),
    ];
    let lines = lines_of(records);
    assert_eq!(lines.len(), 2);
    let first = "deleted 2 objects of Deployment shop/api";
    assert!(lines[0].starts_with(first), "{lines:?}");
    assert!(lines[1].starts_with("deleted Pod shop/web-1"), "{lines:?}");
}

#[test]
fn a_group_is_printed_when_it_is_idle_or_takes_long() {
    let mut summary = ActionSummary::default();
    let nothing = Vec::<String>::new();
    add(&mut summary, &mk_record(0, "OwnerAbsent", pod(0), web()));
    assert_eq!(summary.due(), Some(steady(500)));
    assert_eq!(summary.take_due(steady(499)), nothing);
    for number in 1..=25 {
        let millis = 200 * i64::try_from(number).unwrap();
        add(
            &mut summary,
            &mk_record(millis, "OwnerAbsent", pod(number), web()),
        );
        assert!(millis == 5_000 || summary.take_due(steady(millis)).is_empty());
    }
    assert_eq!(summary.due(), Some(steady(5_000)));
    let so_far =
        "deleted 26 objects of Deployment shop/web (owner deleted) so far in 5.0 s, 26 requests";
    assert_eq!(summary.take_due(steady(5_000)), [so_far]);
    add(
        &mut summary,
        &mk_record(5_100, "OwnerAbsent", pod(26), web()),
    );
    assert_eq!(summary.due(), Some(steady(5_600)));
    assert_eq!(summary.take_due(steady(5_599)), nothing);
    let all = "deleted 27 objects of Deployment shop/web (owner deleted) in 5.1 s, 27 requests";
    assert_eq!(summary.take_due(steady(5_600)), [all]);
    assert_eq!(
        (summary.due(), summary.take_due(steady(60_000))),
        (None, nothing)
    );
}

#[test]
fn a_clock_that_is_set_back_delays_no_line() {
    let mut summary = ActionSummary::default();
    summary.add(&mk_record(0, "OwnerAbsent", pod(0), web()), steady(0));
    let hour = 3_600_000;
    let back = mk_record(100 - hour, "OwnerAbsent", pod(1), web());
    summary.add(&back, steady(100));
    assert_eq!(summary.due(), Some(steady(600)));
    let line = "deleted 2 objects of Deployment shop/web (owner deleted) in 100 ms, 2 requests";
    assert_eq!(summary.take_due(steady(600)), [line]);
}

#[test]
fn a_cycle_of_owners_ends() {
    let (a, b) = (mk_object("A", "a"), mk_object("B", "b"));
    let records = [
        mk_record(0, "OwnerAbsent", b.clone(), Some(a.clone())),
        mk_record(0, "OwnerAbsent", a.clone(), Some(b.clone())),
        mk_record(0, "OwnerAbsent", b, Some(a)),
    ];
    let expected = "deleted 3 objects of A shop/a (owner deleted) in 0 ms, 3 requests";
    assert_eq!(lines_of(records), [expected]);
}

#[test]
fn memory_is_bounded_and_evicted_groups_are_printed() {
    let mut summary = ActionSummary::default();
    let mut lines = Vec::new();
    for number in 0..ROOTS_MAX + 100 {
        // First one owner each, then one for all.
        let owner = mk_object("ReplicaSet", &number.min(GROUPS_MAX + 10).to_string());
        let millis = i64::try_from(number).unwrap();
        let mut record = mk_record(millis, "OwnerAbsent", pod(number), Some(owner));
        if number % 2 == 0 {
            record = mk_failed(record, WriteStatus::Code(403), "no");
        }
        lines.extend(add(&mut summary, &record));
    }
    assert_eq!(summary.groups.len(), GROUPS_MAX);
    assert_eq!(summary.roots.entries.len(), ROOTS_MAX);
    assert_eq!(summary.roots.order.len(), ROOTS_MAX);
    // The oldest group with a line is evicted first.
    let first = lines.iter().find(|line| line.starts_with("deleted"));
    let expected = "deleted Pod shop/web-1 of ReplicaSet shop/1 ";
    assert!(first.unwrap().starts_with(expected), "{first:?}");
}

#[test]
fn durations_are_rounded_for_readers() {
    for (millis, text) in [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_723_000, "62 min 3 s"),
    ] {
        assert_eq!(elapsed(Duration::from_millis(millis)), text);
    }
}
