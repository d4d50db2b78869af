//! Strategic merge patch: a merge patch that uses the types of the built-in kinds.
//!
//! Lists merge by key or as sets where their type says so, and directives in the patch express what a plain merge cannot:
//! `$patch: replace|delete` in an object or as an element of a merging list, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`. Results, including the order of lists, are those of
//! kube-apiserver 1.36 (`strategicpatch/patch.go` of apimachinery), oddities included: `$patch: merge` is an error there
//! too. Directives without effect are removed from fields; upstream drops them when it decodes the result.
//!
//! DEVIATION(free-form-merge): objects and lists merge and are replaced also where there is no type information: in
//! free-form JSON, in maps, in unknown fields. Upstream returns 500 there.
//! DEVIATION(strategic-panics): input that makes upstream panic (null in a merging list, objects instead of primitives) is
//! an error here.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::merge::drop_nulls;
use list::{ElementKey, ElementType, MergedList};

mod list;
mod schema;

pub use schema::{FieldFacts, MergeRule, PatchSchema, TypeId};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// A strategic merge patch cannot be applied. Messages are upstream's where it has a fixed wording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategicPatchError {
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
        /// Field name of the list.
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

/// What is known about the members of an object.
#[derive(Debug, Clone, Copy)]
enum ObjectShape {
    /// They are the fields of this type.
    Fields(TypeId),
    /// They are the entries of a map whose values have this type, if they are objects with a known type.
    Members(Option<TypeId>),
    /// There is no type information.
    Unknown,
}

/// Whether the elements of a list in the patch are merged or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MergeIntent {
    ToMerge,
    ToDelete,
}

struct StrategicMerger<'s> {
    schema: &'s dyn PatchSchema,
}

/// Members of a patch, split into values and directives about fields.
#[derive(Default)]
struct PatchMembers {
    fields: Map<String, Value>,
    orders: Vec<(String, Vec<Value>)>,
    deletions: Vec<(String, Value)>,
}

// === impl StrategicPatchError ===

impl StrategicPatchError {
    fn unknown_directive(directive: &Value) -> Self {
        let word = directive.as_str().unwrap_or("(not a string)");
        Self::UnknownDirective(word.to_owned())
    }

    /// The HTTP status that upstream returns; its 500 has no reason.
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

/// Applies `patch` to `original`, which has type `root`. A null patch changes nothing.
///
/// # Errors
/// If the patch is malformed, or if its directives or lists do not fit the object; [`StrategicPatchError::code`] is the HTTP status.
pub fn apply(
    original: Value,
    patch: Value,
    schema: &dyn PatchSchema,
    root: TypeId,
) -> Result<Value, StrategicPatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(original),
        _ => return Err(StrategicPatchError::NotAnObject),
    };
    let original = match original {
        Value::Object(original) => original,
        _ => Map::new(),
    };
    let merger = StrategicMerger { schema };
    let place = ObjectShape::Fields(root);
    let directed = holds_directive(&patch);
    let mut merged = Value::Object(merger.object(original, patch, place)?);
    if directed {
        merger.drop_unused_directives(&mut merged, place);
    }
    Ok(merged)
}

// === impl ObjectShape ===

impl ObjectShape {
    /// The type information of member `name`.
    fn member<'s>(self, name: &str, schema: &'s dyn PatchSchema) -> FieldFacts<'s> {
        match self {
            ObjectShape::Fields(of) => schema.field(of, name),
            ObjectShape::Members(of @ Some(_)) => FieldFacts {
                rule: MergeRule::Object,
                of,
            },
            ObjectShape::Members(None) | ObjectShape::Unknown => FieldFacts::UNKNOWN,
        }
    }

    /// The shape of the object in a field, or of the elements of the list in it.
    fn within(facts: FieldFacts<'_>) -> Self {
        match (facts.rule, facts.of) {
            (MergeRule::Map, of) => ObjectShape::Members(of),
            (_, Some(of)) => ObjectShape::Fields(of),
            (_, None) => ObjectShape::Unknown,
        }
    }
}

// === impl StrategicMerger ===

