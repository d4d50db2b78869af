//! Parts of an object's body, each read by itself: whatever is wrong with one of them hides none of the others.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What Go takes for a time that was never set, however it is spelled: the beginning of the year 1.
const NO_TIME: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// A part of an object, if it is what it should be.
pub(crate) fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// The members of an object, if it is one. A list would be read as well, one item for each member.
pub(crate) fn members<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    part(raw.filter(|raw| raw.get().starts_with('{')))
}

/// A time that was set.
pub(crate) fn time(raw: Option<&RawValue>) -> Option<Timestamp> {
    let text: Cow<'_, str> = part(raw)?;
    let time = text.parse().ok()?;
    (time != NO_TIME).then_some(time)
}
