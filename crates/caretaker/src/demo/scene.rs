//! What is on the scene: the objects of one namespace as watches show them, and in which order objects ended.
//!
//! The story looks at it instead of asking the server again and again: nothing is polled, and the order is the server's
//! own, by revisions. Watches are kept open for one chapter and end with it; none of them is started again.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Events that wait to be looked at; a watch with more to tell waits.
const HEARD_MAX: usize = 1000;

/// A kind that takes part in a chapter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

/// An object of the story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) kind: &'static Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// How an object looks, or looked when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) thing: Thing,
    /// Of its last change, or of its end.
    pub(crate) revision: u64,
    /// The uids of its owners.
    pub(crate) owners: Vec<String>,
}

/// The objects there are, and those that were.
pub(crate) struct Scene {
    kinds: &'static [&'static Kind],
    /// By uid.
    present: BTreeMap<String, Sight>,
    /// By uid.
    ended: BTreeMap<String, Sight>,
    heard: mpsc::Receiver<Result<Heard>>,
    /// They end with the scene.
    watches: JoinSet<()>,
}

/// What a watch told.
enum Heard {
    Applied(Sight),
    Ended(Sight),
}

type Event = kube::Result<WatchEvent<DynamicObject>>;

// === impl Kind ===

impl Kind {
    /// Its objects in a namespace; with none, those of the cluster.
    pub(crate) fn api(&self, client: kube::Client, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(client, &self.resource())
        } else {
            Api::namespaced_with(client, namespace, &self.resource())
        }
    }

    /// `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        self.resource().api_version
    }

    fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }
}

// === impl Thing ===

impl Thing {
    /// Nothing if the server left its name or its uid out.
    pub(crate) fn of(kind: &'static Kind, object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        Some(Self {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
        })
    }
}

/// `Deployment web`: the namespace is clear from the story.
impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}

// === impl Sight ===

impl Sight {
    fn of(kind: &'static Kind, object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        let owners = meta.owner_references.iter().flatten();
        Some(Self {
            thing: Thing::of(kind, object)?,
            revision: meta.resource_version.as_ref()?.parse().ok()?,
            owners: owners.map(|owner| owner.uid.clone()).collect(),
        })
    }
}

// === impl Scene ===

impl Scene {
    /// Watches these kinds in a namespace, beginning with what is there.
    pub(crate) async fn open(
        client: &kube::Client,
        namespace: &str,
        kinds: &'static [&'static Kind],
    ) -> Result<Self> {
        let (tell, heard) = mpsc::channel(HEARD_MAX);
        let mut scene = Self {
            kinds,
            present: BTreeMap::new(),
            ended: BTreeMap::new(),
            heard,
            watches: JoinSet::new(),
        };
        for kind in kinds {
            let api = kind.api(client.clone(), namespace);
            let list = api.list(&ListParams::default()).await;
            let list = list.with_context(|| format!("cannot list {}", kind.plural))?;
            let sights = list.items.iter().filter_map(|item| Sight::of(kind, item));
            for sight in sights {
                scene.apply(Heard::Applied(sight));
            }
            let revision = list.metadata.resource_version.unwrap_or_default();
            let events = api.watch(&WatchParams::default(), &revision).await;
            let events = events.with_context(|| format!("cannot watch {}", kind.plural))?;
            let listen = listen(kind, Box::pin(events), tell.clone());
            scene.watches.spawn(listen);
        }
        Ok(scene)
    }

    /// Waits for the next change.
    pub(crate) async fn next(&mut self) -> Result<()> {
        let heard = self.heard.recv().await;
        let heard = heard.context("all watches have ended")??;
        self.apply(heard);
        Ok(())
    }

    /// How an object looks, if it is there.
    pub(crate) fn present(&self, thing: &Thing) -> Option<&Sight> {
        self.present.get(&thing.uid)
    }

    /// How an object ended, if it has.
    pub(crate) fn ended(&self, thing: &Thing) -> Option<&Sight> {
        self.ended.get(&thing.uid)
    }

    /// All objects that are there, by kind in the order in which kinds were named, then by name.
    pub(crate) fn all(&self) -> Vec<&Sight> {
        let rank = |kind: &Kind| self.kinds.iter().position(|other| *other == kind);
        let mut all: Vec<&Sight> = self.present.values().collect();
        all.sort_by_key(|sight| (rank(sight.thing.kind), sight.thing.name.as_str()));
        all
    }

    fn apply(&mut self, heard: Heard) {
        match heard {
            Heard::Applied(sight) => {
                self.present.insert(sight.thing.uid.clone(), sight);
            }
            Heard::Ended(sight) => {
                self.present.remove(&sight.thing.uid);
                self.ended.insert(sight.thing.uid.clone(), sight);
            }
        }
    }
}

/// Passes on what a watch tells, until nobody wants to know or it breaks.
async fn listen(
    kind: &'static Kind,
    mut events: impl Stream<Item = Event> + Unpin,
    tell: mpsc::Sender<Result<Heard>>,
) {
    loop {
        let heard = match events.next().await {
            Some(event) => understand(kind, event),
            None => Err(anyhow::anyhow!("the watch of {} ended", kind.plural)),
        };
        let is_over = heard.is_err();
        if let Some(heard) = heard.transpose()
            && tell.send(heard).await.is_err()
        {
            return;
        }
        if is_over {
            return;
        }
    }
}

fn understand(kind: &'static Kind, event: Event) -> Result<Option<Heard>> {
    let event = event.with_context(|| format!("the watch of {} broke", kind.plural))?;
    Ok(match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            Sight::of(kind, &object).map(Heard::Applied)
        }
        WatchEvent::Deleted(object) => Sight::of(kind, &object).map(Heard::Ended),
        WatchEvent::Bookmark(_) => None,
        WatchEvent::Error(status) => {
            bail!("the watch of {} broke: {}", kind.plural, status.message)
        }
    })
}
