//! Whether the API server answers and accepts our credentials, as the looks at other managers show it.
//!
//! The looks never end, so they notice at any time that the server is away or refuses the credentials. Trouble is
//! reported at once, then at growing intervals; health pages read the state.

use std::mem::Discriminant;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::look::PeerLook;

/// From the first report of trouble to the second; the interval doubles.
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(60);
const REPORT_INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// After this time without trouble, trouble is reported at once again.
const GOOD_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerContact {
    /// No request has been answered, and none has failed.
    Unknown,
    Answers,
    /// Requests have had no answer since this time.
    Silent(Timestamp),
    /// Requests have been answered with 401 since this time.
    Unauthorized(Timestamp),
}

/// Turns looks into the state of the contact, and decides what is reported.
pub(super) struct ContactLog {
    server: String,
    state: watch::Sender<ServerContact>,
    interval: Duration,
    /// When trouble was last reported, and which.
    last_report: Option<(Instant, Discriminant<ServerContact>)>,
    /// Whether the current trouble was reported.
    is_reported: bool,
    good_since: Option<Instant>,
}

// === impl ServerContact ===

impl ServerContact {
    /// A sentence about trouble; nothing if the server answers.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::Answers => None,
            Self::Unknown => Some("the API server has not answered yet".to_owned()),
            Self::Silent(since) => Some(format!(
                "the API server has not answered since {since:.0}; the log has the error"
            )),
            Self::Unauthorized(since) => Some(format!(
                "the API server has refused the credentials (401) since {since:.0}"
            )),
        }
    }
}

// === impl ContactLog ===

impl ContactLog {
    pub(super) fn new(server: String) -> Self {
        Self {
            server,
            state: watch::Sender::new(ServerContact::Unknown),
            interval: REPORT_INTERVAL_MIN,
            last_report: None,
            is_reported: false,
            good_since: None,
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ServerContact> {
        self.state.subscribe()
    }

    /// Whether no look has ended yet.
    pub(super) fn is_unknown(&self) -> bool {
        *self.state.borrow() == ServerContact::Unknown
    }

    /// Takes the result of a look. Returns the line to print, if there is one.
    pub(super) fn note(&mut self, look: &PeerLook, now: Timestamp, at: Instant) -> Option<String> {
        let server = &self.server;
        let since = |same: fn(&ServerContact) -> Option<Timestamp>| {
            same(&self.state.borrow()).unwrap_or(now)
        };
        let (next, line) = match look {
            PeerLook::Unreachable(why) => (
                ServerContact::Silent(since(|state| match state {
                    ServerContact::Silent(since) => Some(*since),
                    _ => None,
                })),
                format!("the server {server} does not answer: {why}; retrying"),
            ),
            PeerLook::Unauthorized(why) => (
                ServerContact::Unauthorized(since(|state| match state {
                    ServerContact::Unauthorized(since) => Some(*since),
                    _ => None,
                })),
                format!(
                    "the server {server} refuses the credentials ({why}); retrying: check the user of the kubeconfig"
                ),
            ),
            _ => return self.good(at),
        };
        self.good_since = None;
        let trouble = std::mem::discriminant(&next);
        self.state.send_replace(next);
        match self.last_report {
            Some((last, same)) if same == trouble => {
                if at - last < self.interval {
                    return None;
                }
                self.interval = (self.interval * 2).min(REPORT_INTERVAL_MAX);
            }
            _ => self.interval = REPORT_INTERVAL_MIN,
        }
        self.last_report = Some((at, trouble));
        self.is_reported = true;
        Some(line)
    }

    fn good(&mut self, at: Instant) -> Option<String> {
        self.state.send_if_modified(|state| {
            let is_change = *state != ServerContact::Answers;
            *state = ServerContact::Answers;
            is_change
        });
        let since = *self.good_since.get_or_insert(at);
        if at - since >= GOOD_AFTER {
            self.last_report = None;
        }
        let server = &self.server;
        std::mem::take(&mut self.is_reported).then(|| format!("the server {server} answers again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_reported_at_once_and_then_rarely() {
        let mut log = ContactLog::new("https://a".into());
        let state = log.subscribe();
        let start = Instant::now();
        let mut lines = Vec::new();
        let mut note = |look: &PeerLook, secs: u64| {
            let now = Timestamp::from_second(secs.try_into().unwrap()).unwrap();
            if let Some(line) = log.note(look, now, start + Duration::from_secs(secs)) {
                lines.push((secs, line));
            }
        };
        let refused = PeerLook::Unreachable("connection refused".into());
        for secs in 0..1000 {
            note(&refused, secs);
        }
        let silent = ServerContact::Silent(Timestamp::UNIX_EPOCH);
        assert_eq!(*state.borrow(), silent);
        note(&PeerLook::Missing, 1000);
        assert_eq!(*state.borrow(), ServerContact::Answers);
        note(&PeerLook::Unauthorized("401: Unauthorized".into()), 1001);
        assert!(matches!(*state.borrow(), ServerContact::Unauthorized(_)));
        for secs in 1002..1700 {
            note(&PeerLook::Missing, secs);
        }
        note(&PeerLook::Unauthorized("401: Unauthorized".into()), 1700);
        let times: Vec<u64> = lines.iter().map(|(secs, _)| *secs).collect();
        assert_eq!(
            times,
            [0, 60, 180, 420, 900, 1000, 1001, 1002, 1700],
            "{lines:?}"
        );
        assert!(
            lines[0]
                .1
                .contains("https://a does not answer: connection refused")
        );
        assert!(lines[5].1.contains("answers again"));
        assert!(
            lines[8]
                .1
                .contains("refuses the credentials (401: Unauthorized)")
        );
    }
}
