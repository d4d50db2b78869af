//! What the looks at one controller manager have shown so far, and what follows from it.
//!
//! A manager counts as active until it has shown no sign of life for two lease durations. The age of the first Lease is
//! compared with the server's `Date`. From then on a renewal is a Lease that differs from the last one, timed by our
//! monotonic clock, so that clocks that differ do no harm; for the same reason an expired Lease is looked at twice. A look
//! without an answer is no permission: what was known is used for one lease duration and not longer.

use std::time::Duration;

use tokio::time::Instant;

use super::PeerStanding;
use super::look::{LeaseFacts, PeerLook};

/// Duration of a Lease that has none, and of one that was released: kube-controller-manager's default.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Longer durations are not waited for.
const LEASE_DURATION_MAX: Duration = Duration::from_secs(600);

/// From the first look at an expired Lease to the second. Managers renew every two seconds.
const CONFIRM_AFTER: Duration = Duration::from_secs(3);

/// Bounds of the time between two looks at a Lease, which is a fifth of its duration.
const LEASE_PERIOD_MIN: Duration = Duration::from_secs(1);
const LEASE_PERIOD_MAX: Duration = CONFIRM_AFTER;

/// The first and the longest pause after a look without an answer; pauses double.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The looks at one manager.
#[derive(Debug)]
pub(super) struct PeerHistory {
    /// The time between two looks at Pods.
    pods_period: Option<Duration>,
    first_answer: Option<Instant>,
    last_answer: Option<Instant>,
    last_sign: Option<LifeSign>,
    /// Looks without an answer since the last answer.
    failures: u32,
    standing: PeerStanding,
}

/// The last sign of life of a manager.
#[derive(Debug)]
struct LifeSign {
    who: String,
    /// The Lease that showed it; `None` for a Pod.
    lease: Option<LeaseFacts>,
    seen: Instant,
    /// The age of the sign when it was seen.
    age: Duration,
    duration: Duration,
}

// === impl PeerHistory ===

impl PeerHistory {
    /// The history of a manager that is detected by its Lease.
    pub(super) fn of_lease() -> Self {
        Self {
            pods_period: None,
            first_answer: None,
            last_answer: None,
            last_sign: None,
            failures: 0,
            standing: PeerStanding::Unknown("it has not been looked for yet".to_owned()),
        }
    }

    /// The history of a manager that is detected by its Pods, which are listed at this interval.
    pub(super) fn of_pods(period: Duration) -> Self {
        Self {
            pods_period: Some(period),
            ..Self::of_lease()
        }
    }

    pub(super) fn standing(&self) -> &PeerStanding {
        &self.standing
    }

    /// The pause before the next look.
    pub(super) fn pause(&self) -> Duration {
        if self.failures > 0 {
            let pause = RETRY_MIN.saturating_mul(1 << (self.failures - 1).min(10));
            return pause.min(RETRY_MAX);
        }
        let duration = self.last_sign.as_ref().map(|sign| sign.duration);
        let by_lease = duration.unwrap_or(LEASE_DURATION) / 5;
        self.pods_period
            .unwrap_or_else(|| by_lease.clamp(LEASE_PERIOD_MIN, LEASE_PERIOD_MAX))
    }

    /// Takes the result of a look.
    pub(super) fn note(&mut self, look: PeerLook, now: Instant) {
        match look {
            PeerLook::Unauthorized(why) => return self.unanswered(why, Duration::ZERO, now),
            PeerLook::Unreachable(why) | PeerLook::Failed(why) => {
                return self.unanswered(why, LEASE_DURATION, now);
            }
            PeerLook::Lease(lease, _) if lease.is_blank() => {}
            PeerLook::Lease(lease, date) => {
                let last = self.last_sign.as_ref().and_then(|sign| sign.lease.as_ref());
                if last != Some(&lease) {
                    let is_first = self.first_answer.is_none();
                    self.last_sign = Some(LifeSign {
                        who: lease.holder.clone(),
                        seen: now,
                        age: if is_first {
                            lease.age(date)
                        } else {
                            Duration::ZERO
                        },
                        duration: lease.duration(),
                        lease: Some(lease),
                    });
                }
            }
            PeerLook::Pod(who) => {
                self.last_sign = Some(LifeSign {
                    who,
                    lease: None,
                    seen: now,
                    age: Duration::ZERO,
                    duration: LEASE_DURATION,
                });
            }
            PeerLook::Missing => {}
            PeerLook::Forbidden(why) => {
                self.answered(now);
                // A manager that was active when it could be seen is presumed active.
                if !matches!(self.standing, PeerStanding::Alive(_)) {
                    self.standing = PeerStanding::Forbidden(why);
                }
                return;
            }
        }
        self.answered(now);
        self.standing = self.judge(now);
    }

