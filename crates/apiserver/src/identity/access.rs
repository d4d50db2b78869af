//! The decision whether a caller may send a request, and the answer to one that may not.
//!
//! DEVIATION(rbac): Roles and their bindings are stored and not enforced: every caller with credentials may do everything.
//! A caller without credentials may read what `system:public-info-viewer` names, as on a server with RBAC. Mirrors
//! `endpoints/request/requestinfo.go` and `handlers/responsewriters/errors.go`, 1.36.

use std::borrow::Cow;

use caretaker_machinery::status::{NamedResource, Status, StatusDetails, quoted};
use http::Method;

use super::{MASTERS, UserIdentity};
use crate::request::{RequestPath, RequestQuery, ResourcePath};

/// The reasons that reviews give for what is allowed.
const ALLOWED: &str = "this server enforces no RBAC: users with credentials may do everything";
const PUBLIC: &str = "users without credentials may read health and version";
/// The paths that callers without credentials may read.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// A request as authorization sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessAttributes<'a> {
    pub(crate) verb: Cow<'a, str>,
    pub(crate) target: AccessTarget<'a>,
}

/// The resource or path that a request is about. Absent names are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessTarget<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    Path(&'a str),
}

// === impl AccessAttributes ===

impl<'a> AccessAttributes<'a> {
    /// Reads the head of a request. `text` is its path.
    pub(crate) fn of(
        method: &Method,
        path: &'a RequestPath,
        text: &'a str,
        query: &RequestQuery,
    ) -> Self {
        match path {
            RequestPath::Resource(resource) => Self {
                verb: resource_verb(method, resource, query).into(),
                target: AccessTarget::of(resource),
            },
            _ => Self {
                verb: method.as_str().to_ascii_lowercase().into(),
                target: AccessTarget::Path(text),
            },
        }
    }

    pub(crate) fn is_allowed_to(&self, identity: &UserIdentity) -> bool {
        let is_public = || match self.target {
            AccessTarget::Path(path) => self.verb == "get" && PUBLIC_PATHS.contains(&path),
            AccessTarget::Resource { .. } => false,
        };
        !identity.is_anonymous() || is_public()
    }

    /// Refuses a request that the caller may not send.
    pub(crate) fn check(&self, identity: &UserIdentity) -> Result<(), Status> {
        if self.is_allowed_to(identity) {
            Ok(())
        } else {
            Err(self.forbidden(identity))
        }
    }

    /// Returns the answer to a caller who may not do this.
    pub(crate) fn forbidden(&self, identity: &UserIdentity) -> Status {
        let (user, verb) = (quoted(&identity.user), &self.verb);
        let AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } = self.target
        else {
            let path = match self.target {
                AccessTarget::Path(path) => quoted(path),
                AccessTarget::Resource { .. } => String::new(),
            };
            let message = escaped(&format!("User {user} cannot {verb} path {path}"));
            let status = Status::failure(403, "Forbidden", format!("forbidden: {message}"));
            return status.with(StatusDetails::default());
        };
        let slash = if subresource.is_empty() { "" } else { "/" };
        let what = quoted(&format!("{resource}{slash}{subresource}"));
        let scope = match namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quoted(namespace)),
        };
        let group_name = quoted(group);
        let why = escaped(&format!(
            "User {user} cannot {verb} resource {what} in API group {group_name} {scope}"
        ));
        let named = NamedResource {
            group,
            what: resource,
            name,
        };
        let mut status = Status::forbidden(named, &why);
        if name.is_empty() {
            let dot = if group.is_empty() { "" } else { "." };
            status.message = format!("{resource}{dot}{group} is forbidden: {why}");
        }
        status
    }
}

// === impl AccessTarget ===

impl<'a> AccessTarget<'a> {
    fn of(path: &'a ResourcePath) -> Self {
        let name = path.name.as_deref().unwrap_or_default();
        // A namespace is in itself.
        let namespace = match path.resource.as_str() {
            "namespaces" if path.group.is_empty() => name,
            _ => path.namespace.as_deref().unwrap_or_default(),
        };
        Self::Resource {
            group: &path.group,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace,
            name,
        }
    }
}

/// Returns why a user may do what is allowed; none for those who may do everything on any server.
pub(crate) fn reason(identity: &UserIdentity) -> Option<&'static str> {
    if identity.is_anonymous() {
        Some(PUBLIC)
    } else {
        let is_master = identity.groups.iter().any(|group| group == MASTERS);
        (!is_master).then_some(ALLOWED)
    }
}

/// Returns the verb of a request for a resource; empty for methods that have none.
fn resource_verb(method: &Method, path: &ResourcePath, query: &RequestQuery) -> &'static str {
    let is_one = path.name.is_some();
    match *method {
        _ if path.watch => "watch",
        Method::GET | Method::HEAD if is_one => "get",
        Method::GET | Method::HEAD if query.flag("watch") => "watch",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_one => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

/// Escapes what a browser would take for markup.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns why an anonymous caller may not send a request; none if it may.
    fn refusal(method: &Method, target: &str) -> Option<String> {
        let (text, query) = target.split_once('?').unwrap_or((target, ""));
        let path = RequestPath::parse(text);
        let query = RequestQuery::parse(query);
        let attributes = AccessAttributes::of(method, &path, text, &query);
        assert_eq!(attributes.check(&UserIdentity::admin()), Ok(()));
        let checked = attributes.check(&UserIdentity::anonymous());
        checked.err().map(|status| status.message)
    }

    #[test]
    fn anonymous_callers_may_read_health_and_version_only() {
        for path in [
            "/healthz",
            "/livez",
            "/readyz",
            "/version",
            "/version/",
            "/livez?verbose",
        ] {
            assert_eq!(refusal(&Method::GET, path), None, "{path}");
            assert!(refusal(&Method::POST, path).is_some(), "{path}");
        }
        for path in [
            "/",
            "/livez/ping",
            "/healthz/",
            "/metrics",
            "/api",
            "/apis",
            "/openapi/v3",
            "/nope",
        ] {
            let expected =
                format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
            assert_eq!(refusal(&Method::GET, path), Some(expected));
        }
    }

    #[test]
    fn refusals_name_user_verb_and_resource() {
        let cases = [
            (
                Method::GET,
                "/api/v1/namespaces/ns/pods?watch=1",
                r#"pods is forbidden: User "system:anonymous" cannot watch resource "pods" in API group "" in the namespace "ns""#,
            ),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/ns/deployments/a/scale",
                r#"deployments.apps "a" is forbidden: User "system:anonymous" cannot update resource "deployments/scale" in API group "apps" in the namespace "ns""#,
            ),
            (
                Method::DELETE,
                "/api/v1/nodes",
                r#"nodes is forbidden: User "system:anonymous" cannot deletecollection resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/ns",
                r#"namespaces "ns" is forbidden: User "system:anonymous" cannot get resource "namespaces" in API group "" in the namespace "ns""#,
            ),
            (
                Method::POST,
                "/apis/foo.io/v1/bars",
                r#"bars.foo.io is forbidden: User "system:anonymous" cannot create resource "bars" in API group "foo.io" at the cluster scope"#,
            ),
            (
                Method::GET,
                "/api/v1/nodes/<a>&",
                r#"nodes "<a>&" is forbidden: User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                Method::GET,
                "/<a>",
                r#"forbidden: User "system:anonymous" cannot get path "/&lt;a&gt;""#,
            ),
        ];
        for (method, path, message) in cases {
            assert_eq!(refusal(&method, path).as_deref(), Some(message));
        }
    }
}
