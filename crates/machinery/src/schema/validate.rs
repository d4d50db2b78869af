//! Validates an object against its schema.
//!
//! Mirrors kube-openapi's `SchemaValidator`, 1.36, in the faults it finds and in their order. It also counts matches like
//! upstream, because of several alternatives that fail, the one with most matches is reported. A part that an update did not
//! change counts as valid (`ratcheting.go` of apiextensions-apiserver).
//!
//! DEVIATION(schema-budget): validation stops with a fault after [`STEPS_MAX`] steps. Upstream has no limit.

use serde_json::{Map, Value};

use super::fault::{self, FAULTS_MAX, FaultDetail, SchemaFault};
use super::number::{is_whole, type_of, value_of};
use super::same::OldValue;
use super::{
    AdditionalProperties, JsonType, NodeTypes, SchemaNode, SizeLimits, ValidatedPart,
    ValidationSubject,
};
use crate::status::{StatusCause, quoted};

/// A step validates one value against one node. The largest object of a request has fewer than two million values.
const STEPS_MAX: u64 = 5_000_000;
/// Matching a pattern costs one step per this many characters of the text times the length of the pattern.
const MATCHED_PER_STEP: usize = 4096;

/// Holds the state of one validation.
struct SchemaValidator {
    path: String,
    steps: u64,
}

/// Faults and matches of a value.
#[derive(Default)]
struct ValidationOutcome<'a> {
    faults: Vec<SchemaFault<'a>>,
    /// There were more faults than [`FAULTS_MAX`].
    overflow: bool,
    matches: u64,
}

/// The faults of an object or its status.
pub(super) fn faults(root: &SchemaNode, subject: &ValidationSubject<'_>) -> Vec<StatusCause> {
    let node = match subject.part {
        ValidatedPart::Whole => Some(root),
        ValidatedPart::Status => root.properties.get("status"),
    };
    // The schema may constrain `apiVersion` and `kind`, which the stored object lacks.
    let whole = |members: &Map<String, Value>| match subject.part {
        ValidatedPart::Whole => {
            let mut members = members.clone();
            members.insert("apiVersion".into(), subject.api_version.into());
            members.insert("kind".into(), subject.kind.into());
            Some(Value::Object(members))
        }
        ValidatedPart::Status => members.get("status").cloned(),
    };
    let (Some(node), Some(new)) = (node, whole(subject.new)) else {
        return Vec::new();
    };
    let below = if subject.part == ValidatedPart::Status {
        "status"
    } else {
        ""
    };
    let old = subject.old.and_then(whole);
    validated(node, &new, old.as_ref(), below)
}

/// The faults of the value at path `below`.
pub(super) fn value_faults(node: &SchemaNode, value: &Value, below: &str) -> Vec<StatusCause> {
    validated(node, value, None, below)
}

fn validated(node: &SchemaNode, new: &Value, old: Option<&Value>, below: &str) -> Vec<StatusCause> {
    let mut validator = SchemaValidator {
        path: String::new(),
        steps: 0,
    };
    let mut outcome = validator.place(node, new, old.map(|value| OldValue { node, value }));
    if validator.is_exhausted() {
        let text = format!(
            "takes more than {STEPS_MAX} steps to validate: the object is too large for this schema"
        );
        let (at, what) = (String::new(), FaultDetail::Plain(text));
        outcome.faults.insert(0, SchemaFault { at, what });
    }
    fault::causes(&outcome.faults, below, outcome.overflow)
}

// === impl SchemaValidator ===