    fn answered(&mut self, now: Instant) {
        self.first_answer.get_or_insert(now);
        self.last_answer = Some(now);
        self.failures = 0;
    }

    /// A look had no answer. What is known counts for `grace` after the last answer.
    fn unanswered(&mut self, why: String, grace: Duration, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let is_fresh = self.last_answer.is_some_and(|last| now - last < grace);
        if !is_fresh && !matches!(self.standing, PeerStanding::Alive(_)) {
            self.standing = PeerStanding::Unknown(why);
        }
    }

    fn judge(&self, now: Instant) -> PeerStanding {
        let Some(sign) = &self.last_sign else {
            return PeerStanding::Absent;
        };
        let silent = (now - sign.seen).saturating_add(sign.age);
        if silent < 2 * sign.duration {
            return PeerStanding::Alive(sign.who.clone());
        }
        let watched = self
            .first_answer
            .map_or(Duration::ZERO, |first| now - first);
        if watched < CONFIRM_AFTER {
            let why = "its Lease has expired, and is looked at once more";
            return PeerStanding::Unknown(why.to_owned());
        }
        PeerStanding::Absent
    }
}

// === impl LeaseFacts ===

impl LeaseFacts {
    /// Whether it was never held.
    fn is_blank(&self) -> bool {
        self.holder.is_empty() && self.renewed.is_none()
    }

    /// The time since its renewal, by the server's clock; zero if that is unknown.
    fn age(&self, date: Option<jiff::Timestamp>) -> Duration {
        let age = self
            .renewed
            .zip(date)
            .map(|(renewed, date)| date.duration_since(renewed));
        age.and_then(|age| Duration::try_from(age).ok())
            .unwrap_or_default()
    }

    /// A released Lease has a duration of one second, and the next manager may take it at any time.
    fn duration(&self) -> Duration {
        let secs = self
            .duration_secs
            .filter(|secs| *secs > 0 && !self.holder.is_empty());
        let secs = secs.and_then(|secs| u64::try_from(secs).ok());
        secs.map_or(LEASE_DURATION, Duration::from_secs)
            .min(LEASE_DURATION_MAX)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn mk_lease(holder: &str, renewed: &str) -> PeerLook {
        let date: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let facts = LeaseFacts {
            holder: holder.into(),
            renewed: renewed.parse().ok(),
            duration_secs: Some(15),
        };
        PeerLook::Lease(facts, Some(date))
    }

    fn alive(who: &str) -> PeerStanding {
        PeerStanding::Alive(who.into())
    }

    fn word(standing: &PeerStanding) -> &'static str {
        match standing {
            PeerStanding::Unknown(_) => "unknown",
            PeerStanding::Alive(_) => "alive",
            PeerStanding::Absent => "absent",
            PeerStanding::Forbidden(_) => "forbidden",
        }
    }

    /// Each step: the seconds since the start, the look, and the standing after it.
    fn check(mut history: PeerHistory, steps: Vec<(u64, PeerLook, &str)>) {
        let start = Instant::now();
        for (secs, look, expected) in steps {
            let text = format!("{secs} s: {look:?}");
            history.note(look, start + Duration::from_secs(secs));
            assert_eq!(word(history.standing()), expected, "{text}");
        }
    }

    #[test]
    fn a_manager_is_absent_after_two_durations_without_a_renewal() {
        let old = || mk_lease("a", "2026-03-01T11:59:40Z");
        check(
            PeerHistory::of_lease(),
            vec![
                (0, old(), "alive"),
                (9, old(), "alive"),
                (10, old(), "absent"),
                (13, mk_lease("a", "2026-03-01T12:00:13Z"), "alive"),
                (42, mk_lease("a", "2026-03-01T12:00:13Z"), "alive"),
                (43, mk_lease("a", "2026-03-01T12:00:13Z"), "absent"),
            ],
        );
    }

