use caretaker_controllers::runtime::kind::KindVerbs;

use super::*;

/// Group, version, kind, resource, aliases.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const KINDS: [Row; 7] = [
    ("", "v1", "Pod", "pods", &["pod", "po"]),
    (
        "apps",
        "v1",
        "Deployment",
        "deployments",
        &["deployment", "deploy"],
    ),
    ("batch", "v1", "Job", "jobs", &["job"]),
    (
        "batch.volcano.sh",
        "v1alpha1",
        "Job",
        "jobs",
        &["job", "vcjob"],
    ),
    ("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", &[]),
    ("metrics.k8s.io", "v1beta1", "NodeMetrics", "others", &[]),
    ("", "v1", "Node", "nodes", &["no"]),
];

fn mk_catalog() -> KindCatalog {
    let kind = |(group, version, kind, resource, aliases): Row| {
        let is_real = group != "metrics.k8s.io";
        ApiKind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            resource: resource.into(),
            scope: if kind == "Node" {
                KindScope::Cluster
            } else {
                KindScope::Namespaced
            },
            verbs: KindVerbs {
                get: true,
                list: true,
                watch: is_real,
                delete: is_real,
            },
            versions: vec![version.into()],
            aliases: aliases.iter().map(|&alias| alias.into()).collect(),
        }
    };
    KindCatalog::default().with(KINDS.map(kind))
}

#[test]
fn types_are_those_of_kubectl() {
    let table: [(&str, &[u16]); 18] = [
        ("pod", &[0]),
        ("pods", &[0]),
        ("po", &[0]),
        ("Pod", &[0]),
        ("pods.v1", &[0]),
        ("pods.v2", &[]),
        ("deploy", &[1]),
        ("Deployment", &[1]),
        ("deployments.apps", &[1]),
        ("deploy.v1.apps", &[1]),
        ("deployments.v1", &[]),
        ("deployments.app", &[]),
        ("job", &[2, 3]),
        ("jobs.batch", &[2]),
        ("job.v1alpha1.batch.volcano.sh", &[3]),
        ("vcjob", &[3]),
        ("others", &[5]),
        ("p", &[]),
    ];
    let catalog = mk_catalog();
    for (text, expected) in table {
        let expected: Vec<KindId> = expected.iter().map(|id| KindId(*id)).collect();
        assert_eq!(kinds_of(&catalog, text), expected, "{text}");
    }
}

#[test]
fn cluster_scoped_objects_have_no_namespace() {
    let catalog = mk_catalog();
    let places = [
        place(&catalog, KindId(1), "shop", "web"),
        place(&catalog, KindId(6), "shop", "n"),
    ];
    assert_eq!(
        not_found(&catalog, &places),
        "deployments.apps \"web\" not found in namespace shop; nodes \"n\" not found"
    );
}

#[test]
fn an_ambiguous_type_lists_the_full_names() {
    let object = ObjectArgument {
        kind: "job".to_owned(),
        name: "a".to_owned(),
    };
    let kinds = [KindId(2), KindId(3)].into_iter();
    assert_eq!(
        ambiguity(&mk_catalog(), &object, kinds),
        "job/a is ambiguous: use jobs.batch/a or jobs.batch.volcano.sh/a"
    );
}
