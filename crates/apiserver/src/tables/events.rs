//! Cells of Events. Events of both groups are stored in the form of the core group.
//!
//! An Event has its times in one of three forms: first and last time with a count (old), one time (new), or one time with a
//! series (new, repeated). Mirrors the printer of kube-apiserver 1.36.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{self, text};

/// The age of the last occurrence.
pub(super) fn last_seen(event: &Value, now: Timestamp) -> Value {
    let series = &event["series"];
    if series.is_object() {
        return cells::age(text(&series["lastObservedTime"]), now).into();
    }
    match text(&event["lastTimestamp"]) {
        "" => first_seen(event, now),
        last => cells::age(last, now).into(),
    }
}

/// The age of the first occurrence.
pub(super) fn first_seen(event: &Value, now: Timestamp) -> Value {
    let time = match text(&event["firstTimestamp"]) {
        "" => text(&event["eventTime"]),
        first => first,
    };
    cells::age(time, now).into()
}

/// The number of occurrences; 1 if it is missing.
pub(super) fn count(event: &Value) -> Value {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let series = &event["series"];
    if series.is_object() {
        return number(&series["count"]).into();
    }
    number(&event["count"]).max(1).into()
}

/// The involved object as `pod/name`.
pub(super) fn object(event: &Value) -> Value {
    let object = &event["involvedObject"];
    let kind = text(&object["kind"]).to_lowercase();
    match text(&object["name"]) {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

/// The reporting component and its host.
pub(super) fn source(event: &Value) -> Value {
    let either = |old: &'static str, new: &'static str| match text(&event["source"][old]) {
        "" => text(&event[new]),
        old => old,
    };
    let component = either("component", "reportingComponent");
    match either("host", "reportingInstance") {
        "" => component.into(),
        host => format!("{component}, {host}").into(),
    }
}

/// The message, trimmed.
pub(super) fn message(event: &Value) -> Value {
    text(&event["message"]).trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_times_and_counts_of_all_forms() {
        let (old, new) = ("2026-01-01T00:00:16Z", "2026-01-01T00:05:06Z");
        let micro = "2026-01-01T00:05:00.500000Z";
        let series = json!({"count": 7, "lastObservedTime": "2026-01-01T00:05:14.900000Z"});
        let cases = [
            (json!({}), ["<unknown>", "<unknown>"], 1),
            (json!({"firstTimestamp": old}), ["5m", "5m"], 1),
            (json!({"lastTimestamp": new}), ["10s", "<unknown>"], 1),
            (
                json!({"firstTimestamp": old, "lastTimestamp": new, "count": 3}),
                ["10s", "5m"],
                3,
            ),
            (
                json!({"firstTimestamp": null, "lastTimestamp": null, "eventTime": micro}),
                ["15s", "15s"],
                1,
            ),
            (
                json!({"eventTime": micro, "series": series}),
                ["1s", "15s"],
                7,
            ),
            (
                json!({"firstTimestamp": old, "lastTimestamp": new, "count": 3, "series": series}),
                ["1s", "5m"],
                7,
            ),
        ];
        let now = "2026-01-01T00:05:16Z".parse().unwrap();
        for (event, [last, first], times) in cases {
            assert_eq!(last_seen(&event, now), last, "{event}");
            assert_eq!(first_seen(&event, now), first, "{event}");
            assert_eq!(count(&event), times, "{event}");
        }
    }

    #[test]
    fn shows_object_and_source() {
        let cases = [
            (json!({}), ["", ""]),
            (
                json!({"involvedObject": {"kind": "ReplicaSet", "name": "a"}, "source": {"component": "c"}}),
                ["replicaset/a", "c"],
            ),
            (
                json!({"involvedObject": {"kind": "Pod"}, "source": {"component": "c", "host": "h"}}),
                ["pod", "c, h"],
            ),
            (
                json!({"reportingComponent": "r", "reportingInstance": "r-0"}),
                ["", "r, r-0"],
            ),
            (
                json!({"source": {"component": "c"}, "reportingComponent": "r", "reportingInstance": "r-0"}),
                ["", "c, r-0"],
            ),
        ];
        for (event, [about, from]) in cases {
            assert_eq!(object(&event), about, "{event}");
            assert_eq!(source(&event), from, "{event}");
        }
        assert_eq!(
            message(&json!({"message": " \n two\nlines \t"})),
            "two\nlines"
        );
    }
}
