//! Sends one request to a server and prints the whole answer.
//!
//! An error status is an answer too; only a missing answer is an error. Bodies are sent as given.

use std::convert::Infallible;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;
use ureq::Body;
use ureq::http::Response;

use crate::http::{HttpCall, HttpClient};

const CONTENT_TYPE: &str = "Content-Type";
/// Sent with a PATCH that names no kind of patch.
const DEFAULT_PATCH: &str = "application/merge-patch+json";

/// A request as given on the command line.
#[derive(Debug, Default, clap::Args)]
pub struct ProbeRequest {
    /// GET, POST, PUT, PATCH, DELETE, …
    #[arg(value_parser = |method: &str| Ok::<_, Infallible>(method.to_ascii_uppercase()))]
    method: String,
    /// Path and query, as in '/api/v1/pods?limit=1'
    path: String,
    /// A header, as in -H 'Accept: application/yaml'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The body, or @- for standard input, or @FILE
    #[arg(
        short = 'd',
        long = "data",
        value_name = "BODY",
        allow_hyphen_values = true
    )]
    body: Option<String>,
    /// Print the body as it arrives, for this number of seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stream_secs: Option<u64>,
}

// === impl ProbeRequest ===

impl ProbeRequest {
    /// Sends the request and prints the answer.
    pub fn send(&self, client: &HttpClient, out: &mut impl Write) -> Result<()> {
        let mut answer = client.send(self.call()?)?;
        print_head(&answer, out)?;
        let streams = self.stream_secs.is_some() || is_endless(&self.path);
        if streams && answer.status().is_success() {
            let ends = self.stream_secs.is_some();
            print_stream(answer.into_body().into_reader(), ends, out)
        } else {
            print_body(&mut answer, out)
        }
    }

    fn call(&self) -> Result<HttpCall<'_>> {
        let Self { method, path, .. } = self;
        if !path.starts_with('/') {
            bail!("the path {path:?} does not begin with /");
        }
        let mut headers = self
            .headers
            .iter()
            .map(|header| parse_header(header))
            .collect::<Result<Vec<_>>>()?;
        let body = self.body.as_deref().map(read_body).transpose()?;
        if body.is_some() && !headers.iter().any(|(name, _)| is_content_type(name)) {
            let kind = if method == "PATCH" {
                eprintln!(
                    "sent as {DEFAULT_PATCH}; -H 'Content-Type: …' chooses another kind of patch"
                );
                DEFAULT_PATCH
            } else {
                "application/json"
            };
            headers.push((CONTENT_TYPE.to_owned(), kind.to_owned()));
        }
        Ok(HttpCall {
            method,
            path,
            headers,
            body,
            body_timeout: self.stream_secs.map(Duration::from_secs),
        })
    }
}

fn is_content_type(name: &str) -> bool {
    name.eq_ignore_ascii_case(CONTENT_TYPE)
}

