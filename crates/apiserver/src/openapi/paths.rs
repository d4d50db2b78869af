//! The paths of an OpenAPI v3 document: operations with their kind, parameters, bodies and answers.
//!
//! They follow from the table of kinds: verbs decide which operations exist. Mirrors upstream's `endpoints/installer` and,
//! for custom kinds, `controller/openapi/builder` (1.36), which differ in details.
//! DEVIATION(openapi): nothing has a description. Server-side apply is not advertised, because it is not served.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schemas::{reference, type_name};
use crate::discovery::path_of;
use crate::kinds::{ServedKind, ServedSubresource};

/// The types that operations of every kind use.
const STATUS: &str = "meta.v1.Status";
const DELETE_OPTIONS: &str = "meta.v1.DeleteOptions";
const WATCH_EVENT: &str = "meta.v1.WatchEvent";
const PATCH: &str = "meta.v1.Patch";
const SCALE: &str = "autoscaling.v1.Scale";
const NAMESPACE: &str = "core.v1.Namespace";
const RESOURCE_LIST: &str = "meta.v1.APIResourceList";

/// Media types of objects and streams of built-in kinds, and of custom kinds.
const OBJECTS: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
];
const STREAMS: &[&str] = &[
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
];
const CUSTOM: &[&str] = &["application/json", "application/yaml"];
const LOG: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "text/plain",
];
const ANYTHING: &[&str] = &["*/*"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Query parameters: names, with a mark for the type where it is no text: `?` boolean, `#` integer.
const LISTED: &str = "allowWatchBookmarks? continue fieldSelector labelSelector limit# pretty resourceVersion \
     resourceVersionMatch sendInitialEvents? shardSelector timeoutSeconds# watch?";
const COLLECTION: &str = "continue dryRun fieldSelector gracePeriodSeconds# \
     ignoreStoreReadErrorWithClusterBreakingPotential? labelSelector limit# orphanDependents? pretty propagationPolicy \
     resourceVersion resourceVersionMatch sendInitialEvents? shardSelector timeoutSeconds#";
const WRITTEN: &str = "dryRun fieldManager fieldValidation pretty";
const DELETED: &str = "dryRun gracePeriodSeconds# ignoreStoreReadErrorWithClusterBreakingPotential? \
     orphanDependents? pretty propagationPolicy";
const READ: &str = "pretty";
const READ_CUSTOM: &str = "pretty resourceVersion";
const LOGGED: &str = "container follow? insecureSkipTLSVerifyBackend? limitBytes# pretty previous? sinceSeconds# stream \
     tailLines# timestamps?";

/// Documents outside of groups: path, operation id, tag, type of the answer and media types.
type OtherDocument = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);
pub(super) const OTHERS: [OtherDocument; 5] = [
    (
        ".well-known/openid-configuration",
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "",
        &["application/json"],
    ),
    (
        "api",
        "getCoreAPIVersions",
        "core",
        "meta.v1.APIVersions",
        OBJECTS,
    ),
    (
        "apis",
        "getAPIVersions",
        "apis",
        "meta.v1.APIGroupList",
        OBJECTS,
    ),
    (
        "openid/v1/jwks",
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "",
        &["application/jwk-set+json"],
    ),
    (
        "version",
        "getCodeVersion",
        "version",
        "version.Info",
        &["application/json"],
    ),
];

/// Paths and the types that they refer to.
type PathsAndTypes = (Map<String, Value>, BTreeSet<String>);

/// The paths of a document outside of groups.
pub(super) fn other(path: &str) -> Option<PathsAndTypes> {
    let other = OTHERS.iter().find(|(name, ..)| *name == path)?;
    let (path, id, tag, of, media) = other;
    let answer = match *of {
        "" => Exchange::text(media),
        of => Exchange::read(of.to_owned(), media),
    };
    Some(single(path, id, tag, answer))
}

