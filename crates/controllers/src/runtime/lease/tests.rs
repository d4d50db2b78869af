//! Elections on a Lease in memory, with the times of upstream's defaults.

use super::*;

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

/// The Lease as a server stores it.
#[derive(Default)]
struct StoredLease {
    object: Option<Value>,
    version: u64,
    /// Answers of the server that are not about the Lease.
    refusal: Option<&'static str>,
}

struct Replica {
    election: LeaseElection,
    requests: Vec<&'static str>,
}

impl StoredLease {
    fn answer(&mut self, request: &LeaseRequest) -> LeaseAnswer {
        if let Some(refusal) = self.refusal {
            return LeaseAnswer::Failed(refusal.to_owned());
        }
        match (request, &self.object) {
            (LeaseRequest::Read, Some(object)) => LeaseAnswer::Lease(object.clone()),
            (LeaseRequest::Create(_), Some(_)) => LeaseAnswer::Failed("409: exists".to_owned()),
            (LeaseRequest::Read | LeaseRequest::Replace(_), None) => LeaseAnswer::Missing,
            (LeaseRequest::Replace(lease), Some(stored))
                if lease["metadata"]["resourceVersion"]
                    != stored["metadata"]["resourceVersion"] =>
            {
                LeaseAnswer::Failed("409: changed".to_owned())
            }
            (LeaseRequest::Create(lease) | LeaseRequest::Replace(lease), _) => {
                LeaseAnswer::Lease(self.store(lease.clone()))
            }
        }
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.object = Some(lease.clone());
        lease
    }

    fn spec(&self, field: &str) -> Value {
        let object = self.object.as_ref();
        object.map_or(Value::Null, |lease| lease["spec"][field].clone())
    }
}

impl Replica {
    fn new(identity: &str) -> Self {
        let name = LeaseName {
            namespace: "kube-system".to_owned(),
            name: "caretaker".to_owned(),
            identity: identity.to_owned(),
        };
        Self {
            election: LeaseElection::new(name, LeaseTimes::default(), Rng::seeded(7)),
            requests: Vec::new(),
        }
    }

    /// One attempt, whose requests take no time. Returns whether the replica leads.
    fn attempt(&mut self, stored: &mut StoredLease, at: Instant) -> bool {
        self.requests.clear();
        // The wall clock of each renewal differs, as on a real server.
        let wall = Timestamp::from_second(i64::try_from(stored.version).unwrap()).unwrap();
        let mut next = Some(self.election.begin(at, wall));
        while let Some(request) = next {
            self.requests.push(match request {
                LeaseRequest::Read => "read",
                LeaseRequest::Create(_) => "create",
                LeaseRequest::Replace(_) => "replace",
            });
            let answer = stored.answer(&request);
            next = self.election.answered(&request, answer, [at, at], wall);
        }
        self.election.is_leader(at)
    }

