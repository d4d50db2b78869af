//! Create: what the server fills in, keeps, drops and refuses.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(create_replaces_system_fields_of_the_body),
    api_case!(create_keeps_the_generation_of_kinds_that_have_none),
    api_case!(create_sets_generation_1_on_kinds_with_a_spec),
    api_case!(create_with_a_resource_version_is_500),
    api_case!(create_without_a_name_is_422),
    api_case!(create_with_a_bad_name_is_422),
    api_case!(create_with_bad_labels_or_annotations_is_422),
    api_case!(create_of_another_kind_is_400),
    api_case!(create_of_a_built_in_object_needs_no_kind),
    api_case!(create_of_no_object_is_refused),
    api_case!(create_in_another_namespace_than_the_body_says_is_400),
    api_case!(create_twice_is_409),
    api_case!(create_over_a_terminating_object_is_409_and_says_so),
    api_case!(create_in_a_missing_namespace_is_404),
    api_case!(create_with_generate_name_appends_five_characters),
    api_case!(create_with_a_long_generate_name_cuts_it),
    api_case!(create_with_name_and_generate_name_takes_the_name),
    api_case!(create_with_unknown_fields_warns_or_is_400_when_strict),
    api_case!(create_with_duplicate_fields_warns_or_is_400_when_strict),
    api_case!(create_with_a_bad_field_validation_is_422),
    api_case!(create_with_a_bad_field_manager_is_422),
    api_case!(create_of_a_pod_fills_in_defaults),
    api_case!(create_of_a_job_fills_in_selector_and_labels),
    api_case!(create_of_a_deployment_fills_in_defaults),
    api_case!(create_of_a_cron_job_fills_in_defaults),
    api_case!(create_makes_quantities_canonical),
    api_case!(create_turns_null_values_into_empty_ones),
    api_case!(create_drops_the_status_of_kinds_with_a_status_subresource),
    api_case!(create_with_wrong_types_is_400),
    api_case!(create_dry_run_answers_and_stores_nothing),
    api_case!(create_dry_run_still_refuses),
    api_case!(create_with_an_unknown_dry_run_is_422),
    api_case!(create_of_a_secret_merges_string_data),
];

async fn create_replaces_system_fields_of_the_body(s: &mut Session) {
    let meta = json!({
        "uid": "00000000-0000-0000-0000-000000000001",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/here",
    });
    let object = with(mk_config_map("a"), json!({ "metadata": meta }));
    s.post(&CONFIG_MAPS, object).await;
    s.get(&CONFIG_MAPS, "a").await;
}

fn generation_7(object: Value) -> Value {
    with(object, json!({"metadata": {"generation": 7}}))
}

async fn create_keeps_the_generation_of_kinds_that_have_none(s: &mut Session) {
    s.post(&CONFIG_MAPS, generation_7(mk_config_map("a"))).await;
    s.post(
        &SERVICE_ACCOUNTS,
        generation_7(mk_object("v1", "ServiceAccount", "a")),
    )
    .await;
    s.post(&LEASES, generation_7(mk_lease("a"))).await;
    let object = generation_7(mk_object("rbac.authorization.k8s.io/v1", "Role", "a"));
    s.post(&ROLES, object).await;
}

async fn create_sets_generation_1_on_kinds_with_a_spec(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, generation_7(mk_pod("a"))).await;
    s.post(&DEPLOYMENTS, generation_7(mk_deployment("a"))).await;
    s.post(&REPLICA_SETS, generation_7(mk_workload("ReplicaSet", "a")))
        .await;
    s.post(&JOBS, generation_7(mk_job("a"))).await;
    s.post(&CRON_JOBS, generation_7(mk_cron_job("a"))).await;
    let object = generation_7(mk_object("policy/v1", "PodDisruptionBudget", "a"));
    s.post(&DISRUPTION_BUDGETS, object).await;
}

