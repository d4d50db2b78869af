//! Random schemas and objects, sent to two servers: do they say the same?
//!
//! A seed makes a [`SchemaCase`]: a definition, which is sometimes no good, and objects that fit its schema more or less. The
//! case is performed on each server by itself, and what came back is compared: whether each was taken, what is stored of
//! it, what was warned about, and the set of causes where it was refused. `cargo xtask conformance schema` sets the embedded
//! server beside a real one.

mod random;

use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::objects::{CRDS, Resource, Scope, with};
use crate::session::{Answer, Ask, Session};
use crate::target::Target;

/// Objects of a case that are created, and changes of each that are tried.
const OBJECTS: usize = 5;
/// How often a kind is looked for before it counts as not served.
const LOOKS_MAX: usize = 400;
/// Pause between two looks.
const LOOK_STEP: Duration = Duration::from_millis(50);

/// A schema, and what is sent to it.
#[derive(Debug)]
pub struct SchemaCase {
    /// What made it.
    pub seed: u64,
    pub schema: Value,
    status: Value,
    /// Content of objects, and what each is changed into.
    objects: Vec<(Value, Value)>,
}

// === impl SchemaCase ===

impl SchemaCase {
    /// The case of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let schema = random::schema(&mut rng);
        let status = match rng.below(3) {
            0 => json!({"status": {}}),
            _ => json!({}),
        };
        let content = |rng: &mut Rng| random::content(rng, &schema);
        let objects = (0..OBJECTS).map(|_| (content(&mut rng), content(&mut rng)));
        let objects = objects.collect();
        Self {
            seed,
            schema,
            status,
            objects,
        }
    }

    /// What a server makes of it, answer by answer.
    pub async fn run(&self, target: &Target) -> Vec<Value> {
        let s = Session::new(target.clone(), String::new());
        let group = format!("s{}.example.com", self.seed);
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": self.status, "schema": {"openAPIV3Schema": self.schema}});
        let names = json!({"plural": "things", "kind": "Thing"});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
            "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]}});
        let answer = s.quietly(Ask::post(CRDS.everywhere(), &definition)).await;
        let mut said = vec![judged(&answer, |_| Value::Null)];
        if answer.status == 201 {
            let things = Resource::custom(&group, "v1", "things", Scope::Cluster).everywhere();
            if !self.wait(&s, &things).await {
                return vec![json!("never served")];
            }
            for (number, object) in self.objects.iter().enumerate() {
                said.extend(exchange(&s, &group, &things, number, object).await);
            }
            let path = format!("{}/things.{group}", CRDS.everywhere());
            s.quietly(Ask::new(Method::DELETE, path)).await;
        }
        said
    }

    /// Waits until objects can be made. A first create may be refused while the kind is being set up, so one that cannot
    /// be stored is sent until it is judged.
    async fn wait(&self, s: &Session, things: &str) -> bool {
        for _ in 0..LOOKS_MAX {
            let answer = s
                .quietly(Ask::post(format!("{things}?dryRun=All"), &json!({})))
                .await;
            // No kind: 400 from the kind's own handler.
            if answer.status == 400 {
                return true;
            }
            tokio::time::sleep(LOOK_STEP).await;
        }
        false
    }
}

/// Creates an object, changes it by a merge patch and replaces it; what was said each time.
async fn exchange(
    s: &Session,
    group: &str,
    things: &str,
    number: usize,
    (first, then): &(Value, Value),
) -> Vec<Value> {
    let named = |content: &Value| {
        let mut object = content.clone();
        object["apiVersion"] = format!("{group}/v1").into();
        object["kind"] = "Thing".into();
        object["metadata"] = json!({"name": format!("t{number}")});
        object
    };
    let path = format!("{things}/t{number}");
    let strict = if number % 3 == 2 {
        "?fieldValidation=Strict"
    } else {
        ""
    };
    let created = s
        .quietly(Ask::post(format!("{things}{strict}"), &named(first)))
        .await;
    let mut said = vec![judged(&created, content)];
    let patch = |part: &str, change: &Value| Ask::merge_patch(format!("{path}{part}"), change);
    said.push(judged(&s.quietly(patch("", then)).await, content));
    if let Some(status) = then.get("status") {
        let change = json!({"status": status});
        said.push(judged(&s.quietly(patch("/status", &change)).await, content));
    }
    let version = s.quietly(Ask::get(&path)).await.body["metadata"]["resourceVersion"].clone();
    let mut replaced = named(then);
    replaced["metadata"]["resourceVersion"] = version;
    said.push(judged(
        &s.quietly(Ask::put(&path, &replaced)).await,
        content,
    ));
    said
}

/// Everything but metadata.
fn content(body: &Value) -> Value {
    let mut content = with(body.clone(), json!({"metadata": null}));
    settle_numbers(&mut content);
    content
}

/// What an answer comes to: its code and warnings, the object or the set of causes.
fn judged(answer: &Answer, shown: fn(&Value) -> Value) -> Value {
    let body = &answer.body;
    let mut warnings: Vec<&str> = answer
        .headers
        .get("warning")
        .into_iter()
        .flat_map(|all| all.lines())
        .collect();
    warnings.sort_unstable();
    if answer.status < 300 {
        return json!({"code": answer.status, "warnings": warnings, "object": shown(body)});
    }
    let causes = body["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut causes: Vec<String> = causes.iter().map(Value::to_string).collect();
    causes.sort_unstable();
    causes.dedup();
    let message = if causes.is_empty() {
        &body["message"]
    } else {
        &Value::Null
    };
    json!({"code": answer.status, "reason": body["reason"], "causes": causes, "message": message})
}

/// Numbers are the same however they are spelled.
fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(members) => members.values_mut().for_each(settle_numbers),
        _ => {}
    }
}