/// The paths of the document of a built-in group.
pub(super) fn group(name: &str) -> PathsAndTypes {
    let writer = PathWriter::new(name, "");
    let tag = writer.tag().trim_end_matches('_').to_owned();
    let id = format!("get{}APIGroup", writer.id_of_version());
    let answer = Exchange::read("meta.v1.APIGroup".to_owned(), OBJECTS);
    single(&format!("apis/{name}"), &id, &tag, answer)
}

fn single(path: &str, id: &str, tag: &str, answer: Exchange<'_>) -> PathsAndTypes {
    let mut writer = PathWriter::new("", "");
    let mut operation = writer.operation(id, answer);
    operation["tags"] = json!([tag]);
    let path = format!("/{path}/");
    let paths = Map::from_iter([(path, json!({"get": operation}))]);
    (paths, writer.types)
}

/// Writes the paths of one group and version.
pub(super) struct PathWriter {
    pub(super) paths: Map<String, Value>,
    /// The types that the paths refer to.
    pub(super) types: BTreeSet<String>,
    group: String,
    version: String,
    base: String,
}

/// What the operations on a path are about.
struct PathSubject<'a> {
    kind: &'a ServedKind,
    /// The part of operation ids after the version: `NamespacedPod`.
    id: String,
    gvk: Value,
    path: String,
}

/// The request body and the answers of an operation.
struct Exchange<'a> {
    body: Option<(String, &'a [&'a str])>,
    /// The codes of success.
    codes: &'a [&'a str],
    /// The type of the answer; none for text.
    answer: Option<String>,
    media: &'a [&'a str],
}

// === impl PathWriter ===

impl PathWriter {
    pub(super) fn new(group: &str, version: &str) -> Self {
        Self {
            paths: Map::new(),
            types: BTreeSet::new(),
            group: group.to_owned(),
            version: version.to_owned(),
            base: format!("/{}", path_of(group, version)),
        }
    }

    /// Adds the path of the resource list, which only built-in groups have.
    pub(super) fn add_root(&mut self) {
        let id = format!("get{}APIResources", self.id_of_version());
        let answer = Exchange::read(RESOURCE_LIST.to_owned(), OBJECTS);
        let operation = self.operation(&id, answer);
        self.paths
            .insert(format!("{}/", self.base), json!({"get": operation}));
    }

    /// Adds the paths of a kind. Like upstream, the list over all namespaces has a separate path.
    pub(super) fn add(&mut self, kind: &ServedKind) {
        let (plural, name) = (&kind.plural, &kind.kind);
        let base = self.base.clone();
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": name});
        let subject = |id: String, path: String| PathSubject {
            kind,
            id,
            gvk: gvk.clone(),
            path,
        };
        let (id, under) = match kind.namespaced {
            true => (format!("Namespaced{name}"), "/namespaces/{namespace}"),
            false => (name.clone(), ""),
        };
        if kind.namespaced {
            let all = subject(
                format!("{name}ForAllNamespaces"),
                format!("{base}/{plural}"),
            );
            self.add_collection(&all, &["list"]);
        }
        let collection = subject(id.clone(), format!("{base}{under}/{plural}"));
        self.add_collection(&collection, &["list", "create", "deletecollection"]);
        let object = subject(id.clone(), format!("{}/{{name}}", collection.path));
        self.add_object(&object);
        for part in &kind.subresources {
            self.add_part(&object, part);
        }
        if kind.custom.is_none() && kind.allows("watch") {
            if kind.namespaced {
                let all = subject(
                    format!("{name}ListForAllNamespaces"),
                    format!("{base}/watch/{plural}"),
                );
                self.add_watch(&all, "watchlist");
            }
            let path = format!("{base}/watch{under}/{plural}");
            let list = subject(format!("{id}List"), path);
            self.add_watch(&list, "watchlist");
            let one = subject(id, format!("{}/{{name}}", list.path));
            self.add_watch(&one, "watch");
        }
    }

