//! One request and the whole of its response, or why there is none. No meaning yet: that is `read`.
//!
//! Everything that writes goes through here, so that the time and the size of an answer are bounded in one place.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::client::{AuthError, Body};

/// How long a request may take, its response included. Transport time: tokio's.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer that is read, in bytes. Servers store objects of up to 1.5 MiB, and JSON is longer than what
/// they store.
pub const BODY_MAX: usize = 8 << 20;

/// The longest that a server can make anything wait: nobody's word stops a controller for an hour.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A response that arrived as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Sends a request and reads all of the response. The error is for people, and carries the status if one arrived.
pub(crate) async fn exchange(
    client: &kube::Client,
    request: Request<Body>,
) -> Result<Reply, (Option<u16>, String)> {
    let mut seen = None;
    let whole = async {
        let response = client
            .send(request)
            .await
            .map_err(|error| described(&error))?;
        let (head, body) = response.into_parts();
        seen = Some(head.status.as_u16());
        let body = Limited::new(body, BODY_MAX).collect().await;
        let body = body.map_err(|error| format!("its answer broke off: {}", reason(&*error)))?;
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, whole).await {
        Ok(outcome) => outcome.map_err(|message| (seen, message)),
        Err(_) => Err((
            seen,
            format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
        )),
    }
}

// === impl Reply ===

impl Reply {
    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether it claims to be JSON.
    pub(crate) fn is_json(&self) -> bool {
        let media = self.header(header::CONTENT_TYPE).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        media.trim().eq_ignore_ascii_case("application/json")
    }

    /// The server's time, if it tells it.
    pub(crate) fn date(&self) -> Option<Timestamp> {
        http_date(self.header(header::DATE)?)
    }

    /// When the server wants to be asked again: seconds, or a date by its own clock. Capped; nonsense is no answer,
    /// and neither is zero, because the server that says it is the one that refused.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.header(header::RETRY_AFTER)?.trim();
        let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // More digits than fit are a long time too.
            Duration::from_secs(text.parse().unwrap_or(u64::MAX))
        } else {
            let wait = http_date(text)?.duration_since(self.date()?);
            Duration::try_from(wait).ok()?
        };
        (!wait.is_zero()).then(|| wait.min(RETRY_AFTER_MAX))
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form of a date that HTTP servers write today.
fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text)
        .ok()
}

/// What went wrong on the way to a server, without the words that a credential plugin printed or was started with:
/// these may be credentials.
pub(crate) fn described(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            let errors = String::from_utf8_lossy(&out.stderr);
            let status = out.status;
            format!(
                "the credential plugin ended with {status}: {}",
                errors.trim()
            )
        }
        other => reason(other),
    }
}

/// An error and what caused it, in one line, nothing said twice.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 01 Mar 2026 12:00:00 GMT";

    fn mk_reply(headers: &[(header::HeaderName, &str)]) -> Reply {
        Reply {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers: headers
                .iter()
                .map(|(name, value)| (name.clone(), value.parse().unwrap()))
                .collect(),
            body: Bytes::new(),
        }
    }

    #[test]
    fn patience_is_read_in_both_forms_and_has_a_limit() {
        let table = [
            ("1", Some(1)),
            (" 7 ", Some(7)),
            ("60", Some(60)),
            ("61", Some(60)),
            ("1000000000", Some(60)),
            ("99999999999999999999999", Some(60)),
            ("0", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
            ("Sun, 01 Mar 2026 12:00:30 GMT", Some(30)),
            ("Sun, 01 Mar 2026 13:00:00 GMT", Some(60)),
            ("Sun, 01 Mar 2026 11:59:59 GMT", None),
            (DATE, None),
        ];
        for (text, secs) in table {
            let reply = mk_reply(&[(header::RETRY_AFTER, text), (header::DATE, DATE)]);
            let expected = secs.map(Duration::from_secs);
            assert_eq!(reply.retry_after(), expected, "{text:?}");
        }
        let dated = mk_reply(&[(header::RETRY_AFTER, "Sun, 01 Mar 2026 12:00:30 GMT")]);
        assert_eq!(dated.retry_after(), None, "by whose clock?");
        assert_eq!(mk_reply(&[]).retry_after(), None);
    }

    #[test]
    fn json_is_what_says_so() {
        let table = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                true,
            ),
            ("text/html", false),
            ("application/vnd.kubernetes.protobuf", false),
            ("", false),
        ];
        for (text, expected) in table {
            let reply = mk_reply(&[(header::CONTENT_TYPE, text)]);
            assert_eq!(reply.is_json(), expected, "{text}");
        }
    }
}
