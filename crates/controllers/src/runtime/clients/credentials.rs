//! The credentials of a cluster's clients, as they are now: the `Authorization` header and the TLS identity.
//!
//! A task reads them again when their files may have changed, before they expire, and when the server refuses them (401).
//! Requests take the last ones that could be read; trouble is logged and retried. A change is a new generation: requests in
//! flight and open watches keep the old one. The sources and their precedence are client-go's, 1.36.
//!
//! DEVIATION(credential-reload): client-go reads certificates every five minutes and closes all connections after a
//! change, reads a kubeconfig once, and returns a 401 although it has a new credential. A refused request has had no effect,
//! and a rotation should cost no relist.

mod loader;
mod plugin;

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use http::HeaderValue;
use jiff::Timestamp;
use kube::Config;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::choice::ClusterChoice;
use super::pool::{HttpVersions, TlsIdentity};
use crate::runtime::report_interval::ReportInterval;
pub use loader::CredentialError;
use loader::{CredentialLoader, LoadCause, LoadedCredential};
pub use plugin::PluginError;

/// From one read after a refusal to the next; the interval doubles while the server refuses.
const RELOAD_INTERVAL_MIN: Duration = Duration::from_secs(5);
const RELOAD_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// After this time without a refusal the interval is the shortest again.
const GOOD_AFTER: Duration = Duration::from_secs(600);

/// The pause after a read that failed. After a plugin that failed it doubles, up to [`RELOAD_INTERVAL_MAX`].
const FAILED_RETRY: Duration = Duration::from_secs(5);
/// The shortest time between two reads that no refusal caused.
const DUE_MIN: Duration = Duration::from_secs(1);

/// Requests that wait for the answer to a refusal; more of them wait to get in.
const REFUSALS_MAX: usize = 64;

/// What a request proves its user with.
pub(super) struct Credential {
    /// Grows with every change.
    pub(super) generation: u64,
    pub(super) authorization: Option<HeaderValue>,
    pub(super) tls: TlsIdentity,
}

/// Credentials that the server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCredentials {
    pub since: Timestamp,
    /// How many times they were read again since.
    pub reloads: u32,
}

/// The current credential. Clones share it; its task ends with the last of them.
#[derive(Clone)]
pub(super) struct CredentialSource {
    current: watch::Receiver<Arc<Credential>>,
    refused: Arc<watch::Sender<Option<RefusedCredentials>>>,
    refusals: mpsc::Sender<CredentialRefusal>,
}

/// A 401 for a credential. The answer is another credential, if there is one.
struct CredentialRefusal {
    generation: u64,
    answer: oneshot::Sender<Option<Arc<Credential>>>,
}

/// Reads the credential again when it has to be.
struct CredentialTask {
    loader: CredentialLoader,
    clock: Clock,
    current: watch::Sender<Arc<Credential>>,
    refused: Arc<watch::Sender<Option<RefusedCredentials>>>,
    /// When to read without a refusal.
    due: Option<Instant>,
    /// Runs of the plugin in a row that failed.
    failed_runs: u32,
    pace: ReloadPace,
    reports: ReportInterval,
}

/// Bounds the reads after refusals.
#[derive(Default)]
struct ReloadPace {
    last: Option<Instant>,
    interval: Duration,
}

// === impl CredentialSource ===

impl CredentialSource {
    /// Reads the credential of `config`, and keeps it current. `origin` is read again when the server refuses it. Must be
    /// called inside a tokio runtime.
    pub(super) async fn start(
        origin: Option<ClusterChoice>,
        config: Config,
        versions: HttpVersions,
        clock: Clock,
    ) -> Result<Self, CredentialError> {
        let mut loader = CredentialLoader::new(origin, config, versions, clock.clone());
        let loaded = loader.load(LoadCause::Due).await?;
        let due = loaded.due();
        let (current, subscribed) = watch::channel(Arc::new(Credential {
            generation: 0,
            authorization: loaded.authorization,
            tls: loaded.tls,
        }));
        let refused: Arc<watch::Sender<Option<RefusedCredentials>>> = Arc::default();
        let (refusals, received) = mpsc::channel(REFUSALS_MAX);
        let task = CredentialTask {
            loader,
            clock,
            current,
            refused: refused.clone(),
            due,
            failed_runs: 0,
            pace: ReloadPace::default(),
            reports: ReportInterval::default(),
        };
        tokio::spawn(task.run(received));
        Ok(Self {
            current: subscribed,
            refused,
            refusals,
        })
    }

