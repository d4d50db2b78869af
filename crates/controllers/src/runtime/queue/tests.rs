//! The queue against tables, and against random orders of events.

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> SteadyTime {
    SteadyTime::at(Timestamp::UNIX_EPOCH).later(MS * u32::try_from(ms).unwrap())
}

fn mk_queue() -> WorkQueue<&'static str> {
    WorkQueue::new(RetryLimits::default())
}

fn pop<K: Clone + Ord>(queue: &mut WorkQueue<K>, ms: u64) -> Option<K> {
    queue.pop(at(ms)).map(|due| due.key)
}

/// Takes out all due keys and ends their processing at once.
fn drain<K: Clone + Ord>(queue: &mut WorkQueue<K>, ms: u64) -> Vec<K> {
    let mut seen = Vec::new();
    while let Some(key) = pop(queue, ms) {
        queue.done(&key, at(ms));
        seen.push(key);
    }
    seen
}

#[test]
fn a_key_is_queued_once_and_in_order() {
    let mut queue = mk_queue();
    for key in ["b", "a", "b", "c", "a"] {
        queue.add(key, at(0));
    }
    assert_eq!(queue.counts().due, 3);
    assert_eq!(drain(&mut queue, 0), ["b", "a", "c"]);
    assert_eq!(queue.counts().adds, 3);
    assert!(queue.entries.is_empty());
}

#[test]
fn a_key_added_while_in_process_is_decided_again_afterwards() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    queue.add("a", at(0));
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), None);
    queue.done(&"a", at(0));
    assert_eq!(drain(&mut queue, 0), ["a"]);
    assert_eq!(queue.counts().adds, 2);
}

#[test]
fn an_add_before_the_decision_causes_no_second_decision() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    queue.add("a", at(0));
    queue.clear_dirty(&"a");
    queue.done(&"a", at(0));
    assert_eq!(pop(&mut queue, 0), None);
}

#[test]
fn a_delay_moves_earlier_and_never_later() {
    let table = [(10, 20, 10), (20, 10, 10), (10, 10, 10)];
    for (first, second, due) in table {
        let mut queue = mk_queue();
        queue.add_at("a", at(first), at(0));
        queue.add_at("a", at(second), at(0));
        assert_eq!(queue.next_due(), Some(at(due)));
        assert_eq!(drain(&mut queue, due - 1), [""; 0]);
        assert_eq!(drain(&mut queue, due), ["a"]);
        assert_eq!(drain(&mut queue, 1000), [""; 0], "{first} {second}");
    }
}

#[test]
fn a_timer_survives_an_earlier_decision() {
    let mut queue = mk_queue();
    queue.add_at("a", at(10), at(0));
    queue.add("a", at(0));
    assert_eq!(drain(&mut queue, 0), ["a"]);
    assert_eq!(drain(&mut queue, 10), ["a"]);
}

#[test]
fn a_cleared_timer_is_not_kept() {
    let mut queue = mk_queue();
    for key in ["a", "b"] {
        queue.add(key, at(0));
        assert_eq!(pop(&mut queue, 0), Some(key));
        queue.add_at(key, at(10_000), at(0));
        queue.done(&key, at(0));
    }
    queue.add("a", at(1));
    assert_eq!(pop(&mut queue, 1), Some("a"));
    queue.clear_timer(&"a");
    queue.done(&"a", at(1));
    assert_eq!(queue.entries.keys().collect::<Vec<_>>(), [&"b"]);
    assert_eq!(queue.delayed.len(), 1);
    // A backoff is no timer of the controller.
    queue.retry(&"b", at(1));
    queue.clear_timer(&"b");
    assert_eq!(drain(&mut queue, 10), ["b"]);
}

#[test]
fn backoffs_double_up_to_the_limit_and_are_forgotten() {
    let mut queue = mk_queue();
    let expected = [
        5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 60_000, 60_000,
    ];
    for ms in expected {
        assert_eq!(queue.retry(&"a", at(0)), MS * ms);
    }
    for _ in 0..100 {
        assert_eq!(queue.retry(&"a", at(0)), RETRY_MAX);
    }
    assert_eq!(queue.counts().retries, 116);
    assert_eq!(queue.retry(&"b", at(0)), MS * 5, "another key's failures");
    queue.reset_backoff(&"a");
    assert_eq!(queue.retry(&"a", at(0)), MS * 5);
}