async fn create_with_a_resource_version_is_500(s: &mut Session) {
    for (name, changes) in [
        ("a", json!({"metadata": {"resourceVersion": "1"}})),
        ("b", json!({"metadata": {"resourceVersion": "0"}})),
        ("c", json!({"metadata": {"resourceVersion": ""}})),
        ("d", json!({"metadata": {"resourceVersion": "abc"}})),
    ] {
        s.post(&CONFIG_MAPS, with(mk_config_map(name), changes))
            .await;
    }
}

async fn create_without_a_name_is_422(s: &mut Session) {
    for object in [
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        mk_config_map(""),
    ] {
        s.post(&CONFIG_MAPS, object).await;
    }
    s.post(&DEPLOYMENTS, mk_deployment("")).await;
}

async fn create_with_a_bad_name_is_422(s: &mut Session) {
    let long = "a".repeat(254);
    for name in [
        "Upper",
        "under_score",
        "-dash",
        "dot.",
        "a/b",
        "..",
        "with space",
        "ümlaut",
        &long,
    ] {
        s.post(&CONFIG_MAPS, mk_config_map(name)).await;
    }
    s.note("as long as it may be")
        .post(&CONFIG_MAPS, mk_config_map(&"a".repeat(253)))
        .await;
    s.note("Service names are DNS labels")
        .post(&SERVICES, mk_service("a.b"))
        .await;
    s.note("Role names may be anything but paths");
    for object in [
        mk_object("rbac.authorization.k8s.io/v1", "Role", "system:Any_Thing"),
        mk_object("rbac.authorization.k8s.io/v1", "Role", "a%b"),
    ] {
        s.post(&ROLES, object).await;
    }
    s.post(&NAMESPACES, mk_namespace("a.b")).await;
}

async fn create_with_bad_labels_or_annotations_is_422(s: &mut Session) {
    let long = "x".repeat(64);
    for labels in [
        json!({"a b": "v"}),
        json!({"k": "v/w"}),
        json!({"k": long}),
        json!({"Example.com/k": "v"}),
        json!({"a/b/c": "v"}),
        json!({"": "v"}),
    ] {
        s.post(&CONFIG_MAPS, mk_labelled("a", labels)).await;
    }
    let annotated = |annotations: Value| {
        with(
            mk_config_map("a"),
            json!({"metadata": {"annotations": annotations}}),
        )
    };
    s.post(&CONFIG_MAPS, annotated(json!({"a b": "v"}))).await;
    let object = annotated(json!({"k": "x".repeat(256 * 1024)}));
    s.note("256 KiB in total").post(&CONFIG_MAPS, object).await;
    s.note("annotation keys may be upper case")
        .post(
            &CONFIG_MAPS,
            annotated(json!({"Example.com/K": "any thing"})),
        )
        .await;
}

async fn create_of_another_kind_is_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_object("v1", "Secret", "a")).await;
    s.post(&CONFIG_MAPS, mk_object("v1", "Nonsense", "a")).await;
    s.post(&CONFIG_MAPS, mk_object("v2", "ConfigMap", "a"))
        .await;
    s.post(&CONFIG_MAPS, mk_object("apps/v1", "ConfigMap", "a"))
        .await;
    s.post(&CONFIG_MAPS, mk_object("apps/v1", "Deployment", "a"))
        .await;
    s.post(&CONFIG_MAPS, mk_object("a/b/c", "ConfigMap", "a"))
        .await;
    s.post(&DEPLOYMENTS, mk_object("apps/v1beta1", "Deployment", "a"))
        .await;
}

async fn create_of_a_built_in_object_needs_no_kind(s: &mut Session) {
    for (note, object) in [
        ("neither", json!({"metadata": {"name": "a"}})),
        (
            "no kind",
            json!({"metadata": {"name": "b"}, "apiVersion": "v1"}),
        ),
        (
            "no version",
            json!({"metadata": {"name": "c"}, "kind": "ConfigMap"}),
        ),
        (
            "another version, no kind",
            json!({"metadata": {"name": "d"}, "apiVersion": "apps/v1"}),
        ),
    ] {
        s.note(note).post(&CONFIG_MAPS, object).await;
    }
}

