//! The ownership graph as a tree: owners as roots, dependents below them.
//!
//! A graph is no tree: an object with several owners is drawn under each of them, with what hangs on it only the first
//! time; a ring is cut where it closes. So every reference is drawn once at most, and hostile graphs stay as small as
//! they are. Fans and chains that nobody would read are counted instead. The same graph always gives the same text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use caretaker_controllers::gc::view::{Node, View};

use super::counted;

/// Dependents of one kind that are drawn under one owner. More of them are counted: they look alike.
const FAN_MAX: usize = 20;

/// Levels that are drawn. What is below is counted: each level is indented further, and terminals end somewhere.
const DEPTH_MAX: usize = 50;

/// Which namespaces are named.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Namespaces<'a> {
    /// All.
    All,
    /// All but this one, which the reader knows.
    But(&'a str),
}

/// The graph, a line for each object.
pub(crate) fn tree(view: &View, namespaces: Namespaces<'_>) -> String {
    let forest = Forest::of(view);
    let mut pen = Pen {
        forest: &forest,
        namespaces,
        is_open: vec![false; forest.nodes.len()],
        is_drawn: vec![false; forest.nodes.len()],
        is_counted: vec![false; forest.nodes.len()],
        text: String::new(),
    };
    for root in forest.roots() {
        pen.draw(root);
    }
    pen.text
}

/// A node's place in `Forest::nodes`.
type Place = usize;

/// The graph by places, in the order in which it is drawn.
struct Forest<'a> {
    /// By kind, namespace and name.
    nodes: Vec<&'a Node>,
    /// The dependents of each, and whether these block it.
    dependents: Vec<BTreeMap<Place, bool>>,
    /// The owners of each, without itself.
    owners: Vec<BTreeSet<Place>>,
}

/// What is drawn below an owner.
enum Item<'a> {
    Dependent(Place, bool),
    /// So many more of a kind.
    More(&'a str, usize),
    /// So many objects at all levels that were not counted before.
    Below(usize),
}

/// An owner whose dependents are being drawn.
struct Level<'a> {
    owner: Place,
    items: std::vec::IntoIter<Item<'a>>,
    indent: String,
}

/// Draws one tree after the other.
struct Pen<'a> {
    forest: &'a Forest<'a>,
    namespaces: Namespaces<'a>,
    /// Whether a node is above what is being drawn.
    is_open: Vec<bool>,
    /// Whether what hangs on a node has been drawn.
    is_drawn: Vec<bool>,
    /// Whether a node was too deep, and counted instead.
    is_counted: Vec<bool>,
    text: String,
}

// === impl Forest ===

impl<'a> Forest<'a> {
    fn of(view: &'a View) -> Self {
        let mut nodes: Vec<&Node> = view.nodes.iter().collect();
        nodes.sort_by_key(|node| {
            let Node {
                kind,
                api_version,
                namespace,
                name,
                uid,
                ..
            } = node;
            (kind, api_version, namespace, name, uid)
        });
        let places: BTreeMap<&str, Place> = nodes
            .iter()
            .enumerate()
            .map(|(place, node)| (node.uid.as_str(), place))
            .collect();
        let mut dependents = vec![BTreeMap::new(); nodes.len()];
        let mut owners = vec![BTreeSet::new(); nodes.len()];
        for edge in &view.edges {
            let ends = (
                places.get(edge.owner.as_str()),
                places.get(edge.dependent.as_str()),
            );
            let (Some(&owner), Some(&dependent)) = ends else {
                continue;
            };
            *dependents[owner].entry(dependent).or_default() |= edge.blocks;
            if owner != dependent {
                owners[dependent].insert(owner);
            }
        }
        Self {
            nodes,
            dependents,
            owners,
        }
    }

    /// Where to begin, so that everything is reached: what nobody owns, and one of each ring that hangs on nothing.
    fn roots(&self) -> Vec<Place> {
        let mut places: Vec<Place> = (0..self.nodes.len()).collect();
        places.sort_by_key(|place| (&self.nodes[*place].namespace, *place));
        let is_free = |place: &Place| self.owners[*place].is_empty();
        let (mut roots, owned): (Vec<Place>, Vec<Place>) = places.into_iter().partition(is_free);
        let mut reached = vec![false; self.nodes.len()];
        for root in &roots {
            self.reach(*root, &mut reached);
        }
        for place in owned {
            if !reached[place] {
                let root = self.ring_above(place);
                self.reach(root, &mut reached);
                roots.push(root);
            }
        }
        roots
    }

    /// Marks everything below a node, and returns how many nodes that are.
    fn reach(&self, from: Place, reached: &mut [bool]) -> usize {
        let mut open = VecDeque::from([from]);
        let mut count = 0;
        while let Some(place) = open.pop_front() {
            if !std::mem::replace(&mut reached[place], true) {
                count += 1;
                open.extend(self.dependents[place].keys());
            }
        }
        count
    }

    /// The first node of a ring that is above a node which no root reaches: going up there never ends.
    fn ring_above(&self, from: Place) -> Place {
        let mut path = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = from;
        while seen.insert(at) {
            path.push(at);
            match self.owners[at].first() {
                Some(owner) => at = *owner,
                None => return at,
            }
        }
        let ring = path.iter().skip_while(|place| **place != at);
        ring.min().copied().unwrap_or(from)
    }

