//! Which connection takes the next stream, how many connections are opened at once, and how long the pool pauses between
//! attempts. All functions are pure.

use std::time::Duration;

use caretaker_machinery::rng::Rng;

use super::ConnectionPurpose;

/// Watches per connection before another one is opened: one broken connection should cut a part of the watches only.
const WATCHES_PREFERRED: usize = 32;
/// Connections over which watches are spread. Beyond this, connections are filled up to the server's limit first.
const WATCH_SPREAD: usize = 4;
/// Requests in flight per connection before another one is opened. With fewer, 20 workers are slower on kube-apiserver,
/// because fewer frames share a write; docs/adr/006-http2-pool.md has the figures.
const REQUESTS_PREFERRED: usize = 16;
/// Connections over which requests are spread. One or two are too few for 100 workers.
const REQUEST_SPREAD: usize = 4;
/// Connections that are opened at the same time while the server answers.
const ATTEMPTS_MAX: usize = 8;
/// The first pause after a failed attempt, before jitter, which may double it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause before jitter. A request that waits for the next attempt fails before its own timeout of 30 s.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How the streams of one purpose are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpreadRules {
    /// Streams per connection before another one is opened.
    pub(super) preferred: usize,
    /// Connections beyond which the preference does not count.
    pub(super) spread: usize,
    /// Whether a stream waits for the connection that is opened for it, although another one has room. Watches wait,
    /// because they stay where they begin.
    pub(super) waits: bool,
}

/// The streams of a connection, and the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionLoad {
    pub(super) streams: usize,
    pub(super) limit: usize,
}

/// Where the next stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamPlacement {
    /// To this connection. `opens`: another connection should be opened for later streams.
    Take { index: usize, opens: bool },
    /// To a connection that is yet to be opened.
    Wait,
}

// === impl SpreadRules ===

impl SpreadRules {
    pub(super) const fn of(purpose: ConnectionPurpose) -> Self {
        match purpose {
            ConnectionPurpose::Watches => Self {
                preferred: WATCHES_PREFERRED,
                spread: WATCH_SPREAD,
                waits: true,
            },
            ConnectionPurpose::Requests => Self {
                preferred: REQUESTS_PREFERRED,
                spread: REQUEST_SPREAD,
                waits: false,
            },
            ConnectionPurpose::Lease => Self {
                preferred: usize::MAX,
                spread: 1,
                waits: false,
            },
        }
    }
}

// === impl StreamPlacement ===

impl StreamPlacement {
    pub(super) fn opens(self) -> bool {
        matches!(self, Self::Take { opens: true, .. })
    }
}

/// Chooses the connection with the fewest streams. A full connection is never chosen. After `failures` attempts that
/// failed, streams do not wait for a better spread.
pub(super) fn place(
    loads: impl IntoIterator<Item = ConnectionLoad>,
    rules: &SpreadRules,
    failures: u32,
) -> StreamPlacement {
    let mut count = 0;
    let mut best: Option<(usize, usize)> = None;
    for (index, load) in loads.into_iter().enumerate() {
        count += 1;
        let is_better = best.is_none_or(|(_, streams)| load.streams < streams);
        if load.streams < load.limit && is_better {
            best = Some((index, load.streams));
        }
    }
    let Some((index, streams)) = best else {
        return StreamPlacement::Wait;
    };
    let is_crowded = streams >= rules.preferred && count < rules.spread;
    if is_crowded && rules.waits && failures == 0 {
        return StreamPlacement::Wait;
    }
    StreamPlacement::Take {
        index,
        opens: is_crowded && failures == 0,
    }
}

/// How many connections should be in the process of being opened for the streams that wait, if the next ones have the
/// limit `expected`. One at a time while the server is away.
pub(super) fn attempts_wanted(
    waiting: usize,
    loads: impl IntoIterator<Item = ConnectionLoad>,
    rules: &SpreadRules,
    expected: usize,
    failures: u32,
) -> usize {
    let (mut count, mut room) = (0_usize, 0_usize);
    for load in loads {
        count += 1;
        room = room.saturating_add(load.limit.saturating_sub(load.streams));
    }
    let expected = expected.max(1);
    let preferred = waiting.div_ceil(expected.min(rules.preferred));
    let unspread = rules.spread.saturating_sub(count);
    let wanted = if preferred <= unspread {
        preferred
    } else {
        // Spread as far as it goes: connections are filled up to their limit.
        let left = waiting.saturating_sub(room);
        left.div_ceil(expected).max(unspread)
    };
    let most = if failures > 0 { 1 } else { ATTEMPTS_MAX };
    wanted.clamp(usize::from(waiting > 0), most)
}

/// The pause before the next attempt: none at first, then growing, with jitter.
pub(super) fn pause(failures: u32, rng: &mut Rng) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    let pause = PAUSE_MIN.saturating_mul(1 << doublings.min(10));
    let pause = pause.min(PAUSE_MAX);
    rng.duration(pause..2 * pause)
}

