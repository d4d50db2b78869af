//! Lists that merge: which elements a patched list has, and in which order.
//!
//! The order is upstream's: elements that the patch names keep the patch's order, the others keep the order they had, and
//! the two are woven together by the old order. An element that was not there before therefore comes in front of the
//! first old one that the patch does not name, unless an older one that it does name holds it back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Merger, Place, StrategicError};

/// The JSON types as upstream tells them apart: whole numbers are not fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    Whole,
    Fraction,
    Text,
    List,
    Object,
}

/// A primitive that can be looked up: an element of a set, or the merge key of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Whole(i64),
    /// The bits, with one zero only. Numbers from JSON are never NaN.
    Fraction(u64),
    Text(String),
}

/// Elements with what identifies them.
type Identified = Vec<(Scalar, Value)>;

/// What a patch makes of a list.
pub(super) struct Merged {
    /// In the order they have when the patch says nothing about order.
    elements: Identified,
    /// Identities in the order that counts as the old one when the patch does.
    old: Vec<Scalar>,
}

// === impl Type ===

impl Type {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            // Upstream reads what does not fit into an i64 as a fraction.
            Value::Number(number) if number.is_i64() => Type::Whole,
            Value::Number(_) => Type::Fraction,
            Value::String(_) => Type::Text,
            Value::Array(_) => Type::List,
            Value::Object(_) => Type::Object,
        }
    }

    /// The type that all elements have; none for no elements.
    pub(super) fn of_all<'a>(
        elements: impl IntoIterator<Item = &'a Value>,
        list: &str,
    ) -> Result<Option<Self>, StrategicError> {
        let mut elements = elements.into_iter().map(Type::of);
        let Some(first) = elements.next() else {
            return Ok(None);
        };
        if first == Type::List {
            return Err(StrategicError::ListOfLists(list.to_owned()));
        }
        if first == Type::Null || elements.any(|other| other != first) {
            return Err(StrategicError::MixedElements(list.to_owned()));
        }
        Ok(Some(first))
    }
}

// === impl Scalar ===

impl Scalar {
    /// What identifies an element: its merge key, or the element itself where there is none.
    pub(super) fn identity(
        element: &Value,
        key: Option<&str>,
        list: &str,
    ) -> Result<Self, StrategicError> {
        let value = match (key, element) {
            (None, element) => element,
            (Some(key), Value::Object(members)) => {
                members.get(key).ok_or_else(|| StrategicError::NoMergeKey {
                    list: list.to_owned(),
                    key: key.to_owned(),
                })?
            }
            (Some(_), _) => return Err(StrategicError::NotAnElement(list.to_owned())),
        };
        Ok(match value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Number(number) => number.as_i64().map_or_else(
                || Scalar::Fraction((number.as_f64().unwrap_or_default() + 0.0).to_bits()),
                Scalar::Whole,
            ),
            Value::String(text) => Scalar::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => {
                return Err(StrategicError::NotAnElement(list.to_owned()));
            }
        })
    }

    pub(super) fn identities(
        elements: &[Value],
        key: Option<&str>,
        list: &str,
    ) -> Result<Vec<Self>, StrategicError> {
        elements
            .iter()
            .map(|element| Scalar::identity(element, key, list))
            .collect()
    }
}

// === impl Merged ===

impl Merged {
    /// The elements as they are, where the list had those in `old` before.
    pub(super) fn untouched(
        elements: Vec<Value>,
        old: Vec<Scalar>,
        key: Option<&str>,
        list: &str,
    ) -> Result<Self, StrategicError> {
        let ids = Scalar::identities(&elements, key, list)?;
        let elements = ids.into_iter().zip(elements).collect();
        Ok(Self { elements, old })
    }

    /// The list if the patch says nothing about order.
    pub(super) fn in_patch_order(self) -> Vec<Value> {
        values(self.elements)
    }

    /// The list in the order of a `$setElementOrder`.
    pub(super) fn in_given_order(self, order: &[Scalar]) -> Vec<Value> {
        values(in_order(self.elements, order, &self.old))
    }
}

// === impl Merger ===

