//! Strategic merge patch: a merge patch that knows the types of Kubernetes.
//!
//! Lists merge where their type says so, by key or as sets, and directives in the patch say what a plain merge cannot:
//! `$patch: replace|delete` in an object or as an element of a merging list, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`. Results, order of lists included, are those of
//! kube-apiserver 1.36 (`strategicpatch/patch.go` of apimachinery), and so are the oddities: `$patch: merge` is an error
//! there too. Directives that had nothing to act on vanish from fields, as upstream loses them by decoding the result.
//!
//! DEVIATION(free-form-merge): objects and lists merge and are replaced also where the types know nothing of them: in free-form JSON, in
//! maps, in fields that do not exist. Upstream answers 500 there.
//! DEVIATION(strategic-panics): what makes upstream panic (null in a merging list, objects where primitives belong) is an error here.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::merge::drop_nulls;
use list::{Merged, Scalar, Type};

mod list;
mod schema;

pub use schema::{FieldFacts, PatchSchema, Rule, TypeId};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Why a strategic merge patch cannot be applied. Where upstream has a fixed wording it is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// 400: the patch is a list or a scalar.
    #[error("a strategic merge patch must be a JSON object")]
    NotAnObject,
    /// 400: `$retainKeys` is not a list, or the patch sets a key that it does not retain.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// 400: `$deleteFromPrimitiveList` without a field.
    #[error("invalid patch format of primitive list")]
    BadDeleteList,
    /// 400: `$setElementOrder` without a field.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// 422: a merging list of lists.
    #[error("lists of lists are not supported: {0}")]
    ListOfLists(String),
    /// 500: a `$patch` that is not `replace` or `delete`.
    #[error("unknown patch type: {0}")]
    UnknownDirective(String),
    /// 500: an element, old or of the patch, that a merge by key cannot identify.
    #[error("an element of {list} does not contain the declared merge key: {key}")]
    NoMergeKey {
        /// Name of the list.
        list: String,
        /// The field that identifies its elements.
        key: String,
    },
    /// 500: a list of objects whose type says to merge them, but not by which key.
    #[error("cannot merge lists without merge key: {0}")]
    UndeclaredMergeKey(String),
    /// 500: an object or list where a primitive identifies an element, or a primitive where an object belongs.
    #[error("an element of {0} is of a type that it cannot have")]
    NotAnElement(String),
    /// 500: elements of different types, or null, in a merging list.
    #[error("list element types are not identical: {0}")]
    MixedElements(String),
    /// 500: `$setElementOrder` for something that is not a list, or itself not one.
    #[error("{SET_ELEMENT_ORDER}/{0} needs a list, in a field that holds a list")]
    NotAList(String),
    /// 500: `$setElementOrder` for a list without elements.
    #[error("{SET_ELEMENT_ORDER}/{0} has no elements to put in order")]
    NothingToOrder(String),
    /// 500: elements of the patch that `$setElementOrder` does not name, or names in another order.
    #[error("the order of {0} in the patch does not match its {SET_ELEMENT_ORDER} list")]
    OrderMismatch(String),
}

/// Where in the types a value is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Fields of this type.
    Fields(TypeId),
    /// Members of a map, whose values may be of this type.
    Members(Option<TypeId>),
    /// Nothing is known.
    Unknown,
}

/// How a list of the patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    ToMerge,
    ToDelete,
}

struct Merger<'s> {
    schema: &'s dyn PatchSchema,
}

/// Members of a patch, what is data told apart from what is said about fields.
#[derive(Default)]
struct Members {
    fields: Map<String, Value>,
    orders: Vec<(String, Vec<Value>)>,
    deletions: Vec<(String, Value)>,
}

// === impl StrategicError ===

impl StrategicError {
    fn unknown_directive(directive: &Value) -> Self {
        let word = directive.as_str().unwrap_or("(not a string)");
        Self::UnknownDirective(word.to_owned())
    }

