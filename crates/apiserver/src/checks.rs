//! Validation of built-in objects: the rows of `checks.txt`, applied to every create and update of an object.
//!
//! A [`Visit`] walks an object together with its types. For each struct it applies the rows of its type in the order of the
//! file, which is the order of upstream's validation functions, 1.36: clients see causes in that order. A row names a field
//! and a rule; what needs several fields is a function in a module of its subject, and the row names that function.
//! Values are borrowed, and a path becomes text only for a cause.
//! DEVIATION(validation): not all rules of upstream have rows; `docs/deviations.md` lists by kind what is left out.

mod cluster;
mod containers;
mod devices;
mod flow;
mod formats;
mod network;
mod pods;
mod policy;
mod registration;
mod resources;
mod shown;
mod storage;
mod table;
mod workloads;

use caretaker_machinery::status::StatusCause;
use caretaker_machinery::types::{TypeRef, ValueType};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::ServedKind;
use crate::metadata::ObjectTree;
use crate::strategy::{ObjectChange, ObjectPart};
use crate::types::{stored, types};
use shown::{ShownField, ShownStruct};
use table::{CheckRule, FieldCheck, NumberRule, checks};

pub(crate) use formats::cidr as cidr_faults;

/// Stands for a field that is absent.
const ABSENT: &Value = &Value::Null;

/// Returns why the rows of a kind refuse a write to the main part of an object.
pub(crate) fn faults(change: &ObjectChange<'_>) -> Vec<StatusCause> {
    match stored(change.kind) {
        Some(root) if change.part == ObjectPart::Main => {
            let mut visit = Visit {
                group: &change.kind.group,
                new: change.new,
                old: change.old,
                path: Vec::new(),
                parents: Vec::new(),
                causes: Vec::new(),
            };
            visit.check_struct(root, change.new);
            visit.causes
        }
        _ => Vec::new(),
    }
}

/// A walk through one object.
struct Visit<'a> {
    /// The API group that the request names.
    group: &'a str,
    new: &'a ObjectTree,
    /// The stored object that `new` replaces; none for a create.
    old: Option<&'a ObjectTree>,
    path: Vec<PathStep<'a>>,
    /// The structs around the current one, and it itself.
    parents: Vec<(TypeRef, &'a ObjectTree)>,
    causes: Vec<StatusCause>,
}

/// A step from a value to one that it contains.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'a str),
    Item(usize),
}

// === impl Visit ===

impl<'a> Visit<'a> {
    /// Applies the rows of a type to a struct of it.
    fn check_struct(&mut self, of: TypeRef, object: &'a ObjectTree) {
        let rows = checks(of);
        if rows.is_empty() {
            return;
        }
        self.parents.push((of, object));
        let mut missing = None;
        for row in rows {
            let is_skipped = missing == Some(row.field) && !row.rule.checks_empty();
            if is_skipped || !row.when.holds(object, self.old.is_none()) {
                continue;
            }
            if self.check_field(row, object) == FieldState::Missing {
                missing = Some(row.field);
            }
        }
        self.parents.pop();
    }

    fn check_field(&mut self, row: &FieldCheck, object: &'a ObjectTree) -> FieldState {
        let value = object.get(row.field).unwrap_or(ABSENT);
        match &row.rule {
            CheckRule::Required(why) if is_missing(value) => {
                self.required(row.field, why);
                return FieldState::Missing;
            }
            CheckRule::Required(_) => {}
            CheckRule::Words(words, true) if value.is_null() => {
                self.unsupported(row.field, "", words);
            }
            CheckRule::Words(words, _) => self.check_word(row.field, value, words),
            CheckRule::Text(faults, also_empty) => {
                self.check_text(row.field, value, *faults, *also_empty);
            }
            CheckRule::Number(rule) => self.check_number(row.field, value, rule),
            CheckRule::Each(key) => self.each_unique(row.field, key),
            CheckRule::Union(what, fields) => self.check_union(what, fields),
            CheckRule::Labels => self.check_labels(row.field, value),
            CheckRule::Immutable => self.check_immutable(row.field),
            CheckRule::Forbidden(why) => {
                if !value.is_null() {
                    self.forbidden(row.field, why);
                }
            }
            CheckRule::Code(run) => run(self),
        }
        FieldState::Present
    }

