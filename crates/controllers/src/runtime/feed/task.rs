//! The task of one feed: sends the requests that the feed asks for, and sends its changes to all listeners.
//!
//! The task owns its feed and the feed's listeners. A slow listener slows this kind's watch and nothing else; one whose
//! channel is closed is dropped. Commands come from the `feed_set`.

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::controller::ObservedChange;
use super::super::feed_set::{FeedStates, ServerTrouble};
use super::super::kind::{ApiKind, KindId, KindState};
use super::super::metrics::ControllerMetrics;
use super::super::record::RecordView;
use super::super::report_interval::ReportInterval;
use super::request::{self, FeedError, WatchLine, WatchLines};
use super::{FeedAction, FeedInput, FeedOutput, FeedTime, KindFeed, WatchEnd};

/// How long a kind that is not served any more is still watched, because the DELETED events of its objects may follow.
///
/// DEVIATION(vanished-kinds): upstream's informers of such kinds retry for ever, and a kind that comes back is then
/// watched twice.
const LINGER: Duration = Duration::from_secs(5);

/// A command of the `feed_set` to a feed.
pub(crate) enum FeedCommand {
    /// Send all changes to this listener, first those of a full list. It has got `Syncing` for the kind already.
    Join(mpsc::Sender<ObservedChange>),
    /// Request the objects in this version and form from now on.
    Reset(Box<ApiKind>, RecordView),
    /// End: the kind is not served any more, or has no subscriber.
    Leave,
}

/// The parameters of a new feed.
pub(crate) struct FeedSetup {
    pub(crate) id: KindId,
    pub(crate) kind: ApiKind,
    pub(crate) view: RecordView,
    pub(crate) client: kube::Client,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) states: Arc<FeedStates>,
    /// Whether a change of an object of this kind may change what discovery finds.
    pub(crate) defines_kinds: bool,
}

/// One feed, its connection and its listeners.
pub(crate) struct FeedTask {
    setup: FeedSetup,
    feed: KindFeed,
    commands: mpsc::UnboundedReceiver<FeedCommand>,
    began: Instant,
    listeners: Vec<ChangeListener>,
    outputs: Vec<FeedOutput>,
    /// The last failure, for the log.
    last_error: String,
    /// The trouble of the last request with the server, whatever its kind.
    server_trouble: Option<ServerTrouble>,
    /// When a lasting refusal is logged again.
    reports: ReportInterval,
    /// The time at which the feed ends; `None` while it is wanted.
    leaves: Option<Instant>,
}

/// A subscriber's channel.
struct ChangeListener {
    sender: mpsc::Sender<ObservedChange>,
    /// The last state of the kind that it got.
    state: KindState,
}

/// The end of a request or a wait, or the command that interrupted it.
enum FeedEvent {
    Command(Option<FeedCommand>),
    Due,
    Page(Result<bytes::Bytes, FeedError>),
    Watch(Result<WatchLines, FeedError>),
}

// === impl FeedTask ===

impl FeedTask {
    /// A feed that begins with its first listener.
    pub(crate) fn new(setup: FeedSetup, commands: mpsc::UnboundedReceiver<FeedCommand>) -> Self {
        let rng = setup.rng.clone();
        let feed = KindFeed::new(setup.id, setup.view, rng, setup.clock.steady().timestamp());
        setup.states.set_state(setup.id, feed.state());
        Self {
            setup,
            feed,
            commands,
            began: Instant::now(),
            listeners: Vec::new(),
            outputs: Vec::new(),
            last_error: String::new(),
            server_trouble: None,
            reports: ReportInterval::default(),
            leaves: None,
        }
    }

    /// Runs until the kind is not served or wanted any more.
    pub(crate) async fn run(mut self) -> KindId {
        while self.listeners.is_empty() && self.leaves.is_none() {
            let command = self.commands.recv().await;
            self.apply(command).await;
        }
        let mut next = self.step(FeedInput::Due).await;
        while self.leaves.is_none() {
            let happened = tokio::select! {
                biased;
                command = self.commands.recv() => FeedEvent::Command(command),
                happened = perform(&self.setup, &next) => happened,
            };
            next = self.take(happened).await.unwrap_or(next);
        }
        self.send(&ObservedChange::Kind(self.setup.id, KindState::Gone))
            .await;
        self.setup.states.forget(self.setup.id);
        self.setup.id
    }

