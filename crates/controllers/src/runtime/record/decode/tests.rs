use super::*;

const KIND: KindId = KindId(3);

fn read(json: &str) -> Result<ObjectRecord, UnreadableObject> {
    decode(KIND, json.as_bytes(), RecordView::Metadata)
}

/// An object with a name, a uid and whatever `more` adds to its metadata.
fn object(more: &str) -> String {
    format!(r#"{{"metadata":{{"name":"a","uid":"u"{more}}}}}"#)
}

#[test]
fn what_decisions_read_is_taken_and_the_rest_skipped() {
    let uid = "0a1b2c3d-0000-4000-8000-00000000abcd";
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"PartialObjectMetadata","metadata":{{
        "name":"web","namespace":"shop","uid":"{uid}","resourceVersion":"17","labels":{{"a":"b"}},
        "annotations":{{"x":"y"}},"managedFields":[{{"fieldsV1":{{"f:a":{{}}}}}}],"generation":4,
        "deletionTimestamp":"2026-03-01T12:00:00Z","finalizers":["orphan","b\"c"],
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"x","controller":true}}]}},
        "spec":{{"a":[1,2,{{}}]}}}}"#
    );
    let record = read(&json).unwrap();
    assert_eq!(record.kind, KIND);
    assert_eq!(
        (&*record.meta.namespace, &*record.meta.name),
        ("shop", "web")
    );
    assert_eq!(record.meta.uid, Uid::from(uid));
    assert_eq!(record.meta.revision, Revision::Number(17));
    assert_eq!(record.meta.deletion, "2026-03-01T12:00:00Z".parse().ok());
    assert_eq!(record.meta.finalizers, ["orphan".into(), "b\"c".into()]);
    let owner = &record.meta.owners[0];
    assert_eq!(
        (&*owner.api_version, &*owner.kind),
        ("apps/v1", "Deployment")
    );
    assert_eq!((&*owner.name, owner.uid.clone()), ("d", Uid::from("x")));
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), None)
    );
    assert_eq!(record.body, RecordBody::None);
}

#[test]
fn a_full_view_keeps_the_bytes_as_they_came() {
    let json = object("") + "  ";
    let record = decode(KIND, json.as_bytes(), RecordView::Full).unwrap();
    assert_eq!(record.body, RecordBody::Json(Bytes::from(json)));
}

#[test]
fn missing_members_and_nulls_read_as_nothing() {
    let nulls = r#","namespace":null,"resourceVersion":null,"deletionTimestamp":null,"finalizers":null,
        "ownerReferences":null,"labels":null,"managedFields":null"#;
    assert_eq!(read(&object(nulls)), read(&object("")));
    let holes = read(&object(
        r#","finalizers":[null],"ownerReferences":[null,{"uid":null,"controller":null}]"#,
    ))
    .unwrap();
    assert_eq!(holes.meta.finalizers, ["".into()]);
    assert_eq!(holes.meta.owners, vec![OwnerRef::default(); 2]);
}

#[test]
fn skipped_parts_may_be_nested_to_any_depth() {
    let depth = 10_000;
    for (open, close) in [("[", "]"), (r#"{"f:a":"#, "}")] {
        let mut nested = open.repeat(depth);
        nested.push('1');
        nested.push_str(&close.repeat(depth));
        let more = format!(r#","managedFields":{nested},"labels":{nested},"annotations":{nested}"#);
        assert!(read(&object(&more)).is_ok(), "{open}");
        let outside = format!(r#"{{"spec":{nested},"metadata":{{"name":"a","uid":"u"}}}}"#);
        assert!(read(&outside).is_ok(), "{open}");
        // Also where it is not expected: an error, not the end of the process.
        let wrong = read(&object(&format!(r#","ownerReferences":{nested}"#))).unwrap_err();
        assert_eq!(wrong.uid, Some(Uid::from("u")));
    }
}

#[test]
fn many_and_odd_references_are_all_kept() {
    let uids = [
        "",
        "x",
        "\\u0000",
        "0A1B2C3D-0000-4000-8000-00000000ABCD",
        "é",
    ];
    let references = (0..10_000).map(|number| {
        let uid = uids[number % uids.len()];
        format!(r#"{{"apiVersion":"a/b/c","kind":"","name":"n{number}","uid":"{uid}"}}"#)
    });
    let references: Vec<String> = references.collect();
    let more = format!(r#","ownerReferences":[{}]"#, references.join(","));
    let record = read(&object(&more)).unwrap();
    assert_eq!(record.meta.owners.len(), 10_000);
    assert_eq!(record.meta.owners[2].uid, Uid::from("\0"));
}

#[test]
fn an_unreadable_object_keeps_the_identity_that_can_be_found() {
    let table: &[(&str, Option<&str>, Option<&str>)] = &[
        ("", None, None),
        ("[]", None, None),
        ("null", None, None),
        ("{}", None, None),
        ("17", None, None),
        (r#"{"metadata":[]}"#, None, None),
        (r#"{"metadata":["a","n","u","1"]}"#, None, None),
        (r#"[{"name":"a","uid":"u"}]"#, None, None),
        (r#"{"metadata":{"name":"a","uid":"u"}"#, None, None),
        (r#"{"metadata":{"name":"a"}}"#, Some("a"), None),
        (r#"{"metadata":{"uid":"u"}}"#, None, Some("u")),
        (r#"{"metadata":{"name":"a","uid":7}}"#, Some("a"), None),
        (
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","finalizers":"x"}}"#,
            Some("n/a"),
            Some("u"),
        ),
        (
            r#"{"metadata":{"name":"a","uid":"u","deletionTimestamp":"soon"}}"#,
            Some("a"),
            Some("u"),
        ),
        (
            r#"{"metadata":{"name":"a","uid":"u","ownerReferences":[{"controller":"yes"}]}}"#,
            Some("a"),
            Some("u"),
        ),
        (
            r#"{"metadata":{"name":"a","uid":"u","ownerReferences":[["v1","Pod","b","v"]]}}"#,
            Some("a"),
            Some("u"),
        ),
    ];
    for (json, name, uid) in table {
        let found = read(json).unwrap_err();
        assert_eq!(found.name.as_deref(), *name, "{json}");
        assert_eq!(found.uid, uid.map(Uid::from), "{json}");
    }
}

#[test]
fn an_error_quotes_no_data() {
    let secret = object(r#","finalizers":"hunter2","resourceVersion":"9""#);
    let found = read(&secret).unwrap_err();
    let error = found.error.to_string();
    assert!(!error.contains("hunter2"), "{error}");
    assert!(error.starts_with("unexpected type at line 1"), "{error}");
    assert_eq!(found.revision, Some(Revision::Number(9)));
}
