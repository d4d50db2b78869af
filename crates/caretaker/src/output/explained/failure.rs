//! A failed request of a running caretaker, as its admin server reports it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last failed request of a controller about an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportedFailure {
    pub(crate) at: Timestamp,
    pub(crate) controller: String,
    pub(crate) verb: String,
    /// The object as in `deployments.apps shop/web`: the explained one or one of its owners.
    pub(crate) object: String,
    pub(crate) code: Option<u16>,
    pub(crate) error: String,
    pub(crate) retry_in_secs: f64,
    /// How many requests in a row have failed.
    pub(crate) failures: u64,
}

// === impl ReportedFailure ===

impl ReportedFailure {
    /// The failure as a sentence.
    pub(super) fn line(&self) -> String {
        let Self {
            at,
            controller,
            verb,
            object,
            error,
            ..
        } = self;
        let outcome = match self.code {
            Some(code) => format!("was answered with {code}"),
            None => "had no answer".to_owned(),
        };
        let times = match self.failures {
            0 | 1 => String::new(),
            times => format!("; {times} failures in a row"),
        };
        let retry = self.retry_in_secs;
        format!(
            "Last failure: {verb} of {object} by {controller} at {at:.0} {outcome}: {error}{times}; retried after {retry:.0} s."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_failed_and_what_follows() {
        let mut failure = ReportedFailure {
            at: Timestamp::UNIX_EPOCH,
            controller: "garbage-collector-controller".into(),
            verb: "delete".into(),
            object: "configmaps default/a".into(),
            code: Some(403),
            error: "configmaps \"a\" is forbidden".into(),
            retry_in_secs: 5.0,
            failures: 3,
        };
        assert_eq!(
            failure.line(),
            "Last failure: delete of configmaps default/a by garbage-collector-controller at 1970-01-01T00:00:00Z was \
             answered with 403: configmaps \"a\" is forbidden; 3 failures in a row; retried after 5 s."
        );
        failure.code = None;
        failure.failures = 1;
        failure.error = "connection refused".into();
        assert!(
            failure
                .line()
                .ends_with("had no answer: connection refused; retried after 5 s.")
        );
    }
}
