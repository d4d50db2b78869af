//! Stories as tables: what was heard, and what is told.

use jiff::SignedDuration;

use super::*;

const START: &str = "2026-03-01T12:00:00Z";

fn at(millis: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start + SignedDuration::from_millis(millis)
}

/// `Deployment shop/web`, whose uid is its name.
fn mk_object(kind: &str, name: &str) -> Identity {
    Identity {
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("{kind}-{name}"),
        ..Identity::default()
    }
}

fn mk_fact(millis: i64, deed: Deed, object: Identity, cause: Option<Identity>) -> Fact {
    Fact {
        at: at(millis),
        took: Duration::ZERO,
        controller: "garbage-collector-controller",
        deed,
        object,
        cause,
        why: "owner deleted",
        alike: false,
        outcome: Outcome::Done,
    }
}

fn pod(number: usize) -> Identity {
    mk_object("Pod", &format!("web-{number}"))
}

fn web() -> Option<Identity> {
    Some(mk_object("Deployment", "web"))
}

fn failed(status: u16, message: &str) -> Outcome {
    Outcome::Failed {
        status: Some(status),
        message: message.into(),
    }
}

/// Hears everything and tells it when all is quiet.
fn story(facts: impl IntoIterator<Item = Fact>) -> Vec<String> {
    let mut narrator = Narrator::default();
    let mut lines = Vec::new();
    for fact in facts {
        lines.extend(narrator.hear(fact));
    }
    lines.extend(narrator.finish());
    assert_eq!(narrator.due(), None);
    lines
}

#[test]
fn a_cascade_is_one_line_about_what_began_it() {
    let set = mk_object("ReplicaSet", "web-1");
    let mut facts = vec![mk_fact(10, Deed::Collect, set.clone(), web())];
    facts[0].took = Duration::from_millis(10);
    for number in 0..213 {
        facts.push(mk_fact(80, Deed::Collect, pod(number), Some(set.clone())));
    }
    let expected =
        "collected 214 objects of Deployment shop/web (owner deleted) in 80 ms, 214 requests";
    assert_eq!(story(facts), [expected]);
}

#[test]
fn what_goes_for_itself_is_told_with_its_likes() {
    let swept = |number: usize, why| Fact {
        why,
        alike: true,
        ..mk_fact(0, Deed::Sweep, mk_object("Job", &number.to_string()), None)
    };
    let look = Fact {
        deed: Deed::Look,
        ..swept(1, "TTL is over")
    };
    let facts = [
        swept(0, "TTL is over"),
        look,
        swept(1, "TTL is over"),
        swept(2, "aborted"),
    ];
    let expected = [
        "deleted 2 Jobs (TTL is over) in 0 ms, 3 requests",
        "deleted Job shop/2 (aborted) in 0 ms, 1 request",
    ];
    let mut told = story(facts);
    told.sort_unstable();
    assert_eq!(told, expected);
}

#[test]
fn what_is_started_is_told_together_and_records_are_only_counted() {
    let cron = mk_object("CronJob", "nightly");
    let fact = |deed, object, cause| Fact {
        why: "",
        alike: true,
        ..mk_fact(0, deed, object, cause)
    };
    let tick = |number: usize| {
        let job = mk_object("Job", &format!("nightly-{number}"));
        [
            fact(Deed::Start, job, Some(cron.clone())),
            fact(Deed::Record, cron.clone(), None),
        ]
    };
    let one = "started Job shop/nightly-1 of CronJob shop/nightly in 0 ms, 2 requests";
    assert_eq!(story(tick(1)), [one]);
    let two = "started 2 Jobs in 0 ms, 4 requests";
    assert_eq!(story(tick(1).into_iter().chain(tick(2))), [two]);
    let record = fact(Deed::Record, cron.clone(), None);
    assert_eq!(story([record]), [""; 0]);
}

