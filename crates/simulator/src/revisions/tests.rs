//! Hashes of revisions; those of StatefulSets are upstream's.

use serde_json::json;

use super::*;

#[test]
fn hashes_are_those_of_upstream() {
    // 32-bit FNV-1 of the text and a zero, checked with Go's hash/fnv.
    let cases = [
        ("", 0_i64, "d8bfb7bc"),
        ("{}", 0, "cccc864bc"),
        ("{}", 1, "cccc864bb"),
    ];
    for (data, collisions, expected) in cases {
        assert_eq!(data_hash(data, collisions), expected, "{data} {collisions}");
    }
}

/// A revision that kube-controller-manager 1.36.3 named `web-cb48495b4`.
#[test]
fn a_revision_has_the_name_that_upstream_gives_it() {
    let container = json!({"image": "nginx<1", "imagePullPolicy": "IfNotPresent", "name": "c", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let spec = json!({"containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30});
    let template =
        json!({"$patch": "replace", "metadata": {"labels": {"app": "web"}}, "spec": spec});
    let data = go_json(&json!({"spec": {"template": template}}));
    assert_eq!(data_hash(&data, 0), "cb48495b4");
}

#[test]
fn json_is_escaped_as_in_go() {
    let cases = [
        (json!({"b": 1, "a": "x"}), r#"{"a":"x","b":1}"#),
        (json!("<a> & b"), r#""\u003ca\u003e \u0026 b""#),
        (json!("\u{2028}é"), "\"\\u2028é\""),
    ];
    for (value, expected) in cases {
        assert_eq!(go_json(&value), expected);
    }
}
