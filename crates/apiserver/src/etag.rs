//! ETags: a hash of the content, and 304 for clients that have the current one.
//!
//! Discovery and the OpenAPI documents use it. Like in upstream's aggregated discovery, a client must repeat the tag exactly;
//! lists of tags, weak tags and `*` match only OpenAPI documents.

use std::hash::{DefaultHasher, Hasher};

use http::{HeaderValue, Response, StatusCode, header};

use crate::respond::{self, ResponseBody};

/// A hash of the content. It only has to differ for different contents. A build that computes another hash costs its
/// clients one download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ETag(String);

// === impl ETag ===

impl ETag {
    pub(crate) fn of(content: &[u8]) -> Self {
        // Two 64-bit hashes; the second covers the first one and the content.
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        let first = hasher.finish();
        hasher.write(content);
        Self(format!("{first:016X}{:016X}", hasher.finish()))
    }

    /// The hash without quotes, for URLs.
    pub(crate) fn hash(&self) -> &str {
        &self.0
    }

    /// Adds `ETag` and `Vary` to a response.
    pub(crate) fn stamp(&self, response: &mut Response<ResponseBody>) {
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&self.quoted()) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    }

    /// Whether the value of `If-None-Match` is this tag.
    pub(crate) fn matches(&self, asked: Option<&str>) -> bool {
        asked == Some(self.quoted().as_str())
    }

    /// Whether `If-None-Match` is `*` or lists this tag, weak or strong, as Go's file server compares it.
    pub(crate) fn matches_any(&self, asked: Option<&str>) -> bool {
        let quoted = self.quoted();
        let mut tags = asked.unwrap_or_default().split(',').map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == quoted)
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// A response without a body.
pub(crate) fn empty(code: StatusCode) -> Response<ResponseBody> {
    let mut response = respond::text("");
    *response.status_mut() = code;
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// The body of a complete response.
#[cfg(test)]
pub(crate) fn body_of(response: Response<ResponseBody>) -> Vec<u8> {
    use futures::FutureExt;
    use http_body_util::BodyExt;

    let collected = response.into_body().collect().now_or_never().unwrap();
    collected.unwrap().to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_depend_on_the_content() {
        let tag = ETag::of(b"content");
        assert_eq!(tag, ETag::of(b"content"));
        assert_ne!(tag, ETag::of(b"contents"));
        assert_eq!(tag.hash().len(), 32);
    }

    #[test]
    fn tag_matches_only_exactly() {
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