#[test]
fn what_is_marked_before_it_goes_is_told_once() {
    let node = Identity {
        kind: "Node".into(),
        name: "n".into(),
        ..Identity::default()
    };
    let fact = |deed, number: usize| Fact {
        why: "Node gone",
        alike: true,
        ..mk_fact(0, deed, pod(number), Some(node.clone()))
    };
    let both = |number| [fact(Deed::Mark, number), fact(Deed::Sweep, number)];
    let cases: [(Vec<Fact>, &str); 4] = [
        (
            both(1).to_vec(),
            "deleted Pod shop/web-1 of Node n (Node gone) in 0 ms, 2 requests",
        ),
        (
            [both(1), both(2)].concat(),
            "deleted 2 Pods (Node gone) in 0 ms, 4 requests",
        ),
        (
            vec![fact(Deed::Mark, 1), fact(Deed::Mark, 2)],
            "marked 2 Pods (Node gone) in 0 ms, 2 requests",
        ),
        (
            vec![Fact {
                outcome: Outcome::Rehearsed,
                ..fact(Deed::Mark, 1)
            }],
            "would mark Pod shop/web-1 of Node n (Node gone)",
        ),
    ];
    for (facts, expected) in cases {
        assert_eq!(story(facts), [expected]);
    }
}

#[test]
fn each_deed_has_its_words() {
    let deed = |deed, count: usize| (0..count).map(move |n| mk_fact(0, deed, pod(n), web()));
    let release = || mk_fact(0, Deed::Release, web().unwrap(), None);
    let cases: Vec<(Vec<Fact>, &str)> = vec![
        (
            deed(Deed::Collect, 1).collect(),
            "collected Pod shop/web-0 of Deployment shop/web (owner deleted) in 0 ms, 1 request",
        ),
        (
            deed(Deed::Orphan, 3).collect(),
            "kept 3 objects of Deployment shop/web (orphaned) in 0 ms, 3 requests",
        ),
        (
            deed(Deed::Detach, 1).collect(),
            "kept Pod shop/web-0 of Deployment shop/web (it has other owners) in 0 ms, 1 request",
        ),
        (
            deed(Deed::Unblock, 2).collect(),
            "unblocked 2 objects of Deployment shop/web in 0 ms, 2 requests",
        ),
        (
            vec![release()],
            "released Deployment shop/web in 0 ms, 1 request",
        ),
        (
            deed(Deed::Orphan, 2).chain([release()]).collect(),
            "kept 2 objects of Deployment shop/web (orphaned) in 0 ms, 3 requests",
        ),
        (
            deed(Deed::Collect, 4)
                .chain(deed(Deed::Detach, 2))
                .chain(deed(Deed::Look, 1))
                .collect(),
            "collected 4 objects of Deployment shop/web (owner deleted), kept 2 (it has other owners) in 0 ms, 7 requests",
        ),
        (
            vec![mk_fact(0, Deed::Collect, mk_object("Job", "once"), None)],
            "collected Job shop/once (owner deleted) in 0 ms, 1 request",
        ),
    ];
    for (facts, expected) in cases {
        assert_eq!(story(facts), [expected]);
    }
    assert_eq!(story(deed(Deed::Look, 5)), Vec::<String>::new());
}

#[test]
fn what_did_not_happen_is_not_counted_as_done() {
    let with = |number, outcome| Fact {
        outcome,
        ..mk_fact(0, Deed::Collect, pod(number), web())
    };
    let facts = [
        with(0, Outcome::Done),
        with(1, Outcome::Moot),
        with(2, failed(403, "no\nreally")),
        with(2, failed(403, "still no")),
        with(2, failed(500, "broken")),
        with(3, Outcome::Done),
    ];
    let expected = [
        "cannot delete Pod shop/web-2: 403: no",
        "cannot delete Pod shop/web-2: 500: broken",
        "collected 2 objects of Deployment shop/web (owner deleted) in 0 ms, 6 requests",
    ];
    assert_eq!(story(facts), expected);
    let unreached = Outcome::Failed {
        status: None,
        message: "x".repeat(2 * MESSAGE_CHARS_MAX),
    };
    let patch = Fact {
        outcome: unreached,
        ..mk_fact(0, Deed::Orphan, pod(0), web())
    };
    let lines = story([patch]);
    assert_eq!(lines.len(), 1);
    assert_eq!(
        lines[0].len(),
        "cannot change Pod shop/web-0: ".len() + MESSAGE_CHARS_MAX
    );
}