    /// The last credential that could be read.
    pub(super) fn current(&self) -> Arc<Credential> {
        self.current.borrow().clone()
    }

    /// The server answered 401 to a credential. Returns another one as soon as there is one; `None` if there is none now.
    pub(super) async fn refuse(&self, generation: u64) -> Option<Arc<Credential>> {
        let (answer, answered) = oneshot::channel();
        let refusal = CredentialRefusal { generation, answer };
        // The task ends only with the last of its handles.
        self.refusals.send(refusal).await.ok()?;
        answered.await.ok()?
    }

    /// The server accepted a credential.
    pub(super) fn accept(&self, generation: u64) {
        if self.refused.borrow().is_some() && self.current.borrow().generation == generation {
            self.refused.send_replace(None);
        }
    }

    /// Since when the server refuses the current credential.
    pub(super) fn refused(&self) -> Option<RefusedCredentials> {
        *self.refused.borrow()
    }
}

// === impl CredentialTask ===

impl CredentialTask {
    async fn run(mut self, mut refusals: mpsc::Receiver<CredentialRefusal>) {
        loop {
            tokio::select! {
                biased;
                refusal = refusals.recv() => match refusal {
                    Some(refusal) => self.refuse(refusal).await,
                    None => return,
                },
                () = at(self.due) => self.load(LoadCause::Due).await,
            }
        }
    }

    async fn refuse(&mut self, refusal: CredentialRefusal) {
        let is_current = |task: &Self| task.current.borrow().generation == refusal.generation;
        if is_current(self) {
            let since = self.clock.now();
            self.refused.send_if_modified(|refused| {
                let is_new = refused.is_none();
                refused.get_or_insert(RefusedCredentials { since, reloads: 0 });
                is_new
            });
            if self.pace.permits(Instant::now()) {
                self.load(LoadCause::Refusal).await;
            }
        }
        let other = (!is_current(self)).then(|| self.current.borrow().clone());
        // The request may have been cancelled.
        let _ = refusal.answer.send(other);
    }

    async fn load(&mut self, cause: LoadCause) {
        let loaded = self.loader.load(cause).await;
        if cause == LoadCause::Refusal {
            self.refused.send_modify(|refused| {
                if let Some(refused) = refused {
                    refused.reloads += 1;
                }
            });
        }
        match loaded {
            Ok(loaded) => {
                self.due = loaded.due();
                self.failed_runs = 0;
                if self.reports.clear() {
                    tracing::info!("the credentials can be read again");
                }
                self.publish(loaded);
            }
            Err(error) => {
                let retry = FAILED_RETRY * (1 << self.failed_runs.min(4));
                if matches!(error, CredentialError::Plugin { .. }) {
                    self.failed_runs += 1;
                }
                self.due = Some(Instant::now() + retry.min(RELOAD_INTERVAL_MAX));
                let error = error.to_string();
                if self.reports.is_due(&error, Instant::now()) {
                    tracing::warn!(
                        error,
                        "the credentials cannot be read; using the last ones and retrying"
                    );
                }
            }
        }
    }

    fn publish(&self, loaded: LoadedCredential) {
        let last = self.current.borrow().clone();
        let is_same = last.authorization == loaded.authorization
            && last.tls.generation == loaded.tls.generation;
        if is_same {
            return;
        }
        tracing::info!("the credentials have changed; new requests use them");
        self.current.send_replace(Arc::new(Credential {
            generation: last.generation + 1,
            authorization: loaded.authorization,
            tls: loaded.tls,
        }));
    }
}

// === impl LoadedCredential ===

impl LoadedCredential {
    fn due(&self) -> Option<Instant> {
        let after = self.due_after?.max(DUE_MIN);
        Some(Instant::now() + after)
    }
}

// === impl ReloadPace ===

impl ReloadPace {
    /// Whether a refusal may cause a read now.
    fn permits(&mut self, now: Instant) -> bool {
        let since = self.last.map(|last| now.saturating_duration_since(last));
        self.interval = match since {
            Some(since) if since < self.interval => return false,
            Some(since) if since < GOOD_AFTER => (self.interval * 2).min(RELOAD_INTERVAL_MAX),
            _ => RELOAD_INTERVAL_MIN,
        };
        self.last = Some(now);
        true
    }
}

/// Sleeps until a time; for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