impl SchemaValidator {
    /// Validates a value against its schema, and clears the faults if the update did not change it. Alternatives are
    /// validated by `node`, without this rule.
    fn place<'a>(
        &mut self,
        node: &'a SchemaNode,
        new: &'a Value,
        old: Option<OldValue<'a>>,
    ) -> ValidationOutcome<'a> {
        let mut outcome = self.node(node, new, old);
        if !outcome.faults.is_empty() && old.is_some_and(|old| old.is_same(new)) {
            outcome.faults.clear();
        }
        outcome
    }

    fn node<'a>(
        &mut self,
        node: &'a SchemaNode,
        new: &'a Value,
        old: Option<OldValue<'a>>,
    ) -> ValidationOutcome<'a> {
        let mut outcome = ValidationOutcome::default();
        self.steps += 1;
        if self.is_exhausted() {
            return outcome;
        }
        if new.is_null() {
            if node.types != NodeTypes::Any && !node.nullable {
                outcome.add(self, FaultDetail::Type(node.types.name(), "null"));
            } else {
                outcome.matches += 1;
            }
            self.choice(node, new, &mut outcome);
            return outcome;
        }
        if node.types != NodeTypes::Any || node.format.is_some() {
            match type_fault(node, new) {
                Some(what) => outcome.add(self, what),
                None => outcome.matches += 1,
            }
            outcome.matches += 1;
        }
        outcome.matches += 1;
        if node.is_composed() {
            outcome.merge(self.composed(node, new, old));
        }
        outcome.matches += 1;
        match new {
            Value::String(text) => self.text(node, text, &mut outcome),
            Value::Number(number) => {
                for what in node.bounds.faults(number, &self.path) {
                    outcome.add(self, what);
                }
                outcome.matches += 2;
            }
            Value::Array(items) => {
                self.items(node, items, old, &mut outcome);
                outcome.matches += 2;
            }
            _ => {}
        }
        self.choice(node, new, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(members) = new {
            self.members(node, members, old, &mut outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn text<'a>(
        &mut self,
        node: &'a SchemaNode,
        text: &'a str,
        outcome: &mut ValidationOutcome<'a>,
    ) {
        outcome.matches += 1;
        // Counting takes time, so it is done only if the schema limits the length.
        let length = if node.length.is_set() {
            text.chars().count()
        } else {
            0
        };
        if let Some(max) = node.length.too_many(length) {
            outcome.add(self, FaultDetail::TooLong(max));
        } else if let Some(min) = node.length.too_few(length) {
            let what = self.invalid(text, &format!("should be at least {min} chars long"));
            outcome.add(self, what);
        } else if let Some(pattern) = &node.pattern {
            self.steps +=
                (text.len().saturating_mul(pattern.source().len()) / MATCHED_PER_STEP) as u64;
            if !self.is_exhausted() && !pattern.matches(text) {
                let what = self.invalid(text, &pattern.mismatch());
                outcome.add(self, what);
            }
        }
        if let Some(format) = node.format.as_ref().filter(|format| format.is_of_text()) {
            outcome.matches += 1;
            if !format.matches(text) {
                outcome.add(self, FaultDetail::Type(format.name(), text));
            }
        }
    }

    fn choice<'a>(
        &self,
        node: &'a SchemaNode,
        new: &'a Value,
        outcome: &mut ValidationOutcome<'a>,
    ) {
        if let Some(choice) = node.choice.as_ref().filter(|choice| !choice.has(new)) {
            outcome.add(self, FaultDetail::NotOneOf(new, choice));
        }
    }

    fn items<'a>(
        &mut self,
        node: &'a SchemaNode,
        items: &'a [Value],
        old: Option<OldValue<'a>>,
        outcome: &mut ValidationOutcome<'a>,
    ) {
        if let Some(of) = &node.items {
            let old = old.and_then(OldValue::items);
            for (index, item) in items.iter().enumerate() {
                if self.is_exhausted() {
                    return;
                }
                let before = old.as_ref().and_then(|old| old.find(item));
                let length = self.path.len();
                self.path.push_str(&format!("[{index}]"));
                outcome.merge(self.place(of, item, before));
                self.path.truncate(length);
            }
        }
        self.size(node.count, items.len(), "items", outcome);
    }

    fn size(
        &self,
        limits: SizeLimits,
        found: usize,
        of: &str,
        outcome: &mut ValidationOutcome<'_>,
    ) {
        if let Some(min) = limits.too_few(found) {
            let what = self.invalid(found, &format!("should have at least {min} {of}"));
            outcome.add(self, what);
        }
        if let Some(max) = limits.too_many(found) {
            outcome.add(self, FaultDetail::TooMany(found, max));
        }
    }

    fn members<'a>(
        &mut self,
        node: &'a SchemaNode,
        members: &'a Map<String, Value>,
        old: Option<OldValue<'a>>,
        outcome: &mut ValidationOutcome<'a>,
    ) {
        self.size(node.members, members.len(), "properties", outcome);
        let others = members
            .iter()
            .filter(|(name, _)| !node.properties.contains_key(*name));
        match &node.additional {
            AdditionalProperties::Forbidden => {
                for (name, _) in others {
                    let text = format!("{}.{name} in body is a forbidden property", self.path);
                    outcome.add(self, FaultDetail::Invalid(name.as_str().into(), text));
                }
            }
            AdditionalProperties::Schema(of) => {
                for (name, value) in others {
                    outcome.merge(self.member(of, (".", name), value, old));
                }
            }
            AdditionalProperties::Allowed | AdditionalProperties::Unspecified => {}
        }
        self.properties(node, members, old, outcome);
        for name in node
            .required
            .iter()
            .filter(|name| !members.contains_key(*name))
        {
            outcome.push(SchemaFault {
                at: format!("{}.{name}", self.path),
                what: FaultDetail::Required,
            });
        }
    }

    fn properties<'a>(
        &mut self,
        node: &'a SchemaNode,
        members: &'a Map<String, Value>,
        old: Option<OldValue<'a>>,
        outcome: &mut ValidationOutcome<'a>,
    ) {
        // Iterate over the smaller set: either may be large.
        let both: Vec<(&String, &SchemaNode, &Value)> = if members.len() < node.properties.len() {
            let known = |(name, value)| Some((name, node.properties.get(name)?, value));
            members.iter().filter_map(known).collect()
        } else {
            let given = |(name, of)| Some((name, of, members.get(name)?));
            node.properties.iter().filter_map(given).collect()
        };
        let dot = if self.path.is_empty() { "" } else { "." };
        for (name, of, value) in both {
            outcome.merge(self.member(of, (dot, name), value, old));
        }
    }

    fn member<'a>(
        &mut self,
        of: &'a SchemaNode,
        (dot, name): (&str, &str),
        value: &'a Value,
        old: Option<OldValue<'a>>,
    ) -> ValidationOutcome<'a> {
        let is_type = self.path.is_empty() && matches!(name, "apiVersion" | "kind");
        let before = old.filter(|_| !is_type).and_then(|old| old.member(name));
        let length = self.path.len();
        self.path.push_str(dot);
        self.path.push_str(name);
        let outcome = self.place(of, value, before);
        self.path.truncate(length);
        outcome
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`, in upstream's order.
    fn composed<'a>(
        &mut self,
        node: &'a SchemaNode,
        new: &'a Value,
        old: Option<OldValue<'a>>,
    ) -> ValidationOutcome<'a> {
        let mut all = ValidationOutcome::default();
        let path = quoted(&self.path);
        if !node.any_of.is_empty() {
            let mut best: Option<ValidationOutcome<'a>> = None;
            for of in &node.any_of {
                let outcome = self.node(of, new, old);
                let is_valid = outcome.faults.is_empty();
                if is_valid || outcome.is_better(best.as_ref()) {
                    best = Some(outcome);
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
            let outcome = self.node(of, new, old);
            valid += usize::from(outcome.faults.is_empty());
            all.merge(outcome);
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

    fn one_of<'a>(
        &mut self,
        node: &'a SchemaNode,
        new: &'a Value,
        old: Option<OldValue<'a>>,
    ) -> ValidationOutcome<'a> {
        let (mut valid, mut first, mut best) = (0, None, None::<ValidationOutcome<'a>>);
        for of in &node.one_of {
            let outcome = self.node(of, new, old);
            if outcome.faults.is_empty() {
                valid += 1;
                best = None;
                first = first.or(Some(outcome));
            } else if valid == 0 && outcome.is_better(best.as_ref()) {
                best = Some(outcome);
            }
        }
        if valid == 1 {
            return first.unwrap_or_default();
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            many => format!("Found {many} valid alternatives"),
        };
        let mut all = ValidationOutcome::default();
        all.plain(format!(
            "{} must validate one and only one schema (oneOf). {found}",
            quoted(&self.path)
        ));
        all.merge(best.unwrap_or_default());
        all
    }

    fn invalid(&self, value: impl Into<Value>, text: &str) -> FaultDetail<'static> {
        FaultDetail::Invalid(value.into(), format!("{} in body {text}", self.path))
    }

    fn is_exhausted(&self) -> bool {
        self.steps > STEPS_MAX
    }
}

// === impl ValidationOutcome ===

impl<'a> ValidationOutcome<'a> {
    fn add(&mut self, validator: &SchemaValidator, what: FaultDetail<'a>) {
        let at = match &what {
            FaultDetail::Plain(_) => String::new(),
            _ => validator.path.clone(),
        };
        self.push(SchemaFault { at, what });
    }

    fn plain(&mut self, text: String) {
        let (at, what) = (String::new(), FaultDetail::Plain(text));
        self.push(SchemaFault { at, what });
    }

    fn is_better(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.matches > other.matches)
    }

    fn push(&mut self, fault: SchemaFault<'a>) {
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

// === impl SizeLimits ===

impl SizeLimits {
    fn too_few(self, found: usize) -> Option<i64> {
        self.min.filter(|min| count(found) < *min)
    }

    fn too_many(self, found: usize) -> Option<i64> {
        self.max.filter(|max| count(found) > *max)
    }
}

/// The type fault of a value. Upstream checks the format first, and accepts any list where the format is of strings.
fn type_fault<'a>(node: &'a SchemaNode, value: &Value) -> Option<FaultDetail<'a>> {
    let (found, found_format) = match value {
        Value::Null => return None,
        Value::Bool(_) => (JsonType::Boolean, ""),
        Value::Number(number) => type_of(number),
        Value::String(_) => (JsonType::String, ""),
        Value::Array(_) => (JsonType::Array, ""),
        Value::Object(_) => (JsonType::Object, ""),
    };
    let types = node.types;
    let is_whole = || {
        value
            .as_number()
            .is_some_and(|number| is_whole(value_of(number)))
    };
    let fits = types.has(found)
        || found == JsonType::Integer && types.has(JsonType::Number)
        || found == JsonType::Number && types.has(JsonType::Integer) && is_whole();
    let format = node.format.as_ref().map_or("", |format| format.name());
    let is_listed = matches!(found, JsonType::String | JsonType::Array);
    if !format.is_empty() && !is_listed && !fits && found_format != format {
        return Some(FaultDetail::Type(format, found_format));
    }
    let is_numeric = types.has(JsonType::Number) || types.has(JsonType::Integer);
    if fits || !format.is_empty() && is_listed && !is_numeric {
        return None;
    }
    Some(FaultDetail::Type(types.name(), found.name()))
}

fn count(found: usize) -> i64 {
    i64::try_from(found).unwrap_or(i64::MAX)
}
