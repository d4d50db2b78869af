use super::super::kind::{KindScope, KindVerbs};
use super::*;
use crate::test_world::mk_kind;

fn kind(group: &str, resource: &str, verbs: KindVerbs) -> ApiKind {
    ApiKind {
        verbs,
        ..mk_kind(group, "v1", "K", resource, KindScope::Namespaced)
    }
}

#[test]
fn the_interest_in_deletable_kinds_leaves_out_ignored_ones() {
    let all = KindVerbs {
        get: true,
        list: true,
        watch: true,
        delete: true,
    };
    let interest = KindInterest::Deletable {
        ignored: vec![("events".into(), "".into())],
    };
    let table = [
        ("", "pods", all, Some(RecordView::Metadata)),
        ("", "events", all, None),
        ("events.k8s.io", "events", all, Some(RecordView::Metadata)),
        (
            "",
            "a",
            KindVerbs {
                delete: false,
                ..all
            },
            None,
        ),
        ("", "a", KindVerbs { list: false, ..all }, None),
        (
            "",
            "a",
            KindVerbs {
                watch: false,
                ..all
            },
            None,
        ),
        (
            "",
            "a",
            KindVerbs { get: false, ..all },
            Some(RecordView::Metadata),
        ),
    ];
    for (group, resource, verbs, expected) in table {
        let found = interest.view(&kind(group, resource, verbs));
        assert_eq!(found, expected, "{resource}.{group} {verbs:?}");
    }
}

#[test]
fn the_interest_in_named_kinds_needs_list_and_watch() {
    let readable = KindVerbs {
        list: true,
        watch: true,
        ..KindVerbs::default()
    };
    let interest = KindInterest::Kinds {
        kinds: vec![("batch".into(), "jobs".into())],
        view: RecordView::Full,
    };
    let table = [
        ("batch", "jobs", readable, Some(RecordView::Full)),
        ("batch", "jobs", KindVerbs::default(), None),
        ("batch", "cronjobs", readable, None),
        ("batch.volcano.sh", "jobs", readable, None),
    ];
    for (group, resource, verbs, expected) in table {
        let found = interest.view(&kind(group, resource, verbs));
        assert_eq!(found, expected, "{resource}.{group} {verbs:?}");
    }
}