    fn add_collection(&mut self, subject: &PathSubject<'_>, verbs: &[&str]) {
        let kind = subject.kind;
        let (own, list) = (
            type_name(kind, &kind.kind),
            type_name(kind, &kind.list_kind),
        );
        let custom = kind.custom.is_some();
        let objects = if custom { CUSTOM } else { OBJECTS };
        let mut operations = Vec::new();
        for verb in verbs.iter().filter(|verb| kind.allows(verb)) {
            operations.push(match *verb {
                "list" => {
                    let media = if custom { CUSTOM } else { STREAMS };
                    let answer = Exchange::read(list.clone(), media);
                    self.acting(subject, ("get", "list", "list"), LISTED, answer)
                }
                "create" => {
                    let exchange = Exchange {
                        codes: &["200", "201", "202"],
                        ..Exchange::written(own.clone(), objects, custom)
                    };
                    self.acting(subject, ("post", "create", "post"), WRITTEN, exchange)
                }
                _ => {
                    let parameters = if custom { LISTED } else { COLLECTION };
                    let body = (DELETE_OPTIONS.to_owned(), ANYTHING);
                    let exchange = Exchange {
                        body: (!custom).then_some(body),
                        ..Exchange::read(STATUS.to_owned(), objects)
                    };
                    let words = ("delete", "delete", "deletecollection");
                    self.acting(subject, words, parameters, exchange)
                }
            });
        }
        self.insert(subject, operations);
    }

    fn add_object(&mut self, subject: &PathSubject<'_>) {
        let own = type_name(subject.kind, &subject.kind.kind);
        let verbs = &subject.kind.verbs;
        let operations = self.object_operations(subject, verbs, &own);
        self.insert(subject, operations);
    }

    fn object_operations(
        &mut self,
        subject: &PathSubject<'_>,
        verbs: &[String],
        of: &str,
    ) -> Vec<(String, Value)> {
        let custom = subject.kind.custom.is_some();
        let objects = if custom { CUSTOM } else { OBJECTS };
        let mut operations = Vec::new();
        for verb in verbs {
            let exchange = Exchange::written(of.to_owned(), objects, custom);
            operations.push(match verb.as_str() {
                "get" => {
                    let parameters = if custom { READ_CUSTOM } else { READ };
                    let answer = Exchange::read(of.to_owned(), objects);
                    self.acting(subject, ("get", "read", "get"), parameters, answer)
                }
                "update" => self.acting(subject, ("put", "replace", "put"), WRITTEN, exchange),
                "patch" => {
                    let patches = if custom { &PATCHES[..2] } else { PATCHES };
                    let codes: &[&str] = if custom { &["200"] } else { &["200", "201"] };
                    let exchange = Exchange {
                        body: Some((PATCH.to_owned(), patches)),
                        codes,
                        ..exchange
                    };
                    self.acting(subject, ("patch", "patch", "patch"), WRITTEN, exchange)
                }
                "delete" => {
                    // A Namespace that is deleted is answered, and documented otherwise.
                    let returned = subject.kind.rules.returns_object && of != NAMESPACE;
                    let media = if custom { CUSTOM } else { ANYTHING };
                    let exchange = Exchange {
                        body: Some((DELETE_OPTIONS.to_owned(), media)),
                        codes: &["200", "202"],
                        answer: Some(if returned { of } else { STATUS }.to_owned()),
                        media: objects,
                    };
                    let words = ("delete", "delete", "delete");
                    self.acting(subject, words, DELETED, exchange)
                }
                _ => continue,
            });
        }
        operations
    }

