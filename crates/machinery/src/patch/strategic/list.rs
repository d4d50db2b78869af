//! Merging of lists: the elements of a patched list and their order.
//!
//! The order is upstream's: elements in the patch keep the patch's order, the others keep their old order, and the two
//! sequences are merged by the old order. A new element therefore comes before the first old element that is not in the
//! patch, unless an older element that is in the patch precedes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ObjectShape, StrategicMerger, StrategicPatchError};

/// The JSON types that upstream distinguishes: integers and fractions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementType {
    Null,
    Bool,
    Whole,
    Fraction,
    Text,
    List,
    Object,
}

/// The identity of an element: the element of a set, or the merge key of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ElementKey {
    Null,
    Bool(bool),
    Whole(i64),
    /// The bits of the float; -0.0 is stored as 0.0. Numbers from JSON are never NaN.
    Fraction(u64),
    Text(String),
}

/// Elements with their identities.
type KeyedElements = Vec<(ElementKey, Value)>;

/// A list after the merge.
pub(super) struct MergedList {
    /// In the order of a patch without `$setElementOrder`.
    elements: KeyedElements,
    /// The old order, which a `$setElementOrder` is merged with.
    old: Vec<ElementKey>,
}

// === impl ElementType ===

impl ElementType {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => ElementType::Null,
            Value::Bool(_) => ElementType::Bool,
            // Upstream reads a number that does not fit into an i64 as a float.
            Value::Number(number) if number.is_i64() => ElementType::Whole,
            Value::Number(_) => ElementType::Fraction,
            Value::String(_) => ElementType::Text,
            Value::Array(_) => ElementType::List,
            Value::Object(_) => ElementType::Object,
        }
    }

    /// The common type of all elements; `None` without elements.
    pub(super) fn of_all<'a>(
        elements: impl IntoIterator<Item = &'a Value>,
        list: &str,
    ) -> Result<Option<Self>, StrategicPatchError> {
        let mut elements = elements.into_iter().map(ElementType::of);
        let Some(first) = elements.next() else {
            return Ok(None);
        };
        if first == ElementType::List {
            return Err(StrategicPatchError::ListOfLists(list.to_owned()));
        }
        if first == ElementType::Null || elements.any(|other| other != first) {
            return Err(StrategicPatchError::MixedElements(list.to_owned()));
        }
        Ok(Some(first))
    }
}

// === impl ElementKey ===

impl ElementKey {
    /// The identity of an element: its merge key, or the element itself if the list has no merge key.
    pub(super) fn identity(
        element: &Value,
        key: Option<&str>,
        list: &str,
    ) -> Result<Self, StrategicPatchError> {
        let value = match (key, element) {
            (None, element) => element,
            (Some(key), Value::Object(members)) => {
                members
                    .get(key)
                    .ok_or_else(|| StrategicPatchError::NoMergeKey {
                        list: list.to_owned(),
                        key: key.to_owned(),
                    })?
            }
            (Some(_), _) => return Err(StrategicPatchError::NotAnElement(list.to_owned())),
        };
        Ok(match value {
            Value::Null => ElementKey::Null,
            Value::Bool(value) => ElementKey::Bool(*value),
            Value::Number(number) => number.as_i64().map_or_else(
                || ElementKey::Fraction((number.as_f64().unwrap_or_default() + 0.0).to_bits()),
                ElementKey::Whole,
            ),
            Value::String(text) => ElementKey::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => {
                return Err(StrategicPatchError::NotAnElement(list.to_owned()));
            }
        })
    }

    pub(super) fn identities(
        elements: &[Value],
        key: Option<&str>,
        list: &str,
    ) -> Result<Vec<Self>, StrategicPatchError> {
        elements
            .iter()
            .map(|element| ElementKey::identity(element, key, list))
            .collect()
    }
}

// === impl MergedList ===

impl MergedList {
    /// A list that is not merged; `old` is its previous order.
    pub(super) fn untouched(
        elements: Vec<Value>,
        old: Vec<ElementKey>,
        key: Option<&str>,
        list: &str,
    ) -> Result<Self, StrategicPatchError> {
        let ids = ElementKey::identities(&elements, key, list)?;
        let elements = ids.into_iter().zip(elements).collect();
        Ok(Self { elements, old })
    }

    /// The list for a patch without `$setElementOrder`.
    pub(super) fn in_patch_order(self) -> Vec<Value> {
        values(self.elements)
    }

    /// The list in the order of a `$setElementOrder`.
    pub(super) fn in_given_order(self, order: &[ElementKey]) -> Vec<Value> {
        values(in_order(self.elements, order, &self.old))
    }
}

// === impl StrategicMerger ===

