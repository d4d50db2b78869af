//! Makes transcripts of two servers comparable: values that must differ get a name, values that are not compared are dropped.
//!
//! A pure function over a whole transcript, because names are given by order: uids `U1`, `U2`, … and continue tokens
//! `C1`, … as they appear; resourceVersions of objects `R1` < `R2` < … by value, so that order and equality stay
//! visible while absolute values and gaps do not. Cluster IPs and node ports that a server chose are `IP1`, … and `P1`, …;
//! those that cases choose are from the lowest of their ranges, which servers give out last. A list's (or bookmark's) resourceVersion is the store's, which other
//! writers move at any time: it becomes `R3+`, the last object version it covers. Times become `T`, ages `AGE`.
//! Literals that cases invent are recognisable and stay: uids that begin with eight zeros, times outside 2020–2099.
//! Dropped are descriptions of columns, and managedFields, also where a message quotes a whole object. Repeated causes
//! of a Status count once and have no order; a Status whose other fields are what they always are is written as
//! `{"Failure": {reason, message, details}}` (or `Success`), for the reader's sake.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

/// What a case invents as a uid begins with this and keeps its value.
const INVENTED_UID: &str = "00000000-";
/// Cases choose node ports below this one; servers do so only when all others are taken.
const CHOSEN_PORT_MIN: u64 = 30_086;

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"20[2-9][0-9]-[01][0-9]-[0-3][0-9]T[0-9:]{8}(\.[0-9]{1,9})?Z"));
static CLUSTER_IP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b10\.0\.[1-9][0-9]{0,2}\.[0-9]{1,3}\b"));
static NODE_PORT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(:)(3[0-2][0-9]{3})(/)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern("^([0-9]+[smhdy]){1,2}$"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(ersion: |ersion=|precondition: |meta: |\()([0-9]+)"));
static CURRENT: LazyLock<Regex> = LazyLock::new(|| pattern("current: [0-9]+"));
static OLDEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"too old resource version: ([0-9]+) \([0-9]+\)"));
static WHOLE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"Invalid value: "\{\\"apiVersion.*\}""#));
static HASH: LazyLock<Regex> = LazyLock::new(|| pattern("hash=[0-9A-Fa-f]+"));

/// Every name a transcript needs, collected before anything is rewritten.
struct NameTable<'a> {
    ns: &'a str,
    objects: Vec<u64>,
    lists: BTreeSet<u64>,
    uids: Vec<String>,
    tokens: Vec<String>,
    etags: Vec<String>,
    generated: Vec<(String, String)>,
    ips: Vec<String>,
    ports: Vec<u64>,
}

/// Whose resourceVersion is being looked at.
#[derive(Clone, Copy, PartialEq)]
enum ValuePosition {
    Object,
    /// The store's, in the metadata of a list.
    ListMeta,
    /// The store's, anywhere in a bookmark.
    Bookmark,
}

/// The normalised form of the transcript of a case that ran in namespace `ns`.
pub fn normalise(transcript: &[Value], ns: &str) -> Vec<Value> {
    let mut names = NameTable {
        ns,
        objects: Vec::new(),
        lists: BTreeSet::new(),
        uids: Vec::new(),
        tokens: Vec::new(),
        etags: Vec::new(),
        generated: Vec::new(),
        ips: Vec::new(),
        ports: Vec::new(),
    };
    for entry in transcript {
        names.collect(entry, false);
    }
    names.objects.sort_unstable();
    names.objects.dedup();
    transcript
        .iter()
        .map(|entry| short_status(names.rewritten(entry, "", ValuePosition::Object)))
        .collect()
}

// === impl NameTable ===

