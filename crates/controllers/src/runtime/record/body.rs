//! The members of an object's body, each read by itself, so that an error in one hides no other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Go's zero time, which means that a time was never set: the beginning of the year 1.
const NO_TIME: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// The members of a JSON object. Any other value has none: derived code would accept a list too, one item per member.
#[derive(Debug, Default)]
pub(crate) struct JsonMembers<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

// === impl JsonMembers ===

impl<'a> JsonMembers<'a> {
    pub(crate) fn of(json: &'a [u8]) -> Self {
        Self(serde_json::from_slice(json).unwrap_or_default())
    }

    /// The text of a member; `None` also for null.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let raw = self.0.get(name).copied();
        raw.filter(|raw| raw.get() != "null")
    }

    /// Decodes a member; `None` if it is missing or has the wrong type.
    pub(crate) fn part<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// A member that is a string; empty if it is missing or has another type.
    pub(crate) fn text(&self, name: &str) -> Cow<'a, str> {
        self.part(name).unwrap_or_default()
    }

    /// A member that is a time; `None` also for Go's zero time.
    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        let time = self.text(name).parse().ok()?;
        (time != NO_TIME).then_some(time)
    }

    /// The members of a member.
    pub(crate) fn object(&self, name: &str) -> Self {
        self.raw(name).map(Self::of_raw).unwrap_or_default()
    }

    /// The members of each item of a member that is a list.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = Self> {
        let items: Vec<&'a RawValue> = self.part(name).unwrap_or_default();
        items.into_iter().map(Self::of_raw)
    }

    fn of_raw(raw: &'a RawValue) -> Self {
        Self::of(raw.get().as_bytes())
    }
}