async fn create_of_no_object_is_refused(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for body in [
        "",
        "null",
        "[]",
        "1",
        "\"text\"",
        "{",
        "{}{}",
        "{\"a\":1,}",
        "{} x",
    ] {
        let ask = Ask::with_body(Method::POST, &path, "application/json", body);
        s.ask(ask).await;
    }
}

async fn create_in_another_namespace_than_the_body_says_is_400(s: &mut Session) {
    let ns = s.ns().to_owned();
    for changes in [
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": {"namespace": ns}}),
    ] {
        s.post(&CONFIG_MAPS, with(mk_config_map("a"), changes))
            .await;
    }
    s.note("a namespace on a cluster object is dropped or refused");
    let class = with(
        mk_object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            &format!("{ns}-class"),
        ),
        json!({"value": 1, "metadata": {"namespace": ns}}),
    );
    s.post(&PRIORITY_CLASSES, class).await;
}

async fn create_twice_is_409(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
}

async fn create_over_a_terminating_object_is_409_and_says_so(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
}

async fn create_in_a_missing_namespace_is_404(s: &mut Session) {
    for ask in [
        Ask::post(CONFIG_MAPS.collection("missing"), &mk_config_map("a")),
        Ask::post(DEPLOYMENTS.collection("missing"), &mk_deployment("a")),
        Ask::post(
            format!("{}?dryRun=All", CONFIG_MAPS.collection("missing")),
            &mk_config_map("a"),
        ),
    ] {
        s.ask(ask).await;
    }
}

fn mk_generated(base: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": base}})
}

async fn create_with_generate_name_appends_five_characters(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_generated("gen-")).await;
    s.post(&CONFIG_MAPS, mk_generated("gen-")).await;
    s.note("base and name are both checked");
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(path, &mk_generated("Bad_")).viewed(cause_fields))
        .await;
}

/// The fields a 422 complains about: its texts name the name that was generated.
fn cause_fields(status: &Value) -> Value {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    causes
        .map(|cause| json!([cause["reason"], cause["field"]]))
        .collect()
}

async fn create_with_a_long_generate_name_cuts_it(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_generated(&"g".repeat(81))).await;
    let length = made.body["metadata"]["name"].as_str().map_or(0, str::len);
    s.record(json!({ "length": length }));
}

async fn create_with_name_and_generate_name_takes_the_name(s: &mut Session) {
    let both = with(
        mk_config_map("a"),
        json!({"metadata": {"generateName": "gen-"}}),
    );
    s.post(&CONFIG_MAPS, both.clone()).await;
    s.note("a wart: the server takes the name for a generated one")
        .post(&CONFIG_MAPS, both)
        .await;
}

async fn create_with_unknown_fields_warns_or_is_400_when_strict(s: &mut Session) {
    let odd = |name: &str| {
        with(
            mk_config_map(name),
            json!({"nope": 1, "metadata": {"neither": {"a": 1}}}),
        )
    };
    s.post(&CONFIG_MAPS, odd("default")).await;
    s.post_with(&CONFIG_MAPS, "fieldValidation=Warn", odd("warn"))
        .await;
    s.post_with(&CONFIG_MAPS, "fieldValidation=Ignore", odd("ignore"))
        .await;
    s.post_with(&CONFIG_MAPS, "fieldValidation=Strict", odd("strict"))
        .await;
}

async fn create_with_duplicate_fields_warns_or_is_400_when_strict(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"},"data":{"l":"3"}}"#;
    for query in [
        "?fieldValidation=Strict",
        "?fieldValidation=Warn&dryRun=All",
        "?fieldValidation=Ignore",
    ] {
        s.ask(Ask::with_body(
            Method::POST,
            format!("{path}{query}"),
            "application/json",
            text,
        ))
        .await;
    }
}

async fn create_with_a_bad_field_validation_is_422(s: &mut Session) {
    s.post_with(&CONFIG_MAPS, "fieldValidation=X", mk_config_map("a"))
        .await;
    s.post_with(&CONFIG_MAPS, "fieldValidation=strict", mk_config_map("a"))
        .await;
}

