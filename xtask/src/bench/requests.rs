//! Requests as the API server counts them: `apiserver_request_total` of its `/metrics`.
//!
//! The counter does not know the client. A phase is therefore measured by the difference of two moments, on the kinds of
//! the workload, on which only the program under test and the driver act; the driver reports its own requests. The server
//! counts a watch when it ends.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::http::HttpClient;

const COUNTER: &str = "apiserver_request_total{";

/// The number of requests so far, by resource, verb and error.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestCounts(BTreeMap<RequestKey, f64>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKey {
    /// `configmaps`; empty for requests without a resource, such as discovery.
    resource: String,
    /// `GET`, `LIST`, `DELETE`, …
    verb: String,
    is_error: bool,
}

// === impl RequestCounts ===

impl RequestCounts {
    /// Reads the counters of a server.
    pub(super) fn of(server: &HttpClient) -> Result<Self> {
        let text = server.get_text("/metrics", "text/plain")?;
        Ok(Self::parse(&text))
    }

    fn parse(metrics: &str) -> Self {
        let mut all = BTreeMap::new();
        let lines = metrics
            .lines()
            .filter_map(|line| line.strip_prefix(COUNTER));
        for line in lines {
            let Some((labels, value)) = line.rsplit_once("} ") else {
                continue;
            };
            let label = |name: &str| {
                let mut labels = labels.split(',').filter_map(|label| label.split_once('='));
                let (_, value) = labels.find(|(found, _)| *found == name)?;
                Some(value.trim_matches('"'))
            };
            let key = RequestKey {
                resource: label("resource").unwrap_or_default().to_owned(),
                verb: label("verb").unwrap_or_default().to_owned(),
                is_error: label("code").is_some_and(|code| code.starts_with(['4', '5'])),
            };
            *all.entry(key).or_default() += value.parse().unwrap_or(0.0);
        }
        Self(all)
    }

    /// The requests since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let more = self.0.iter().map(|(key, count)| {
            let before = earlier.0.get(key).copied().unwrap_or_default();
            (key.clone(), count - before)
        });
        Self(more.filter(|(_, count)| *count > 0.0).collect())
    }

    /// The requests on some resources by verb, without those of another client.
    pub(super) fn on(
        &self,
        resources: &[&str],
        others: &BTreeMap<String, f64>,
    ) -> BTreeMap<String, f64> {
        let mut verbs = BTreeMap::new();
        for (key, count) in &self.0 {
            if resources.contains(&key.resource.as_str()) {
                *verbs.entry(key.verb.clone()).or_default() += count;
            }
        }
        for (verb, count) in others {
            if let Some(left) = verbs.get_mut(verb) {
                *left -= count;
            }
        }
        verbs.retain(|_, count| *count > 0.0);
        verbs
    }

    /// The number of requests on some resources that were answered with an error.
    pub(super) fn errors_on(&self, resources: &[&str]) -> f64 {
        self.sum(|key| key.is_error && resources.contains(&key.resource.as_str()))
    }

    /// The number of requests on all other resources, those of the server itself included.
    pub(super) fn elsewhere(&self, resources: &[&str]) -> f64 {
        self.sum(|key| !resources.contains(&key.resource.as_str()))
    }

    fn sum(&self, is_meant: impl Fn(&RequestKey) -> bool) -> f64 {
        let meant = self.0.iter().filter(|(key, _)| is_meant(key));
        // Not `sum`, which is -0 for nothing.
        meant.fold(0.0, |sum, (_, count)| sum + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(resource: &str, verb: &str, code: u16, count: u32) -> String {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",group=\"\",resource=\"{resource}\",\
             subresource=\"x\",verb=\"{verb}\",version=\"v1\"}} {count}\n"
        )
    }

    #[test]
    fn a_phase_counts_new_requests_without_those_of_the_driver() {
        let before = line("configmaps", "GET", 200, 5) + &line("leases", "PUT", 200, 9);
        let after = "# HELP apiserver_request_total {x} 1\nother_total{verb=\"GET\"} 3\n"
            .to_owned()
            + &line("configmaps", "GET", 200, 25)
            + &line("configmaps", "GET", 404, 2)
            + &line("configmaps", "DELETE", 200, 13)
            + &line("configmaps", "LIST", 200, 1)
            + &line("events", "POST", 201, 1)
            + &line("leases", "PUT", 200, 12);
        let phase = RequestCounts::parse(&after).since(&RequestCounts::parse(&before));
        let own = [("DELETE".to_owned(), 3.0), ("LIST".to_owned(), 1.0)].into();
        let mine = phase.on(&["configmaps", "events"], &own);
        let expected = [("DELETE", 10.0), ("GET", 22.0), ("POST", 1.0)];
        let expected = expected.map(|(verb, count)| (verb.to_owned(), count));
        assert_eq!(mine, expected.into());
        assert_eq!(phase.errors_on(&["configmaps"]), 2.0);
        assert_eq!(phase.elsewhere(&["configmaps", "events"]), 3.0);
    }
}