    /// The HTTP status upstream answers with; its 500 has no reason.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::NotAnObject
            | Self::BadRetainKeys
            | Self::BadDeleteList
            | Self::BadElementOrder => 400,
            Self::ListOfLists(_) => 422,
            Self::UnknownDirective(_)
            | Self::NoMergeKey { .. }
            | Self::UndeclaredMergeKey(_)
            | Self::NotAnElement(_)
            | Self::MixedElements(_)
            | Self::NotAList(_)
            | Self::NothingToOrder(_)
            | Self::OrderMismatch(_) => 500,
        }
    }
}

/// The object that `patch` makes of `original`, which is of type `root`. A patch of null changes nothing.
///
/// # Errors
/// A patch that is not one, or whose directives or lists do not fit; [`StrategicError::code`] says how to answer.
pub fn apply(
    original: Value,
    patch: Value,
    schema: &dyn PatchSchema,
    root: TypeId,
) -> Result<Value, StrategicError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(original),
        _ => return Err(StrategicError::NotAnObject),
    };
    let original = match original {
        Value::Object(original) => original,
        _ => Map::new(),
    };
    let merger = Merger { schema };
    let place = Place::Fields(root);
    let directed = holds_directive(&patch);
    let mut merged = Value::Object(merger.object(original, patch, place)?);
    if directed {
        merger.drop_unused_directives(&mut merged, place);
    }
    Ok(merged)
}

// === impl Place ===

impl Place {
    /// What is known of member `name`.
    fn member<'s>(self, name: &str, schema: &'s dyn PatchSchema) -> FieldFacts<'s> {
        match self {
            Place::Fields(of) => schema.field(of, name),
            Place::Members(of @ Some(_)) => FieldFacts {
                rule: Rule::Object,
                of,
            },
            Place::Members(None) | Place::Unknown => FieldFacts::UNKNOWN,
        }
    }

    /// Where the object in a field is, or the elements of the list in it.
    fn within(facts: FieldFacts<'_>) -> Self {
        match (facts.rule, facts.of) {
            (Rule::Map, of) => Place::Members(of),
            (_, Some(of)) => Place::Fields(of),
            (_, None) => Place::Unknown,
        }
    }
}

// === impl Merger ===