async fn create_with_a_bad_field_manager_is_422(s: &mut Session) {
    let long = format!("fieldManager={}", "m".repeat(129));
    s.post_with(&CONFIG_MAPS, &long, mk_config_map("a")).await;
    s.post_with(&CONFIG_MAPS, "fieldManager=tab%09", mk_config_map("a"))
        .await;
    s.post_with(&CONFIG_MAPS, "fieldManager=me", mk_config_map("a"))
        .await;
}

async fn create_of_a_pod_fills_in_defaults(s: &mut Session) {
    s.post(&PODS, mk_pod("a")).await;
}

async fn create_of_a_job_fills_in_selector_and_labels(s: &mut Session) {
    s.post(&JOBS, mk_job("a")).await;
}

async fn create_of_a_deployment_fills_in_defaults(s: &mut Session) {
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
}

async fn create_of_a_cron_job_fills_in_defaults(s: &mut Session) {
    s.post(&CRON_JOBS, mk_cron_job("a")).await;
}

async fn create_makes_quantities_canonical(s: &mut Session) {
    let limits =
        json!({"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": "1000", "example.com/x": 1});
    let spec =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]});
    let made = s
        .post(&PODS, with(mk_pod("a"), json!({ "spec": spec })))
        .await;
    s.record(json!({"limits": made.body["spec"]["containers"][0]["resources"]["limits"]}));
}

async fn create_turns_null_values_into_empty_ones(s: &mut Session) {
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":null,"finalizers":null,"annotations":{"a":null}},"data":{"k":null}}"#;
    let path = s.path(&CONFIG_MAPS);
    let ask = Ask::with_body(Method::POST, path, "application/json", object);
    s.ask(ask).await;
}

async fn create_drops_the_status_of_kinds_with_a_status_subresource(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(
        &PODS,
        with(
            mk_pod("a"),
            json!({"status": {"phase": "Running", "message": "m"}}),
        ),
    )
    .await;
    let object = with(mk_deployment("a"), json!({"status": {"replicas": 3}}));
    s.post(&DEPLOYMENTS, object).await;
    let changes = json!({"status": {"succeeded": 3}});
    s.post(&JOBS, with(mk_job("a"), changes)).await;
}

async fn create_with_wrong_types_is_400(s: &mut Session) {
    for object in [
        with(mk_config_map("a"), json!({"data": {"k": 1}})),
        with(mk_config_map("a"), json!({"data": "text"})),
        mk_labelled("a", json!("text")),
        mk_labelled("a", json!({"k": true})),
        with(
            mk_config_map("a"),
            json!({"metadata": {"finalizers": "text"}}),
        ),
        with(mk_config_map("a"), json!({"metadata": {"name": 7}})),
        with(mk_config_map("a"), json!({"metadata": "text"})),
        with(
            mk_config_map("a"),
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
        ),
    ] {
        s.post(&CONFIG_MAPS, object).await;
    }
}

async fn create_dry_run_answers_and_stores_nothing(s: &mut Session) {
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.post_with(&CONFIG_MAPS, "dryRun=All", mk_config_map("a"))
        .await;
    s.post_with(&CONFIG_MAPS, "dryRun=All&dryRun=All", mk_generated("gen-"))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 0).await;
}

async fn create_dry_run_still_refuses(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post_with(&CONFIG_MAPS, "dryRun=All", mk_config_map("a"))
        .await;
    s.post_with(&CONFIG_MAPS, "dryRun=All", mk_config_map("Bad_"))
        .await;
}

async fn create_with_an_unknown_dry_run_is_422(s: &mut Session) {
    for query in [
        "dryRun=None",
        "dryRun=all",
        "dryRun=",
        "dryRun=All&dryRun=Some",
    ] {
        s.post_with(&CONFIG_MAPS, query, mk_config_map("a")).await;
    }
}

async fn create_of_a_secret_merges_string_data(s: &mut Session) {
    let secret = with(
        mk_object("v1", "Secret", "a"),
        json!({"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new"}}),
    );
    s.post(&SECRETS, secret).await;
    let object = with(mk_object("v1", "Secret", "b"), json!({"data": {"a": "%"}}));
    s.note("not base64").post(&SECRETS, object).await;
}
