use serde_json::{Value, json};

use super::super::kind::{KindScope, KindVerbs};
use super::documents::BadDocument;
use super::*;
use crate::test_world::mk_kind;

const ALL: [&str; 4] = ["delete", "get", "list", "watch"];

fn kind(group: &str, resource: &str, versions: &[&str]) -> ApiKind {
    ApiKind {
        verbs: KindVerbs::default(),
        versions: versions.iter().map(|&version| version.into()).collect(),
        ..mk_kind(group, versions[0], "K", resource, KindScope::Namespaced)
    }
}

fn root_of(document: &Value) -> RootDocument {
    read_root(document.to_string().as_bytes()).unwrap()
}

/// Versions and kinds of an aggregated document.
fn aggregated(items: &Value) -> (Vec<ApiKind>, Vec<GroupVersion>) {
    let document = json!({"kind": "APIGroupDiscoveryList", "items": items});
    match root_of(&document) {
        RootDocument::Aggregated { kinds, stale } => (assemble(kinds), stale),
        RootDocument::Names(names) => panic!("only names: {names:?}"),
    }
}

fn names(kinds: &[ApiKind]) -> Vec<String> {
    let name =
        |kind: &ApiKind| format!("{kind} {} {}", kind.api_version(), kind.versions.join(","));
    kinds.iter().map(name).collect()
}

#[test]
fn an_aggregated_document_gives_each_resource_in_the_first_version_that_serves_it() {
    let resource = |name: &str| json!({"resource": name, "responseKind": {"kind": "K"}, "scope": "Namespaced", "verbs": ALL});
    let (kinds, stale) = aggregated(&json!([
        {"versions": [{"version": "v1", "resources": [resource("pods")]}]},
        {"metadata": {"name": "g"}, "versions": [
            {"version": "v2", "resources": [resource("as")], "freshness": "Current"},
            {"version": "v1", "resources": [resource("as"), resource("bs"), resource("as")]},
        ]},
    ]));
    assert_eq!(
        names(&kinds),
        ["pods v1 v1", "as.g g/v2 v2,v1", "bs.g g/v1 v1"]
    );
    assert!(stale.is_empty());
    assert!(kinds.iter().all(ApiKind::is_deletable));
    assert!(kinds.iter().all(|kind| kind.scope == KindScope::Namespaced));
}

#[test]
fn subresources_and_unnamed_resources_are_left_out() {
    let (kinds, _) = aggregated(&json!([
        {"metadata": {"name": "a/b"}, "versions": [{"version": "v1", "resources": [
            {"resource": "bad", "responseKind": {"kind": "Bad"}}]}]},
        {"metadata": {"name": "g"}, "versions": [
            {"version": "", "resources": [{"resource": "none", "responseKind": {"kind": "None"}}]},
            {"version": "v1", "resources": null},
            {"version": "v3"},
            {"version": "v2", "resources": [
                {"resource": "only", "subresources": [{"subresource": "status"}]},
                {"resource": "", "responseKind": {"kind": "Nameless"}},
                {"resource": "a/b", "responseKind": {"kind": "Slash"}},
                {"resource": "kindless", "responseKind": {}},
                {"resource": "good", "responseKind": {"kind": "Good"}, "scope": "Cluster", "verbs": null},
            ]},
        ]},
        {"metadata": {"name": "empty"}, "versions": null},
    ]));
    assert_eq!(names(&kinds), ["good.g g/v2 v2"]);
    assert_eq!(
        (kinds[0].scope, kinds[0].verbs),
        (KindScope::Cluster, KindVerbs::default())
    );
}

#[test]
fn a_stale_version_counts_as_failed_whatever_it_lists() {
    let listed = json!([{"resource": "as", "responseKind": {"kind": "A"}, "verbs": ALL}]);
    let (kinds, stale) = aggregated(&json!([{"metadata": {"name": "g"}, "versions": [
        {"version": "v2", "freshness": "Stale", "resources": listed},
        {"version": "v1", "freshness": "Current", "resources": listed},
    ]}]));
    assert_eq!(names(&kinds), ["as.g g/v1 v1"]);
    assert_eq!(stale, [("g".into(), "v2".into())]);
}

