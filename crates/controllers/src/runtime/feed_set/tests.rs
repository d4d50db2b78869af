use super::super::kind::{Scope, Verbs};
use super::*;

fn kind(group: &str, resource: &str, verbs: Verbs) -> Kind {
    Kind {
        group: group.into(),
        version: "v1".into(),
        kind: "K".into(),
        resource: resource.into(),
        scope: Scope::Namespaced,
        verbs,
        versions: vec!["v1".into()],
        aliases: Vec::new(),
    }
}

#[test]
fn an_interest_in_what_can_be_deleted_leaves_out_the_ignored() {
    let all = Verbs {
        get: true,
        list: true,
        watch: true,
        delete: true,
    };
    let interest = Interest::Deletable {
        ignored: vec![("events".into(), "".into())],
    };
    let table = [
        ("", "pods", all, Some(View::Metadata)),
        ("", "events", all, None),
        ("events.k8s.io", "events", all, Some(View::Metadata)),
        (
            "",
            "a",
            Verbs {
                delete: false,
                ..all
            },
            None,
        ),
        ("", "a", Verbs { list: false, ..all }, None),
        (
            "",
            "a",
            Verbs {
                watch: false,
                ..all
            },
            None,
        ),
        ("", "a", Verbs { get: false, ..all }, Some(View::Metadata)),
    ];
    for (group, resource, verbs, expected) in table {
        let found = interest.view(&kind(group, resource, verbs));
        assert_eq!(found, expected, "{resource}.{group} {verbs:?}");
    }
}

#[test]
fn an_interest_in_some_kinds_needs_them_to_be_listed_and_watched() {
    let readable = Verbs {
        list: true,
        watch: true,
        ..Verbs::default()
    };
    let interest = Interest::Kinds {
        kinds: vec![("batch".into(), "jobs".into())],
        view: View::Full,
    };
    let table = [
        ("batch", "jobs", readable, Some(View::Full)),
        ("batch", "jobs", Verbs::default(), None),
        ("batch", "cronjobs", readable, None),
        ("batch.volcano.sh", "jobs", readable, None),
    ];
    for (group, resource, verbs, expected) in table {
        let found = interest.view(&kind(group, resource, verbs));
        assert_eq!(found, expected, "{resource}.{group} {verbs:?}");
    }
}
