//! The ownership graph as a tree: owners as roots, dependents below them.
//!
//! An object with several owners appears below each of them, with its dependents only the first time; a cycle is cut where
//! it closes. So every reference is drawn at most once, and the size of the output is bounded by the graph. Long lists and
//! deep chains are counted instead of drawn. The same graph always gives the same text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use caretaker_controllers::gc::view::{GraphView, NodeView};

use super::{counted, plain};

/// Dependents of one kind that are drawn below one owner; the rest is counted.
const FAN_MAX: usize = 20;

/// Levels that are drawn; deeper objects are counted, because each level is indented further.
const DEPTH_MAX: usize = 50;

/// The namespaces that lines show.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShownNamespaces<'a> {
    All,
    /// All but this one.
    But(&'a str),
}

/// Draws the graph, one line for each object.
pub(crate) fn tree(view: &GraphView, namespaces: ShownNamespaces<'_>) -> String {
    let forest = OwnerForest::of(view);
    let mut pen = TreePen {
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

/// Index into `OwnerForest::nodes`.
type NodeIndex = usize;

/// The graph in the order in which it is drawn.
struct OwnerForest<'a> {
    /// Sorted by kind, namespace and name.
    nodes: Vec<&'a NodeView>,
    /// The dependents of each node, and whether they block it.
    dependents: Vec<BTreeMap<NodeIndex, bool>>,
    /// The owners of each node, without itself.
    owners: Vec<BTreeSet<NodeIndex>>,
}

/// A line below an owner.
enum TreeLine<'a> {
    Dependent(NodeIndex, bool),
    /// The number of dependents of a kind that are not drawn.
    More(&'a str, usize),
    /// The number of deeper objects that were not counted before.
    Below(usize),
}

/// An owner whose dependents are being drawn.
struct TreeLevel<'a> {
    owner: NodeIndex,
    items: std::vec::IntoIter<TreeLine<'a>>,
    indent: String,
}

/// Holds the output and the nodes that it has drawn.
struct TreePen<'a> {
    forest: &'a OwnerForest<'a>,
    namespaces: ShownNamespaces<'a>,
    /// Nodes above the current line.
    is_open: Vec<bool>,
    /// Nodes whose dependents are drawn.
    is_drawn: Vec<bool>,
    /// Nodes that were too deep and are counted.
    is_counted: Vec<bool>,
    text: String,
}

// === impl OwnerForest ===

impl<'a> OwnerForest<'a> {
    fn of(view: &'a GraphView) -> Self {
        let mut nodes: Vec<&NodeView> = view.nodes.iter().collect();
        nodes.sort_by_key(|node| {
            let NodeView {
                kind,
                api_version,
                namespace,
                name,
                uid,
                ..
            } = node;
            (kind, api_version, namespace, name, uid)
        });
        let places: BTreeMap<&str, NodeIndex> = nodes
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

    /// The roots that reach all nodes: nodes without owners, and one node of each cycle without an owner outside.
    fn roots(&self) -> Vec<NodeIndex> {
        let mut places: Vec<NodeIndex> = (0..self.nodes.len()).collect();
        places.sort_by_key(|place| (&self.nodes[*place].namespace, *place));
        let is_free = |place: &NodeIndex| self.owners[*place].is_empty();
        let (mut roots, owned): (Vec<NodeIndex>, Vec<NodeIndex>) =
            places.into_iter().partition(is_free);
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

    /// Marks all nodes below a node and returns their number.
    fn reach(&self, from: NodeIndex, reached: &mut [bool]) -> usize {
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

    /// The first node of a cycle above a node that no root reaches.
    fn ring_above(&self, from: NodeIndex) -> NodeIndex {
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

    /// The lines below an owner: its dependents by kind, up to a maximum of each.
    fn items(&self, owner: NodeIndex) -> Vec<TreeLine<'a>> {
        let mut items = Vec::new();
        let mut count = 0;
        let mut dependents = self.dependents[owner].iter().peekable();
        while let Some((place, blocks)) = dependents.next() {
            let node = self.nodes[*place];
            count += 1;
            if count <= FAN_MAX {
                items.push(TreeLine::Dependent(*place, *blocks));
            }
            let is_alike = |other: &NodeView| {
                (&other.kind, &other.api_version) == (&node.kind, &node.api_version)
            };
            if !dependents
                .peek()
                .is_some_and(|(next, _)| is_alike(self.nodes[**next]))
            {
                if count > FAN_MAX {
                    items.push(TreeLine::More(&node.kind, count - FAN_MAX));
                }
                count = 0;
            }
        }
        items
    }
}

// === impl TreePen ===

impl<'a> TreePen<'a> {
    fn draw(&mut self, root: NodeIndex) {
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
                TreeLine::More(kind, count) => {
                    let counted = counted(count, kind);
                    let (number, kinds) = counted.split_once(' ').unwrap_or((&counted, ""));
                    self.line(&start, &format!("… and {number} more {kinds}"));
                }
                TreeLine::Below(0) => self.line(&start, "… and what was counted above"),
                TreeLine::Below(count) => {
                    let objects = counted(count, "object");
                    self.line(&start, &format!("… and {objects} below"));
                }
                TreeLine::Dependent(place, blocks) => {
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

    fn open(&mut self, owner: NodeIndex, indent: String, depth: usize) -> TreeLevel<'a> {
        self.is_open[owner] = true;
        self.is_drawn[owner] = true;
        let is_too_deep = depth >= DEPTH_MAX && !self.forest.dependents[owner].is_empty();
        let items = if is_too_deep {
            self.is_counted[owner] = true;
            let dependents = self.forest.dependents[owner].keys();
            let counts = dependents.map(|place| self.forest.reach(*place, &mut self.is_counted));
            vec![TreeLine::Below(counts.sum())]
        } else {
            self.forest.items(owner)
        };
        TreeLevel {
            owner,
            items: items.into_iter(),
            indent,
        }
    }

    /// The line of an object below one of its owners, or as a root.
    fn label(&self, place: NodeIndex, owner: Option<NodeIndex>, blocks: bool) -> String {
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
        // Shown only while the owner waits: most references have blockOwnerDeletion.
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

    fn name(&self, node: &NodeView) -> String {
        let NodeView {
            kind,
            namespace,
            name,
            ..
        } = node;
        let is_known = match self.namespaces {
            ShownNamespaces::All => namespace.is_empty(),
            ShownNamespaces::But(known) => namespace.is_empty() || namespace == known,
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

#[cfg(test)]
mod tests;
