//! Judges an object by its schema: one walk along both.
//!
//! Mirrors kube-openapi's `SchemaValidator`, 1.36, in what it finds and in which order, and counts what matched as it does,
//! because of several alternatives that failed the one with most matches is told. A part that an update left as it was
//! counts as valid (`ratcheting.go` of apiextensions-apiserver).
//!
//! DEVIATION(schema-budget): a walk ends after [`STEPS_MAX`] steps with a fault. Upstream takes the time that schema and
//! object make it take.

use serde_json::{Map, Value};

use super::fault::{self, FAULTS_MAX, Fault, What};
use super::number::{is_whole, type_of, value_of};
use super::same::{Old, OldItems};
use super::{Additional, Node, Part, Size, Subject, Type, Types};
use crate::status::{Cause, quoted};

/// A value against one place of a schema is a step; the largest object of a request has fewer than two million values.
const STEPS_MAX: u64 = 5_000_000;
/// Characters of a text, times the length of the pattern they are matched with, that count as one step.
const MATCHED_PER_STEP: usize = 4096;

/// One walk.
struct Judge {
    path: String,
    steps: u64,
}

/// What is known of a value.
#[derive(Default)]
struct Verdict<'a> {
    faults: Vec<Fault<'a>>,
    /// There are more than were kept.
    overflow: bool,
    matches: u64,
}

/// The faults of an object or its status.
pub(super) fn faults(root: &Node, subject: &Subject<'_>) -> Vec<Cause> {
    let node = match subject.part {
        Part::Whole => Some(root),
        Part::Status => root.properties.get("status"),
    };
    // The walk wants values with all that the schema may speak of; what is stored lacks the type.
    let whole = |members: &Map<String, Value>| match subject.part {
        Part::Whole => {
            let mut members = members.clone();
            members.insert("apiVersion".into(), subject.api_version.into());
            members.insert("kind".into(), subject.kind.into());
            Some(Value::Object(members))
        }
        Part::Status => members.get("status").cloned(),
    };
    let (Some(node), Some(new)) = (node, whole(subject.new)) else {
        return Vec::new();
    };
    let below = if subject.part == Part::Status {
        "status"
    } else {
        ""
    };
    let old = subject.old.and_then(whole);
    judged(node, &new, old.as_ref(), below)
}

/// The faults of a value that stands at `below`.
pub(super) fn value_faults(node: &Node, value: &Value, below: &str) -> Vec<Cause> {
    judged(node, value, None, below)
}

fn judged(node: &Node, new: &Value, old: Option<&Value>, below: &str) -> Vec<Cause> {
    let mut judge = Judge {
        path: String::new(),
        steps: 0,
    };
    let mut verdict = judge.place(node, new, old.map(|value| Old { node, value }));
    if judge.is_exhausted() {
        let text = format!(
            "takes more than {STEPS_MAX} steps to validate: the object is too large for this schema"
        );
        verdict.faults.insert(
            0,
            Fault {
                at: String::new(),
                what: What::Plain(text),
            },
        );
    }
    fault::causes(&verdict.faults, below, verdict.overflow)
}

// === impl Judge ===