    fn check_word(&mut self, field: &str, value: &Value, words: &[&str]) {
        for (at, word) in items(field, value) {
            if let Some(word) = word.as_str().filter(|word| !words.contains(word)) {
                self.unsupported(&at, word, words);
            }
        }
    }

    fn check_text(
        &mut self,
        field: &str,
        value: &Value,
        faults: fn(&str) -> Vec<String>,
        also_empty: bool,
    ) {
        if value.is_null() && also_empty {
            return self.invalid_all(field, "", &faults(""));
        }
        for (at, text) in items(field, value) {
            let text = text.as_str().unwrap_or_default();
            if !text.is_empty() || also_empty {
                self.invalid_all(&at, text, &faults(text));
            }
        }
    }

    fn check_number(&mut self, field: &str, value: &Value, rule: &NumberRule) {
        let is_zero = value.is_null() && rule.also_absent;
        if let Some(why) = rule.fault(0).filter(|_| is_zero) {
            self.invalid(field, 0, &why);
        }
        for (at, number) in items(field, value) {
            let number = number.as_i64();
            if let Some((number, why)) = number.and_then(|n| Some((n, rule.fault(n)?))) {
                self.invalid(&at, number, &why);
            }
        }
    }

    /// Exactly one of the fields is there. Rows of types apply to the first of them. Upstream misspells two paths, and does not
    /// count the flexVolume of a PersistentVolume.
    fn check_union(&mut self, what: &str, fields: &[&'static str]) {
        let object = self.here();
        let mut present = fields.iter().filter(|field| object.contains_key(**field));
        match present.next() {
            Some(first) => self.each(first),
            None => self.required("", &format!("must specify a {what}")),
        }
        let is_volume = self.own_type() == "PersistentVolumeSpec";
        for other in present.filter(|field| !(is_volume && **field == "flexVolume")) {
            let path = match *other {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                field => field,
            };
            self.forbidden(path, &format!("may not specify more than 1 {what}"));
        }
    }

    fn check_labels(&mut self, field: &str, value: &Value) {
        use caretaker_machinery::names::{label_value, qualified_name};
        for (key, value) in value.as_object().into_iter().flatten() {
            self.invalid_all(field, key, &qualified_name(key));
            let value = value.as_str().unwrap_or_default();
            self.invalid_all(field, value, &label_value(value));
        }
    }

    /// An update keeps the value. The field is a path from the object.
    fn check_immutable(&mut self, field: &str) {
        let Some(old) = self.old else {
            return;
        };
        let (new, old) = (find(self.new, field), find(old, field));
        if new != old {
            let shown = self.shown_at(field, new);
            let message = format!("Invalid value: {shown}: field is immutable");
            self.push("FieldValueInvalid", field, message);
        }
    }

    /// Applies the rows of their types to the structs that a field of the current struct holds.
    fn each(&mut self, field: &'static str) {
        self.each_unique(field, "");
    }

    /// Like [`each`](Self::each); no two items of the list have the same `key`, unless that is empty.
    fn each_unique(&mut self, field: &'static str, key: &str) {
        let Some((of, object)) = self.parents.last().copied() else {
            return;
        };
        let member = types().get(of).members.get(field);
        let Some(ValueType::Struct(of)) = member.map(|member| member.of) else {
            return;
        };
        self.path.push(PathStep::Field(field));
        match object.get(field) {
            Some(Value::Object(members)) => self.check_struct(of, members),
            Some(Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    let Some(members) = item.as_object() else {
                        continue;
                    };
                    self.path.push(PathStep::Item(at));
                    self.check_struct(of, members);
                    let name = text(item, key);
                    if !name.is_empty() && items[..at].iter().any(|other| text(other, key) == name)
                    {
                        self.duplicate(key, name);
                    }
                    self.path.pop();
                }
            }
            _ => {}
        }
        self.path.pop();
    }