impl StrategicMerger<'_> {
    /// Merges a list of objects by `key`.
    pub(super) fn merge_by_key(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
        place: ObjectShape,
        list: &str,
    ) -> Result<MergedList, StrategicPatchError> {
        let before = original.len();
        let (patch, deleted, replaced) = special_elements(patch, key, list)?;
        let mut elements = KeyedElements::new();
        for element in original {
            // An element without a key cannot be deleted; it is no error if the list is replaced.
            match ElementKey::identity(&element, Some(key), list) {
                Ok(id) if deleted.contains(&id) => {}
                Ok(id) => elements.push((id, element)),
                Err(_) if replaced => {}
                Err(fault) => return Err(fault),
            }
        }
        let left: Vec<ElementKey> = elements.iter().map(|(id, _)| id.clone()).collect();
        if replaced {
            elements.clear();
        }
        let mut named = Vec::with_capacity(patch.len());
        let mut places = ranks(&left);
        for element in patch {
            let id = ElementKey::identity(&element, Some(key), list)?;
            named.push(id.clone());
            match places.get(&id) {
                Some(&at) if !replaced => {
                    let old = std::mem::take(&mut elements[at].1);
                    elements[at].1 = self.value(old, element, place)?;
                }
                _ => {
                    places.insert(id.clone(), elements.len());
                    elements.push((id, element));
                }
            }
        }
        if replaced {
            let elements = in_order(elements, &[], &named);
            return Ok(MergedList {
                elements,
                old: left,
            });
        }
        // Upstream takes the old order from an array in which new elements have taken the places of deleted ones. They
        // therefore count as the last old elements: with a `$setElementOrder`, a renamed container follows one that is
        // not in the patch.
        let new = elements[left.len()..].iter().map(|(id, _)| id);
        let moved = new.take(before - left.len());
        let old = left.iter().chain(moved).cloned().collect();
        let elements = in_order(elements, &named, &left);
        Ok(MergedList { elements, old })
    }
}

/// Merges a list of primitives as a set.
pub(super) fn merge_set(
    original: Vec<Value>,
    patch: Vec<Value>,
    list: &str,
) -> Result<MergedList, StrategicPatchError> {
    let old = ElementKey::identities(&original, None, list)?;
    let named = ElementKey::identities(&patch, None, list)?;
    let mut seen = BTreeSet::new();
    let ids = old.iter().chain(&named).cloned();
    let elements = ids
        .zip(original.into_iter().chain(patch))
        .filter(|(id, _)| seen.insert(id.clone()))
        .collect();
    let elements = in_order(elements, &named, &old);
    Ok(MergedList { elements, old })
}

/// Applies `$deleteFromPrimitiveList` to a list.
pub(super) fn without(
    original: Vec<Value>,
    deleted: &[Value],
    list: &str,
) -> Result<Vec<Value>, StrategicPatchError> {
    let ids = ElementKey::identities(&original, None, list)?;
    let deleted: BTreeSet<ElementKey> = ElementKey::identities(deleted, None, list)?
        .into_iter()
        .collect();
    let left = ids.into_iter().zip(original);
    let left = left.filter(|(id, _)| !deleted.contains(id));
    Ok(left.map(|(_, value)| value).collect())
}

/// Splits a patch into its elements without directives, the keys to delete, and whether it replaces the list.
fn special_elements(
    patch: Vec<Value>,
    key: &str,
    list: &str,
) -> Result<(Vec<Value>, BTreeSet<ElementKey>, bool), StrategicPatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    let mut replaced = false;
    for element in patch {
        match element.get(super::PATCH) {
            None => plain.push(element),
            Some(Value::String(word)) if word == "delete" => {
                deleted.insert(ElementKey::identity(&element, Some(key), list)?);
            }
            Some(Value::String(word)) if word == "replace" => replaced = true,
            Some(other) => return Err(StrategicPatchError::unknown_directive(other)),
        }
    }
    Ok((plain, deleted, replaced))
}

/// The first index of each key.
fn ranks(ids: &[ElementKey]) -> BTreeMap<ElementKey, usize> {
    let mut ranks = BTreeMap::new();
    for (rank, id) in ids.iter().enumerate() {
        ranks.entry(id.clone()).or_insert(rank);
    }
    ranks
}

/// Sorts the elements in `order` by it and the others by `old`, then merges the two sequences by `old`.
fn in_order(elements: KeyedElements, order: &[ElementKey], old: &[ElementKey]) -> KeyedElements {
    let (order, old) = (ranks(order), ranks(old));
    let (mut named, mut others): (Vec<_>, Vec<_>) = elements
        .into_iter()
        .map(|element| (old.get(&element.0).copied(), element))
        .partition(|(_, (id, _))| order.contains_key(id));
    named.sort_by_key(|(_, (id, _))| order.get(id));
    sort_by_old_rank(&mut others);

    let mut list = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (rank, element) in named {
        let before = |other: &(Option<usize>, _)| rank.zip(other.0).is_some_and(|(r, o)| o < r);
        while let Some((_, other)) = others.next_if(before) {
            list.push(other);
        }
        list.push(element);
    }
    list.extend(others.map(|(_, element)| element));
    list
}

fn values(elements: KeyedElements) -> Vec<Value> {
    elements.into_iter().map(|(_, value)| value).collect()
}

/// Go's sort is an insertion sort for up to this many elements.
const INSERTION_SORT_MAX: usize = 20;

/// Sorts by the rank in the old order.
///
/// Elements without a rank occur only with an empty `$setElementOrder`. Upstream's comparison then treats them as smaller
/// than every other element, and the result depends on its insertion sort, which is repeated here for short lists.
/// DEVIATION(long-list-order): in a long list such elements go to the end.
fn sort_by_old_rank<T>(elements: &mut [(Option<usize>, T)]) {
    let all_known = elements.iter().all(|(rank, _)| rank.is_some());
    if all_known || elements.len() > INSERTION_SORT_MAX {
        elements.sort_by_key(|(rank, _)| rank.unwrap_or(usize::MAX));
        return;
    }
    let smaller = |left: Option<usize>, right: Option<usize>| match (left, right) {
        (Some(left), Some(right)) => left < right,
        _ => true,
    };
    for end in 1..elements.len() {
        let mut at = end;
        while at > 0 && smaller(elements[at].0, elements[at - 1].0) {
            elements.swap(at, at - 1);
            at -= 1;
        }
    }
}