    fn state(&self, at: Instant) -> (&'static str, String) {
        let state = self.election.state(at);
        let word = match state {
            HoldState::PassUntil(_) | HoldState::Pass => "leads",
            HoldState::Standby(_) => "standby",
            HoldState::Wait(_) | HoldState::Record(_) => "trouble",
        };
        (word, state.reason().unwrap_or_default().to_owned())
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_replicas_leads_until_it_stops_renewing() {
    let (mut stored, start) = (StoredLease::default(), Instant::now());
    let (mut one, mut two) = (Replica::new("one"), Replica::new("two"));
    assert!(one.attempt(&mut stored, start));
    assert_eq!(one.requests, ["read", "create"]);
    assert!(!two.attempt(&mut stored, start));
    let (word, why) = two.state(start);
    assert_eq!(word, "standby");
    assert_eq!(why, "one leads: it holds the Lease kube-system/caretaker");
    for step in 1..=10 {
        let at = start + secs(2 * step);
        assert!(one.attempt(&mut stored, at) && !two.attempt(&mut stored, at));
        assert_eq!(one.requests, ["replace"]);
    }
    let last = start + secs(20);
    // The leader stops before another replica can start.
    assert!(one.election.is_leader(last + secs(9)));
    assert!(!one.election.is_leader(last + secs(10)));
    assert!(!two.attempt(&mut stored, last + secs(14)));
    assert!(two.attempt(&mut stored, last + secs(15)));
    assert_eq!(stored.spec("leaseTransitions"), 1);
    // The old leader comes back and finds another one.
    assert!(!one.attempt(&mut stored, last + secs(16)));
    assert_eq!(one.state(last + secs(16)).0, "standby");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let (mut stored, start) = (StoredLease::default(), Instant::now());
    let (mut one, mut two) = (Replica::new("one"), Replica::new("two"));
    assert!(one.attempt(&mut stored, start) && !two.attempt(&mut stored, start));
    let released = one.election.release(start, WALL).unwrap();
    assert!(!one.election.is_leader(start));
    stored.answer(&released);
    assert_eq!(stored.spec("holderIdentity"), "");
    assert_eq!(stored.spec("leaseDurationSeconds"), 1);
    assert!(two.attempt(&mut stored, start));
    // A replica that does not lead releases nothing.
    assert_eq!(one.election.release(start, WALL), None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_through_short_trouble() {
    let (mut stored, start) = (StoredLease::default(), Instant::now());
    let mut one = Replica::new("one");
    assert!(one.attempt(&mut stored, start));
    stored.refusal = Some("503: away");
    for (at, leads) in [(2, true), (9, true), (10, false)] {
        assert_eq!(one.attempt(&mut stored, start + secs(at)), leads, "{at}");
    }
    let (word, why) = one.state(start + secs(10));
    assert_eq!(word, "trouble");
    assert!(why.contains("503: away"), "{why}");
    stored.refusal = None;
    assert!(one.attempt(&mut stored, start + secs(12)));
    assert_eq!(stored.spec("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_users_change_is_read_again() {
    let (mut stored, start) = (StoredLease::default(), Instant::now());
    let mut one = Replica::new("one");
    assert!(one.attempt(&mut stored, start));
    // A label of a user is kept.
    let mut edited = stored.object.clone().unwrap();
    edited["metadata"]["labels"] = json!({"a": "b"});
    stored.store(edited);
    assert!(one.attempt(&mut stored, start + secs(2)));
    assert_eq!(one.requests, ["replace", "read", "replace"]);
    assert_eq!(
        stored.object.as_ref().unwrap()["metadata"]["labels"]["a"],
        "b"
    );
    // Deleted.
    stored.object = None;
    assert!(one.attempt(&mut stored, start + secs(4)));
    assert_eq!(one.requests, ["replace", "read", "create"]);
    // Given to another program.
    let mut stolen = stored.object.clone().unwrap();
    stolen["spec"]["holderIdentity"] = json!("other");
    stored.store(stolen);
    assert!(!one.attempt(&mut stored, start + secs(6)));
    assert_eq!(one.state(start + secs(6)).0, "standby");
}

#[tokio::test(start_paused = true)]
async fn absurd_leases_neither_break_nor_last_for_ever() {
    for (spec, taken_after) in [
        (json!({"holderIdentity": "other"}), Some(15)),
        (
            json!({"holderIdentity": "other", "leaseDurationSeconds": 0}),
            Some(15),
        ),
        (
            json!({"holderIdentity": "other", "leaseDurationSeconds": -5}),
            Some(15),
        ),
        (
            json!({"holderIdentity": "other", "leaseDurationSeconds": 40, "renewTime": "2999-01-01T00:00:00Z"}),
            Some(40),
        ),
        (
            json!({"holderIdentity": "other", "leaseDurationSeconds": i64::MAX}),
            None,
        ),
        (
            json!({"holderIdentity": "", "leaseDurationSeconds": 9}),
            Some(0),
        ),
        (json!({"holderIdentity": null}), Some(0)),
        // Not a spec at all.
        (json!({"holderIdentity": 7}), Some(0)),
        (json!(null), Some(0)),
    ] {
        let (mut stored, start) = (StoredLease::default(), Instant::now());
        stored.store(json!({"metadata": {"name": "caretaker"}, "spec": spec}));
        let mut one = Replica::new("one");
        let taken = (0..100).find(|at| one.attempt(&mut stored, start + secs(*at)));
        assert_eq!(taken, taken_after, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_tries_soon_after_the_lease_has_run_out() {
    let (mut stored, start) = (StoredLease::default(), Instant::now());
    let (mut one, mut two) = (Replica::new("one"), Replica::new("two"));
    one.attempt(&mut stored, start);
    assert_eq!(one.election.next_attempt(start), start + secs(2));
    two.attempt(&mut stored, start);
    for (at, earliest, latest) in [
        (0, 2_000, 4_400),
        (14, 15_000, 16_000),
        (15, 17_000, 19_400),
    ] {
        for _ in 0..50 {
            let next = two.election.next_attempt(start + secs(at)) - start;
            let range = Duration::from_millis(earliest)..=Duration::from_millis(latest);
            assert!(range.contains(&next), "{at}: {next:?}");
        }
    }
}

#[test]
fn times_that_contradict_each_other_are_refused() {
    let times = |lease, renew, retry| LeaseTimes {
        lease: secs(lease),
        renew: secs(renew),
        retry: secs(retry),
    };
    for (times, is_sound) in [
        (LeaseTimes::default(), true),
        (times(60, 40, 5), true),
        (times(10, 10, 2), false),
        (times(15, 2, 2), false),
        (times(15, 10, 0), false),
        (times(0, 0, 0), false),
    ] {
        assert_eq!(times.contradiction().is_none(), is_sound, "{times:?}");
    }
}