#[test]
fn the_old_documents_name_versions_with_the_preferred_one_first() {
    let core = root_of(&json!({"kind": "APIVersions", "versions": ["v1", "", "a/b"]}));
    assert_eq!(core, RootDocument::Names(vec![("".into(), "v1".into())]));
    let version = |text: &str| json!({"groupVersion": text});
    let groups = root_of(&json!({"kind": "APIGroupList", "groups": [
        {"name": "g", "preferredVersion": version("g/v2"),
            "versions": [version("g/v1"), version("g/v2"), version("g/v1/x"), version("other/v1"), version("v1")]},
        {"name": "h", "versions": [version("h/v1")]},
        {"name": "i"},
    ]}));
    let expected = [("g", "v2"), ("g", "v1"), ("h", "v1")];
    let expected = expected.map(|(group, version)| (group.into(), version.into()));
    assert_eq!(groups, RootDocument::Names(expected.into()));
}

/// "no error" of upstream's TestGetDeletableResources: only kinds with all three verbs are deletable.
#[test]
fn only_kinds_with_list_watch_and_delete_are_deletable() {
    let document = json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
        {"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["create", "delete", "list", "watch"]},
        {"name": "services", "namespaced": true, "kind": "Service"},
        {"name": "deployments", "namespaced": true, "kind": "Deployment", "verbs": ["list", "delete"]},
        {"name": "pods/status", "namespaced": true, "kind": "Pod", "verbs": ["delete", "list", "watch"]},
    ]});
    let apps = ("apps".into(), "v1".into());
    let kinds = assemble(read_resources(&apps, document.to_string().as_bytes()).unwrap());
    assert_eq!(kinds.len(), 3);
    let deletable = kinds.iter().filter(|kind| kind.is_deletable());
    assert_eq!(
        deletable.map(ApiKind::to_string).collect::<Vec<_>>(),
        ["pods.apps"]
    );
}

#[test]
fn both_forms_give_singular_and_short_names() {
    let (kinds, _) = aggregated(&json!([{"metadata": {"name": "apps"}, "versions": [
        {"version": "v1", "resources": [
            {"resource": "deployments", "responseKind": {"kind": "Deployment"},
                "singularResource": "deployment", "shortNames": ["deploy"]},
            {"resource": "others", "responseKind": {"kind": "Other"},
                "singularResource": null, "shortNames": null}]}]}]));
    let document = json!({"kind": "APIResourceList", "resources": [
        {"name": "deployments", "kind": "Deployment", "singularName": "deployment", "shortNames": ["deploy"]},
        {"name": "others", "kind": "Other", "singularName": ""}]});
    let apps = ("apps".into(), "v1".into());
    let listed = read_resources(&apps, document.to_string().as_bytes()).unwrap();
    let expected: [&[&str]; 2] = [&["deployment", "deploy"], &[]];
    for (place, names) in expected.into_iter().enumerate() {
        let names: Vec<Box<str>> = names.iter().map(|&name| name.into()).collect();
        assert_eq!(
            (&kinds[place].aliases, &listed[place].aliases),
            (&names, &names)
        );
    }
}

