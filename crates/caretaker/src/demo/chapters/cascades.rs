//! Chapter one: what becomes of dependents when their owner is deleted, in the background, in the foreground, and not at
//! all.
//!
//! The same small shop is built for each mode and then deleted. Nothing is simulated before the next chapter, so ReplicaSet
//! and Pods are created here, with the references that their controllers would give them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::demo::scene::{Kind, Sight, Thing};
use crate::demo::screen::Pause;
use crate::demo::story::{Story, Tally};

const NAMESPACE: &str = "shop";

static DEPLOYMENT: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
};
static REPLICA_SET: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    plural: "replicasets",
};
static POD: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
};
static CONFIG_MAP: Kind = Kind {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
};

/// In the order in which trees show them.
static KINDS: [&Kind; 4] = [&DEPLOYMENT, &REPLICA_SET, &POD, &CONFIG_MAP];

const WEB: &str = "web";
const SETTINGS: &str = "web-settings";
const REPLICAS: &str = "web-5d9c7";
const PODS: [&str; 3] = ["web-5d9c7-1", "web-5d9c7-2", "web-5d9c7-3"];

/// Who is in the shop: the kind, the name, and the name of the owner, who comes before.
static CAST: [(&Kind, &str, Option<&str>); 6] = [
    (&DEPLOYMENT, WEB, None),
    (&REPLICA_SET, REPLICAS, Some(WEB)),
    (&POD, PODS[0], Some(REPLICAS)),
    (&POD, PODS[1], Some(REPLICAS)),
    (&POD, PODS[2], Some(REPLICAS)),
    (&CONFIG_MAP, SETTINGS, Some(WEB)),
];

/// The shop's objects by name.
type Shop = BTreeMap<&'static str, Thing>;

/// One delete, and what has to come of it.
struct Cascade {
    /// The same by hand.
    command: &'static str,
    deleted: &'static str,
    how: DeleteParams,
    fates: Vec<Fate>,
}

/// What becomes of one object.
struct Fate {
    name: &'static str,
    end: End,
    /// The word that the controller's evidence must have; none for what the delete itself does.
    rule: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Gone,
    Kept,
}

/// Tells the chapter.
pub(super) async fn tell(story: &mut Story<'_>) -> Result<()> {
    story.enter(NAMESPACE, &KINDS).await?;
    story.say(
        "Objects name their owners. When an owner is deleted, this controller sees to what it owned.
A small shop to try it on (simulated, no container runs):
",
    )?;
    let mut total = Tally::default();

    let shop = open(story).await?;
    story.show()?;
    story.pause(Pause::Long).await;
    heading(
        story,
        "Background, the default",
        "The owner goes at once, and what it owned goes after it.",
    )?;
    total.add(play(story, &shop, &background()).await?);

    let shop = open(story).await?;
    heading(
        story,
        "Foreground, the same shop again",
        "What it owned goes first, innermost first, and the owner last.",
    )?;
    total.add(play(story, &shop, &foreground()).await?);

    let shop = open(story).await?;
    heading(
        story,
        "Orphan, the same shop again",
        "The owner goes alone. What it owned stays, and names it no more.",
    )?;
    for cascade in orphan() {
        total.add(play(story, &shop, &cascade).await?);
    }
    story.say("\nWhat is left has no owner, so nothing will come for it:\n")?;
    story.show()?;
    story.pause(Pause::Short).await;
    let share = total.requests_per_object();
    story.say("")?;
    let line = format!("All in all: {total}; {share} requests per object.");
    story.screen().strong(&line)
}

fn background() -> Cascade {
    let mut fates = fates(&[REPLICAS, SETTINGS], End::Gone, "OwnerAbsent");
    fates.extend(self::fates(&PODS, End::Gone, "OwnerAbsent"));
    fates.push(Fate {
        name: WEB,
        end: End::Gone,
        rule: None,
    });
    Cascade {
        command: "kubectl -n shop delete deployment web",
        deleted: WEB,
        how: DeleteParams::background(),
        fates,
    }
}

fn foreground() -> Cascade {
    let mut fates = fates(&PODS, End::Gone, "OwnerWaiting");
    fates.extend(self::fates(&[SETTINGS], End::Gone, "OwnerWaiting"));
    fates.extend(self::fates(&[REPLICAS, WEB], End::Gone, "DependentsGone"));
    Cascade {
        command: "kubectl -n shop delete deployment web --cascade=foreground",
        deleted: WEB,
        how: DeleteParams::foreground(),
        fates,
    }
}