#[test]
fn a_change_ends_a_backoff_but_not_a_retry_after() {
    let mut queue = mk_queue();
    queue.retry(&"a", at(0));
    queue.add("a", at(1));
    assert_eq!(drain(&mut queue, 1), ["a"]);
    assert_eq!(drain(&mut queue, 1000), [""; 0], "the retry was that one");

    queue.retry_after(&"b", MS * 500, at(1000));
    queue.add("b", at(1001));
    assert_eq!(drain(&mut queue, 1499), [""; 0]);
    assert_eq!(drain(&mut queue, 1500), ["b"]);
    queue.add("b", at(1501));
    assert_eq!(drain(&mut queue, 1501), ["b"]);
}

#[test]
fn changes_do_not_end_an_undisturbed_backoff() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    queue.add("a", at(0));
    queue.retry_undisturbed(&"a", at(0));
    queue.done(&"a", at(0));
    queue.add("a", at(1));
    assert_eq!(drain(&mut queue, 4), [""; 0]);
    assert_eq!(drain(&mut queue, 5), ["a"]);
    assert_eq!(queue.retry(&"a", at(5)), MS * 10, "it was counted once");
}

#[test]
fn retry_after_holds_for_keys_that_were_added_or_delayed_before() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    queue.add("a", at(0));
    queue.add_at("a", at(100), at(0));
    queue.retry_after(&"a", MS * 500, at(0));
    queue.done(&"a", at(0));
    assert_eq!(drain(&mut queue, 499), [""; 0]);
    assert_eq!(drain(&mut queue, 500), ["a"]);
}

#[test]
fn counts_never_decrease() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    queue.add("a", at(0));
    assert_eq!(queue.counts().adds, 2);
    queue.retry_after(&"a", MS * 500, at(0));
    queue.done(&"a", at(0));
    assert_eq!(queue.counts().adds, 2, "it comes later");
}

#[test]
fn a_retry_bucket_can_be_configured() {
    let mut queue = WorkQueue::new(RetryLimits {
        max: Duration::from_secs(1000),
        bucket: Some(RetryBucket {
            qps: 10.0,
            burst: 100,
        }),
    });
    let waits: Vec<_> = (0..120).map(|key| queue.retry(&key, at(0))).collect();
    assert!(waits[..100].iter().all(|wait| *wait == RETRY_MIN));
    assert_eq!(waits[100], MS * 100);
    assert_eq!(waits[119], MS * 2000);
    // Ten seconds later ten tokens per second have come back.
    assert_eq!(queue.retry(&500, at(10_000)), RETRY_MIN);
}

#[test]
fn parked_keys_wait_for_the_key_before_them() {
    let mut queue = mk_queue();
    for key in ["a", "b", "c"] {
        queue.add(key, at(0));
    }
    for key in ["a", "b"] {
        assert_eq!(pop(&mut queue, 0), Some(key));
    }
    assert!(queue.park(&"a", &"owner", at(0)));
    assert!(queue.park(&"b", &"owner", at(0)));
    assert_eq!(queue.counts().parked, 2);
    assert_eq!(pop(&mut queue, 0), Some("owner"), "it has precedence");
    assert_eq!(pop(&mut queue, 0), Some("c"));
    assert_eq!(pop(&mut queue, 0), None, "they wait for the answer");
    queue.release(&"owner", ReleaseCause::Answered, at(1));
    assert_eq!(drain(&mut queue, 1), ["a", "b"]);
}