    fn add_part(&mut self, object: &PathSubject<'_>, part: &ServedSubresource) {
        let kind = object.kind;
        let (group, version) = match part.version.as_str() {
            "" => (kind.group.as_str(), kind.version.as_str()),
            version => (part.group.as_str(), version),
        };
        let of = match (kind.custom.is_some(), part.name.as_str()) {
            (true, "scale") => SCALE.to_owned(),
            (true, _) => type_name(kind, &kind.kind),
            _ => {
                let package = crate::kinds::package_of(group);
                format!("{package}.{version}.{}", part.kind)
            }
        };
        // Upstream gives the scale of a custom kind the kind of its objects.
        let gvk = match kind.custom {
            Some(_) => object.gvk.clone(),
            None => json!({"group": group, "version": version, "kind": part.kind}),
        };
        let mut subject = PathSubject {
            kind,
            id: format!("{}{}", object.id, capital(&part.name)),
            gvk,
            path: format!("{}/{}", object.path, part.name),
        };
        let connect = part.kind.ends_with("Options");
        let mut operations = match part.name.as_str() {
            "log" => {
                let answer = Exchange::text(LOG);
                vec![self.acting(&subject, ("get", "read", "get"), LOGGED, answer)]
            }
            _ if connect => self.connections(&subject, part),
            _ => self.object_operations(&subject, &part.verbs, &of),
        };
        if part.verbs.iter().any(|verb| verb == "create") && !connect {
            let exchange = Exchange {
                codes: &["200", "201", "202"],
                ..Exchange::written(of, OBJECTS, false)
            };
            operations.push(self.acting(&subject, ("post", "create", "post"), WRITTEN, exchange));
        }
        self.insert(&subject, operations);
        if part.name == "proxy" {
            subject.path.push_str("/{path}");
            subject.id.push_str("WithPath");
            let operations = self.connections(&subject, part);
            self.insert(&subject, operations);
        }
    }

    fn connections(
        &mut self,
        subject: &PathSubject<'_>,
        part: &ServedSubresource,
    ) -> Vec<(String, Value)> {
        let methods: &[&str] = match part.name.as_str() {
            "proxy" => &["delete", "get", "head", "options", "patch", "post", "put"],
            _ => &["get", "post"],
        };
        let parameters = match part.name.as_str() {
            "attach" => "container stderr? stdin? stdout? tty?",
            "exec" => "command container stderr? stdin? stdout? tty?",
            "portforward" => "ports#",
            _ => "path",
        };
        let operations = methods.iter().map(|method| {
            let id = format!(
                "connect{}{}{}",
                self.id_of_version(),
                capital(method),
                subject.id
            );
            let answer = Exchange::text(ANYTHING);
            let operation = self.operation(&id, answer);
            let operation = acted(operation, subject, "connect", parameters);
            ((*method).to_owned(), operation)
        });
        operations.collect::<Vec<_>>()
    }

    fn add_watch(&mut self, subject: &PathSubject<'_>, action: &'static str) {
        let answer = Exchange::read(WATCH_EVENT.to_owned(), STREAMS);
        let operation = self.acting(subject, ("get", "watch", action), LISTED, answer);
        self.insert(subject, vec![operation]);
    }

    /// Makes an operation of a kind: its method, the verb in its id and its action.
    fn acting(
        &mut self,
        subject: &PathSubject<'_>,
        (method, verb, action): (&str, &str, &str),
        parameters: &str,
        exchange: Exchange<'_>,
    ) -> (String, Value) {
        let collection = if action == "deletecollection" {
            "Collection"
        } else {
            ""
        };
        let id = format!("{verb}{}{collection}{}", self.id_of_version(), subject.id);
        let operation = self.operation(&id, exchange);
        (
            method.to_owned(),
            acted(operation, subject, action, parameters),
        )
    }