#[test]
fn other_documents_are_refused() {
    let status = json!({"kind": "Status", "status": "Failure"}).to_string();
    let table = [
        ("", false),
        ("<html>", false),
        ("404 page not found", false),
        ("{}", true),
        (status.as_str(), true),
        (r#"{"kind":"APIGroupDiscoveryList","items":7}"#, false),
    ];
    for (document, readable) in table {
        for found in [
            read_root(document.as_bytes()).map(drop),
            read_resources(&("".into(), "v1".into()), document.as_bytes()).map(drop),
        ] {
            let error = found.unwrap_err();
            let other = matches!(error, BadDocument::OtherKind(_));
            assert!(other || !readable, "{document}: {error}");
        }
    }
}

fn found(kinds: &[&ApiKind], failed: &[(&str, &str)]) -> DiscoveryResult {
    let pairs = failed.iter();
    DiscoveryResult {
        kinds: kinds.iter().map(|&kind| kind.clone()).collect(),
        failed: DiscoveryGaps {
            group_versions: pairs
                .map(|&(group, version)| (group.into(), version.into()))
                .collect(),
            ..DiscoveryGaps::default()
        },
        error: (!failed.is_empty()).then(unreachable),
    }
}

fn unreachable() -> DiscoveryError {
    DiscoveryError {
        path: "/apis".into(),
        why: DocumentError::Timeout,
    }
}

#[test]
fn an_empty_round_changes_nothing() {
    let known = KindCatalog::default().with([kind("", "pods", &["v1"])]);
    let mut none = found(&[], &[]);
    assert_eq!(merge(&none, &known, |_| true), None);
    none.error = Some(unreachable());
    none.failed.core = true;
    assert_eq!(merge(&none, &known, |_| true), None);
}

/// The steps of upstream's TestGarbageCollectorSync that are about the set of kinds.
#[test]
fn kinds_of_a_failed_group_stay_if_they_have_synced() {
    let pods = kind("", "pods", &["v1"]);
    let deployments = kind("apps", "deployments", &["v1"]);
    let widgets = kind("x", "widgets", &["v2", "v1"]);
    let known = KindCatalog::default().with([pods.clone(), deployments, widgets]);
    let synced = |id: KindId| known.get(id).is_some_and(|kind| &*kind.group != "x");
    let go = |found: &DiscoveryResult| names(&merge(found, &known, synced).unwrap());

    // Groups that are missing without a failure are removed.
    assert_eq!(go(&found(&[&pods], &[])), ["pods v1 v1"]);
    // Their group versions failed: only the synced one stays.
    let partly = found(&[&pods], &[("apps", "v1"), ("x", "v2")]);
    assert_eq!(go(&partly), ["pods v1 v1", "deployments.apps apps/v1 v1"]);
    // Another version failed than the one it is known in.
    assert_eq!(go(&found(&[&pods], &[("apps", "v2")])), ["pods v1 v1"]);
    // New kinds are added, whatever failed.
    let secrets = kind("", "secrets", &["v1"]);
    let more = found(&[&pods, &secrets], &[("apps", "v1")]);
    assert_eq!(
        go(&more),
        ["pods v1 v1", "secrets v1 v1", "deployments.apps apps/v1 v1"]
    );
    // The preferred version is stale, an older one serves it: no flip.
    let older = kind("apps", "deployments", &["v1beta1"]);
    let flipped = found(&[&pods, &older], &[("apps", "v1")]);
    assert_eq!(go(&flipped), ["pods v1 v1", "deployments.apps apps/v1 v1"]);
    // A whole root is unknown.
    let mut rootless = found(&[&pods], &[]);
    rootless.failed.groups = true;
    assert_eq!(go(&rootless), ["pods v1 v1", "deployments.apps apps/v1 v1"]);
}

/// A random run behind a proxy found it: a kind was dropped before its first list, because `/apis` failed in the second
/// round. Other groups were known, so nothing was reported as unread.
#[test]
fn a_kind_that_is_left_out_because_its_root_failed_is_a_gap() {
    let pods = kind("", "pods", &["v1"]);
    let leases = kind("coordination.k8s.io", "leases", &["v1"]);
    let widgets = kind("x", "widgets", &["v1"]);
    let all = [pods.clone(), leases, widgets];
    let known = KindCatalog::default().with(all.clone());
    let synced = |id: KindId| known.get(id).is_some_and(|kind| &*kind.group != "x");
    let mut rootless = found(&[&pods], &[]);
    rootless.failed.groups = true;
    let kinds = merge(&rootless, &known, synced).unwrap();
    let gaps = rootless.failed.unknown(&kinds, &known);
    assert_eq!(gaps, ["/apis/x/v1"]);
    // The gap stays while the root fails.
    let next = known.with(kinds.clone()).with_gaps(gaps.clone());
    assert_eq!(rootless.failed.unknown(&kinds, &next), gaps);
    let mut coreless = found(&[&all[1], &all[2]], &[]);
    coreless.failed.core = true;
    assert_eq!(coreless.failed.unknown(&all, &next), [""; 0]);
}