#[test]
fn parking_behind_a_key_does_not_shorten_its_backoff() {
    let mut queue = mk_queue();
    queue.retry(&"owner", at(0));
    queue.add("a", at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
    assert!(queue.park(&"a", &"owner", at(0)));
    assert_eq!(pop(&mut queue, 4), None);
    assert_eq!(pop(&mut queue, 5), Some("owner"));
    // A timer is no backoff: it may be years away.
    queue.add_at("other", at(1_000_000), at(5));
    queue.add("b", at(5));
    assert_eq!(pop(&mut queue, 5), Some("b"));
    assert!(queue.park(&"b", &"other", at(5)));
    assert_eq!(pop(&mut queue, 5), Some("other"));
}

#[test]
fn a_change_unparks_a_key() {
    let mut queue = mk_queue();
    queue.add("a", at(0));
    pop(&mut queue, 0).unwrap();
    assert!(queue.park(&"a", &"owner", at(0)));
    assert_eq!(pop(&mut queue, 0), Some("owner"));
    queue.add("a", at(1));
    assert_eq!(drain(&mut queue, 1), ["a"]);
    queue.release(&"owner", ReleaseCause::Answered, at(2));
    assert_eq!(drain(&mut queue, 2), [""; 0]);
    assert_eq!(queue.counts().parked, 0);
}

#[test]
fn parking_in_a_circle_is_refused() {
    let mut queue = mk_queue();
    for key in ["a", "b", "c"] {
        queue.add(key, at(0));
        pop(&mut queue, 0).unwrap();
    }
    assert!(!queue.park(&"a", &"a", at(0)), "itself");
    assert!(queue.park(&"a", &"b", at(0)));
    assert!(queue.park(&"b", &"c", at(0)), "a chain is fine");
    assert!(!queue.park(&"c", &"a", at(0)), "a circle is not");
    queue.release(&"c", ReleaseCause::Answered, at(0));
    assert_eq!(pop(&mut queue, 0), Some("b"));
    queue.release(&"b", ReleaseCause::Idle, at(0));
    assert_eq!(pop(&mut queue, 0), Some("a"));
}

#[test]
fn a_key_that_waited_in_vain_is_marked() {
    let mut queue = mk_queue();
    for (why, in_vain) in [
        (ReleaseCause::Idle, Some("owner")),
        (ReleaseCause::Answered, None),
    ] {
        queue.add("a", at(0));
        pop(&mut queue, 0).unwrap();
        assert!(queue.park(&"a", &"owner", at(0)));
        assert_eq!(pop(&mut queue, 0), Some("owner"));
        queue.release(&"owner", why, at(0));
        queue.done(&"owner", at(0));
        let due = queue.pop(at(0)).unwrap();
        assert_eq!((due.key, due.in_vain), ("a", in_vain));
        queue.done(&"a", at(0));
    }
    // If the other key will be decided soon, waiting again is not in vain.
    queue.add("a", at(0));
    pop(&mut queue, 0).unwrap();
    assert!(queue.park(&"a", &"owner", at(0)));
    assert_eq!(pop(&mut queue, 0), Some("owner"));
    queue.retry(&"owner", at(0));
    queue.release(&"owner", ReleaseCause::Idle, at(0));
    queue.done(&"owner", at(0));
    assert_eq!(queue.pop(at(0)).unwrap().in_vain, None);
}

#[test]
fn a_released_group_is_parked_again_together() {
    let mut queue = WorkQueue::new(RetryLimits::default());
    let keys = 1..=1000;
    for key in keys.clone() {
        queue.add(key, at(0));
        pop(&mut queue, 0).unwrap();
    }
    for key in keys.clone() {
        assert!(queue.park(&key, &0, at(0)));
    }
    let mut order = Vec::new();
    // Each answer is good for a hundred of them.
    for round in 0..10 {
        assert_eq!(pop(&mut queue, 0), Some(0), "round {round}");
        queue.release(&0, ReleaseCause::Answered, at(0));
        queue.done(&0, at(0));
        for _ in 0..100 {
            let key = pop(&mut queue, 0).unwrap();
            queue.done(&key, at(0));
            order.push(key);
        }
        if let Some(next) = pop(&mut queue, 0) {
            assert!(queue.park(&next, &0, at(0)));
            assert_eq!(queue.counts().due, 1, "only the one they wait for");
        }
    }
    order.sort_unstable();
    assert!(order.into_iter().eq(keys));
    assert_eq!(queue.counts().parked, 0);
}

#[test]
fn released_keys_and_others_take_turns() {
    let mut queue = mk_queue();
    for key in ["a", "b", "c"] {
        queue.add(key, at(0));
        pop(&mut queue, 0).unwrap();
    }
    for key in ["a", "b", "c"] {
        assert!(queue.park(&key, &"owner", at(0)));
    }
    for key in ["x", "y", "z"] {
        queue.add(key, at(1));
    }
    assert_eq!(pop(&mut queue, 1), Some("owner"));
    queue.release(&"owner", ReleaseCause::Answered, at(2));
    assert_eq!(drain(&mut queue, 2), ["a", "x", "b", "y", "c", "z"]);
}

#[test]
fn oldest_is_the_key_that_is_due_for_longest() {
    let mut queue = mk_queue();
    assert_eq!(queue.oldest(), None);
    queue.add_at("later", at(50), at(0));
    assert_eq!(queue.oldest(), None, "it is not due yet");
    queue.add("a", at(10));
    queue.add("b", at(20));
    assert_eq!(queue.oldest(), Some(at(10)));
    assert_eq!(pop(&mut queue, 30), Some("a"));
    assert_eq!(queue.oldest(), Some(at(20)));
}

#[test]
fn overflowing_times_stop_at_the_maximum() {
    let mut queue = mk_queue();
    queue.retry_after(&"a", Duration::MAX, at(0));
    assert_eq!(queue.next_due(), Some(SteadyTime::at(Timestamp::MAX)));
    assert_eq!(at(0).since(at(10)), Duration::ZERO);
}

#[derive(Debug, Clone)]
enum QueueStep {
    Add(u8),
    AddAt(u8, u64),
    Pop,
    Done(usize),
    Retry(usize),
    RetryAfter(usize, u64),
    Park(usize, u8),
    Release(usize),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = QueueStep> {
    let key = 0..8_u8;
    prop_oneof![
        key.clone().prop_map(QueueStep::Add),
        (key.clone(), 0..100_u64).prop_map(|(key, ms)| QueueStep::AddAt(key, ms)),
        Just(QueueStep::Pop),
        Just(QueueStep::Pop),
        (0..8_usize).prop_map(QueueStep::Done),
        (0..8_usize).prop_map(QueueStep::Retry),
        (0..8_usize, 0..100_u64).prop_map(|(which, ms)| QueueStep::RetryAfter(which, ms)),
        (0..8_usize, key).prop_map(|(which, behind)| QueueStep::Park(which, behind)),
        (0..8_usize).prop_map(QueueStep::Release),
        (0..50_u64).prop_map(QueueStep::Wait),
    ]
}

/// Runs the steps. Every added key must become due, unless it is parked.
fn play(steps: &[QueueStep]) -> WorkQueue<u8> {
    let mut queue = WorkQueue::new(RetryLimits::default());
    let mut busy: Vec<u8> = Vec::new();
    let mut now = 0;
    for step in steps {
        let take = |busy: &mut Vec<u8>, which: usize| {
            (!busy.is_empty()).then(|| busy.remove(which % busy.len()))
        };
        match *step {
            QueueStep::Add(key) => queue.add(key, at(now)),
            QueueStep::AddAt(key, ms) => queue.add_at(key, at(now + ms), at(now)),
            QueueStep::Pop => {
                if let Some(key) = pop(&mut queue, now) {
                    assert!(!busy.contains(&key), "{key} is in process twice");
                    busy.push(key);
                }
            }
            QueueStep::Wait(ms) => now += ms,
            QueueStep::Done(which) | QueueStep::Retry(which) | QueueStep::RetryAfter(which, _) => {
                let Some(key) = take(&mut busy, which) else {
                    continue;
                };
                match *step {
                    QueueStep::Retry(_) => drop(queue.retry(&key, at(now))),
                    QueueStep::RetryAfter(_, ms) => {
                        queue.retry_after(&key, MS * ms as u32, at(now));
                    }
                    _ => queue.reset_backoff(&key),
                }
                queue.done(&key, at(now));
            }
            QueueStep::Park(which, behind) => {
                if let Some(key) = take(&mut busy, which)
                    && !queue.park(&key, &behind, at(now))
                {
                    busy.push(key);
                }
            }
            QueueStep::Release(which) => {
                if let Some(key) = busy.get(which % busy.len().max(1)) {
                    queue.release(key, ReleaseCause::Answered, at(now));
                }
            }
        }
        assert_eq!(queue.in_process(), busy.len());
    }
    for key in busy {
        queue.reset_backoff(&key);
        queue.done(&key, at(now));
    }
    queue
}

proptest! {
    /// After any steps the queue runs empty once all keys are done and none is added. No key is lost: a parked key waits
    /// behind a key that will be decided.
    #[test]
    fn everything_comes_and_nothing_is_left(steps in prop::collection::vec(any_step(), 0..200)) {
        let mut queue = play(&steps);
        for _ in 0..10_000 {
            let Some(key) = pop(&mut queue, 1_000_000) else { break };
            queue.reset_backoff(&key);
            queue.release(&key, ReleaseCause::Idle, at(1_000_000));
            queue.done(&key, at(1_000_000));
        }
        prop_assert!(queue.entries.is_empty(), "{queue:?}");
        prop_assert!(queue.delayed.is_empty() && queue.parked.is_empty() && queue.groups.is_empty());
        prop_assert_eq!((queue.counts().due, queue.counts().parked), (0, 0));
    }
}

#[test]
fn a_forbidden_key_waits_longer_until_its_backoff_is_expired() {
    let mut queue = mk_queue();
    let mut waits = Vec::new();
    for _ in 0..20 {
        queue.add("a", at(0));
        assert_eq!(pop(&mut queue, 0), Some("a"));
        waits.push(queue.retry_forbidden(&"a", at(0)).as_secs());
        queue.done(&"a", at(0));
    }
    assert_eq!(waits[15..], [163, 327, 655, 1_000, 1_000]);
    queue.add_at("timer", at(2_000_000), at(0));
    queue.expire_long_backoffs(at(1));
    assert_eq!(drain(&mut queue, 1), ["a"]);
    assert_eq!(queue.next_due(), Some(at(2_000_000)));
}
