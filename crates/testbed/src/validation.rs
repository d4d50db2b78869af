//! Valid objects of every stable kind with random changes, sent to two servers: do they say the same?
//!
//! A seed makes a [`ValidationCase`] with one changed object for each line of `objects.jsonl`. The object is created, and
//! the object that a server stored for the line is replaced by it; both are dry runs, so that no case depends on another.
//! Compared are the code, the reason, and the set of causes, each with its field and message. `allowed.txt` lists the
//! differences that have a reason. `cargo xtask conformance validation` sets the embedded server beside a real one.

mod allowed;
mod mutate;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use anyhow::{Context as _, bail};
use caretaker_machinery::rng::Rng;
use regex::Regex;
use serde_json::{Value, json};

use crate::objects::{mk_namespace, with};
use crate::session::{Answer, Ask, Session};
use crate::target::Target;

pub use allowed::AllowedCauses;

const OBJECTS: &str = include_str!("../data/validation/objects.jsonl");
/// The namespace of the objects.
const NAMESPACE: &str = "validation";
/// The namespace of objects that limit others in their namespace.
const LIMITS_NAMESPACE: &str = "validation-limits";
/// In a line, this stands for the number of the object, which differs between what is stored and what is created.
const INDEX: &str = "INDEX";
/// Numbers of objects that are created begin here.
const CREATED_INDEX_MIN: usize = 100;

static UID: LazyLock<Regex> = LazyLock::new(|| {
    let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    Regex::new(uid).expect("a valid pattern")
});

/// Changed objects, one for each line.
#[derive(Debug)]
pub struct ValidationCase {
    pub seed: u64,
    objects: Vec<ChangedObject>,
}

#[derive(Debug)]
struct ChangedObject {
    create: Value,
    update: Value,
    /// The changes in words, for the reader.
    changes: [String; 2],
}

/// A server that has stored the object of each line.
pub struct PreparedServer {
    target: Target,
    /// By line: the collection, and the stored object.
    lines: Vec<(String, Value)>,
}

/// One write and what a server said of it.
#[derive(Debug)]
pub struct ValidationAnswer {
    pub kind: String,
    pub request: String,
    pub code: u16,
    /// The reason, then each cause; the message if there are no causes.
    pub said: BTreeSet<String>,
}

// === impl PreparedServer ===

impl PreparedServer {
    /// Creates the objects on a server.
    ///
    /// # Errors
    /// If a server refuses one of them.
    pub async fn new(target: Target) -> anyhow::Result<Self> {
        let s = session(&target);
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let overhead = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "rc0"}, "handler": "h"});
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        for ns in [NAMESPACE, LIMITS_NAMESPACE] {
            s.quietly(Ask::post("/api/v1/namespaces", &mk_namespace(ns)))
                .await;
        }
        s.quietly(Ask::post(accounts, &account)).await;
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        s.quietly(Ask::post(classes, &overhead)).await;
        let mut lines = Vec::new();
        for (number, object) in base_objects(0).iter().enumerate() {
            let collection = collection(&s, object).await?;
            let answer = s.quietly(Ask::post(&collection, object)).await;
            if answer.status != 201 {
                bail!("line {} is refused: {}", number + 1, answer.body);
            }
            lines.push((collection, answer.body));
        }
        Ok(Self { target, lines })
    }
}

/// Finds the path of an object's collection by discovery.
async fn collection(s: &Session, object: &Value) -> anyhow::Result<String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let root = if version.contains('/') {
        "/apis"
    } else {
        "/api"
    };
    let resources = s.quietly(Ask::get(format!("{root}/{version}"))).await.body;
    let list = resources["resources"].as_array().into_iter().flatten();
    let mut list = list.filter(|resource| !text_of(resource, "name").contains('/'));
    let resource = list.find(|resource| resource["kind"] == object["kind"]);
    let resource = resource.with_context(|| format!("{version} {} is not served", text("kind")))?;
    let name = text_of(resource, "name");
    let ns = match name {
        "limitranges" | "resourcequotas" => LIMITS_NAMESPACE,
        _ => NAMESPACE,
    };
    Ok(match resource["namespaced"] == true {
        true => format!("{root}/{version}/namespaces/{ns}/{name}"),
        false => format!("{root}/{version}/{name}"),
    })
}

fn text_of<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn session(target: &Target) -> Session {
    Session::new(target.clone(), NAMESPACE.to_owned())
}

/// The object of each line. Names count from `first`.
fn base_objects(first: usize) -> Vec<Value> {
    let lines = OBJECTS.lines().enumerate();
    let objects = lines.map(|(number, line)| {
        let index = (first + number).to_string();
        let line = line
            .replace(INDEX, &index)
            .replace("\"NS\"", &format!("{NAMESPACE:?}"));
        let object: Value = serde_json::from_str(&line).expect("a test reads the file");
        match object["metadata"]["name"].is_string() {
            true => object,
            false => with(
                object,
                json!({"metadata": {"name": format!("base{index}")}}),
            ),
        }
    });
    objects.collect()
}