impl Judge {
    /// A value at its place in the object, as opposed to one of several schemas for that place.
    fn place<'a>(&mut self, node: &'a Node, new: &'a Value, old: Option<Old<'a>>) -> Verdict<'a> {
        let mut verdict = self.node(node, new, old);
        if !verdict.faults.is_empty() && old.is_some_and(|old| old.is_same(new)) {
            verdict.faults.clear();
        }
        verdict
    }

    fn node<'a>(&mut self, node: &'a Node, new: &'a Value, old: Option<Old<'a>>) -> Verdict<'a> {
        let mut verdict = Verdict::default();
        self.steps += 1;
        if self.is_exhausted() {
            return verdict;
        }
        if new.is_null() {
            if node.types != Types::Any && !node.nullable {
                verdict.add(
                    self,
                    What::Type {
                        expected: node.types.name(),
                        found: "null",
                    },
                );
            } else {
                verdict.matches += 1;
            }
            self.choice(node, new, &mut verdict);
            return verdict;
        }
        if node.types != Types::Any || node.format.is_some() {
            match type_fault(node, new) {
                Some(what) => verdict.add(self, what),
                None => verdict.matches += 1,
            }
            verdict.matches += 1;
        }
        verdict.matches += 1;
        if node.is_composed() {
            verdict.merge(self.composed(node, new, old));
        }
        verdict.matches += 1;
        match new {
            Value::String(text) => self.text(node, text, &mut verdict),
            Value::Number(number) => {
                for what in node.bounds.faults(number, &self.path) {
                    verdict.add(self, what);
                }
                verdict.matches += 2;
            }
            Value::Array(items) => {
                self.items(node, items, old, &mut verdict);
                verdict.matches += 2;
            }
            _ => {}
        }
        self.choice(node, new, &mut verdict);
        verdict.matches += 1;
        if let Value::Object(members) = new {
            self.members(node, members, old, &mut verdict);
            verdict.matches += 1;
        }
        verdict.matches += 1;
        verdict
    }

    fn text<'a>(&mut self, node: &'a Node, text: &'a str, verdict: &mut Verdict<'a>) {
        verdict.matches += 1;
        let length = node.length.is_set().then(|| count(text.chars().count()));
        let too_long = node
            .length
            .max
            .filter(|max| length.is_some_and(|length| length > *max));
        let too_short = node
            .length
            .min
            .filter(|min| length.is_some_and(|length| length < *min));
        if let Some(max) = too_long {
            verdict.add(self, What::TooLong(max));
        } else if let Some(min) = too_short {
            let what = self.invalid(text, &format!("should be at least {min} chars long"));
            verdict.add(self, what);
        } else if let Some(pattern) = &node.pattern {
            self.steps +=
                (text.len().saturating_mul(pattern.source().len()) / MATCHED_PER_STEP) as u64;
            if !self.is_exhausted() && !pattern.matches(text) {
                let what = self.invalid(text, &pattern.mismatch());
                verdict.add(self, what);
            }
        }
        if let Some(format) = node.format.as_ref().filter(|format| format.is_of_text()) {
            verdict.matches += 1;
            if !format.matches(text) {
                verdict.add(
                    self,
                    What::Type {
                        expected: format.name(),
                        found: text,
                    },
                );
            }
        }
    }

    fn choice<'a>(&self, node: &'a Node, new: &'a Value, verdict: &mut Verdict<'a>) {
        if let Some(choice) = node.choice.as_ref().filter(|choice| !choice.has(new)) {
            verdict.add(self, What::NotOneOf(new, choice));
        }
    }

    fn items<'a>(
        &mut self,
        node: &'a Node,
        items: &'a [Value],
        old: Option<Old<'a>>,
        verdict: &mut Verdict<'a>,
    ) {
        if let Some(of) = &node.items {
            let old = old.and_then(Old::items);
            for (index, item) in items.iter().enumerate() {
                if self.is_exhausted() {
                    return;
                }
                let before = old.as_ref().and_then(|old: &OldItems<'a>| old.find(item));
                let length = self.path.len();
                self.path.push_str(&format!("[{index}]"));
                verdict.merge(self.place(of, item, before));
                self.path.truncate(length);
            }
        }
        if let Some(min) = node.count.too_few(items.len()) {
            let what = self.invalid(items.len(), &format!("should have at least {min} items"));
            verdict.add(self, what);
        }
        if let Some(max) = node.count.too_many(items.len()) {
            verdict.add(
                self,
                What::TooMany {
                    found: items.len(),
                    max,
                },
            );
        }
    }

    fn members<'a>(
        &mut self,
        node: &'a Node,
        members: &'a Map<String, Value>,
        old: Option<Old<'a>>,
        verdict: &mut Verdict<'a>,
    ) {
        if let Some(min) = node.members.too_few(members.len()) {
            let what = self.invalid(
                members.len(),
                &format!("should have at least {min} properties"),
            );
            verdict.add(self, what);
        }
        if let Some(max) = node.members.too_many(members.len()) {
            verdict.add(
                self,
                What::TooMany {
                    found: members.len(),
                    max,
                },
            );
        }
        let others = members
            .iter()
            .filter(|(name, _)| !node.properties.contains_key(*name));
        match &node.additional {
            Additional::Forbidden => {
                for (name, _) in others {
                    let text = format!("{}.{name} in body is a forbidden property", self.path);
                    verdict.add(
                        self,
                        What::Invalid {
                            value: name.as_str().into(),
                            text,
                        },
                    );
                }
            }
            Additional::Schema(of) => {
                for (name, value) in others {
                    verdict.merge(self.member(of, (".", name), value, old));
                }
            }
            Additional::Allowed | Additional::Unsaid => {}
        }
        self.properties(node, members, old, verdict);
        for name in node
            .required
            .iter()
            .filter(|name| !members.contains_key(*name))
        {
            verdict.push(Fault {
                at: format!("{}.{name}", self.path),
                what: What::Required,
            });
        }
    }

    fn properties<'a>(
        &mut self,
        node: &'a Node,
        members: &'a Map<String, Value>,
        old: Option<Old<'a>>,
        verdict: &mut Verdict<'a>,
    ) {
        // Whichever are fewer: a schema of many properties is as possible as an object of many members.
        let dot = if self.path.is_empty() { "" } else { "." };
        if members.len() < node.properties.len() {
            for (name, value) in members {
                if let Some(of) = node.properties.get(name) {
                    verdict.merge(self.member(of, (dot, name), value, old));
                }
            }
        } else {
            for (name, of) in &node.properties {
                if let Some(value) = members.get(name) {
                    verdict.merge(self.member(of, (dot, name), value, old));
                }
            }
        }
    }

    fn member<'a>(
        &mut self,
        of: &'a Node,
        (dot, name): (&str, &str),
        value: &'a Value,
        old: Option<Old<'a>>,
    ) -> Verdict<'a> {
        let is_type = self.path.is_empty() && matches!(name, "apiVersion" | "kind");
        let before = old.filter(|_| !is_type).and_then(|old| old.member(name));
        let length = self.path.len();
        self.path.push_str(dot);
        self.path.push_str(name);
        let verdict = self.place(of, value, before);
        self.path.truncate(length);
        verdict
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`, in upstream's order.
    fn composed<'a>(
        &mut self,
        node: &'a Node,
        new: &'a Value,
        old: Option<Old<'a>>,
    ) -> Verdict<'a> {
        let mut all = Verdict::default();
        let path = quoted(&self.path);
        if !node.any_of.is_empty() {
            let mut best: Option<Verdict<'a>> = None;
            for of in &node.any_of {
                let verdict = self.node(of, new, old);
                let is_valid = verdict.faults.is_empty();
                if is_valid
                    || best
                        .as_ref()
                        .is_none_or(|best| verdict.matches > best.matches)
                {
                    best = Some(verdict);
                }
                if is_valid {
                    break;
                }
            }
            let best = best.unwrap_or_default();
            if !best.faults.is_empty() {
                all.plain(format!("{path} must validate at least one schema (anyOf)"));
            }
            all.merge(best);
        }
        if !node.one_of.is_empty() {
            all.merge(self.one_of(node, new, old));
        }
        let mut valid = 0;
        for of in &node.all_of {
            let verdict = self.node(of, new, old);
            valid += usize::from(verdict.faults.is_empty());
            all.merge(verdict);
        }
        if valid < node.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            all.plain(format!(
                "{path} must validate all the schemas (allOf){none}"
            ));
        }
        if let Some(of) = &node.not
            && self.node(of, new, old).faults.is_empty()
        {
            all.plain(format!("{path} must not validate the schema (not)"));
        }
        all
    }

    fn one_of<'a>(&mut self, node: &'a Node, new: &'a Value, old: Option<Old<'a>>) -> Verdict<'a> {
        let (mut valid, mut first, mut best) = (0, None, None::<Verdict<'a>>);
        for of in &node.one_of {
            let verdict = self.node(of, new, old);
            if verdict.faults.is_empty() {
                valid += 1;
                best = None;
                first = first.or(Some(verdict));
            } else if valid == 0
                && best
                    .as_ref()
                    .is_none_or(|best| verdict.matches > best.matches)
            {
                best = Some(verdict);
            }
        }
        if valid == 1 {
            return first.unwrap_or_default();
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            many => format!("Found {many} valid alternatives"),
        };
        let mut all = Verdict::default();
        all.plain(format!(
            "{} must validate one and only one schema (oneOf). {found}",
            quoted(&self.path)
        ));
        all.merge(best.unwrap_or_default());
        all
    }

    fn invalid(&self, value: impl Into<Value>, text: &str) -> What<'static> {
        What::Invalid {
            value: value.into(),
            text: format!("{} in body {text}", self.path),
        }
    }

    fn is_exhausted(&self) -> bool {
        self.steps > STEPS_MAX
    }
}

// === impl Verdict ===

impl<'a> Verdict<'a> {
    fn add(&mut self, judge: &Judge, what: What<'a>) {
        let at = match &what {
            What::Plain(_) => String::new(),
            _ => judge.path.clone(),
        };
        self.push(Fault { at, what });
    }

    fn plain(&mut self, text: String) {
        self.push(Fault {
            at: String::new(),
            what: What::Plain(text),
        });
    }

    fn push(&mut self, fault: Fault<'a>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.overflow = true;
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        self.overflow |= other.overflow;
        other.faults.into_iter().for_each(|fault| self.push(fault));
    }
}

// === impl Size ===

impl Size {
    fn too_few(self, found: usize) -> Option<i64> {
        self.min.filter(|min| count(found) < *min)
    }

    fn too_many(self, found: usize) -> Option<i64> {
        self.max.filter(|max| count(found) > *max)
    }
}

/// What is wrong with the type of a value. With a format upstream looks at it first, and lets any list pass for a text.
fn type_fault<'a>(node: &'a Node, value: &Value) -> Option<What<'a>> {
    let (found, found_format) = match value {
        Value::Null => return None,
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Number(number) => type_of(number),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    };
    let types = node.types;
    let is_whole = || {
        value
            .as_number()
            .is_some_and(|number| is_whole(value_of(number)))
    };
    let fits = types.has(found)
        || found == Type::Integer && types.has(Type::Number)
        || found == Type::Number && types.has(Type::Integer) && is_whole();
    let format = node.format.as_ref().map_or("", |format| format.name());
    let is_listed = matches!(found, Type::String | Type::Array);
    if !format.is_empty() && !is_listed && !fits && found_format != format {
        return Some(What::Type {
            expected: format,
            found: found_format,
        });
    }
    let is_numeric = types.has(Type::Number) || types.has(Type::Integer);
    if fits || !format.is_empty() && is_listed && !is_numeric {
        return None;
    }
    Some(What::Type {
        expected: types.name(),
        found: found.name(),
    })
}

fn count(found: usize) -> i64 {
    i64::try_from(found).unwrap_or(i64::MAX)
}