    /// Passes an event to the feed and returns its next action; `None` if the interrupted action is to be repeated.
    async fn take(&mut self, happened: FeedEvent) -> Option<FeedAction> {
        match &happened {
            FeedEvent::Page(Err(error)) | FeedEvent::Watch(Err(error)) => {
                self.note_answer(error.server_trouble());
            }
            FeedEvent::Page(Ok(_)) | FeedEvent::Watch(Ok(_)) => self.note_answer(None),
            FeedEvent::Command(_) | FeedEvent::Due => {}
        }
        Some(match happened {
            FeedEvent::Command(command) => return self.apply_commands(command).await,
            FeedEvent::Due => self.step(FeedInput::Due).await,
            FeedEvent::Page(Ok(page)) => self.step(FeedInput::Page(&page)).await,
            FeedEvent::Watch(Ok(lines)) => {
                let next = self.step(FeedInput::Opened).await;
                self.follow(lines, next).await
            }
            FeedEvent::Page(Err(error)) | FeedEvent::Watch(Err(error)) => {
                self.last_error = error.to_string();
                self.log_lasting_refusal(&error);
                let input = match error {
                    FeedError::Refused {
                        status,
                        retry_after,
                        ..
                    } => FeedInput::Refused(status, retry_after),
                    FeedError::Connect(_) => FeedInput::Unreachable,
                    _ => FeedInput::Unanswered,
                };
                self.step(input).await
            }
        })
    }

    /// Reads a watch until the feed wants something else.
    async fn follow(&mut self, mut lines: WatchLines, mut next: FeedAction) -> FeedAction {
        while let FeedAction::Read(idle) = next {
            let idle_at = Instant::now() + idle;
            let until = self.leaves.map_or(idle_at, |leaves| leaves.min(idle_at));
            let line = tokio::select! {
                biased;
                // A feed that is about to end takes no commands.
                command = self.commands.recv(), if self.leaves.is_none() => {
                    next = self.apply_commands(command).await.unwrap_or(next);
                    if self.leaves.is_some_and(|leaves| leaves <= Instant::now()) {
                        return next;
                    }
                    continue;
                }
                line = timeout_at(until, lines.next()) => line,
            };
            next = match line {
                Ok(Ok(Some(WatchLine::Text(line)))) => self.step(FeedInput::Line(&line)).await,
                Ok(Ok(Some(WatchLine::Overlong))) => self.step(FeedInput::Overlong).await,
                Ok(Ok(None)) => self.step(FeedInput::Ended(WatchEnd::Clean)).await,
                Ok(Err(error)) => {
                    self.last_error = error.to_string();
                    self.step(FeedInput::Ended(WatchEnd::Broken)).await
                }
                Err(_) if self.leaves == Some(until) => return next,
                Err(_) => self.step(FeedInput::Ended(WatchEnd::Idle)).await,
            };
        }
        next
    }

    /// Applies all commands that wait, then returns the next step if it has changed.
    async fn apply_commands(&mut self, command: Option<FeedCommand>) -> Option<FeedAction> {
        let mut again = self.apply(command).await;
        while let Ok(command) = self.commands.try_recv() {
            again |= self.apply(Some(command)).await;
        }
        match again && self.leaves.is_none() {
            true => Some(self.step(FeedInput::Again).await),
            false => None,
        }
    }

    /// Applies one command. Returns whether everything has to be listed again.
    async fn apply(&mut self, command: Option<FeedCommand>) -> bool {
        match command {
            Some(FeedCommand::Join(sender)) if self.leaves.is_none() => {
                self.join(sender).await;
                true
            }
            Some(FeedCommand::Join(_)) => false,
            Some(FeedCommand::Reset(kind, view)) => {
                self.setup.kind = *kind;
                self.setup.view = view;
                self.feed.set_view(view);
                true
            }
            Some(FeedCommand::Leave) => {
                let linger = match self.feed.is_watching() && !self.listeners.is_empty() {
                    true => LINGER,
                    false => Duration::ZERO,
                };
                self.leaves = Some(Instant::now() + linger);
                false
            }
            // The feed set is gone, and its subscribers with it.
            None => {
                self.listeners.clear();
                self.leaves = Some(Instant::now());
                false
            }
        }
    }

    async fn join(&mut self, sender: mpsc::Sender<ObservedChange>) {
        // The subscription has sent `Syncing` before it joins.
        let mut listener = ChangeListener {
            sender,
            state: KindState::Syncing(self.setup.clock.steady().timestamp()),
        };
        let is_listening = match self.feed.state() {
            KindState::Syncing(_) | KindState::Synced | KindState::Gone => true,
            state @ (KindState::Frozen | KindState::Forbidden | KindState::Failing(_)) => {
                listener
                    .send(&ObservedChange::Kind(self.setup.id, state))
                    .await
            }
        };
        if is_listening {
            self.listeners.push(listener);
        }
    }

    async fn step(&mut self, input: FeedInput<'_>) -> FeedAction {
        let at = FeedTime {
            elapsed: self.began.elapsed(),
            now: self.setup.clock.steady().timestamp(),
        };
        let was_blind = self.feed.is_blind();
        let next = self.feed.step(input, at, &mut self.outputs);
        if self.feed.is_blind() != was_blind {
            self.blind_changed();
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            self.emit(output).await;
        }
        // The vector goes back, so that a busy watch does not allocate one per line.
        self.outputs = outputs;
        next
    }