fn orphan() -> [Cascade; 2] {
    let mut first = fates(&[REPLICAS, SETTINGS], End::Kept, "Orphaned");
    first.extend(fates(&[WEB], End::Gone, "DependentsOrphaned"));
    let mut second = fates(&PODS, End::Kept, "Orphaned");
    second.extend(fates(&[REPLICAS], End::Gone, "DependentsOrphaned"));
    [
        Cascade {
            command: "kubectl -n shop delete deployment web --cascade=orphan",
            deleted: WEB,
            how: DeleteParams::orphan(),
            fates: first,
        },
        Cascade {
            command: "kubectl -n shop delete replicaset web-5d9c7 --cascade=orphan",
            deleted: REPLICAS,
            how: DeleteParams::orphan(),
            fates: second,
        },
    ]
}

fn fates(names: &[&'static str], end: End, rule: &'static str) -> Vec<Fate> {
    let fate = |name: &&'static str| Fate {
        name,
        end,
        rule: Some(rule),
    };
    names.iter().map(fate).collect()
}

fn heading(story: &mut Story<'_>, title: &str, sentence: &str) -> Result<()> {
    story.say("")?;
    story.screen().strong(title)?;
    story.say(sentence)
}

/// Builds the shop.
async fn open(story: &mut Story<'_>) -> Result<Shop> {
    let mut shop = Shop::new();
    for (kind, name, owner) in &CAST {
        let owner = owner.and_then(|owner| shop.get(owner));
        let thing = story
            .create(kind, NAMESPACE, &body(kind, name, owner))
            .await?;
        shop.insert(name, thing);
    }
    let things: Vec<&Thing> = shop.values().collect();
    story.appear(&things).await?;
    Ok(shop)
}

/// Deletes one object, waits for what has to come of it, and tells in which order it came and why.
async fn play(story: &mut Story<'_>, shop: &Shop, cascade: &Cascade) -> Result<Tally> {
    story.say(&format!("\n  As with: {}\n", cascade.command))?;
    story.pause(Pause::Short).await;
    let target = shop.get(cascade.deleted).context("nobody to delete")?;
    let mark = story.mark();
    story.delete(target, &cascade.how).await?;
    let missing = |story: &Story<'_>| {
        let mut fates = cascade.fates.iter();
        fates.find_map(|fate| fate.missing(story, shop.get(fate.name)?))
    };
    let took = story.until(&mark, missing).await?;
    let tally = story.tally(&mark, took).await?;

    let mut lines = Vec::new();
    for fate in &cascade.fates {
        let thing = shop.get(fate.name).context("nobody of this name")?;
        let sight = fate.sight(story, thing).context("it was seen before")?;
        let because = match fate.rule {
            Some(rule) => story.because(thing, rule).unwrap_or_default(),
            None => "you deleted it",
        };
        let thing = thing.to_string();
        let line = format!("{}  {thing:<24}{because}", fate.end);
        lines.push((sight.revision, line));
    }
    story.number(lines)?;
    story.screen().strong(&format!("The controller: {tally}"))?;
    story.pause(Pause::Long).await;
    Ok(tally)
}

// === impl Fate ===

impl Fate {
    /// What has not happened yet.
    fn missing(&self, story: &Story<'_>, thing: &Thing) -> Option<String> {
        let is_known = self
            .rule
            .is_none_or(|rule| story.because(thing, rule).is_some());
        if is_known && self.sight(story, thing).is_some() {
            return None;
        }
        Some(match self.end {
            End::Gone => format!("{thing} did not go"),
            End::Kept => format!("{thing} was not separated from its owner"),
        })
    }

    /// How the object looks when it has met its fate.
    fn sight<'a>(&self, story: &'a Story<'_>, thing: &Thing) -> Option<&'a Sight> {
        match self.end {
            End::Gone => story.ended(thing),
            End::Kept => story.present(thing).filter(|sight| sight.owners.is_empty()),
        }
    }
}

// === impl End ===

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gone => "gone",
            Self::Kept => "kept",
        })
    }
}

/// The object as its own controller would have made it, as far as it matters here.
fn body(kind: &Kind, name: &str, owner: Option<&Thing>) -> Value {
    let labels = json!({"app": "web"});
    let pod = json!({"containers": [{"name": "web", "image": "shop/web"}]});
    let replicas = json!({
        "replicas": PODS.len(),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    });
    let references: Vec<Value> = owner.into_iter().map(reference).collect();
    let mut body = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": references},
    });
    if *kind == CONFIG_MAP {
        body["data"] = json!({"greeting": "welcome"});
    } else if *kind == POD {
        body["spec"] = pod;
    } else {
        body["spec"] = replicas;
    }
    body
}

fn reference(owner: &Thing) -> Value {
    json!({
        "apiVersion": owner.kind.api_version(),
        "kind": owner.kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