impl StrategicMerger<'_> {
    /// Merges two objects; any other value of the patch replaces the original.
    fn value(
        &self,
        original: Value,
        patch: Value,
        place: ObjectShape,
    ) -> Result<Value, StrategicPatchError> {
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
        place: ObjectShape,
    ) -> Result<Map<String, Value>, StrategicPatchError> {
        if let Some(directive) = patch.remove(PATCH) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Map::new()),
                _ => Err(StrategicPatchError::unknown_directive(&directive)),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        let mut members = PatchMembers::sort_out(patch)?;
        for (name, order) in members.orders {
            let patched = members.fields.remove(&name);
            self.ordered_list(&mut original, name, patched, &order, place)?;
        }
        for (name, value) in members.fields {
            self.field(&mut original, name, value, place, MergeIntent::ToMerge)?;
        }
        // Last, so that elements which are both added and deleted are gone. Upstream's order is random unless there is a
        // `$setElementOrder`; then it is this one.
        for (name, value) in members.deletions {
            self.field(&mut original, name, value, place, MergeIntent::ToDelete)?;
        }
        Ok(original)
    }

    /// Merges one field into `original`. Like upstream, a deletion of a value other than a list merges if the value has the
    /// type of the field, and null removes the field.
    fn field(
        &self,
        original: &mut Map<String, Value>,
        name: String,
        patch: Value,
        place: ObjectShape,
        meant: MergeIntent,
    ) -> Result<(), StrategicPatchError> {
        if patch.is_null() {
            original.remove(&name);
            return Ok(());
        }
        let old = original.get_mut(&name);
        let Some(old) = old.filter(|old| ElementType::of(old) == ElementType::of(&patch)) else {
            if meant == MergeIntent::ToMerge {
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
            (_, patch) if facts.rule == MergeRule::ReplacedObject => patch,
            (old, patch) => self.value(old, patch, ObjectShape::within(facts))?,
        };
        Ok(())
    }

    fn list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        facts: FieldFacts<'_>,
        meant: MergeIntent,
        name: &str,
    ) -> Result<Vec<Value>, StrategicPatchError> {
        let merges = matches!(facts.rule, MergeRule::Set | MergeRule::ListByKey(_));
        if meant == MergeIntent::ToMerge && !merges {
            return Ok(patch);
        }
        let Some(elements) = ElementType::of_all(original.iter().chain(&patch), name)? else {
            return Ok(original);
        };
        // Upstream merges objects even if the directive deletes.
        if meant == MergeIntent::ToDelete && elements != ElementType::Object {
            return list::without(original, &patch, name);
        }
        let merged = self.merged_list(original, patch, facts, name)?;
        Ok(merged.in_patch_order())
    }

    /// Merges two lists whose elements all have the same type.
    fn merged_list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        facts: FieldFacts<'_>,
        name: &str,
    ) -> Result<MergedList, StrategicPatchError> {
        let objects = original.iter().chain(&patch).any(Value::is_object);
        match (facts.rule, objects) {
            (MergeRule::ListByKey(key), true) => {
                self.merge_by_key(original, patch, key, ObjectShape::within(facts), name)
            }
            (MergeRule::ListByKey(_), false) => {
                Err(StrategicPatchError::NotAnElement(name.to_owned()))
            }
            (_, true) => Err(StrategicPatchError::UndeclaredMergeKey(name.to_owned())),
            (_, false) => list::merge_set(original, patch, name),
        }
    }

    /// Merges the list in field `name` and sorts it by the `$setElementOrder` of the patch.
    fn ordered_list(
        &self,
        original: &mut Map<String, Value>,
        name: String,
        patch: Option<Value>,
        order: &[Value],
        place: ObjectShape,
    ) -> Result<(), StrategicPatchError> {
        let facts = place.member(&name, self.schema);
        let not_a_list = || StrategicPatchError::NotAList(name.clone());
        let key = match facts.rule {
            MergeRule::ListByKey(key) => Some(key),
            MergeRule::Set | MergeRule::ReplacedList => None,
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
        if ElementType::of_all(elements, &name)?.is_none() {
            return Err(StrategicPatchError::NothingToOrder(name));
        }
        let order = ElementKey::identities(order, key, &name)?;
        check_order(patch.as_deref().unwrap_or_default(), &order, key, &name)?;
        let merges = facts.rule != MergeRule::ReplacedList;
        let merged = match (old, patch) {
            (Some(old), Some(patch)) if merges => self.merged_list(old, patch, facts, &name)?,
            (Some(old), Some(patch)) => {
                let old = ElementKey::identities(&old, key, &name)?;
                MergedList::untouched(patch, old, key, &name)?
            }
            (Some(old), None) => {
                let ids = ElementKey::identities(&old, key, &name)?;
                MergedList::untouched(old, ids, key, &name)?
            }
            (None, patch) => {
                let plain = patch.into_iter().flatten().filter_map(without_directives);
                MergedList::untouched(plain.collect(), Vec::new(), key, &name)?
            }
        };
        original.insert(name, Value::Array(merged.in_given_order(&order)));
        Ok(())
    }

    /// Removes directives without effect from typed objects. Maps and free-form JSON keep such members, which may be
    /// data.
    fn drop_unused_directives(&self, value: &mut Value, place: ObjectShape) {
        match (value, place) {
            (Value::Object(members), ObjectShape::Fields(_) | ObjectShape::Members(Some(_))) => {
                if matches!(place, ObjectShape::Fields(_)) {
                    members.retain(|name, _| !is_directive(name));
                }
                for (name, member) in members {
                    let within = ObjectShape::within(place.member(name, self.schema));
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

// === impl PatchMembers ===

impl PatchMembers {
    fn sort_out(patch: Map<String, Value>) -> Result<Self, StrategicPatchError> {
        let mut members = Self::default();
        for (name, value) in patch {
            if let Some(field) = name.strip_prefix(SET_ELEMENT_ORDER) {
                let Value::Array(order) = value else {
                    return Err(StrategicPatchError::NotAList(field.to_owned()));
                };
                let field = field.strip_prefix('/');
                let field = field.ok_or(StrategicPatchError::BadElementOrder)?;
                members.orders.push((field.to_owned(), order));
            } else if let Some(field) = name.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
                let field = field.strip_prefix('/');
                let field = field.ok_or(StrategicPatchError::BadDeleteList)?;
                members.deletions.push((field.to_owned(), value));
            } else {
                members.fields.insert(name, value);
            }
        }
        Ok(members)
    }
}

/// Applies `$retainKeys`: removes all members that it does not list. The patch may set only listed members.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicPatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(StrategicPatchError::BadRetainKeys);
    };
    let retained = ElementKey::identities(&retained, None, RETAIN_KEYS)?;
    let retained: BTreeSet<ElementKey> = retained.into_iter().collect();
    let is_retained = |name: &str| retained.contains(&ElementKey::Text(name.to_owned()));
    let said_about_lists = |name: &str| {
        name.starts_with(SET_ELEMENT_ORDER) || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
    };
    for (name, value) in &*patch {
        if !value.is_null() && !said_about_lists(name) && !is_retained(name) {
            return Err(StrategicPatchError::BadRetainKeys);
        }
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// Checks that `$setElementOrder` contains the elements of the patch in the same order. Elements to delete are exempt, and
/// an empty order allows everything.
fn check_order(
    patch: &[Value],
    order: &[ElementKey],
    key: Option<&str>,
    name: &str,
) -> Result<(), StrategicPatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for element in patch {
        let fits = match element.get(PATCH) {
            Some(directive) if directive == "delete" => true,
            // Upstream skips other directives only while elements of the order remain.
            Some(_) => !order.as_slice().is_empty(),
            None => {
                let id = ElementKey::identity(element, key, name)?;
                order.any(|other| *other == id)
            }
        };
        if !fits {
            return Err(StrategicPatchError::OrderMismatch(name.to_owned()));
        }
    }
    Ok(())
}

/// Removes all objects with a `$patch` from a value; `None` if the value is one.
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