    /// Returns the current struct.
    fn here(&self) -> &'a ObjectTree {
        self.parents.last().map_or(self.new, |(_, object)| *object)
    }

    /// Returns a field of the current struct; null if it is absent.
    fn get(&self, field: &str) -> &'a Value {
        self.here().get(field).unwrap_or(ABSENT)
    }

    /// Returns the nearest struct of this type around the current one.
    fn parent(&self, name: &str) -> Option<&'a ObjectTree> {
        let mut parents = self.parents.iter().rev();
        let found = parents.find(|(of, _)| types().get(*of).short_name() == name);
        found.map(|(_, object)| *object)
    }

    /// Returns the type of the current struct, without its group.
    fn own_type(&self) -> &'static str {
        let own = self.parents.last();
        own.map_or("", |(of, _)| types().get(*of).short_name())
    }

    /// Applies a function to the struct that a field of the current one holds.
    fn path_each(&mut self, field: &'static str, check: fn(&mut Visit<'a>)) {
        let Some((of, object)) = self.parents.last().copied() else {
            return;
        };
        let member = types().get(of).members.get(field);
        if let (Some(ValueType::Struct(of)), Some(Value::Object(members))) =
            (member.map(|member| member.of), object.get(field))
        {
            self.path.push(PathStep::Field(field));
            self.parents.push((of, members));
            check(self);
            self.parents.pop();
            self.path.pop();
        }
    }

    /// Returns the field in whose value the current struct stands.
    fn own_field(&self) -> &'a str {
        let fields = self.path.iter().rev().find_map(|step| match step {
            PathStep::Field(name) => Some(*name),
            PathStep::Item(_) => None,
        });
        fields.unwrap_or_default()
    }

    /// Returns the path of a field of the current struct; of the struct itself if `field` is empty.
    fn at(&self, field: &str) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                PathStep::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                PathStep::Item(at) => path.push_str(&format!("[{at}]")),
            }
        }
        if !path.is_empty() && !field.is_empty() && !field.starts_with('[') {
            path.push('.');
        }
        path + field
    }

    fn required(&mut self, field: &str, why: &str) {
        let cause = StatusCause::required(self.at(field), why);
        self.causes.push(cause);
    }

    fn forbidden(&mut self, field: &str, why: &str) {
        let cause = StatusCause::forbidden(self.at(field), why);
        self.causes.push(cause);
    }

    fn invalid(&mut self, field: &str, value: impl Serialize, why: &str) {
        let cause = StatusCause::invalid(self.at(field), value, why);
        self.causes.push(cause);
    }

    fn invalid_all(&mut self, field: &str, value: &str, faults: &[String]) {
        for fault in faults {
            self.invalid(field, value, fault);
        }
    }

    fn unsupported(&mut self, field: &str, value: &str, words: &[&str]) {
        let cause = StatusCause::not_supported(self.at(field), value, words);
        self.causes.push(cause);
    }

    fn duplicate(&mut self, field: &str, value: &str) {
        let cause = StatusCause::duplicate(self.at(field), value);
        self.causes.push(cause);
    }

    /// A number occurs twice.
    fn duplicate_value(&mut self, field: &str, value: &Value) {
        let message = format!("Duplicate value: {value}");
        self.push("FieldValueDuplicate", field, message);
    }

    /// A struct of the core group occurs twice.
    fn duplicate_struct(&mut self, field: &str, of: &str, value: &Value, why: &str) {
        let of = types().named(&format!("core.v1.{of}"));
        let shown = of.map(|of| serde_json::to_string(&ShownStruct { of, value }));
        let shown = shown.and_then(Result::ok).unwrap_or_default();
        let message = format!("Duplicate value: {shown}: {why}");
        self.push("FieldValueDuplicate", field, message);
    }

    /// A struct violates a rule: a field of the current one, or that itself.
    fn invalid_struct(&mut self, field: &str, why: &str) {
        let shown = self.shown(field);
        let colon = if why.is_empty() { "" } else { ": " };
        let message = format!("Invalid value: {shown}{colon}{why}");
        self.push("FieldValueInvalid", field, message);
    }

    /// The current struct is of no supported type.
    fn unsupported_struct(&mut self, words: &[&str]) {
        let shown = self.shown("");
        self.unsupported_shown("", &shown, words);
    }

    fn unsupported_value(&mut self, field: &str, value: &Value, words: &[&str]) {
        self.unsupported_shown(field, &value.to_string(), words);
    }

    fn unsupported_shown(&mut self, field: &str, shown: &str, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let words = words.join(", ");
        let message = format!("Unsupported value: {shown}: supported values: {words}");
        self.push("FieldValueNotSupported", field, message);
    }

    /// Values contradict each other; the message shows none.
    fn contradictory(&mut self, field: &str, why: &str) {
        let cause = StatusCause::contradictory(self.at(field), why);
        self.causes.push(cause);
    }

    /// Returns the current struct, or a field of it, as messages show it.
    fn shown(&self, field: &str) -> String {
        let Some((of, object)) = self.parents.last().copied() else {
            return String::new();
        };
        let shown = match (types().get(of).members.get(field), object.get(field)) {
            _ if field.is_empty() => {
                let value = Value::Object(object.clone());
                serde_json::to_string(&ShownStruct { of, value: &value })
            }
            (Some(member), Some(value)) => match member.of {
                ValueType::Struct(of) => serde_json::to_string(&ShownStruct { of, value }),
                ValueType::Scalar(_) => serde_json::to_string(value),
            },
            _ => Ok("null".to_owned()),
        };
        shown.unwrap_or_default()
    }

    /// Returns a value of a type as messages show it.
    fn shown_struct(&self, of: &str, value: &Value) -> String {
        let of = types().named(of);
        let shown = of.map(|of| serde_json::to_string(&ShownStruct { of, value }));
        shown.and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the value at a path from the object as messages show it.
    fn shown_at(&self, path: &str, value: &Value) -> String {
        let root = self.parents.first();
        root.map_or_else(String::new, |(of, _)| shown_at(*of, path, value))
    }

    fn not_found(&mut self, field: &str, value: &str) {
        let cause = StatusCause::missing(self.at(field), value);
        self.causes.push(cause);
    }

    fn too_long(&mut self, field: &str, bytes_max: usize) {
        let cause = StatusCause::too_long(self.at(field), bytes_max);
        self.causes.push(cause);
    }

    fn push(&mut self, reason: &str, field: &str, message: String) {
        let cause = StatusCause::new(reason, self.at(field), message);
        self.causes.push(cause);
    }

    fn too_many(&mut self, field: &str, count: usize, max: usize) {
        let message = format!("Too many: {count}: must have at most {max} items");
        self.push("FieldValueTooMany", field, message);
    }
}