impl Merger<'_> {
    /// Merges a list of objects by `key`, each as an object of its own at `place`.
    pub(super) fn merge_by_key(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
        place: Place,
        list: &str,
    ) -> Result<Merged, StrategicError> {
        let before = original.len();
        let (patch, deleted, replaced) = special_elements(patch, key, list)?;
        let mut elements = Identified::new();
        for element in original {
            // An element without key cannot be deleted, and nothing is asked of it if the list is replaced.
            match Scalar::identity(&element, Some(key), list) {
                Ok(id) if deleted.contains(&id) => {}
                Ok(id) => elements.push((id, element)),
                Err(_) if replaced => {}
                Err(fault) => return Err(fault),
            }
        }
        let left: Vec<Scalar> = elements.iter().map(|(id, _)| id.clone()).collect();
        if replaced {
            elements.clear();
        }
        let mut named = Vec::with_capacity(patch.len());
        let mut places = ranks(&left);
        for element in patch {
            let id = Scalar::identity(&element, Some(key), list)?;
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
            return Ok(Merged {
                elements,
                old: left,
            });
        }
        // Upstream takes the old order from an array in which new elements have moved into the places of deleted ones.
        // So they count as old ones behind all others: with a `$setElementOrder`, a renamed container follows one that
        // the patch does not know.
        let new = elements[left.len()..].iter().map(|(id, _)| id);
        let moved = new.take(before - left.len());
        let old = left.iter().chain(moved).cloned().collect();
        let elements = in_order(elements, &named, &left);
        Ok(Merged { elements, old })
    }
}

/// Merges a list of primitives as a set.
pub(super) fn merge_set(
    original: Vec<Value>,
    patch: Vec<Value>,
    list: &str,
) -> Result<Merged, StrategicError> {
    let old = Scalar::identities(&original, None, list)?;
    let named = Scalar::identities(&patch, None, list)?;
    let mut seen = BTreeSet::new();
    let ids = old.iter().chain(&named).cloned();
    let elements = ids
        .zip(original.into_iter().chain(patch))
        .filter(|(id, _)| seen.insert(id.clone()))
        .collect();
    let elements = in_order(elements, &named, &old);
    Ok(Merged { elements, old })
}

/// What `$deleteFromPrimitiveList` leaves of a list.
pub(super) fn without(
    original: Vec<Value>,
    deleted: &[Value],
    list: &str,
) -> Result<Vec<Value>, StrategicError> {
    let ids = Scalar::identities(&original, None, list)?;
    let deleted: BTreeSet<Scalar> = Scalar::identities(deleted, None, list)?
        .into_iter()
        .collect();
    let left = ids.into_iter().zip(original);
    let left = left.filter(|(id, _)| !deleted.contains(id));
    Ok(left.map(|(_, value)| value).collect())
}

/// The elements without directives, the keys of those to delete, and whether the list starts from nothing.
fn special_elements(
    patch: Vec<Value>,
    key: &str,
    list: &str,
) -> Result<(Vec<Value>, BTreeSet<Scalar>, bool), StrategicError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    let mut replaced = false;
    for element in patch {
        match element.get(super::PATCH) {
            None => plain.push(element),
            Some(Value::String(word)) if word == "delete" => {
                deleted.insert(Scalar::identity(&element, Some(key), list)?);
            }
            Some(Value::String(word)) if word == "replace" => replaced = true,
            Some(other) => return Err(StrategicError::unknown_directive(other)),
        }
    }
    Ok((plain, deleted, replaced))
}

/// The first place of each.
fn ranks(ids: &[Scalar]) -> BTreeMap<Scalar, usize> {
    let mut ranks = BTreeMap::new();
    for (rank, id) in ids.iter().enumerate() {
        ranks.entry(id.clone()).or_insert(rank);
    }
    ranks
}

/// Puts `elements` in order: those in `order` by it, the others by `old`, then the two woven together by `old`.
fn in_order(elements: Identified, order: &[Scalar], old: &[Scalar]) -> Identified {
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

fn values(elements: Identified) -> Vec<Value> {
    elements.into_iter().map(|(_, value)| value).collect()
}

/// Up to this many elements upstream's sort is an insertion sort.
const INSERTION_SORT_MAX: usize = 20;

/// Sorts by the rank in the old order.
///
/// Elements without one get here only with an empty `$setElementOrder`. Upstream's comparison then calls any of them
/// smaller than anything, which its insertion sort turns into an order of its own; followed here for short lists.
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
