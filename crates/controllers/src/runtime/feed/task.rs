//! The task of one feed: asks what the feed wants to know, and hands on what it tells.
//!
//! The task owns its feed and everybody who listens to it. A listener that is slow slows this kind's watch and nothing
//! else; one that is gone is dropped. Commands come from `feeds`.

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::controller::Change;
use super::super::feeds::Board;
use super::super::kind::{Kind, KindId, KindState};
use super::super::record::View;
use super::ask::{self, Line, Lines, Reply};
use super::{End, Feed, Input, Moment, Next, Output};

/// How long a kind that is not served any more is watched on: its objects' DELETED events come about then.
///
/// DEVIATION(vanished-kinds): upstream's informers of such kinds ask for ever, and a kind that comes back is then told
/// twice.
const LINGER: Duration = Duration::from_secs(5);

/// What `feeds` wants of a feed.
pub(crate) enum Command {
    /// Tell this one, who knows that the kind is in its first list, everything from now on, and what there is first.
    Join(mpsc::Sender<Change>),
    /// Ask for the objects in this version and form from now on.
    Reset(Box<Kind>, View),
    /// The kind is not served any more, or nobody wants it.
    Leave,
}

/// What a feed is made of.
pub(crate) struct Setup {
    pub(crate) id: KindId,
    pub(crate) kind: Kind,
    pub(crate) view: View,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) board: Arc<Board>,
    /// Whether a change of an object of this kind may change what discovery finds.
    pub(crate) defines_kinds: bool,
}

/// A running feed.
pub(crate) struct Task {
    id: KindId,
    kind: Kind,
    view: View,
    feed: Feed,
    client: kube::Client,
    clock: Clock,
    board: Arc<Board>,
    defines_kinds: bool,
    commands: mpsc::UnboundedReceiver<Command>,
    began: Instant,
    outlets: Vec<Outlet>,
    outputs: Vec<Output>,
    /// What last went wrong, for people.
    trouble: String,
    /// Set when the feed has to end: until when it is watched on.
    leaves: Option<Instant>,
}

/// Somebody who listens.
struct Outlet {
    sender: mpsc::Sender<Change>,
    /// What this one was last told about the kind.
    state: KindState,
}

/// What a request or a wait came to, or what interrupted it.
enum Happened {
    Command(Option<Command>),
    Due,
    Page(Reply<bytes::Bytes>),
    Watch(Reply<Lines>),
}

// === impl Task ===

impl Task {
    /// A feed that runs as soon as somebody joins.
    pub(crate) fn new(setup: Setup, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        let feed = Feed::new(setup.id, setup.view, setup.rng, setup.clock.now());
        setup.board.set_state(setup.id, feed.state());
        Self {
            id: setup.id,
            kind: setup.kind,
            view: setup.view,
            feed,
            client: setup.client,
            clock: setup.clock,
            board: setup.board,
            defines_kinds: setup.defines_kinds,
            commands,
            began: Instant::now(),
            outlets: Vec::new(),
            outputs: Vec::new(),
            trouble: String::new(),
            leaves: None,
        }
    }

    /// Runs until the kind is not served or wanted any more.
    pub(crate) async fn run(mut self) -> KindId {
        while self.outlets.is_empty() && self.leaves.is_none() {
            let command = self.commands.recv().await;
            self.obey(command).await;
        }
        let mut next = self.step(Input::Due).await;
        while self.leaves.is_none() {
            let happened = match &next {
                // Reading happens in `follow`; there is no watch to read from here.
                Next::Read(_) => Happened::Due,
                Next::Wait(wait) => tokio::select! {
                    biased;
                    command = self.commands.recv() => Happened::Command(command),
                    () = sleep(*wait) => Happened::Due,
                },
                Next::List { limit, token } => tokio::select! {
                    biased;
                    command = self.commands.recv() => Happened::Command(command),
                    page = ask::page(&self.client, &self.kind, self.view, *limit, token.as_deref())
                        => Happened::Page(page),
                },
                Next::Watch { after, length } => tokio::select! {
                    biased;
                    command = self.commands.recv() => Happened::Command(command),
                    watch = ask::watch(&self.client, &self.kind, self.view, after.as_ref(), *length)
                        => Happened::Watch(watch),
                },
            };
            next = self.take(happened).await.unwrap_or(next);
        }
        self.tell(&Change::Kind(self.id, KindState::Gone)).await;
        self.board.forget(self.id);
        self.id
    }

    /// What follows from what happened; nothing if everything is to be done once more.
    async fn take(&mut self, happened: Happened) -> Option<Next> {
        Some(match happened {
            Happened::Command(command) => return self.obey_all(command).await,
            Happened::Due => self.step(Input::Due).await,
            Happened::Page(Reply::Good(page)) => self.step(Input::Page(&page)).await,
            Happened::Watch(Reply::Good(lines)) => {
                let next = self.step(Input::Opened).await;
                self.follow(lines, next).await
            }
            Happened::Page(Reply::Refused {
                status,
                retry_after,
            })
            | Happened::Watch(Reply::Refused {
                status,
                retry_after,
            }) => {
                self.trouble = format!("the server answered {status}");
                self.step(Input::Refused {
                    status,
                    retry_after,
                })
                .await
            }
            Happened::Page(Reply::Unanswered(why)) | Happened::Watch(Reply::Unanswered(why)) => {
                self.trouble = why;
                self.step(Input::Unanswered).await
            }
        })
    }