#[test]
fn a_rehearsal_is_told_as_one_and_apart_from_deeds() {
    let rehearsed = |deed, number| Fact {
        outcome: Outcome::Rehearsed,
        ..mk_fact(0, deed, pod(number), web())
    };
    let facts = [
        rehearsed(Deed::Collect, 0),
        rehearsed(Deed::Collect, 1),
        rehearsed(Deed::Orphan, 2),
        mk_fact(0, Deed::Collect, pod(3), web()),
    ];
    let expected = [
        "collected Pod shop/web-3 of Deployment shop/web (owner deleted) in 0 ms, 1 request",
        "would collect 2 objects of Deployment shop/web (owner deleted), would keep Pod shop/web-2 (orphaned)",
    ];
    assert_eq!(story(facts), expected);
}

#[test]
fn stories_are_told_apart_and_in_the_order_they_began() {
    let other = || Some(mk_object("Deployment", "api"));
    let facts = [
        mk_fact(20, Deed::Collect, pod(1), web()),
        mk_fact(10, Deed::Collect, pod(2), other()),
        mk_fact(30, Deed::Collect, pod(3), other()),
    ];
    let lines = story(facts);
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("collected 2 objects of Deployment shop/api"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("collected Pod shop/web-1"),
        "{lines:?}"
    );
}

#[test]
fn a_group_is_told_when_it_is_quiet_or_takes_long() {
    let mut narrator = Narrator::default();
    let nothing = Vec::<String>::new();
    narrator.hear(mk_fact(0, Deed::Collect, pod(0), web()));
    assert_eq!(narrator.due(), Some(at(500)));
    assert_eq!(narrator.tell(at(499)), nothing);
    for number in 1..=25 {
        let millis = 200 * i64::try_from(number).unwrap();
        narrator.hear(mk_fact(millis, Deed::Collect, pod(number), web()));
        assert!(millis == 5_000 || narrator.tell(at(millis)).is_empty());
    }
    assert_eq!(narrator.due(), Some(at(5_000)));
    let so_far =
        "collected 26 objects of Deployment shop/web (owner deleted) so far, in 5.0 s, 26 requests";
    assert_eq!(narrator.tell(at(5_000)), [so_far]);
    narrator.hear(mk_fact(5_100, Deed::Collect, pod(26), web()));
    assert_eq!(narrator.due(), Some(at(5_600)));
    assert_eq!(narrator.tell(at(5_599)), nothing);
    let all = "collected 27 objects of Deployment shop/web (owner deleted) in 5.1 s, 27 requests";
    assert_eq!(narrator.tell(at(5_600)), [all]);
    assert_eq!((narrator.due(), narrator.tell(at(60_000))), (None, nothing));
}

#[test]
fn a_ring_has_an_end() {
    let (a, b) = (mk_object("A", "a"), mk_object("B", "b"));
    let facts = [
        mk_fact(0, Deed::Collect, b.clone(), Some(a.clone())),
        mk_fact(0, Deed::Collect, a.clone(), Some(b.clone())),
        mk_fact(0, Deed::Collect, b, Some(a)),
    ];
    let lines = story(facts);
    assert_eq!(
        lines,
        ["collected 3 objects of A shop/a (owner deleted) in 0 ms, 3 requests"]
    );
}

#[test]
fn memory_is_bounded_and_overflow_is_told_early() {
    let mut narrator = Narrator::default();
    let mut lines = Vec::new();
    for number in 0..ROOTS_MAX + 100 {
        // First one owner each, then one for all.
        let owner = mk_object("ReplicaSet", &number.min(GROUPS_MAX + 10).to_string());
        let millis = i64::try_from(number).unwrap();
        let mut fact = mk_fact(millis, Deed::Collect, pod(number), Some(owner));
        if number % 2 == 0 {
            fact.outcome = failed(403, "no");
        }
        lines.extend(narrator.hear(fact));
    }
    assert_eq!(narrator.groups.len(), GROUPS_MAX);
    assert_eq!(narrator.roots.entries.len(), ROOTS_MAX);
    assert_eq!(narrator.roots.order.len(), ROOTS_MAX);
    assert_eq!(narrator.failures.entries.len(), FAILURES_MAX);
    // The first to go was the oldest that had something to tell.
    let first = lines
        .iter()
        .find(|line| line.starts_with("collected"))
        .unwrap();
    assert!(
        first.starts_with("collected Pod shop/web-1 of ReplicaSet shop/1 "),
        "{first}"
    );
}

#[test]
fn time_is_told_as_people_read_it() {
    for (millis, text) in [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_723_000, "62 min 3 s"),
    ] {
        assert_eq!(elapsed(at(0), at(millis)), text);
    }
}
