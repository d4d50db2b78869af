//! What cases create: objects that are identified by path and uid, references to them, and custom kinds.

use serde_json::{Value, json};

use crate::objects::{Resource, Scope, mk_object, with};

/// The identity of an object that the server has created.
#[derive(Clone, Debug)]
pub struct CreatedObject {
    collection: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

/// A custom kind that a case has defined.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The collection of the storage version.
    pub resource: Resource,
    pub group: String,
    /// The storage version.
    pub version: String,
    pub definition: CreatedObject,
}

// === impl CreatedObject ===

impl CreatedObject {
    /// Takes the identity from the server's answer to a create.
    pub(crate) fn new(collection: String, object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            collection,
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }

    /// The identity that the collector's messages print for an owner that it looks for in `ns`.
    pub fn identity_in(&self, ns: &str) -> String {
        let Self {
            api_version,
            kind,
            name,
            uid,
            ..
        } = self;
        format!("[{api_version}/{kind}, namespace: {ns}, name: {name}, uid: {uid}]")
    }

    /// An owner reference to the object.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid})
    }
}

// === impl CustomKind ===

impl CustomKind {
    /// Reads the kind from a CustomResourceDefinition of `group`.
    pub(crate) fn of(definition: &Value, group: String) -> Self {
        let spec = &definition["spec"];
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        let stored = versions.find(|version| version["storage"] == true);
        let version = stored.and_then(|version| version["name"].as_str());
        let version = version.unwrap_or_default().to_owned();
        let scope = match spec["scope"].as_str() {
            Some("Cluster") => Scope::Cluster,
            _ => Scope::Namespaced,
        };
        let plural = spec["names"]["plural"].as_str().unwrap_or_default();
        Self {
            resource: Resource::custom(&group, &version, plural, scope),
            definition: CreatedObject::new(String::new(), definition),
            group,
            version,
        }
    }

    pub fn object(&self, name: &str) -> Value {
        mk_object(&format!("{}/{}", self.group, self.version), "Gadget", name)
    }
}

/// A reference with `blockOwnerDeletion`: a foreground deletion of the owner waits for the dependent.
pub fn blocking(reference: Value) -> Value {
    with(reference, json!({"blockOwnerDeletion": true}))
}

/// The object with these owner references.
pub fn owned(object: Value, owners: &[Value]) -> Value {
    with(object, json!({"metadata": {"ownerReferences": owners}}))
}