impl Merger<'_> {
    /// Merges two objects; anything else of the patch replaces the original.
    fn value(&self, original: Value, patch: Value, place: Place) -> Result<Value, StrategicError> {
        match (original, patch) {
            (Value::Object(original), Value::Object(patch)) => {
                Ok(Value::Object(self.object(original, patch, place)?))
            }
            (_, patch) => Ok(patch),
        }
    }

    fn object(
        &self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        place: Place,
    ) -> Result<Map<String, Value>, StrategicError> {
        if let Some(directive) = patch.remove(PATCH) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Map::new()),
                _ => Err(StrategicError::unknown_directive(&directive)),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        let mut members = Members::sort_out(patch)?;
        for (name, order) in members.orders {
            let patched = members.fields.remove(&name);
            self.ordered_list(&mut original, name, patched, &order, place)?;
        }
        for (name, value) in members.fields {
            self.field(&mut original, name, value, place, Meant::ToMerge)?;
        }
        // Last, so that what is both added and deleted is gone. Upstream's order is random unless there is a
        // `$setElementOrder`, and then it is this one.
        for (name, value) in members.deletions {
            self.field(&mut original, name, value, place, Meant::ToDelete)?;
        }
        Ok(original)
    }

    /// Merges one field into `original`. A deletion of something other than a list is upstream's: it merges if the type
    /// of the value is that of the field, and null removes the field.
    fn field(
        &self,
        original: &mut Map<String, Value>,
        name: String,
        patch: Value,
        place: Place,
        meant: Meant,
    ) -> Result<(), StrategicError> {
        if patch.is_null() {
            original.remove(&name);
            return Ok(());
        }
        let old = original.get_mut(&name);
        let Some(old) = old.filter(|old| Type::of(old) == Type::of(&patch)) else {
            if meant == Meant::ToMerge {
                let mut patch = patch;
                drop_nulls(&mut patch);
                match without_directives(patch) {
                    Some(value) => original.insert(name, value),
                    None => original.remove(&name),
                };
            }
            return Ok(());
        };
        let facts = place.member(&name, self.schema);
        *old = match (std::mem::take(old), patch) {
            (Value::Array(old), Value::Array(patch)) => {
                Value::Array(self.list(old, patch, facts, meant, &name)?)
            }
            (_, patch) if facts.rule == Rule::ReplacedObject => patch,
            (old, patch) => self.value(old, patch, Place::within(facts))?,
        };
        Ok(())
    }

    fn list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        facts: FieldFacts<'_>,
        meant: Meant,
        name: &str,
    ) -> Result<Vec<Value>, StrategicError> {
        let merges = matches!(facts.rule, Rule::Set | Rule::ListByKey(_));
        if meant == Meant::ToMerge && !merges {
            return Ok(patch);
        }
        let Some(elements) = Type::of_all(original.iter().chain(&patch), name)? else {
            return Ok(original);
        };
        // Upstream merges objects even if they are meant to be deleted.
        if meant == Meant::ToDelete && elements != Type::Object {
            return list::without(original, &patch, name);
        }
        let merged = self.merged_list(original, patch, facts, name)?;
        Ok(merged.in_patch_order())
    }

    /// Merges two lists whose elements are known to be of one type.
    fn merged_list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        facts: FieldFacts<'_>,
        name: &str,
    ) -> Result<Merged, StrategicError> {
        let objects = original.iter().chain(&patch).any(Value::is_object);
        match (facts.rule, objects) {
            (Rule::ListByKey(key), true) => {
                self.merge_by_key(original, patch, key, Place::within(facts), name)
            }
            (Rule::ListByKey(_), false) => Err(StrategicError::NotAnElement(name.to_owned())),
            (_, true) => Err(StrategicError::UndeclaredMergeKey(name.to_owned())),
            (_, false) => list::merge_set(original, patch, name),
        }
    }

    /// Merges the list in field `name` and puts it in the order that the patch gives.
    fn ordered_list(
        &self,
        original: &mut Map<String, Value>,
        name: String,
        patch: Option<Value>,
        order: &[Value],
        place: Place,
    ) -> Result<(), StrategicError> {
        let facts = place.member(&name, self.schema);
        let not_a_list = || StrategicError::NotAList(name.clone());
        let key = match facts.rule {
            Rule::ListByKey(key) => Some(key),
            Rule::Set | Rule::ReplacedList => None,
            _ => return Err(not_a_list()),
        };
        let list = |value: Value| match value {
            Value::Array(elements) => Ok(elements),
            _ => Err(not_a_list()),
        };
        let old = original.remove(&name).map(list).transpose()?;
        let patch = patch.map(list).transpose()?;
        let elements = old.iter().chain(&patch).flatten();
        if old.is_none() && patch.is_none() {
            return Ok(());
        }
        if Type::of_all(elements, &name)?.is_none() {
            return Err(StrategicError::NothingToOrder(name));
        }
        let order = Scalar::identities(order, key, &name)?;
        check_order(patch.as_deref().unwrap_or_default(), &order, key, &name)?;
        let merges = facts.rule != Rule::ReplacedList;
        let merged = match (old, patch) {
            (Some(old), Some(patch)) if merges => self.merged_list(old, patch, facts, &name)?,
            (Some(old), Some(patch)) => {
                let old = Scalar::identities(&old, key, &name)?;
                Merged::untouched(patch, old, key, &name)?
            }
            (Some(old), None) => {
                let ids = Scalar::identities(&old, key, &name)?;
                Merged::untouched(old, ids, key, &name)?
            }
            (None, patch) => {
                let plain = patch.into_iter().flatten().filter_map(without_directives);
                Merged::untouched(plain.collect(), Vec::new(), key, &name)?
            }
        };
        original.insert(name, Value::Array(merged.in_given_order(&order)));
        Ok(())
    }

    /// Takes out of fields what can only be a directive that had nothing to act on. Maps and free-form JSON keep it: there
    /// it may be data.
    fn drop_unused_directives(&self, value: &mut Value, place: Place) {
        match (value, place) {
            (Value::Object(members), Place::Fields(_) | Place::Members(Some(_))) => {
                if matches!(place, Place::Fields(_)) {
                    members.retain(|name, _| !is_directive(name));
                }
                for (name, member) in members {
                    let within = Place::within(place.member(name, self.schema));
                    self.drop_unused_directives(member, within);
                }
            }
            (Value::Array(elements), place) => {
                for element in elements {
                    self.drop_unused_directives(element, place);
                }
            }
            _ => {}
        }
    }
}

