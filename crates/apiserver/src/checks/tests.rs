//! Causes of small objects, in the words and the order that the real server was seen to answer with.

use serde_json::{Value, json};

use crate::strategy::validation::tests::found;

fn mk_pod(change: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst"});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn mk_container(change: &Value) -> Value {
    let mut container = json!({"name": "c", "image": "x"});
    for (field, value) in change.as_object().unwrap() {
        container[field] = value.clone();
    }
    json!({"containers": [container]})
}

#[test]
fn pods_are_refused_with_the_causes_of_the_real_server() {
    let cases = [
        (json!({}), vec![]),
        (
            json!({"restartPolicy": "Sometimes"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            mk_container(&json!({"image": ""})),
            vec!["spec.containers[0].image: Required value"],
        ),
        (
            mk_container(&json!({"ports": [{"containerPort": 99999, "protocol": "TCP"}]})),
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            mk_container(
                &json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}}),
            ),
            vec![
                "spec.containers[0].resources.requests: Invalid value: \"1500m\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            mk_container(&json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
        (
            mk_container(&json!({"livenessProbe": {"successThreshold": 2}})),
            vec![
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(found("v1", "Pod", mk_pod(&change), None), expected);
    }
}

#[test]
fn structs_are_shown_with_the_names_of_go() {
    let spec = json!({"minAvailable": 1, "maxUnavailable": "10%"});
    let causes = found(
        "policy/v1",
        "PodDisruptionBudget",
        json!({"spec": spec}),
        None,
    );
    let expected = "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":\"10%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set";
    assert_eq!(causes, [expected]);
}

#[test]
fn resources_have_names_of_their_place() {
    let limit = |item: Value| json!({"spec": {"limits": [item]}});
    let cases = [
        (
            "ResourceQuota",
            json!({"spec": {"hard": {"storage": "1"}, "scopes": ["Terminating"]}}),
            vec![
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ],
        ),
        (
            "ResourceQuota",
            json!({"spec": {"hard": {"services": "1"}, "scopes": ["Terminating"]}}),
            vec![
                "spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource",
            ],
        ),
        (
            "LimitRange",
            limit(json!({"type": "Container", "max": {"pods": "1"}})),
            vec![
                "spec.limits[0].max[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        ),
        (
            "LimitRange",
            limit(json!({"type": "Pod", "default": {"cpu": "1"}})),
            vec!["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        ),
        (
            "LimitRange",
            limit(
                json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "1k"}}),
            ),
            vec![
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"1k\": ratio 1k is greater than max/min = 100.000000",
            ],
        ),
        (
            "LimitRange",
            limit(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "100m"}})),
            vec![
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"100m\": ratio 100m is less than 1",
            ],
        ),
    ];
    for (kind, object, expected) in cases {
        assert_eq!(found("v1", kind, object, None), expected, "{kind}");
    }
}

#[test]
fn registry_secrets_hold_json() {
    let secret = |config: &str| json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": config}});
    let cases = [
        ("e30=", None),
        (
            "YQ==",
            Some("invalid character 'a' looking for beginning of value"),
        ),
        ("", Some("unexpected end of JSON input")),
        (
            "MQ==",
            Some("json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ),
    ];
    for (config, why) in cases {
        let at = "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\"";
        let expected = why.map(|why| format!("{at}: {why}"));
        let causes = found("v1", "Secret", secret(config), None);
        assert_eq!(causes, Vec::from_iter(expected), "{config}");
    }
}
