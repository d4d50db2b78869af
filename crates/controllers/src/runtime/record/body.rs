//! Decodes the parts of an object's body one by one, so that an error in one part hides no other part.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Go's zero time, which means that a time was never set: the beginning of the year 1.
const NO_TIME: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// Decodes a part of an object; `None` if it is missing or has the wrong type.
pub(crate) fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Decodes a part that has to be a JSON object. Derived code would accept a list too, one item per member.
pub(crate) fn members<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    part(raw.filter(|raw| raw.get().starts_with('{')))
}

/// Decodes a time; `None` also for Go's zero time.
pub(crate) fn time(raw: Option<&RawValue>) -> Option<Timestamp> {
    let text: Cow<'_, str> = part(raw)?;
    let time = text.parse().ok()?;
    (time != NO_TIME).then_some(time)
}
