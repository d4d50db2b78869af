//! One HTTP/1.1 connection, which takes one request at a time: for plain HTTP, and for servers and proxies without
//! HTTP/2.

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Uri, Version, header};
use http_body_util::Full;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::dial::{BoxedStream, ConnectError};

pub(super) type Http1Sender = SendRequest<Full<Bytes>>;

pub(super) async fn handshake(
    io: BoxedStream,
) -> Result<(Http1Sender, Connection<TokioIo<BoxedStream>, Full<Bytes>>), ConnectError> {
    Ok(hyper::client::conn::http1::handshake(TokioIo::new(io)).await?)
}

pub(super) async fn drive(connection: Connection<TokioIo<BoxedStream>, Full<Bytes>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// The request with its path only and a `Host`, as HTTP/1.1 servers expect it.
pub(super) fn request(head: &Parts, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = head.method.clone();
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = head.headers.clone();
    let path = head.uri.path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    let host = head.uri.authority().map(http::uri::Authority::as_str);
    if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_path_only_and_a_host() {
        let head = Request::patch("https://one:6443/api/v1/pods?a=b").header("x", "y");
        let (head, ()) = head.body(()).unwrap().into_parts();
        let request = request(&head, &Bytes::from_static(b"{}"));
        assert_eq!(request.uri(), "/api/v1/pods?a=b");
        assert_eq!(request.method(), "PATCH");
        assert_eq!(request.headers()["host"], "one:6443");
        assert_eq!(request.headers()["x"], "y");
    }
}
