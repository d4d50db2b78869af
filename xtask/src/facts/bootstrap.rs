//! `bootstrap.txt`: the objects that a server creates when it starts and that are the same on every server: roles and
//! their bindings, PriorityClasses, the objects of Priority and Fairness, APIServices.
//!
//! Each kind has rows of its own; what all objects of a kind have in common is left to the reader of the file.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{column, is_stable};
use crate::http::HttpClient;

const HEAD: &str = "\
# role\tnamespace\tname\tlabels beyond that of all roles\tlabel of the roles that it aggregates
# rule\tAPI groups\tresources\tresource names\tURLs\tverbs\t(of the role above; `core` is the core group)
# binding\tnamespace\tname\tkind of role\trole\tsubjects (kind=name, a ServiceAccount's with its namespace before a slash)
# priority\tname\tvalue\tdescription
# level, flow\tname\tspec of the PriorityLevelConfiguration or FlowSchema, as JSON
# service\tgroup\tversion\tpriority of the group\tpriority of the version
# `-` stands for no namespace, for the core group and for nothing
";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Selects the roles and bindings of the server itself.
const BUILT_IN: &str = "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults";
const BUILT_IN_LABEL: &str = "kubernetes.io/bootstrapping";

/// The rows, in the order in which the objects are created.
#[derive(Debug)]
pub(super) struct BootstrapFacts {
    rows: Vec<String>,
    objects: usize,
}

// === impl BootstrapFacts ===

impl BootstrapFacts {
    /// Asks a fresh server.
    pub(super) fn ask(client: &HttpClient) -> Result<Self> {
        let mut facts = Self {
            rows: Vec::new(),
            objects: 0,
        };
        for plural in ["clusterroles", "roles"] {
            let path = format!("{RBAC}/{plural}?{BUILT_IN}");
            facts.add(client, &path, role_rows)?;
        }
        for plural in ["clusterrolebindings", "rolebindings"] {
            let path = format!("{RBAC}/{plural}?{BUILT_IN}");
            facts.add(client, &path, binding_rows)?;
        }
        let scheduling = "/apis/scheduling.k8s.io/v1/priorityclasses";
        facts.add(client, scheduling, priority_rows)?;
        let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
        let levels = format!("{flow}/prioritylevelconfigurations");
        facts.add(client, &levels, |object| spec_rows("level", object))?;
        let schemas = format!("{flow}/flowschemas");
        facts.add(client, &schemas, |object| spec_rows("flow", object))?;
        let services = "/apis/apiregistration.k8s.io/v1/apiservices";
        facts.add(client, services, service_rows)?;
        Ok(facts)
    }

    fn add(
        &mut self,
        client: &HttpClient,
        path: &str,
        rows: impl Fn(&Value) -> Result<Vec<String>>,
    ) -> Result<()> {
        let list = client.get_json(path, "application/json")?;
        let items = list["items"].as_array();
        let items = items.with_context(|| format!("{path} does not answer with a list"))?;
        for object in items {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let rows = rows(object).with_context(|| format!("{path}: {name}"))?;
            self.objects += usize::from(!rows.is_empty());
            self.rows.extend(rows);
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        vec![("bootstrap objects", self.objects)]
    }

    pub(super) fn text(&self) -> String {
        HEAD.to_owned() + &self.rows.join("\n") + "\n"
    }
}

fn role_rows(role: &Value) -> Result<Vec<String>> {
    let labels = role["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    let labels = labels.filter(|(name, _)| *name != BUILT_IN_LABEL);
    let labels: Vec<&str> = labels.map(|(name, _)| name.as_str()).collect();
    let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
    let selected = selectors[0]["matchLabels"].as_object();
    let selected = selected
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    let mut rows = vec![row(&[
        "role",
        &place(role),
        name(role)?,
        &column(labels),
        &column(selected),
    ])];
    for rule in role["rules"].as_array().into_iter().flatten() {
        let groups = texts(&rule["apiGroups"]);
        let groups = groups.iter().map(|group| match *group {
            "" => "core",
            group => group,
        });
        let mut columns = vec!["rule".to_owned(), column(groups)];
        for field in ["resources", "resourceNames", "nonResourceURLs", "verbs"] {
            columns.push(column(texts(&rule[field])));
        }
        rows.push(columns.join("\t"));
    }
    Ok(rows)
}

fn binding_rows(binding: &Value) -> Result<Vec<String>> {
    let mut subjects = Vec::new();
    for subject in binding["subjects"].as_array().into_iter().flatten() {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let name = match text("kind") {
            "ServiceAccount" => format!("{}/{}", text("namespace"), text("name")),
            "User" | "Group" => text("name").to_owned(),
            other => bail!("a subject of the unknown kind {other}"),
        };
        subjects.push(format!("{}={name}", text("kind")));
    }
    let role = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
    Ok(vec![row(&[
        "binding",
        &place(binding),
        name(binding)?,
        role("kind"),
        role("name"),
        &column(subjects.iter().map(String::as_str)),
    ])])
}

fn priority_rows(class: &Value) -> Result<Vec<String>> {
    let description = class["description"].as_str().unwrap_or_default();
    let value = class["value"].to_string();
    Ok(vec![row(&[
        "priority",
        name(class)?,
        &value,
        &column([description]),
    ])])
}

fn spec_rows(word: &str, object: &Value) -> Result<Vec<String>> {
    let spec = object["spec"].to_string();
    Ok(vec![row(&[word, name(object)?, &spec])])
}

/// Only versions that are stable have a row; the embedded server has no others.
fn service_rows(service: &Value) -> Result<Vec<String>> {
    let spec = &service["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    if !is_stable(text("version")) {
        return Ok(Vec::new());
    }
    Ok(vec![row(&[
        "service",
        &column([text("group")]),
        text("version"),
        &spec["groupPriorityMinimum"].to_string(),
        &spec["versionPriority"].to_string(),
    ])])
}

fn row(columns: &[&str]) -> String {
    columns.join("\t")
}

fn name(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().context("no name")
}

fn place(object: &Value) -> String {
    column(object["metadata"]["namespace"].as_str())
}

fn texts(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_and_bindings_become_rows() {
        let meta = |labels: Value| json!({"name": "a", "labels": labels});
        let role = json!({"metadata": meta(json!({BUILT_IN_LABEL: "rbac-defaults", "x/to-b": "true"})), "rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods", "pods/log"], "verbs": ["get"]},
            {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]});
        let expected = [
            "role\t-\ta\tx/to-b\t-",
            "rule\tcore,apps\tpods,pods/log\t-\t-\tget",
            "rule\t-\t-\t-\t/healthz\tget",
        ];
        assert_eq!(role_rows(&role).unwrap(), expected);
        let binding = json!({"metadata": {"name": "b", "namespace": "n"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "namespace": "s", "name": "t"}]});
        let expected = ["binding\tn\tb\tRole\tr\tGroup=g,ServiceAccount=s/t"];
        assert_eq!(binding_rows(&binding).unwrap(), expected);
        let odd = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "Robot", "name": "g"}]});
        assert!(binding_rows(&odd).is_err());
    }

    #[test]
    fn only_stable_versions_have_services() {
        let service = |version: &str| {
            json!({"metadata": {"name": "a"}, "spec": {"group": "g", "version": version,
                "groupPriorityMinimum": 5, "versionPriority": 6}})
        };
        let rows = service_rows(&service("v1")).unwrap();
        assert_eq!(rows, ["service\tg\tv1\t5\t6"]);
        assert!(service_rows(&service("v1beta1")).unwrap().is_empty());
    }
}
