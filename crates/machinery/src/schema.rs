//! Structural schemas: what the objects of a custom kind may say, what is kept of it and what is filled in.
//!
//! A [`Schema`] is made once, when its definition is written, and then used for every object. [`Schema::settle`] is one
//! walk that drops what the schema does not know and fills in defaults; [`Schema::faults`] is one walk that judges the
//! result, ignoring what an update did not touch. Whether a schema is one at all is said by [`check::faults`], in the words
//! of the real server. Mirrors `apiextensions-apiserver/pkg/apiserver/{schema,validation}` and `kube-openapi/pkg/validation`
//! 1.36, oddities included. Rules in CEL are not evaluated; [`Schema::has_rules`] tells that there are some.

pub mod check;
mod compile;
mod embedded;
mod fault;
mod format;
mod lists;
mod number;
mod pattern;
mod read;
mod same;
mod validate;
mod values;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::status::Cause;
use compile::Purpose;
use format::Format;
use number::Bounds;
use pattern::Pattern;
use values::Choice;
use walk::Defaults;

pub use read::read;
pub use walk::Settled;

/// The compiled schema of one version of a custom kind.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    has_rules: bool,
}

/// How metadata inside of objects is treated; the server knows, the schema only where it is.
#[derive(Debug, Clone, Copy)]
pub struct Metadata {
    /// Brings metadata into its shape. Answers with the members it does not know, or why it is none.
    pub shape: fn(&mut Value) -> Result<Vec<String>, String>,
    /// The faults of metadata that stands at this path.
    pub faults: fn(&Map<String, Value>, &str) -> Vec<Cause>,
}

/// The part of an object that a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Only the status; the rest was judged before.
    Status,
}

/// An object that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its `apiVersion`, which is not stored with it.
    pub api_version: &'a str,
    /// Its `kind`.
    pub kind: &'a str,
    /// The object as it shall be.
    pub new: &'a Map<String, Value>,
    /// The object as it was, if there was one.
    pub old: Option<&'a Map<String, Value>>,
    /// What is judged of it.
    pub part: Part,
}

/// One place of a schema.
#[derive(Debug, Default)]
struct Node {
    types: Types,
    nullable: bool,
    /// Unknown members are kept here.
    preserve: bool,
    /// A whole object of some kind.
    embedded: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Node>,
    additional: Additional,
    items: Option<Box<Node>>,
    list: List,
    required: Vec<String>,
    length: Size,
    count: Size,
    members: Size,
    bounds: Bounds,
    pattern: Option<Pattern>,
    format: Option<Format>,
    choice: Option<Choice>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

/// The types of JSON that a place may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Types {
    #[default]
    Any,
    One(Type),
    IntOrString,
}

/// A type, by its name in schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// What a schema says about members that are no properties.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    Unsaid,
    Allowed,
    Forbidden,
    Schema(Box<Node>),
}

/// What makes two items of a list the same.
#[derive(Debug, Default)]
enum List {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Bounds of a length or a number of things.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    min: Option<i64>,
    max: Option<i64>,
}

// === impl Schema ===

impl Schema {
    /// Compiles a schema that has no [faults](check::faults); what has is read as far as it goes.
    #[must_use]
    pub fn new(schema: &Value) -> Self {
        Self {
            root: compile::node(schema, Purpose::Objects),
            has_rules: compile::has_rules(schema),
        }
    }

    /// Whether it has rules in CEL, which nobody evaluates here.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Drops what the schema does not know and fills in defaults. Metadata of the object itself is left alone.
    ///
    /// # Errors
    /// Says what is wrong if an embedded object has no valid metadata.
    pub fn settle(
        &self,
        object: &mut Map<String, Value>,
        metadata: Metadata,
    ) -> Result<Settled, String> {
        walk::settle(&self.root, object, Defaults::Fill, metadata)
    }

    /// Drops what the schema does not know, as when an object of another version is shown in this one.
    ///
    /// # Errors
    /// Says what is wrong if an embedded object has no valid metadata.
    pub fn prune(
        &self,
        object: &mut Map<String, Value>,
        metadata: Metadata,
    ) -> Result<Settled, String> {
        walk::settle(&self.root, object, Defaults::Leave, metadata)
    }

    /// The faults of an object that was settled. What an update leaves as it was is not held against it.
    #[must_use]
    pub fn faults(&self, subject: &Subject<'_>, metadata: Metadata) -> Vec<Cause> {
        let mut causes = validate::faults(&self.root, subject);
        if subject.part == Part::Whole {
            causes.extend(embedded::faults(&self.root, subject.new, metadata));
        }
        let repeated = lists::faults(&self.root, subject.new);
        let is_new = |old| lists::faults(&self.root, old).is_empty();
        if !repeated.is_empty() && subject.old.is_none_or(is_new) {
            causes.extend(repeated);
        }
        if self.has_rules && causes.iter().any(fault::blocks_rules) {
            causes.push(fault::rules_not_checked());
        }
        causes
    }
}

// === impl Node ===

impl Node {
    /// The schema of a member; none if it has none of its own.
    fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            _ => None,
        })
    }

    fn is_composed(&self) -> bool {
        !self.all_of.is_empty()
            || !self.any_of.is_empty()
            || !self.one_of.is_empty()
            || self.not.is_some()
    }
}

// === impl Types ===

impl Types {
    fn has(self, one: Type) -> bool {
        match self {
            Types::Any => false,
            Types::One(own) => own == one,
            Types::IntOrString => matches!(one, Type::Integer | Type::String),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Types::Any => "",
            Types::One(one) => one.name(),
            Types::IntOrString => "integer,string",
        }
    }
}

// === impl Type ===

impl Type {
    fn of(name: &str) -> Option<Self> {
        let all = [
            Type::Array,
            Type::Boolean,
            Type::Integer,
            Type::Number,
            Type::Object,
            Type::String,
        ];
        all.into_iter().find(|one| one.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Type::Array => "array",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Object => "object",
            Type::String => "string",
        }
    }
}

// === impl Size ===

impl Size {
    fn is_set(self) -> bool {
        self.min.is_some() || self.max.is_some()
    }
}
