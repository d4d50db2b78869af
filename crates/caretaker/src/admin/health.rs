//! Health pages with the texts of upstream's `server/healthz` (1.36): `ok`, or a line for each check.
//!
//! Every page has a short form, a verbose form, and one for a single check.

use caretaker_apiserver::listen::RequestQuery;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HealthReport {
    pub(crate) checks: Vec<HealthCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthCheck {
    /// `garbage-collector-controller` or `kind/deployments.apps`.
    pub(crate) name: String,
    pub(crate) ok: bool,
    /// May be empty.
    pub(crate) detail: String,
}

// === impl HealthReport ===

impl HealthReport {
    /// Status and text of `endpoint`, or of one check below it.
    pub(super) fn page(
        &self,
        endpoint: &str,
        check: Option<&str>,
        query: &RequestQuery,
    ) -> (u16, String) {
        if let Some(name) = check {
            return match self.checks.iter().find(|check| check.name == name) {
                None => (404, "404 page not found\n".into()),
                Some(check) if check.ok => (200, "ok".into()),
                Some(check) => (500, format!("{}\n", check.line())),
            };
        }
        let excluded = query.all("exclude");
        let is_excluded = |check: &HealthCheck| excluded.contains(&check.name.as_str());
        let is_well = self
            .checks
            .iter()
            .all(|check| check.ok || is_excluded(check));
        if is_well && query.get("verbose").is_none() {
            return (200, "ok".into());
        }
        let mut text = String::new();
        for check in &self.checks {
            let line = if is_excluded(check) {
                format!("[+]{} excluded: ok", check.name)
            } else {
                check.line()
            };
            text.push_str(&line);
            text.push('\n');
        }
        let (code, outcome) = if is_well {
            (200, "passed")
        } else {
            (500, "failed")
        };
        text.push_str(&format!("{endpoint} check {outcome}\n"));
        (code, text)
    }
}

// === impl HealthCheck ===

impl HealthCheck {
    // DEVIATION(health-reasons): upstream withholds reasons, because its checks quote errors. Ours are written for this
    // page, and an operator needs to see which kind is not ready.
    fn line(&self) -> String {
        let (mark, word) = if self.ok {
            ('+', "ok")
        } else {
            ('-', "failed")
        };
        let detail = if self.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", self.detail)
        };
        format!("[{mark}]{} {word}{detail}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(checks: &[(&str, bool, &str)]) -> HealthReport {
        let checks = checks.iter().map(|&(name, ok, detail)| HealthCheck {
            name: name.into(),
            ok,
            detail: detail.into(),
        });
        HealthReport {
            checks: checks.collect(),
        }
    }

    #[test]
    fn health_pages_have_upstreams_texts() {
        let well = mk(&[("ping", true, ""), ("kind/pods", true, "synced")]);
        let ill = mk(&[("ping", true, ""), ("kind/pods", false, "forbidden")]);
        let failed = "[+]ping ok\n[-]kind/pods failed: forbidden\nlivez check failed\n";
        let cases = [
            (&well, None, "", 200, "ok"),
            (
                &well,
                None,
                "verbose",
                200,
                "[+]ping ok\n[+]kind/pods ok: synced\nlivez check passed\n",
            ),
            (&well, None, "exclude=nothing", 200, "ok"),
            (&well, Some("ping"), "", 200, "ok"),
            (&well, Some("kind/pods"), "verbose", 200, "ok"),
            (&well, Some("nothing"), "", 404, "404 page not found\n"),
            (&ill, None, "", 500, failed),
            (&ill, None, "verbose=1", 500, failed),
            (&ill, Some("ping"), "", 200, "ok"),
            (
                &ill,
                Some("kind/pods"),
                "",
                500,
                "[-]kind/pods failed: forbidden\n",
            ),
            (&ill, None, "exclude=kind%2Fpods", 200, "ok"),
            (
                &ill,
                None,
                "verbose&exclude=ping&exclude=kind/pods",
                200,
                "[+]ping excluded: ok\n[+]kind/pods excluded: ok\nlivez check passed\n",
            ),
        ];
        for (health, check, query, code, text) in cases {
            let page = health.page("livez", check, &RequestQuery::parse(query));
            assert_eq!(page, (code, text.to_owned()), "{check:?} {query}");
        }
        let nothing = HealthReport::default().page("readyz", None, &RequestQuery::default());
        assert_eq!(nothing, (200, "ok".into()));
    }
}