    /// Reads a watch until the feed wants something else.
    async fn follow(&mut self, mut lines: Lines, mut next: Next) -> Next {
        while let Next::Read(idle) = next {
            let idle_at = Instant::now() + idle;
            let until = self.leaves.map_or(idle_at, |leaves| leaves.min(idle_at));
            let line = tokio::select! {
                biased;
                // Whoever leaves obeys nobody any more.
                command = self.commands.recv(), if self.leaves.is_none() => {
                    next = self.obey_all(command).await.unwrap_or(next);
                    if self.leaves.is_some_and(|leaves| leaves <= Instant::now()) {
                        return next;
                    }
                    continue;
                }
                line = timeout_at(until, lines.next()) => line,
            };
            next = match line {
                Ok(Ok(Some(Line::Text(line)))) => self.step(Input::Line(&line)).await,
                Ok(Ok(Some(Line::Overlong))) => self.step(Input::Overlong).await,
                Ok(Ok(None)) => self.step(Input::Ended(End::Clean)).await,
                Ok(Err(why)) => {
                    self.trouble = why;
                    self.step(Input::Ended(End::Broken)).await
                }
                Err(_) if self.leaves == Some(until) => return next,
                Err(_) => self.step(Input::Ended(End::Idle)).await,
            };
        }
        next
    }

    /// Obeys everything there is to obey, then says how to go on if not as before.
    async fn obey_all(&mut self, command: Option<Command>) -> Option<Next> {
        let mut again = self.obey(command).await;
        while let Ok(command) = self.commands.try_recv() {
            again |= self.obey(Some(command)).await;
        }
        match again && self.leaves.is_none() {
            true => Some(self.step(Input::Again).await),
            false => None,
        }
    }

    /// Whether everything has to be listed again.
    async fn obey(&mut self, command: Option<Command>) -> bool {
        match command {
            Some(Command::Join(sender)) if self.leaves.is_none() => {
                self.welcome(sender).await;
                true
            }
            Some(Command::Join(_)) => false,
            Some(Command::Reset(kind, view)) => {
                self.kind = *kind;
                self.view = view;
                self.feed.set_view(view);
                true
            }
            Some(Command::Leave) => {
                let linger = match self.feed.is_watching() && !self.outlets.is_empty() {
                    true => LINGER,
                    false => Duration::ZERO,
                };
                self.leaves = Some(Instant::now() + linger);
                false
            }
            // Whoever started this is gone: there is nobody to say goodbye to.
            None => {
                self.outlets.clear();
                self.leaves = Some(Instant::now());
                false
            }
        }
    }

    async fn welcome(&mut self, sender: mpsc::Sender<Change>) {
        // Whoever introduces somebody has told it that the kind is in its first list.
        let mut outlet = Outlet {
            sender,
            state: KindState::Syncing(self.clock.now()),
        };
        let is_listening = match self.feed.state() {
            KindState::Syncing(_) | KindState::Synced | KindState::Gone => true,
            state @ (KindState::Frozen | KindState::Forbidden | KindState::Failing(_)) => {
                outlet.tell(&Change::Kind(self.id, state)).await
            }
        };
        if is_listening {
            self.outlets.push(outlet);
        }
    }

    async fn step(&mut self, input: Input<'_>) -> Next {
        let at = Moment {
            elapsed: self.began.elapsed(),
            now: self.clock.now(),
        };
        let next = self.feed.step(input, at, &mut self.outputs);
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            self.hand_on(output).await;
        }
        // The vector goes back, so that a busy watch does not allocate one per line.
        self.outputs = outputs;
        next
    }

    async fn hand_on(&mut self, output: Output) {
        match output {
            Output::Change(change) => {
                match &change {
                    Change::Kind(id, state) => {
                        self.log_state(*state);
                        self.board.set_state(*id, *state);
                    }
                    _ if self.defines_kinds => self.board.ask_for_discovery(),
                    _ => {}
                }
                self.tell(&change).await;
            }
            Output::NotServed => self.board.ask_for_discovery(),
            Output::Unreadable(object) => {
                self.board.count_unreadable();
                let name = object.name.as_deref().unwrap_or("?");
                let why = object.why;
                tracing::warn!(kind = %self.kind, name, why, "an object cannot be read");
            }
            Output::Overlong => {
                self.board.count_unreadable();
                tracing::warn!(kind = %self.kind, "a line of a watch is too long and left out");
            }
        }
    }

    fn log_state(&self, state: KindState) {
        let (kind, why) = (&self.kind, self.trouble.as_str());
        match state {
            KindState::Failing(_) => tracing::warn!(%kind, why, "cannot be listed or watched"),
            KindState::Forbidden => tracing::warn!(%kind, why, "may not be listed or watched"),
            KindState::Frozen => {
                tracing::warn!(%kind, "resourceVersions went back: the store was restored");
            }
            KindState::Syncing(_) | KindState::Synced | KindState::Gone => {
                tracing::debug!(%kind, ?state, "known");
            }
        }
    }

    async fn tell(&mut self, change: &Change) {
        let mut place = 0;
        while place < self.outlets.len() {
            if self.outlets[place].tell(change).await {
                place += 1;
            } else {
                self.outlets.remove(place);
            }
        }
    }
}

// === impl Outlet ===

impl Outlet {
    /// Tells what is new to this one. False: it does not listen any more.
    async fn tell(&mut self, change: &Change) -> bool {
        if let Change::Kind(_, state) = change {
            if self.state == *state {
                return true;
            }
            self.state = *state;
        }
        self.sender.send(change.clone()).await.is_ok()
    }
}