    fn operation(&mut self, id: &str, exchange: Exchange<'_>) -> Value {
        let mut responses = Map::new();
        for code in exchange.codes {
            let schema = match &exchange.answer {
                Some(of) => reference(of),
                None => json!({"type": "string"}),
            };
            let content = content(exchange.media, &schema);
            let word = match *code {
                "200" => "OK",
                "201" => "Created",
                _ => "Accepted",
            };
            let response = json!({"description": word, "content": content});
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".into(), json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "tags": [self.tag()],
            "operationId": id,
            "responses": responses,
        });
        self.types.extend(exchange.answer);
        if let Some((of, media)) = exchange.body {
            operation["requestBody"] = json!({"content": content(media, &reference(&of))});
            if of != DELETE_OPTIONS {
                operation["requestBody"]["required"] = true.into();
            }
            self.types.insert(of);
        }
        operation
    }

    /// Inserts a path; parameters that all its operations share move up to the path.
    fn insert(&mut self, subject: &PathSubject<'_>, operations: Vec<(String, Value)>) {
        let Some((_, first)) = operations.first() else {
            return;
        };
        let parameters = |operation: &Value| -> Vec<Value> {
            let list = operation["parameters"].as_array();
            list.cloned().unwrap_or_default()
        };
        let mut shared = parameters(first);
        shared.retain(|parameter| {
            let mut all = operations.iter();
            all.all(|(_, operation)| parameters(operation).contains(parameter))
        });
        let mut item = Map::new();
        for (method, mut operation) in operations {
            let mut own = parameters(&operation);
            own.retain(|parameter| !shared.contains(parameter));
            match own.is_empty() {
                true => drop(operation.as_object_mut().map(|it| it.remove("parameters"))),
                false => operation["parameters"] = own.into(),
            }
            item.insert(method, operation);
        }
        let names = ["name", "namespace", "path"];
        let in_path = names.iter().filter(|name| {
            let place = format!("{{{name}}}");
            subject.path.contains(&place)
        });
        shared.extend(in_path.map(|name| parameter("path", name)));
        shared.sort_by_key(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (text("name"), text("in"))
        });
        item.insert("parameters".into(), shared.into());
        self.paths.insert(subject.path.clone(), item.into());
    }

    /// `core_v1`, `rbacAuthorization_v1`, `exampleCom_v1`.
    fn tag(&self) -> String {
        let group = match self.group.as_str() {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let mut parts = group.split('.');
        let first = parts.next().unwrap_or_default().to_owned();
        let group = parts.fold(first, |tag, part| tag + &capital(part));
        format!("{group}_{}", self.version)
    }

    fn id_of_version(&self) -> String {
        let tag = self.tag();
        let parts = tag.split('_').map(capital);
        parts.collect()
    }
}

// === impl Exchange ===

impl<'a> Exchange<'a> {
    fn read(of: String, media: &'a [&'a str]) -> Self {
        Self {
            body: None,
            codes: &["200"],
            answer: Some(of),
            media,
        }
    }

    fn text(media: &'a [&'a str]) -> Self {
        Self {
            body: None,
            codes: &["200"],
            answer: None,
            media,
        }
    }

    fn written(of: String, media: &'a [&'a str], custom: bool) -> Self {
        Self {
            body: Some((of.clone(), if custom { CUSTOM } else { ANYTHING })),
            codes: &["200", "201"],
            answer: Some(of),
            media,
        }
    }
}

fn acted(mut operation: Value, subject: &PathSubject<'_>, action: &str, parameters: &str) -> Value {
    let parameters = parameters.split_whitespace();
    operation["parameters"] = parameters.map(|name| parameter("query", name)).collect();
    operation["x-kubernetes-action"] = action.into();
    operation["x-kubernetes-group-version-kind"] = subject.gvk.clone();
    operation
}

fn content(media: &[&str], schema: &Value) -> Value {
    let entries = media
        .iter()
        .map(|of| ((*of).to_owned(), json!({"schema": schema})));
    Value::Object(entries.collect())
}

fn parameter(place: &str, name: &str) -> Value {
    let (name, of_type) = match (name.strip_suffix('?'), name.strip_suffix('#')) {
        (Some(name), _) => (name, "boolean"),
        (_, Some(name)) => (name, "integer"),
        _ => (name, "string"),
    };
    let schema = json!({"type": of_type, "uniqueItems": true});
    match place {
        "path" => json!({"name": name, "in": place, "required": true, "schema": schema}),
        _ => json!({"name": name, "in": place, "schema": schema}),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