impl NameTable<'_> {
    /// Walks in key order, so that names do not depend on the order a server writes fields in.
    fn collect(&mut self, value: &Value, bookmark: bool) {
        match value {
            Value::Object(map) => {
                self.collect_meta(map, bookmark);
                let bookmark = bookmark || is_bookmark(map);
                for (key, value) in sorted(map) {
                    if key == "etag" {
                        remember(&mut self.etags, value.as_str().unwrap_or_default());
                    } else if key != "managedFields" {
                        self.collect_port(key, value);
                        self.collect(value, bookmark);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, bookmark)),
            Value::String(text) => {
                for ip in CLUSTER_IP.find_iter(text) {
                    remember(&mut self.ips, ip.as_str());
                }
                for uid in UID.find_iter(text).map(|m| m.as_str()) {
                    if !uid.starts_with(INVENTED_UID) {
                        remember(&mut self.uids, uid);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn collect_port(&mut self, key: &str, value: &Value) {
        if let Some(port) = chosen_port(key, value).filter(|port| !self.ports.contains(port)) {
            self.ports.push(port);
        }
    }

    fn collect_meta(&mut self, map: &Map<String, Value>, bookmark: bool) {
        let Some(meta) = map.get("metadata").and_then(Value::as_object) else {
            return;
        };
        let text = |key: &str| meta.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(rv) = revision(text("resourceVersion")) {
            if bookmark || is_list(map) {
                self.lists.insert(rv);
            } else {
                self.objects.push(rv);
            }
        }
        if !text("continue").is_empty() {
            remember(&mut self.tokens, text("continue"));
        }
        let (base, name) = (text("generateName"), text("name"));
        if !base.is_empty() && name.len() > 5 {
            let kept = &name[..name.len() - 5];
            if base.starts_with(kept) && !self.generated.iter().any(|(known, _)| known == name) {
                let new = format!("{kept}<G{}>", self.generated.len() + 1);
                self.generated.push((name.to_owned(), new));
            }
        }
    }

    fn rewritten(&self, value: &Value, key: &str, inside: ValuePosition) -> Value {
        match value {
            Value::Object(map) => self.rewritten_map(map, inside),
            Value::Array(items) if key == "cells" => items
                .iter()
                .map(|cell| self.rewritten(&aged(cell), "", inside))
                .collect(),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.rewritten(item, "", inside));
                if key == "causes" {
                    as_set(items.collect())
                } else {
                    items.collect()
                }
            }
            Value::String(text) => self.rewritten_text(text, key, inside).into(),
            Value::Number(_) => match chosen_port(key, value) {
                Some(port) => self.port_name(port).into(),
                None => value.clone(),
            },
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn port_name(&self, port: u64) -> String {
        let place = self.ports.iter().position(|known| *known == port);
        place.map_or_else(|| port.to_string(), |at| format!("P{}", at + 1))
    }

    fn rewritten_map(&self, map: &Map<String, Value>, inside: ValuePosition) -> Value {
        let (list, bookmark) = (
            is_list(map),
            inside == ValuePosition::Bookmark || is_bookmark(map),
        );
        let mut new = Map::new();
        for (key, value) in sorted(map) {
            let inside = match key.as_str() {
                "managedFields" => continue,
                // A column's description is prose that nothing reads.
                "description" if map.contains_key("priority") => continue,
                _ if bookmark => ValuePosition::Bookmark,
                "metadata" if list => ValuePosition::ListMeta,
                "resourceVersion" => inside,
                _ => ValuePosition::Object,
            };
            new.insert(self.text(key), self.rewritten(value, key, inside));
        }
        new.into()
    }

    fn rewritten_text(&self, text: &str, key: &str, inside: ValuePosition) -> String {
        match key {
            "resourceVersion" => self
                .version(text, inside)
                .unwrap_or_else(|| text.to_owned()),
            "etag" => place("E", &self.etags, text),
            "storageVersionHash" => "H".to_owned(),
            "serverAddress" => "HOST".to_owned(),
            _ => self.text(text),
        }
    }

    /// Replaces whatever is known inside a longer text: a message, a path, YAML.
    fn text(&self, text: &str) -> String {
        let mut text = text.replace(self.ns, "NS");
        for (name, new) in &self.generated {
            text = text.replace(name, new);
        }
        for (at, token) in self.tokens.iter().enumerate() {
            text = text.replace(token, &format!("C{}", at + 1));
        }
        let text = UID.replace_all(&text, |found: &Captures<'_>| {
            place("U", &self.uids, &found[0])
        });
        let text = CLUSTER_IP.replace_all(&text, |found: &Captures<'_>| {
            place("IP", &self.ips, &found[0])
        });
        let text = NODE_PORT.replace_all(&text, |found: &Captures<'_>| {
            let port = found[2].parse().unwrap_or_default();
            format!("{}{}{}", &found[1], self.port_name(port), &found[3])
        });
        let text = TIME.replace_all(&text, |found: &Captures<'_>| {
            if found.get(1).is_some() { "T.T" } else { "T" }.to_owned()
        });
        let text = HASH.replace_all(&text, "hash=H");
        let text = WHOLE.replace_all(&text, "Invalid value: OBJECT");
        if !text.contains("esourceVersion") && !text.contains("esource version") {
            return text.into_owned();
        }
        let text = CURRENT.replace_all(&text, "current: NOW");
        let text = OLDEST.replace_all(&text, "too old resource version: $1 (OLDEST)");
        let named = |found: &Captures<'_>| match self.version(&found[2], ValuePosition::Object) {
            Some(name) => format!("{}{name}", &found[1]),
            None => found[0].to_owned(),
        };
        VERSION.replace_all(&text, named).into_owned()
    }

    /// The name of a resourceVersion, if it is one that some object or list of the transcript had.
    fn version(&self, text: &str, inside: ValuePosition) -> Option<String> {
        let rv = revision(text)?;
        match self.objects.binary_search(&rv) {
            Ok(at) if inside == ValuePosition::Object => Some(format!("R{}", at + 1)),
            Ok(at) => Some(format!("R{}+", at + 1)),
            Err(at) if self.lists.contains(&rv) => Some(format!("R{at}+")),
            Err(_) => None,
        }
    }
}

