//! Answers that clients may keep: a hash of the content, and the short answer to whoever still has it.
//!
//! Discovery and the OpenAPI documents use it. As upstream's aggregated discovery, a client must repeat the tag as it
//! got it; lists of tags, weak tags and `*` do not match.

use std::hash::{DefaultHasher, Hasher};

use http::{HeaderValue, Response, StatusCode, header};

use crate::respond::{self, Body};

/// The hash of some content. It has to differ where contents differ, and that is all: a hash that another build
/// computes differently costs its clients one download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ETag(String);

// === impl ETag ===

impl ETag {
    pub(crate) fn of(content: &[u8]) -> Self {
        // Two hashes of 64 bits, the second one of the first and the content.
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        let first = hasher.finish();
        hasher.write(content);
        Self(format!("{first:016X}{:016X}", hasher.finish()))
    }

    /// As it stands in an address.
    pub(crate) fn hash(&self) -> &str {
        &self.0
    }

    /// Adds the tag, and that the answer depends on what was asked for.
    pub(crate) fn stamp(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&self.quoted()) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    }

    /// Whether `If-None-Match` names this content.
    pub(crate) fn matches(&self, asked: Option<&str>) -> bool {
        asked == Some(self.quoted().as_str())
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// An answer without a body.
pub(crate) fn empty(code: StatusCode) -> Response<Body> {
    let mut response = respond::text("");
    *response.status_mut() = code;
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// The body of an answer that is already whole.
#[cfg(test)]
pub(crate) fn body_of(response: Response<Body>) -> Vec<u8> {
    use futures::FutureExt;
    use http_body_util::BodyExt;

    let collected = response.into_body().collect().now_or_never().unwrap();
    collected.unwrap().to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_one_tag_and_other_content_another() {
        let tag = ETag::of(b"content");
        assert_eq!(tag, ETag::of(b"content"));
        assert_ne!(tag, ETag::of(b"contents"));
        assert_eq!(tag.hash().len(), 32);
    }

    #[test]
    fn a_tag_matches_only_as_it_was_given() {
        let tag = ETag::of(b"content");
        let hash = tag.hash();
        assert!(tag.matches(Some(&format!("\"{hash}\""))));
        for other in [
            hash,
            "*",
            &format!("W/\"{hash}\""),
            &format!("\"x\", \"{hash}\""),
        ] {
            assert!(!tag.matches(Some(other)), "{other}");
        }
        assert!(!tag.matches(None));
    }
}
