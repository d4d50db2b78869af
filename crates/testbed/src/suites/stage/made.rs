//! What plays make: objects that are known by path and uid, references to them, and custom kinds.

use serde_json::{Value, json};

use crate::objects::{Resource, Scope, mk_object, with};

/// An object that a play has made.
#[derive(Clone, Debug)]
pub struct Made {
    collection: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

/// A custom kind that a play has defined.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its collection, in the version that is stored.
    pub resource: Resource,
    /// Its group.
    pub group: String,
    /// The version that is stored.
    pub version: String,
    /// The definition.
    pub definition: Made,
}

// === impl Made ===

impl Made {
    /// What a server answered to the create of an object in a collection.
    pub(super) fn new(collection: String, object: &Value) -> Self {
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace; empty if it lives in none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Where it is.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }

    /// How messages name it when it is looked for in a namespace.
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

    /// A reference to it as an owner.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid})
    }
}

// === impl Kind ===

impl Kind {
    /// What a definition of `group` defines.
    pub(super) fn of(definition: &Value, group: String) -> Self {
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
            definition: Made::new(String::new(), definition),
            group,
            version,
        }
    }

    /// An object of this kind.
    pub fn object(&self, name: &str) -> Value {
        mk_object(&format!("{}/{}", self.group, self.version), "Gadget", name)
    }
}

/// A reference that keeps its owner until the dependent is gone, when the owner is deleted in the foreground.
pub fn blocking(reference: Value) -> Value {
    with(reference, json!({"blockOwnerDeletion": true}))
}

/// An object with these owners.
pub fn owned(object: Value, owners: &[Value]) -> Value {
    with(object, json!({"metadata": {"ownerReferences": owners}}))
}