// === impl Members ===

impl Members {
    fn sort_out(patch: Map<String, Value>) -> Result<Self, StrategicError> {
        let mut members = Self::default();
        for (name, value) in patch {
            if let Some(field) = name.strip_prefix(SET_ELEMENT_ORDER) {
                let Value::Array(order) = value else {
                    return Err(StrategicError::NotAList(field.to_owned()));
                };
                let field = field.strip_prefix('/');
                let field = field.ok_or(StrategicError::BadElementOrder)?;
                members.orders.push((field.to_owned(), order));
            } else if let Some(field) = name.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
                let field = field.strip_prefix('/');
                let field = field.ok_or(StrategicError::BadDeleteList)?;
                members.deletions.push((field.to_owned(), value));
            } else {
                members.fields.insert(name, value);
            }
        }
        Ok(members)
    }
}

/// Obeys `$retainKeys`: what it does not list goes, and the patch may not set anything else.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(StrategicError::BadRetainKeys);
    };
    let retained = Scalar::identities(&retained, None, RETAIN_KEYS)?;
    let retained: BTreeSet<Scalar> = retained.into_iter().collect();
    let is_retained = |name: &str| retained.contains(&Scalar::Text(name.to_owned()));
    let said_about_lists = |name: &str| {
        name.starts_with(SET_ELEMENT_ORDER) || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
    };
    for (name, value) in &*patch {
        if !value.is_null() && !said_about_lists(name) && !is_retained(name) {
            return Err(StrategicError::BadRetainKeys);
        }
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// The elements of a patch must be among those of its `$setElementOrder`, in the same order; what is to be deleted does
/// not count, and an empty order asks for nothing.
fn check_order(
    patch: &[Value],
    order: &[Scalar],
    key: Option<&str>,
    name: &str,
) -> Result<(), StrategicError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for element in patch {
        let fits = match element.get(PATCH) {
            Some(directive) if directive == "delete" => true,
            // Upstream steps over other directives only while there is something left of the order.
            Some(_) => !order.as_slice().is_empty(),
            None => {
                let id = Scalar::identity(element, key, name)?;
                order.any(|other| *other == id)
            }
        };
        if !fits {
            return Err(StrategicError::OrderMismatch(name.to_owned()));
        }
    }
    Ok(())
}

/// The value without the objects that carry a `$patch`; none if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => None,
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter_map(|(name, member)| Some((name, without_directives(member)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(elements) => {
            let kept = elements.into_iter().filter_map(without_directives);
            Some(Value::Array(kept.collect()))
        }
        other => Some(other),
    }
}

fn is_directive(name: &str) -> bool {
    let about_list = |directive| {
        name.strip_prefix(directive)
            .is_some_and(|field: &str| field.starts_with('/'))
    };
    name == PATCH
        || name == RETAIN_KEYS
        || about_list(SET_ELEMENT_ORDER)
        || about_list(DELETE_FROM_PRIMITIVE_LIST)
}

fn holds_directive(patch: &Map<String, Value>) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Object(members) => holds_directive(members),
            Value::Array(elements) => elements.iter().any(within),
            _ => false,
        }
    }
    patch
        .iter()
        .any(|(name, value)| is_directive(name) || within(value))
}