/// A node port that a server chose.
fn chosen_port(key: &str, value: &Value) -> Option<u64> {
    let is_port = key == "nodePort" || key == "healthCheckNodePort";
    let port = value.as_u64().filter(|_| is_port)?;
    (CHOSEN_PORT_MIN..=32_767).contains(&port).then_some(port)
}

/// The short form of a Status body that says nothing unusual; anything else stays as it is.
fn short_status(mut entry: Value) -> Value {
    let http = entry["status"].clone();
    let Some(body) = entry.get_mut("body").and_then(Value::as_object_mut) else {
        return entry;
    };
    let is = |key: &str, value: Value| body.get(key) == Some(&value);
    let boilerplate =
        is("apiVersion", json!("v1")) && is("kind", json!("Status")) && is("metadata", json!({}));
    let word = match body.get("status").and_then(Value::as_str) {
        Some("Failure") if boilerplate && body.get("code") == Some(&http) => "Failure",
        Some("Success") if boilerplate && !body.contains_key("code") => "Success",
        _ => return entry,
    };
    body.retain(|key, _| {
        !["apiVersion", "kind", "metadata", "status", "code"].contains(&key.as_str())
    });
    let rest = std::mem::take(body);
    body.insert(word.to_owned(), rest.into());
    entry
}

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants of this file"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// Whether the metadata of this map is that of a list; a Table's is, for most Tables.
fn is_list(map: &Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") || kind == "Table" || map.contains_key("items")
}

fn is_bookmark(map: &Map<String, Value>) -> bool {
    map.get("type").is_some_and(|kind| kind == "BOOKMARK")
}

fn revision(text: &str) -> Option<u64> {
    text.parse().ok().filter(|rv| *rv != 0)
}