    /// What is drawn below an owner: its dependents by kind, so many of each.
    fn items(&self, owner: Place) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        let mut count = 0;
        let mut dependents = self.dependents[owner].iter().peekable();
        while let Some((place, blocks)) = dependents.next() {
            let node = self.nodes[*place];
            count += 1;
            if count <= FAN_MAX {
                items.push(Item::Dependent(*place, *blocks));
            }
            let is_alike =
                |other: &Node| (&other.kind, &other.api_version) == (&node.kind, &node.api_version);
            if !dependents
                .peek()
                .is_some_and(|(next, _)| is_alike(self.nodes[**next]))
            {
                if count > FAN_MAX {
                    items.push(Item::More(&node.kind, count - FAN_MAX));
                }
                count = 0;
            }
        }
        items
    }
}

// === impl Pen ===

impl<'a> Pen<'a> {
    fn draw(&mut self, root: Place) {
        self.line("", &self.label(root, None, false));
        let mut levels = vec![self.open(root, String::new(), 0)];
        while let Some(level) = levels.last_mut() {
            let Some(item) = level.items.next() else {
                self.is_open[level.owner] = false;
                levels.pop();
                continue;
            };
            let is_last = level.items.len() == 0;
            let (branch, below) = if is_last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let indent = format!("{}{below}", level.indent);
            let start = format!("{}{branch}", level.indent);
            match item {
                Item::More(kind, count) => {
                    let counted = counted(count, kind);
                    let (number, kinds) = counted.split_once(' ').unwrap_or((&counted, ""));
                    self.line(&start, &format!("… and {number} more {kinds}"));
                }
                Item::Below(0) => self.line(&start, "… and what was counted above"),
                Item::Below(count) => {
                    let objects = counted(count, "object");
                    self.line(&start, &format!("… and {objects} below"));
                }
                Item::Dependent(place, blocks) => {
                    let owner = level.owner;
                    self.line(&start, &self.label(place, Some(owner), blocks));
                    if !self.is_open[place] && !self.is_drawn[place] {
                        let depth = levels.len();
                        levels.push(self.open(place, indent, depth));
                    }
                }
            }
        }
    }

    fn open(&mut self, owner: Place, indent: String, depth: usize) -> Level<'a> {
        self.is_open[owner] = true;
        self.is_drawn[owner] = true;
        let is_too_deep = depth >= DEPTH_MAX && !self.forest.dependents[owner].is_empty();
        let items = if is_too_deep {
            self.is_counted[owner] = true;
            let dependents = self.forest.dependents[owner].keys();
            let counts = dependents.map(|place| self.forest.reach(*place, &mut self.is_counted));
            vec![Item::Below(counts.sum())]
        } else {
            self.forest.items(owner)
        };
        Level {
            owner,
            items: items.into_iter(),
            indent,
        }
    }

    /// An object under one of its owners, or as a root.
    fn label(&self, place: Place, owner: Option<Place>, blocks: bool) -> String {
        let node = self.forest.nodes[place];
        let mut label = self.name(node);
        let mut mark = |text: &str| {
            label.push_str(" (");
            label.push_str(text);
            label.push(')');
        };
        if node.r#virtual {
            mark("virtual: not found by any feed");
        }
        if node.foreground {
            mark("deleting in foreground");
        } else if node.deleting {
            mark("deleting");
        }
        let Some(owner) = owner else {
            return label;
        };
        // Every managed object would block if its owner were deleted in the foreground. Here is one that does.
        if blocks && owner != place && self.forest.nodes[owner].foreground {
            mark("blocks");
        }
        let owners = &self.forest.owners[place];
        match owners.iter().filter(|other| **other != owner).count() {
            0 => {}
            1 => {
                let other = owners.iter().find(|other| **other != owner);
                let other = other.map(|other| self.name(self.forest.nodes[*other]));
                mark(&format!("also under {}", other.unwrap_or_default()));
            }
            others => mark(&format!("also under {others} others")),
        }
        if self.is_open[place] {
            mark("a cycle: see above");
        } else if self.is_drawn[place] && !self.forest.dependents[place].is_empty() {
            mark("its dependents: see above");
        }
        label
    }

    fn name(&self, node: &Node) -> String {
        let Node {
            kind,
            namespace,
            name,
            ..
        } = node;
        let is_known = match self.namespaces {
            Namespaces::All => namespace.is_empty(),
            Namespaces::But(known) => namespace.is_empty() || namespace == known,
        };
        let kind = if kind.is_empty() { "?" } else { kind };
        if is_known {
            format!("{} {}", plain(kind), plain(name))
        } else {
            format!("{} {}/{}", plain(kind), plain(namespace), plain(name))
        }
    }

    fn line(&mut self, start: &str, content: &str) {
        self.text.push_str(start);
        self.text.push_str(content);
        self.text.push('\n');
    }
}

/// Names in references are anybody's: nothing of them may move the cursor or begin a line.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

#[cfg(test)]
mod tests;