#[cfg(test)]
mod tests {
    use super::StreamPlacement::{Take, Wait};
    use super::*;

    const WATCHES: SpreadRules = SpreadRules {
        preferred: 2,
        spread: 3,
        waits: true,
    };
    const REQUESTS: SpreadRules = SpreadRules {
        waits: false,
        ..WATCHES
    };

    fn take(index: usize) -> StreamPlacement {
        Take {
            index,
            opens: false,
        }
    }

    fn take_and_open(index: usize) -> StreamPlacement {
        Take { index, opens: true }
    }

    #[test]
    fn the_emptiest_connection_with_room_takes_the_stream() {
        // Streams and limits, failures, and the placement of a watch and of a request.
        type Row = (
            &'static [(usize, usize)],
            u32,
            StreamPlacement,
            StreamPlacement,
        );
        let table: &[Row] = &[
            (&[], 0, Wait, Wait),
            (&[], 3, Wait, Wait),
            (&[(0, 100)], 0, take(0), take(0)),
            (&[(1, 100), (0, 100)], 0, take(1), take(1)),
            // Full connections take nothing, whatever the spread.
            (&[(1, 1)], 0, Wait, Wait),
            (&[(1, 1), (1, 1), (1, 1), (1, 1)], 0, Wait, Wait),
            (&[(1, 1), (3, 4)], 1, take(1), take(1)),
            // The server lowered its limit below the streams in flight.
            (&[(5, 3)], 0, Wait, Wait),
            // Crowded: a watch waits for another connection, a request only causes one.
            (&[(2, 100)], 0, Wait, take_and_open(0)),
            (&[(2, 100), (1, 100)], 0, take(1), take(1)),
            (&[(2, 100), (3, 100)], 0, Wait, take_and_open(0)),
            // There is no other connection to wait for.
            (&[(2, 100)], 1, take(0), take(0)),
            // Spread over enough connections: filled evenly.
            (&[(9, 100), (7, 100), (8, 100)], 0, take(1), take(1)),
            (&[(9, 100), (7, 7), (8, 100)], 0, take(2), take(2)),
        ];
        for (loads, failures, watch, request) in table {
            let loads = || {
                let pairs = loads.iter().copied();
                pairs.map(|(streams, limit)| ConnectionLoad { streams, limit })
            };
            assert_eq!(
                place(loads(), &WATCHES, *failures),
                *watch,
                "{loads:?}",
                loads = loads().collect::<Vec<_>>()
            );
            assert_eq!(
                place(loads(), &REQUESTS, *failures),
                *request,
                "{loads:?}",
                loads = loads().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn one_connection_at_a_time_is_tried_while_the_server_is_away() {
        let watches = SpreadRules::of(ConnectionPurpose::Watches);
        let unknown = usize::MAX;
        // Waiting streams, streams of connections with a limit of 100, expected limit and failures.
        type Row = ((usize, &'static [usize], usize, u32), usize);
        let table: &[Row] = &[
            ((0, &[], unknown, 0), 0),
            ((1, &[], unknown, 0), 1),
            ((57, &[], unknown, 0), 2),
            ((550, &[], unknown, 0), WATCH_SPREAD),
            ((150, &[100, 100, 100, 100], 100, 0), 2),
            ((493, &[32, 25], 100, 0), 4),
            ((1, &[32, 32, 32, 32], 100, 0), 1),
            ((57, &[], 1, 0), ATTEMPTS_MAX),
            ((57, &[], 1, 1), 1),
            ((3, &[], 0, 0), 3),
        ];
        for ((waiting, streams, expected, failures), wanted) in table {
            let loads = streams.iter().map(|&streams| ConnectionLoad {
                streams,
                limit: 100,
            });
            let found = attempts_wanted(*waiting, loads, &watches, *expected, *failures);
            assert_eq!(
                found, *wanted,
                "{waiting} {streams:?} {expected} {failures}"
            );
        }
    }

    #[test]
    fn pauses_grow_with_jitter_up_to_a_limit() {
        let mut rng = Rng::seeded(7);
        assert_eq!(pause(0, &mut rng), Duration::ZERO);
        for (failures, least) in [(1, 100), (2, 200), (6, 3200), (7, 5000), (1000, 5000)] {
            let least = Duration::from_millis(least);
            let pauses: Vec<Duration> = (0..20).map(|_| pause(failures, &mut rng)).collect();
            let range = least..2 * least;
            assert!(
                pauses.iter().all(|pause| range.contains(pause)),
                "{pauses:?}"
            );
            assert!(
                pauses.windows(2).any(|pair| pair[0] != pair[1]),
                "no jitter"
            );
        }
    }
}
