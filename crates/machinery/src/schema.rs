//! Structural schemas of custom resources: pruning, defaulting and validation.
//!
//! A [`StructuralSchema`] is compiled once, when its definition is written, and then used for every object.
//! [`StructuralSchema::prune_and_default`] removes unknown fields and fills in defaults; [`StructuralSchema::faults`]
//! validates the result and ignores parts that an update did not change. [`check::faults`] validates the schema itself, with
//! upstream's messages. Mirrors `apiextensions-apiserver/pkg/apiserver/{schema,validation}` and `kube-openapi/pkg/validation`
//! 1.36, oddities included. CEL rules are not evaluated; [`StructuralSchema::has_rules`] reports that a schema has some.

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

use crate::status::StatusCause;
use compile::CompilePurpose;
use format::ValueFormat;
use number::NumberBounds;
use pattern::GoPattern;
use values::EnumValues;
use walk::DefaultsMode;

pub use read::{SchemaTypeError, read, type_name};
pub use values::{go_float, go_json};
pub use walk::EmbeddedObjectError;

/// The compiled schema of one version of a custom resource.
#[derive(Debug)]
pub struct StructuralSchema {
    root: SchemaNode,
    has_rules: bool,
}

/// Rules for the metadata of embedded objects. The API server supplies them; the schema only knows where metadata occurs.
#[derive(Debug, Clone, Copy)]
pub struct MetadataRules {
    /// Prunes metadata. Returns the unknown members, or the reason why the value is not metadata.
    pub shape: fn(&mut Value) -> Result<Vec<String>, MetadataShapeError>,
    /// The faults of the metadata at a path.
    pub faults: fn(&Map<String, Value>, &str) -> Vec<StatusCause>,
}

/// A value is not metadata, in the words of the API server's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetadataShapeError(pub String);

/// The part of an object that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidatedPart {
    /// The whole object.
    Whole,
    /// Only the status; the rest was validated before.
    Status,
}

/// An object to validate.
#[derive(Debug, Clone, Copy)]
pub struct ValidationSubject<'a> {
    /// The `apiVersion`, which is not part of `new`.
    pub api_version: &'a str,
    /// The `kind`, which is not part of `new`.
    pub kind: &'a str,
    /// The object after the write.
    pub new: &'a Map<String, Value>,
    /// The object before an update.
    pub old: Option<&'a Map<String, Value>>,
    pub part: ValidatedPart,
}

/// The schema of one value, compiled.
#[derive(Debug, Default)]
struct SchemaNode {
    types: NodeTypes,
    nullable: bool,
    /// The value of `x-kubernetes-preserve-unknown-fields`.
    preserve: bool,
    /// The value of `x-kubernetes-embedded-resource`.
    embedded: bool,
    default: Option<Value>,
    properties: BTreeMap<String, SchemaNode>,
    additional: AdditionalProperties,
    items: Option<Box<SchemaNode>>,
    list: ListType,
    required: Vec<String>,
    length: SizeLimits,
    count: SizeLimits,
    members: SizeLimits,
    bounds: NumberBounds,
    pattern: Option<GoPattern>,
    format: Option<ValueFormat>,
    choice: Option<EnumValues>,
    all_of: Vec<SchemaNode>,
    any_of: Vec<SchemaNode>,
    one_of: Vec<SchemaNode>,
    not: Option<Box<SchemaNode>>,
}

/// The JSON types that a value may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NodeTypes {
    #[default]
    Any,
    One(JsonType),
    IntOrString,
}

/// A JSON type of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// The `additionalProperties` of a schema.
#[derive(Debug, Default)]
enum AdditionalProperties {
    #[default]
    Unspecified,
    Allowed,
    Forbidden,
    Schema(Box<SchemaNode>),
}

/// The `x-kubernetes-list-type`: decides which items of a list count as equal.
#[derive(Debug, Default)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Limits of a length or a count.
#[derive(Debug, Clone, Copy, Default)]
struct SizeLimits {
    min: Option<i64>,
    max: Option<i64>,
}

// === impl StructuralSchema ===

impl StructuralSchema {
    /// Compiles a schema without [faults](check::faults). Invalid parts of a schema are ignored.
    #[must_use]
    pub fn new(schema: &Value) -> Self {
        Self {
            root: compile::node(schema, CompilePurpose::Objects),
            has_rules: compile::has_rules(schema),
        }
    }

    /// Whether the schema has CEL rules, which are not evaluated.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Removes unknown fields and fills in defaults. Returns the paths of the fields that were removed. Does not change the
    /// metadata of the object itself.
    ///
    /// # Errors
    /// If an embedded object has invalid metadata.
    pub fn prune_and_default(
        &self,
        object: &mut Map<String, Value>,
        metadata: MetadataRules,
    ) -> Result<Vec<String>, EmbeddedObjectError> {
        walk::prune(&self.root, object, DefaultsMode::Fill, metadata)
    }

    /// Removes unknown fields, for example from an object of another version.
    ///
    /// # Errors
    /// If an embedded object has invalid metadata.
    pub fn prune(
        &self,
        object: &mut Map<String, Value>,
        metadata: MetadataRules,
    ) -> Result<Vec<String>, EmbeddedObjectError> {
        walk::prune(&self.root, object, DefaultsMode::Leave, metadata)
    }

    /// Validates an object after pruning and defaulting. Faults in parts that an update did not change are ignored.
    #[must_use]
    pub fn faults(
        &self,
        subject: &ValidationSubject<'_>,
        metadata: MetadataRules,
    ) -> Vec<StatusCause> {
        let mut causes = validate::faults(&self.root, subject);
        if subject.part == ValidatedPart::Whole {
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

// === impl SchemaNode ===

impl SchemaNode {
    /// The schema of a member; `None` if the member has no schema.
    fn member(&self, name: &str) -> Option<&SchemaNode> {
        self.properties.get(name).or(match &self.additional {
            AdditionalProperties::Schema(node) => Some(node),
            _ => None,
        })
    }

    /// The path of a member; names that are not properties are in brackets.
    fn path_of(&self, path: &str, name: &str) -> String {
        match path {
            _ if !self.properties.contains_key(name) => format!("{path}[{name}]"),
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    fn is_composed(&self) -> bool {
        !self.all_of.is_empty()
            || !self.any_of.is_empty()
            || !self.one_of.is_empty()
            || self.not.is_some()
    }
}

// === impl NodeTypes ===

impl NodeTypes {
    fn has(self, one: JsonType) -> bool {
        match self {
            NodeTypes::Any => false,
            NodeTypes::One(own) => own == one,
            NodeTypes::IntOrString => matches!(one, JsonType::Integer | JsonType::String),
        }
    }

    fn name(self) -> &'static str {
        match self {
            NodeTypes::Any => "",
            NodeTypes::One(one) => one.name(),
            NodeTypes::IntOrString => "integer,string",
        }
    }
}

// === impl JsonType ===

impl JsonType {
    fn of(name: &str) -> Option<Self> {
        let all = [
            JsonType::Array,
            JsonType::Boolean,
            JsonType::Integer,
            JsonType::Number,
            JsonType::Object,
            JsonType::String,
        ];
        all.into_iter().find(|one| one.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            JsonType::Array => "array",
            JsonType::Boolean => "boolean",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Object => "object",
            JsonType::String => "string",
        }
    }
}

// === impl SizeLimits ===

impl SizeLimits {
    fn is_set(self) -> bool {
        self.min.is_some() || self.max.is_some()
    }
}
