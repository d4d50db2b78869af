//! Health checks and `/version`.
//!
//! Mirrors the text of upstream's `server/healthz` (1.36). A server that responds is healthy: it waits for no etcd and no
//! controllers, so the only check is `ping`.
//! DEVIATION(health-checks): upstream lists thirty more, which are parts of it that this server does not have.

use std::collections::BTreeSet;

use caretaker_machinery::status::quoted;
use http::Response;
use serde_json::json;

use crate::negotiate::ResponseFormat;
use crate::request::RequestQuery;
use crate::respond::{self, ResponseBody};

/// The health checks. They cannot fail.
const CHECKS: [&str; 1] = ["ping"];

/// The Kubernetes version whose behaviour this server mirrors.
const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The oldest compatible minor version; upstream reports the same.
const COMPATIBLE_MINOR: &str = "35";
/// Has build metadata to distinguish it from upstream, and is a semantic version, because clients compare it.
const GIT_VERSION: &str = "v1.36.3+caretaker";

/// Serves `/healthz`, `/livez`, `/readyz` and the single checks below them.
pub(crate) fn serve(
    endpoint: &str,
    check: Option<&str>,
    query: &RequestQuery,
) -> Response<ResponseBody> {
    match check {
        Some(check) if !CHECKS.contains(&check) => respond::not_found_page(),
        None if query.get("verbose").is_some() => respond::text(&verbose(endpoint, query)),
        _ => respond::text("ok"),
    }
}

/// Serves `/version`. The fields about Go and the build are empty.
pub(crate) fn version() -> Response<ResponseBody> {
    let version = json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": COMPATIBLE_MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    });
    respond::value(200, &version, ResponseFormat::JSON.pretty())
}

fn verbose(endpoint: &str, query: &RequestQuery) -> String {
    let excluded: BTreeSet<&str> = query.all("exclude").into_iter().collect();
    let mut text = String::new();
    for check in CHECKS {
        let outcome = match excluded.contains(check) {
            true => "excluded: ok",
            false => "ok",
        };
        text.push_str(&format!("[+]{check} {outcome}\n"));
    }
    let unknown = excluded.iter().filter(|check| !CHECKS.contains(check));
    let unknown: Vec<String> = unknown.map(|check| quoted(check)).collect();
    if !unknown.is_empty() {
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(",")
        ));
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    text
}

/// The platform in Go's notation.
fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        arch => arch,
    };
    format!("{os}/{arch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::body_of;
    use serde_json::Value;

    fn mk_text(endpoint: &str, check: Option<&str>, query: &str) -> String {
        let response = serve(endpoint, check, &RequestQuery::parse(query));
        String::from_utf8(body_of(response)).unwrap()
    }

    #[test]
    fn health_checks_match_upstream() {
        let cases = [
            ("healthz", None, "", "ok"),
            ("livez", Some("ping"), "", "ok"),
            ("livez", Some("ping"), "verbose", "ok"),
            (
                "readyz",
                None,
                "verbose",
                "[+]ping ok\nreadyz check passed\n",
            ),
            ("readyz", None, "exclude=etcd", "ok"),
            (
                "livez",
                None,
                "verbose=1&exclude=ping",
                "[+]ping excluded: ok\nlivez check passed\n",
            ),
            (
                "healthz",
                None,
                "verbose&exclude=zz&exclude=ping&exclude=aa&exclude=aa",
                "[+]ping excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"aa\",\"zz\"\nhealthz check passed\n",
            ),
        ];
        for (endpoint, check, query, text) in cases {
            assert_eq!(
                mk_text(endpoint, check, query),
                text,
                "{endpoint} {check:?} {query}"
            );
        }
        assert_eq!(
            serve("healthz", Some("nope"), &RequestQuery::default()).status(),
            404
        );
    }

    #[test]
    fn version_matches_the_kinds_table() {
        let version: Value = serde_json::from_slice(&body_of(version())).unwrap();
        let git_version = version["gitVersion"].as_str().unwrap();
        let (release, build) = git_version.split_once('+').unwrap();
        assert_eq!(build, "caretaker");
        let first = include_str!("../data/resources.txt")
            .lines()
            .next()
            .unwrap();
        assert_eq!(first, format!("# Kubernetes {release}"));
        assert!(release.starts_with(&format!("v{MAJOR}.{MINOR}.")));
    }
}