    #[test]
    fn a_renewal_is_seen_although_the_clocks_differ() {
        // The manager's clock is an hour behind.
        check(
            PeerHistory::of_lease(),
            vec![
                (0, mk_lease("a", "2026-03-01T11:00:00Z"), "unknown"),
                (3, mk_lease("a", "2026-03-01T11:00:03Z"), "alive"),
                (32, mk_lease("a", "2026-03-01T11:00:03Z"), "alive"),
                (33, mk_lease("a", "2026-03-01T11:00:03Z"), "absent"),
            ],
        );
        // An hour ahead.
        let ahead = || mk_lease("a", "2026-03-01T13:00:00Z");
        check(
            PeerHistory::of_lease(),
            vec![
                (0, ahead(), "alive"),
                (29, ahead(), "alive"),
                (30, ahead(), "absent"),
            ],
        );
    }

    #[test]
    fn a_lease_that_is_missing_or_blank_shows_no_manager() {
        let blank = || PeerLook::Lease(LeaseFacts::default(), None);
        check(
            PeerHistory::of_lease(),
            vec![
                (0, PeerLook::Missing, "absent"),
                (3, blank(), "absent"),
                (6, mk_lease("a", "2026-03-01T11:00:00Z"), "alive"),
                // The Lease was deleted: its manager makes a new one.
                (9, PeerLook::Missing, "alive"),
                (36, PeerLook::Missing, "absent"),
            ],
        );
    }

    #[test]
    fn a_released_lease_counts_as_held_for_the_usual_time() {
        let released = || {
            let facts = LeaseFacts {
                duration_secs: Some(1),
                renewed: "2026-03-01T12:00:00Z".parse().ok(),
                holder: String::new(),
            };
            PeerLook::Lease(facts, "2026-03-01T12:00:00Z".parse().ok())
        };
        check(
            PeerHistory::of_lease(),
            vec![
                (0, released(), "alive"),
                (29, released(), "alive"),
                (30, released(), "absent"),
            ],
        );
    }

    #[test]
    fn a_look_without_an_answer_is_no_permission() {
        let unreachable = || PeerLook::Unreachable("refused".into());
        let unauthorized = || PeerLook::Unauthorized("401".into());
        check(
            PeerHistory::of_lease(),
            vec![
                (0, unreachable(), "unknown"),
                (60, unauthorized(), "unknown"),
                (70, PeerLook::Failed("503".into()), "unknown"),
                (80, PeerLook::Missing, "absent"),
                (94, unreachable(), "absent"),
                (95, unreachable(), "unknown"),
                (96, PeerLook::Missing, "absent"),
                (97, unauthorized(), "unknown"),
            ],
        );
        check(
            PeerHistory::of_lease(),
            vec![
                (0, mk_lease("a", "2026-03-01T12:00:00Z"), "alive"),
                (90, unreachable(), "alive"),
                (93, PeerLook::Forbidden("403".into()), "alive"),
                (96, mk_lease("a", "2026-03-01T12:01:36Z"), "alive"),
            ],
        );
        check(
            PeerHistory::of_lease(),
            vec![(0, PeerLook::Forbidden("403".into()), "forbidden")],
        );
    }

    #[test]
    fn pauses_follow_the_lease_and_grow_after_failures() {
        let start = Instant::now();
        let mut history = PeerHistory::of_lease();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            history.note(PeerLook::Unreachable("refused".into()), start);
            pauses.push(history.pause().as_secs_f64());
        }
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]);
        history.note(mk_lease("a", "2026-03-01T12:00:00Z"), start);
        assert_eq!(history.pause(), Duration::from_secs(3));
        let mut history = PeerHistory::of_pods(Duration::from_secs(10));
        history.note(PeerLook::Pod("Pod a/b".into()), start);
        assert_eq!(history.pause(), Duration::from_secs(10));
        assert_eq!(history.standing(), &alive("Pod a/b"));
        history.note(PeerLook::Missing, start + Duration::from_secs(29));
        assert_eq!(history.standing(), &alive("Pod a/b"));
        history.note(PeerLook::Missing, start + Duration::from_secs(30));
        assert_eq!(history.standing(), &PeerStanding::Absent);
    }
}