    async fn emit(&mut self, output: FeedOutput) {
        match output {
            FeedOutput::Change(change) => {
                match &change {
                    ObservedChange::Kind(id, state) => {
                        self.log_state(*state);
                        self.setup.states.set_state(*id, *state);
                    }
                    _ if self.setup.defines_kinds => self.setup.states.request_discovery(),
                    _ => {}
                }
                self.send(&change).await;
            }
            FeedOutput::NotServed => self.setup.states.request_discovery(),
            FeedOutput::Unreadable(object) => {
                self.setup.states.count_unreadable();
                let name = object.name.as_deref().unwrap_or("?");
                let error = object.error;
                tracing::warn!(kind = %self.setup.kind, name, %error, "object cannot be decoded; ignoring it");
            }
            FeedOutput::Overlong => {
                self.setup.states.count_unreadable();
                tracing::warn!(kind = %self.setup.kind, "watch event is too long; listing again");
            }
        }
    }

    fn blind_changed(&self) {
        let (kind, is_blind) = (&self.setup.kind, self.feed.is_blind());
        self.setup.states.set_blind(self.setup.id, is_blind);
        if is_blind {
            tracing::warn!(%kind, "watch shows nothing, not even bookmarks; opening another one");
        } else {
            tracing::info!(%kind, "watch shows events again");
        }
    }

    /// Takes note of the trouble of a request with the server. Trouble is logged with the state of the kind.
    fn note_answer(&mut self, trouble: Option<ServerTrouble>) {
        self.server_trouble = trouble;
        if trouble.is_none() && self.setup.states.set_server_trouble(None).is_some() {
            tracing::info!("API server answers again");
        }
    }

    /// A refusal that lasts is logged again at growing intervals: a right is missing, and time alone does not mend that. A
    /// server that is away is logged once per kind, because it is reported for all kinds elsewhere.
    fn log_lasting_refusal(&mut self, error: &FeedError) {
        let is_lasting = matches!(
            self.feed.state(),
            KindState::Failing(_) | KindState::Forbidden
        );
        let is_refusal =
            matches!(error, FeedError::Refused { status, .. } if (402..500).contains(status));
        if is_lasting && is_refusal && self.reports.is_due(&self.last_error, Instant::now()) {
            let (kind, error) = (&self.setup.kind, self.last_error.as_str());
            tracing::warn!(%kind, error, "still cannot list or watch; retrying with backoff");
        }
    }

    fn log_state(&mut self, state: KindState) {
        let (kind, error) = (&self.setup.kind, self.last_error.as_str());
        match state {
            KindState::Failing(_) | KindState::Forbidden => {
                self.reports.is_due(error, Instant::now());
            }
            _ => {
                self.reports.clear();
            }
        }
        match state {
            KindState::Failing(_) | KindState::Forbidden if self.server_trouble.is_some() => {
                self.log_server_trouble();
            }
            KindState::Failing(_) => {
                tracing::warn!(%kind, error, "cannot list or watch; retrying with backoff");
            }
            KindState::Forbidden => {
                tracing::warn!(%kind, error, "not allowed to list or watch; retrying with backoff");
            }
            KindState::Frozen => {
                tracing::warn!(%kind, "resourceVersions went back; writes wait for a fresh list");
            }
            KindState::Synced => {
                tracing::info!(%kind, objects = self.feed.object_count(), "kind synced");
            }
            KindState::Syncing(_) | KindState::Gone => {
                tracing::debug!(%kind, ?state, "kind state changed");
            }
        }
    }

    /// Logs trouble that all kinds have, unless a feed did already.
    fn log_server_trouble(&self) {
        let (trouble, error) = (self.server_trouble, self.last_error.as_str());
        if self.setup.states.set_server_trouble(trouble) == trouble {
            return;
        }
        if trouble == Some(ServerTrouble::Unauthorized) {
            tracing::warn!(
                error,
                "API server refuses the credentials; all kinds retry with backoff"
            );
        } else {
            tracing::warn!(
                error,
                "cannot reach the API server; all kinds retry with backoff"
            );
        }
    }

    async fn send(&mut self, change: &ObservedChange) {
        let mut place = 0;
        while place < self.listeners.len() {
            if self.listeners[place].send(change).await {
                place += 1;
            } else {
                self.listeners.remove(place);
            }
        }
    }
}

/// Carries out an action of a feed, and returns what happened.
async fn perform(setup: &FeedSetup, action: &FeedAction) -> FeedEvent {
    match action {
        // Reading happens in `follow`; there is no watch to read from here.
        FeedAction::Read(_) => FeedEvent::Due,
        FeedAction::Wait(wait) => {
            sleep(*wait).await;
            FeedEvent::Due
        }
        FeedAction::List { limit, token } => {
            FeedEvent::Page(request::page(setup, *limit, token.as_deref()).await)
        }
        FeedAction::Watch { after, length } => {
            FeedEvent::Watch(request::watch(setup, after.as_ref(), *length).await)
        }
    }
}

// === impl ChangeListener ===

impl ChangeListener {
    /// Sends a change, unless it is a state that the listener has got already. False: its channel is closed.
    async fn send(&mut self, change: &ObservedChange) -> bool {
        if let ObservedChange::Kind(_, state) = change {
            if self.state == *state {
                return true;
            }
            self.state = *state;
        }
        self.sender.send(change.clone()).await.is_ok()
    }
}
