//! `PodLogOptions`: the part of a log that a client wants.

use caretaker_machinery::status::{NamedResource, Status, StatusCause};
use jiff::{SignedDuration, Timestamp};

use super::lines::LogLine;
use crate::request::RequestQuery;
use crate::strategy::defaults::read_time;

/// The options of a log. Numbers are as the client sent them until [`check`](LogOptions::check) has accepted them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogOptions {
    pub(super) container: String,
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) timestamps: bool,
    pub(super) limit_bytes: Option<usize>,
    tail_lines: Option<i64>,
    limit: Option<i64>,
    since_secs: Option<i64>,
    since: Option<Timestamp>,
    has_stream: bool,
}

// === impl LogOptions ===

impl LogOptions {
    pub(super) fn read(query: &RequestQuery) -> Result<Self, Status> {
        let since = query.get("sinceTime").filter(|text| !text.is_empty());
        let since = since
            .map(|text| read_time(text).map_err(|error| Status::bad_request(error.to_string())));
        let since = since.transpose()?;
        let limit = query.integer("limitBytes")?;
        Ok(Self {
            container: query.get("container").unwrap_or_default().to_owned(),
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            tail_lines: query.integer("tailLines")?,
            limit_bytes: limit.and_then(|limit| usize::try_from(limit).ok()),
            limit,
            since_secs: query.integer("sinceSeconds")?,
            since: since.and_then(|since| since.as_str()?.parse().ok()),
            has_stream: query.get("stream").is_some(),
        })
    }

    /// Refuses options that contradict each other or are out of range; `pod` is the name in the error.
    pub(super) fn check(&self, pod: &str) -> Result<(), Status> {
        let positive = "must be greater than 0";
        let mut causes = Vec::new();
        if let Some(lines @ ..0) = self.tail_lines {
            let why = "must be greater than or equal to 0";
            causes.push(StatusCause::invalid("tailLines", lines, why));
        }
        if let Some(bytes @ ..1) = self.limit {
            causes.push(StatusCause::invalid("limitBytes", bytes, positive));
        }
        match (self.since_secs, self.since) {
            (Some(_), Some(_)) => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                causes.push(StatusCause::forbidden("[]", why));
            }
            (Some(secs @ ..1), None) => {
                causes.push(StatusCause::invalid("sinceSeconds", secs, positive));
            }
            _ => {}
        }
        if self.has_stream {
            causes.push(StatusCause::forbidden("stream", "may not be specified"));
        }
        if causes.is_empty() {
            return Ok(());
        }
        let named = NamedResource {
            group: "",
            what: "PodLogOptions",
            name: pod,
        };
        Err(Status::invalid(named, causes))
    }

    /// Returns the wanted ones of the first lines. Like kubelet, the tail is cut off before the time is looked at.
    pub(super) fn select(&self, mut lines: Vec<LogLine>, now: Timestamp) -> Vec<LogLine> {
        if let Some(count) = self.tail_lines {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            lines.drain(..lines.len().saturating_sub(count));
        }
        let ago = self.since_secs.map(SignedDuration::from_secs);
        let since = ago.map(|ago| now.checked_sub(ago).unwrap_or(Timestamp::MIN));
        if let Some(since) = since.or(self.since) {
            lines.retain(|line| line.at >= since);
        }
        lines
    }

    /// Returns the query that the real server would send to a kubelet.
    pub(super) fn to_query(&self) -> String {
        let mut parts = Vec::new();
        let flags = [
            ("follow", self.follow),
            ("previous", self.previous),
            ("timestamps", self.timestamps),
        ];
        let numbers = [
            ("limitBytes", self.limit),
            ("sinceSeconds", self.since_secs),
            ("tailLines", self.tail_lines),
        ];
        parts.extend(
            flags
                .iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(name, _)| format!("{name}=true")),
        );
        let numbers = numbers
            .iter()
            .filter_map(|(name, number)| Some(format!("{name}={}", (*number)?)));
        parts.extend(numbers);
        parts.sort();
        parts.join("&")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_options(query: &str) -> Result<LogOptions, Status> {
        LogOptions::read(&RequestQuery::parse(query))
    }

    #[test]
    fn refuses_numbers_out_of_range_and_contradictions() {
        let cases = [
            ("", None),
            ("tailLines=0&limitBytes=1&sinceSeconds=1", None),
            ("tailLines=-1", Some("tailLines")),
            ("limitBytes=0", Some("limitBytes")),
            ("sinceSeconds=0", Some("sinceSeconds")),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", Some("[]")),
            ("stream=All", Some("stream")),
        ];
        for (query, field) in cases {
            let refused = mk_options(query).unwrap().check("p").err();
            let fields = refused.map(|status| status.details.unwrap().causes[0].field.clone());
            assert_eq!(fields.as_deref(), field, "{query}");
        }
        for query in [
            "tailLines=x",
            "limitBytes=",
            "sinceTime=foo",
            "tailLines=99999999999999999999",
        ] {
            assert_eq!(mk_options(query).unwrap_err().code, 400, "{query}");
        }
    }

    #[test]
    fn selects_the_tail_first_and_then_by_time() {
        let lines: Vec<LogLine> = (0..5)
            .map(|second| LogLine {
                at: Timestamp::from_second(100 + second).unwrap(),
                message: second.to_string(),
            })
            .collect();
        let now = Timestamp::from_second(104).unwrap();
        let cases = [
            ("", "01234"),
            ("tailLines=2", "34"),
            ("tailLines=0", ""),
            ("tailLines=9", "01234"),
            ("sinceSeconds=1", "34"),
            ("tailLines=1&sinceSeconds=3", "4"),
            ("sinceTime=1970-01-01T00:01:43Z", "34"),
            ("sinceSeconds=9223372036854775807", "01234"),
        ];
        for (query, expected) in cases {
            let selected = mk_options(query).unwrap().select(lines.clone(), now);
            let found: String = selected.iter().map(|line| line.message.as_str()).collect();
            assert_eq!(found, expected, "{query}");
        }
    }

    #[test]
    fn query_for_a_kubelet_is_sorted() {
        let options = mk_options("tailLines=3&follow=true&timestamps=false").unwrap();
        assert_eq!(options.to_query(), "follow=true&tailLines=3");
        assert_eq!(mk_options("").unwrap().to_query(), "");
    }
}