// === impl ValidationCase ===

impl ValidationCase {
    /// The case of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let pairs = base_objects(CREATED_INDEX_MIN)
            .into_iter()
            .zip(base_objects(0));
        let objects = pairs.map(|(mut create, mut update)| {
            let changes = [
                mutate::change(&mut rng, &mut create),
                mutate::change(&mut rng, &mut update),
            ];
            ChangedObject {
                create,
                update,
                changes,
            }
        });
        let objects = objects.collect();
        Self { seed, objects }
    }

    /// What a server says of each object: of its creation, then of the update.
    pub async fn run(&self, server: &PreparedServer) -> Vec<ValidationAnswer> {
        let s = session(&server.target);
        let mut said = Vec::new();
        for (object, (collection, stored)) in self.objects.iter().zip(&server.lines) {
            let [created, updated] = &object.changes;
            let path = format!("{collection}?dryRun=All");
            let answer = s.quietly(Ask::post(path, &object.create)).await;
            said.push(judged(
                &object.create,
                format!("create: {created}"),
                &answer,
            ));
            let mut update = object.update.clone();
            let path = format!("{collection}/{}", text_of(&stored["metadata"], "name"));
            if update["metadata"]["resourceVersion"].is_null() {
                // The server's own controllers write the status of some objects.
                let stored = s.quietly(Ask::get(&path)).await.body;
                update["metadata"]["resourceVersion"] =
                    stored["metadata"]["resourceVersion"].clone();
            }
            let path = format!("{path}?dryRun=All");
            let answer = s.quietly(Ask::put(path, &update)).await;
            said.push(judged(&update, format!("update: {updated}"), &answer));
        }
        said
    }
}

/// What an answer comes to.
fn judged(object: &Value, request: String, answer: &Answer) -> ValidationAnswer {
    let kind = format!(
        "{} {}",
        text_of(object, "apiVersion"),
        text_of(object, "kind")
    );
    let mut said = BTreeSet::new();
    if answer.status >= 300 || answer.status == 0 {
        let body = &answer.body;
        said.insert(text_of(body, "reason").to_owned());
        let causes = body["details"]["causes"].as_array();
        let causes: Vec<String> = causes
            .into_iter()
            .flatten()
            .map(|cause| {
                let part = |field| text_of(cause, field);
                let message = without_suffix(object, part("message"));
                format!("{}: {}: {message}", part("field"), part("reason"))
            })
            .collect();
        if causes.is_empty() {
            said.insert(
                UID.replace_all(text_of(body, "message"), "UID")
                    .into_owned(),
            );
        }
        said.extend(
            causes
                .iter()
                .map(|cause| UID.replace_all(cause, "UID").into_owned()),
        );
    }
    ValidationAnswer {
        kind,
        request,
        code: answer.status,
        said,
    }
}

/// Replaces the random end of a generated name.
fn without_suffix(object: &Value, message: &str) -> String {
    let prefix = text_of(&object["metadata"], "generateName");
    let start = format!("Invalid value: {prefix:?}");
    let start = start.trim_end_matches('"');
    match message.strip_prefix(start) {
        Some(rest) if !prefix.is_empty() && rest.get(5..6) == Some("\"") => {
            format!("{start}SUFFIX{}", &rest[5..])
        }
        _ => message.to_owned(),
    }
}

// === impl ValidationAnswer ===

impl ValidationAnswer {
    /// Returns what only one of two servers said.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let said = self.said.symmetric_difference(&other.said);
        said.map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_objects() {
        let shown = |seed| format!("{:?}", ValidationCase::of(seed));
        assert_eq!(shown(3), shown(3));
        assert_ne!(shown(3), shown(4));
    }

    #[tokio::test(start_paused = true)]
    async fn the_objects_of_all_lines_are_valid() {
        let server = PreparedServer::new(Target::embedded()).await.unwrap();
        assert_eq!(server.lines.len(), base_objects(0).len());
    }

    #[test]
    fn causes_are_compared_as_a_set() {
        let answer = |causes: Value| Answer {
            status: 422,
            body: json!({"reason": "Invalid", "details": {"causes": causes}}),
            ..Answer::default()
        };
        let cause =
            |field: &str| json!({"field": field, "reason": "FieldValueRequired", "message": "m"});
        let judged = |causes| judged(&json!({}), String::new(), &answer(causes));
        let one = judged(json!([cause("a"), cause("b")]));
        let two = judged(json!([cause("b"), cause("a"), cause("a")]));
        assert!(one.differences(&two).is_empty());
        let three = judged(json!([cause("b")]));
        assert_eq!(one.differences(&three), ["a: FieldValueRequired: m"]);
    }
}