/// Returns the value at a path from an object of this kind as messages show it.
pub(crate) fn shown(kind: &ServedKind, path: &str, value: &Value) -> String {
    stored(kind).map_or_else(String::new, |root| shown_at(root, path, value))
}

fn shown_at(root: TypeRef, path: &str, value: &Value) -> String {
    let mut of = Some(ValueType::Struct(root));
    let mut found = None;
    for field in path.split('.') {
        let Some(ValueType::Struct(owner)) = of else {
            break;
        };
        found = types().get(owner).members.get(field).copied();
        of = found.map(|member| member.of);
    }
    let shown = found.map(|field| serde_json::to_string(&ShownField { field, value }));
    shown.and_then(Result::ok).unwrap_or_default()
}

/// Whether the rows that follow for the same field apply.
#[derive(PartialEq, Eq)]
enum FieldState {
    Present,
    Missing,
}

/// Reports whether a required value is missing.
fn is_missing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

/// Returns a value, or the items of a list, each with its path from the struct.
fn items<'v>(field: &str, value: &'v Value) -> Vec<(String, &'v Value)> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(at, item)| (format!("{field}[{at}]"), item))
                .collect()
        }
        value => vec![(field.to_owned(), value)],
    }
}

/// Returns the items of a list; none of anything else.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a text member; empty if it is absent.
fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the value at a path of fields with dots between them; null if it is absent.
fn find<'v>(object: &'v ObjectTree, path: &str) -> &'v Value {
    let mut fields = path.split('.');
    let first = fields.next().and_then(|field| object.get(field));
    let value = fields.try_fold(first.unwrap_or(ABSENT), |value, field| value.get(field));
    value.unwrap_or(ABSENT)
}

#[cfg(test)]
mod tests;