fn remember(known: &mut Vec<String>, text: &str) {
    if !known.iter().any(|k| k == text) {
        known.push(text.to_owned());
    }
}

fn place(prefix: &str, known: &[String], text: &str) -> String {
    known
        .iter()
        .position(|k| k == text)
        .map_or_else(|| text.to_owned(), |at| format!("{prefix}{}", at + 1))
}

fn aged(cell: &Value) -> Value {
    match cell.as_str() {
        Some(text) if AGE.is_match(text) => "AGE".into(),
        _ => cell.clone(),
    }
}

fn as_set(mut causes: Vec<Value>) -> Value {
    causes.sort_by_cached_key(Value::to_string);
    causes.dedup();
    causes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_object(uid: &str, rv: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"uid": uid, "resourceVersion": rv}})
    }

    fn one(value: Value) -> Value {
        normalise(&[value], "scene").remove(0)
    }

    #[test]
    fn resource_versions_are_named_by_value_and_uids_by_appearance() {
        let a = "aaaaaaaa-0000-4000-8000-000000000000";
        let b = "bbbbbbbb-0000-4000-8000-000000000000";
        let got = normalise(
            &[mk_object(b, "30"), mk_object(a, "9"), mk_object(b, "30")],
            "scene",
        );
        let want = [
            mk_object("U1", "R2"),
            mk_object("U2", "R1"),
            mk_object("U1", "R2"),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn a_list_version_is_named_after_the_last_object_version_it_covers() {
        let list = |rv| json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": rv}, "items": [mk_object("x", "5"), mk_object("x", "8")]});
        for (rv, name) in [
            ("4", "R0+"),
            ("5", "R1+"),
            ("7", "R1+"),
            ("8", "R2+"),
            ("99", "R2+"),
        ] {
            assert_eq!(one(list(rv))["metadata"]["resourceVersion"], name, "{rv}");
        }
    }

    #[test]
    fn a_bookmark_version_is_the_stores_and_an_events_is_the_objects() {
        let event = |kind: &str| json!({"type": kind, "object": mk_object("x", "5")});
        let got = normalise(&[event("BOOKMARK"), event("ADDED")], "scene");
        assert_eq!(got[0]["object"]["metadata"]["resourceVersion"], "R1+");
        assert_eq!(got[1]["object"]["metadata"]["resourceVersion"], "R1");
        let table = json!({"type": "BOOKMARK", "object": {"kind": "Table", "rows": [{"object": mk_object("x", "7")}]}});
        let got = normalise(&[event("ADDED"), table], "scene");
        assert_eq!(
            got[1]["object"]["rows"][0]["object"]["metadata"]["resourceVersion"],
            "R1+"
        );
    }

    #[test]
    fn texts_lose_uids_times_tokens_versions_and_the_namespace() {
        let uid = "aaaaaaaa-0000-4000-8000-000000000000";
        let entry = json!({
            "request": "GET /api/v1/namespaces/scene/configmaps?continue=tok&resourceVersion=41",
            "body": {"metadata": {"continue": "tok", "resourceVersion": "41"}, "message": format!("{uid} at 2026-01-01T00:00:00Z")},
        });
        let got = one(entry);
        assert_eq!(
            got["request"],
            "GET /api/v1/namespaces/NS/configmaps?continue=C1&resourceVersion=R1"
        );
        assert_eq!(got["body"]["message"], "U1 at T");
        assert_eq!(got["body"]["metadata"]["continue"], "C1");
    }

    #[test]
    fn numbers_in_messages_stay_unless_they_are_known_versions() {
        let entry = json!({
            "metadata": {"resourceVersion": "3145728"},
            "message": "limit is 3145728",
            "other": "resource version: 7 (3145728), current: 8",
            "old": "too old resource version: 1 (99)",
            "wordy": "resourceVersion in precondition: 7, in object meta: 3145728",
            "near": "k3145728s.io 3145728 resourceVersionMatch",
        });
        let got = one(entry);
        assert_eq!(got["message"], "limit is 3145728");
        assert_eq!(got["other"], "resource version: 7 (R1), current: NOW");
        assert_eq!(got["old"], "too old resource version: 1 (OLDEST)");
        assert_eq!(
            got["wordy"],
            "resourceVersion in precondition: 7, in object meta: R1"
        );
        assert_eq!(got["near"], "k3145728s.io 3145728 resourceVersionMatch");
    }

    #[test]
    fn invented_uids_and_times_stay() {
        let text =
            "00000000-0000-0000-0000-000000000001 2001-01-01T00:00:00Z 2026-11-15T22:00:00.123456Z";
        assert_eq!(
            one(json!(text)),
            json!("00000000-0000-0000-0000-000000000001 2001-01-01T00:00:00Z T.T")
        );
    }

    #[test]
    fn generated_names_lose_their_suffix_everywhere() {
        let entry = json!({"metadata": {"generateName": "gen-", "name": "gen-x7k2p"}, "message": "\"gen-x7k2p\" not found"});
        let got = one(entry);
        assert_eq!(got["metadata"]["name"], "gen-<G1>");
        assert_eq!(got["message"], "\"gen-<G1>\" not found");
    }

    #[test]
    fn causes_are_a_set_and_managed_fields_are_gone() {
        let cause = |field: &str| json!({"field": field});
        let entry = json!({"details": {"causes": [cause("b"), cause("a"), cause("b")]}, "managedFields": [1]});
        assert_eq!(
            one(entry),
            json!({"details": {"causes": [cause("a"), cause("b")]}})
        );
    }

    #[test]
    fn quoted_objects_are_not_compared() {
        let text = r#"patch: Invalid value: "{\"apiVersion\":\"v1\",\"metadata\":{}}": cannot"#;
        assert_eq!(
            one(json!(text)),
            json!("patch: Invalid value: OBJECT: cannot")
        );
        let text = r#"patch: Invalid value: "{}": cannot"#;
        assert_eq!(one(json!(text)), json!(text));
    }

    #[test]
    fn only_an_ordinary_status_is_shortened() {
        let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "Gone", "code": 410});
        let got = one(json!({"status": 410, "body": status.clone()}));
        assert_eq!(got["body"], json!({"Failure": {"reason": "Gone"}}));
        let got = one(json!({"status": 200, "body": status.clone()}));
        assert_eq!(got["body"], status);
        let success =
            json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"});
        assert_eq!(
            one(json!({"status": 200, "body": success}))["body"],
            json!({"Success": {}})
        );
    }

    #[test]
    fn chosen_addresses_and_ports_are_named_and_given_ones_stay() {
        let entry = json!({"clusterIP": "10.0.7.9", "clusterIPs": ["10.0.0.80", "10.0.200.1"],
            "ports": [{"nodePort": 31_000, "port": 31_000}, {"nodePort": 30_085}],
            "healthCheckNodePort": 32_767, "cells": ["80:31000/TCP,81:30085/TCP", "110.0.7.9"]});
        let expected = json!({"clusterIP": "IP1", "clusterIPs": ["10.0.0.80", "IP2"],
            "ports": [{"nodePort": "P2", "port": 31_000}, {"nodePort": 30_085}],
            "healthCheckNodePort": "P1", "cells": ["80:P2/TCP,81:30085/TCP", "110.0.7.9"]});
        assert_eq!(one(entry), expected);
    }

    #[test]
    fn cells_lose_ages_only() {
        let entry = json!({"kind": "Table", "rows": [{"cells": ["5m16s", "0s", "1s2", 3, "2026-01-01T00:00:00Z"]}]});
        assert_eq!(
            one(entry)["rows"][0]["cells"],
            json!(["AGE", "AGE", "1s2", 3, "T"])
        );
    }
}