fn parse_header(header: &str) -> Result<(String, String)> {
    let (name, value) = header
        .split_once(':')
        .with_context(|| format!("{header:?} is not a header: write it as 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn read_body(body: &str) -> Result<Vec<u8>> {
    match body.strip_prefix('@') {
        None => Ok(body.as_bytes().to_vec()),
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin()
                .read_to_end(&mut bytes)
                .context("cannot read standard input")?;
            Ok(bytes)
        }
        Some(file) => fs::read(file).with_context(|| format!("cannot read the body from {file}")),
    }
}

/// Returns whether the answer to a path has no end: a watch, or a log that is followed.
fn is_endless(path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .any(|(name, value)| {
            matches!(name, "watch" | "follow")
                && matches!(value, "1" | "t" | "T" | "true" | "True" | "TRUE")
        })
}

fn print_head(answer: &Response<Body>, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:?} {}", answer.version(), answer.status())?;
    for (name, value) in answer.headers() {
        writeln!(out, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
    }
    Ok(writeln!(out)?)
}

fn print_body(answer: &mut Response<Body>, out: &mut impl Write) -> Result<()> {
    let bytes = answer
        .body_mut()
        .with_config()
        .limit(u64::MAX)
        .read_to_vec()
        .context("the answer broke off")?;
    match String::from_utf8(bytes) {
        Ok(text) if is_json(&text) => Ok(writeln!(out, "{}", indent(&text))?),
        Ok(text) if text.is_empty() || text.ends_with('\n') => Ok(write!(out, "{text}")?),
        Ok(text) => Ok(writeln!(out, "{text}")?),
        Err(binary) => Ok(writeln!(
            out,
            "({} bytes that are not text)",
            binary.as_bytes().len()
        )?),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Gives each member and element of a JSON document its own line. The order of members and the form of numbers stay,
/// because the user may have asked for them.
fn indent(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut rest = json.trim().chars().peekable();
    while let Some(c) = rest.next() {
        if in_string {
            out.push(c);
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        let new_line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match c {
            '{' | '[' => {
                out.push(c);
                while rest.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                out.push(c);
                in_string = c == '"';
            }
        }
    }
    out
}

/// Prints line by line, so that each line is seen when it arrives. A timeout is an error unless the user set one.
fn print_stream(body: impl Read, has_timeout: bool, out: &mut impl Write) -> Result<()> {
    let mut lines = BufReader::new(body);
    loop {
        let mut line = Vec::new();
        let ended = lines.read_until(b'\n', &mut line);
        out.write_all(&line)?;
        out.flush()?;
        match ended {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if has_timeout && is_timeout(&error) => return Ok(()),
            Err(error) => return Err(error).context("the answer broke off"),
        }
    }
}

/// The client wraps its own errors in those of a reader.
fn is_timeout(error: &io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ureq::Error>());
    matches!(inner, Some(ureq::Error::Timeout(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_request(method: &str, headers: &[&str], body: Option<&str>) -> ProbeRequest {
        ProbeRequest {
            method: method.to_owned(),
            path: "/x".to_owned(),
            headers: headers.iter().map(ToString::to_string).collect(),
            body: body.map(str::to_owned),
            stream_secs: None,
        }
    }

    #[test]
    fn the_content_type_is_guessed_only_for_a_body_without_one() {
        let json_patch = "application/json-patch+json";
        let given = format!("content-type: {json_patch}");
        let table = [
            (mk_request("GET", &[], None), None),
            (
                mk_request("POST", &["Accept: */*"], Some("{}")),
                Some("application/json"),
            ),
            (
                mk_request("DELETE", &[], Some("{}")),
                Some("application/json"),
            ),
            (mk_request("PATCH", &[], Some("{}")), Some(DEFAULT_PATCH)),
            (mk_request("PATCH", &[&given], Some("[]")), Some(json_patch)),
        ];
        for (request, kind) in table {
            let headers = request.call().unwrap().headers;
            let mut kinds = headers.iter().filter(|(name, _)| is_content_type(name));
            assert_eq!(
                kinds.next().map(|(_, value)| value.as_str()),
                kind,
                "{request:?}"
            );
            assert_eq!(kinds.next(), None, "{request:?}");
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        let table = [
            (mk_request("GET", &["Accept"], None), "'Name: value'"),
            (
                ProbeRequest {
                    path: "api".to_owned(),
                    ..ProbeRequest::default()
                },
                "does not begin with /",
            ),
            (
                mk_request("GET", &[], Some("@/no/such/file")),
                "cannot read the body from /no/such/file",
            ),
        ];
        for (request, sentence) in table {
            let error = request.call().unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }

    #[test]
    fn a_body_is_sent_as_it_was_given() {
        for text in ["{\"a\": 1}", "", " not json"] {
            let body = mk_request("POST", &[], Some(text)).call().unwrap().body;
            assert_eq!(body.as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn watches_and_followed_logs_have_no_end() {
        for path in [
            "/x?watch=1",
            "/x?watch=true",
            "/x?a=b&watch=True",
            "/log?follow=true",
        ] {
            assert!(is_endless(path), "{path}");
        }
        for path in [
            "/x",
            "/watch",
            "/x?watch=0",
            "/x?watch=false",
            "/x?follow=",
            "/x?watching=1",
        ] {
            assert!(!is_endless(path), "{path}");
        }
    }

    #[test]
    fn json_is_indented_without_touching_order_numbers_or_strings() {
        let table = [
            (
                r#"{"b":1.0,"a":[1e2,{}],"c":[]}"#,
                "{\n  \"b\": 1.0,\n  \"a\": [\n    1e2,\n    {}\n  ],\n  \"c\": []\n}",
            ),
            (
                r#"{"s":"a,b:{\"}[\\"}"#,
                "{\n  \"s\": \"a,b:{\\\"}[\\\\\"\n}",
            ),
            (
                " { \"a\" : [ 1 , 2 ] , \"e\" : { } }\n",
                "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": {}\n}",
            ),
            ("\"only\"", "\"only\""),
            ("null", "null"),
        ];
        for (json, indented) in table {
            assert!(is_json(json), "{json}");
            assert_eq!(indent(json), indented);
            assert_eq!(indent(indented), indented);
        }
        assert!(!is_json("ok") && !is_json(""));
    }

    #[test]
    fn only_a_timeout_of_the_client_ends_a_stream_without_error() {
        let timeout = ureq::Error::Timeout(ureq::Timeout::RecvBody).into_io();
        assert!(is_timeout(&timeout));
        assert!(!is_timeout(&io::ErrorKind::ConnectionReset.into()));
    }

    #[test]
    fn a_stream_is_printed_to_its_last_byte() {
        let mut out = Vec::new();
        print_stream("one\ntwo".as_bytes(), false, &mut out).unwrap();
        assert_eq!(out, b"one\ntwo");
    }
}
