//! The rules of built-in kinds that are data: one row of `rules.txt` for each kind that differs from the rest.

use std::collections::BTreeMap;

use caretaker_machinery::names::NameRule;
use serde_json::{Map, Value};

const RULES: &str = include_str!("../../data/rules.txt");

/// The rules by group and plural.
pub(super) type RuleTable = BTreeMap<(String, String), KindRules>;

/// The rules of one kind. The default is what most kinds do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KindRules {
    pub(crate) generation: GenerationRule,
    /// An update must name the resourceVersion.
    pub(crate) versioned: bool,
    /// An update of a missing object creates it.
    pub(crate) upsert: bool,
    /// A delete that removes the object returns it, not a Status.
    pub(crate) returns_object: bool,
    pub(crate) policy: DefaultPolicy,
    /// A delete waits for the grace period.
    pub(crate) graceful: bool,
    pub(crate) names: NameRule,
    /// Finalizers need no domain.
    pub(crate) free_finalizers: bool,
    /// Selectable fields beyond the metadata's.
    pub(crate) fields: Vec<SelectableField>,
    /// A create may set the status although it is a subresource.
    pub(crate) keeps_status: bool,
    /// Stored, but no code of this server acts on it.
    pub(crate) unenforced: bool,
    /// Only simulated workloads act on it.
    pub(crate) simulated: bool,
    /// Another form of the resource of the same name in the core group.
    pub(crate) of_core: bool,
    /// A failed precondition of a delete is reported in the words of the storage.
    pub(crate) storage_words: bool,
}

/// A field that selectors may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// Empty if selectors cannot name it in this version.
    pub(crate) name: String,
    /// Places in the object; the first that is not empty counts.
    paths: Vec<Vec<String>>,
    /// The value of an absent field.
    zero: String,
}

/// The changes that `metadata.generation` counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum GenerationRule {
    /// The kind does not count generations.
    #[default]
    Untouched,
    /// Set to 1 at creation.
    Once,
    /// Counts changes outside metadata and status.
    Content,
    /// Counts also changes of annotations.
    ContentAndAnnotations,
    /// Counts also changes of labels.
    ContentAndLabels,
}

/// What a delete without a policy does to dependents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DefaultPolicy {
    /// Sets no finalizer; the garbage collector deletes them.
    #[default]
    Delete,
    /// The garbage collector orphans them.
    Orphan,
    /// The kind never gets a finalizer of the garbage collector.
    Unsupported,
}

// === impl KindRules ===

impl KindRules {
    fn parse(words: &str) -> Self {
        let mut rules = Self::default();
        for word in words.split(' ') {
            match word.split_once('=').unwrap_or((word, "")) {
                ("generation", "") => rules.generation = GenerationRule::Content,
                ("generation", "once") => rules.generation = GenerationRule::Once,
                ("generation", "labels") => rules.generation = GenerationRule::ContentAndLabels,
                ("generation", "annotations") => {
                    rules.generation = GenerationRule::ContentAndAnnotations;
                }
                ("versioned", "") => rules.versioned = true,
                ("upsert", "") => rules.upsert = true,
                ("returns-object", "") => rules.returns_object = true,
                ("orphans", "") => rules.policy = DefaultPolicy::Orphan,
                ("no-finalizers", "") => rules.policy = DefaultPolicy::Unsupported,
                ("graceful", "") => rules.graceful = true,
                ("free-finalizers", "") => rules.free_finalizers = true,
                ("name", "label") => rules.names = NameRule::Label,
                ("name", "path") => rules.names = NameRule::PathSegment,
                ("fields", list) => {
                    rules.fields = list.split(',').map(SelectableField::parse).collect();
                }
                ("keeps-status", "") => rules.keeps_status = true,
                ("unenforced", "") => rules.unenforced = true,
                ("simulated", "") => rules.simulated = true,
                ("of-core", "") => rules.of_core = true,
                ("storage-words", "") => rules.storage_words = true,
                _ => unreachable!("rules.txt: {word:?}"),
            }
        }
        rules
    }
}

// === impl SelectableField ===

impl SelectableField {
    /// Reads `name`, `name>path`, `name>path/path`, `name|zero` or all of it.
    fn parse(text: &str) -> Self {
        let (text, zero) = text.split_once('|').unwrap_or((text, ""));
        let (name, path) = text.split_once('>').unwrap_or((text, text));
        Self::new(name, path.split('/').map(parts).collect(), zero)
    }

    /// Makes the field of a custom kind; `.spec.color` is the form in its definition.
    pub(crate) fn custom(json_path: &str) -> Self {
        let path = json_path.trim_start_matches('.');
        Self::new(path, vec![parts(path)], "")
    }

    fn new(name: &str, paths: Vec<Vec<String>>, zero: &str) -> Self {
        Self {
            name: name.to_owned(),
            paths,
            zero: zero.to_owned(),
        }
    }

    /// Returns the value in `object` that selectors compare.
    pub(crate) fn read(&self, object: &Map<String, Value>) -> String {
        let found = self.paths.iter().find_map(|path| {
            let (first, rest) = path.split_first()?;
            let value = object.get(first)?;
            match rest.iter().try_fold(value, |value, part| value.get(part))? {
                Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
                value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
                _ => None,
            }
        });
        found.unwrap_or_else(|| self.zero.clone())
    }
}

fn parts(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

/// Reads all rows of the file.
pub(super) fn table() -> RuleTable {
    let lines = RULES.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.splitn(3, '\t');
            let mut next = || columns.next().unwrap_or_default();
            let (group, plural, words) = (next(), next(), next());
            let group = if group == "-" { "" } else { group };
            (
                (group.to_owned(), plural.to_owned()),
                KindRules::parse(words),
            )
        })
        .collect()
}
