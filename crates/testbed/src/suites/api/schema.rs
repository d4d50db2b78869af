//! Schemas of custom kinds: what a definition may say, and what becomes of objects because of it.
//!
//! Where several faults are found at once, upstream tells them in the order of Go's maps, so only their set is compared.

mod rows;

use serde_json::{Value, json};

use super::crd::{define, gadgets, group};
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};
use rows::{BAD_DEFAULTS, NOT_STRUCTURAL, NOT_SUPPORTED, SchemaRow};

pub(super) const CASES: &[TestCase] = &[
    api_case!(schema_that_is_not_structural_is_422, Crds),
    api_case!(schema_that_uses_what_is_not_supported_is_422, Crds),
    api_case!(schema_with_bad_defaults_is_422, Crds),
    api_case!(schema_of_wrong_types_is_400_or_warned_about, Crds),
    api_case!(schema_prunes_and_defaults_and_warns, Crds),
    api_case!(schema_violations_are_422_with_their_causes, Crds),
    api_case!(schema_alternatives_are_weighed, Crds),
    api_case!(schema_nulls_are_dropped_defaulted_or_kept, Crds),
    api_case!(schema_embedded_objects_are_objects, Crds),
    api_case!(schema_lists_are_sets_or_maps, Crds),
    api_case!(schema_holds_for_the_status_alone, Crds),
    api_case!(schema_that_changes_is_applied_to_what_is_stored, Crds),
    api_case!(schema_faults_that_were_there_are_tolerated, Crds),
    api_case!(schema_of_each_version_decides_what_it_shows, Crds),
    api_case!(schema_rules_in_cel, Crds),
];

/// A definition of Gadgets with this schema.
fn mk_typed(group: &str, schema: &Value) -> Value {
    let mut definition = mk_crd(group);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
    definition
}

/// A schema whose spec has these members.
fn mk_spec(properties: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

async fn define_typed(s: &mut Session, schema: &Value) -> (Resource, String) {
    let group = group(s);
    define(s, &mk_typed(&group, schema)).await;
    (gadgets(s), group)
}

/// A Gadget with this spec.
fn mk_with(group: &str, name: &str, spec: &Value) -> Value {
    let mut gadget = mk_gadget(group, name);
    gadget["spec"] = spec.clone();
    gadget
}

/// Code, reason and the set of causes; anything but a failure as it is.
fn causes(body: &Value) -> Value {
    match body["kind"].as_str() {
        Some("Status") => {
            json!({"reason": body["reason"], "kind": body["details"]["kind"], "causes": body["details"]["causes"]})
        }
        _ => body.clone(),
    }
}

/// What was made of an object, beside its metadata.
fn content(body: &Value) -> Value {
    match body["kind"].as_str() {
        Some("Status") => body.clone(),
        _ => with(body.clone(), json!({"metadata": null})),
    }
}

async fn post_spec(s: &mut Session, of: &(Resource, String), note: &'static str, spec: &Value) {
    let path = s.path(&of.0);
    let gadget = mk_with(&of.1, "a", spec);
    s.note(note)
        .ask(Ask::post(format!("{path}?dryRun=All"), &gadget).viewed(|body| causes(&content(body))))
        .await;
}

async fn refuse_all(s: &mut Session, rows: &[SchemaRow]) {
    for (note, member, schema) in rows {
        let schema: Value = serde_json::from_str(schema).expect("a row is JSON");
        let schema = match *member {
            "" => schema,
            member => mk_spec(&json!({member: schema})),
        };
        refuse(s, note, &schema).await;
    }
}

async fn refuse(s: &mut Session, note: &'static str, schema: &Value) {
    let group = group(s);
    let path = format!("{}?dryRun=All", CRDS.everywhere());
    let view = |body: &Value| match body["kind"].as_str() {
        Some("Status") => causes(body),
        _ => json!("accepted"),
    };
    s.note(note)
        .ask(Ask::post(path, &mk_typed(&group, schema)).viewed(view))
        .await;
}

async fn schema_that_is_not_structural_is_422(s: &mut Session) {
    refuse_all(s, NOT_STRUCTURAL).await;
}

async fn schema_that_uses_what_is_not_supported_is_422(s: &mut Session) {
    refuse_all(s, NOT_SUPPORTED).await;
}

async fn schema_with_bad_defaults_is_422(s: &mut Session) {
    refuse_all(s, BAD_DEFAULTS).await;
}

async fn schema_of_wrong_types_is_400_or_warned_about(s: &mut Session) {
    let group = group(s);
    let view = |body: &Value| match body["kind"].as_str() {
        Some("Status") => json!([body["code"], body["reason"]]),
        _ => body["spec"]["versions"][0]["schema"].clone(),
    };
    let member = |schema: Value| mk_typed(&group, &mk_spec(&json!({"a": schema})));
    let path = format!("{}?dryRun=All", CRDS.everywhere());
    s.note("a type that is a number")
        .ask(Ask::post(&path, &member(json!({"type": 5}))).viewed(view))
        .await;
    s.note("a length that is a text")
        .ask(Ask::post(&path, &member(json!({"type": "string", "maxLength": "5"}))).viewed(view))
        .await;
    let odd = member(json!({"type": "string", "nonsense": true, "nullable": false}));
    s.note("an unknown member")
        .ask(Ask::post(&path, &odd).viewed(view))
        .await;
    s.note("an unknown member, strictly")
        .ask(Ask::post(format!("{path}&fieldValidation=Strict"), &odd))
        .await;
    let ask = Ask::post(
        &path,
        &member(json!({"type": "string", "format": "nonsense"})),
    )
    .viewed(view);
    s.note("an unknown format").ask(ask).await;
}

async fn schema_prunes_and_defaults_and_warns(s: &mut Session) {
    let part = json!({"type": "object", "properties": {"x": {"type": "string"}, "d": {"type": "integer", "default": 7}}});
    let of = define_typed(s, &mk_spec(&json!({
        "size": {"type": "integer", "default": 3}, "part": part, "parts": {"type": "array", "items": part},
        "named": {"type": "object", "additionalProperties": part},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": part}},
        "any": {"type": "object", "additionalProperties": true},
    }))).await;
    let spec = json!({"odd": 1, "part": {"x": "1", "y": 1}, "parts": [{"y": 1}, {"x": "2"}], "named": {"n": {"y": {}}},
        "free": {"known": {"y": 1}, "unknown": {"y": null}}, "any": {"a": {"b": 1}, "c": [{"d": 1}]}});
    let odd = with(
        mk_with(&of.1, "a", &spec),
        json!({"top": 1, "metadata": {"odd": 1, "ownerReferences": [with(mk_owner("o", 1), json!({"odd": 1}))]}}),
    );
    s.post(&of.0, odd.clone()).await;
    s.post_with(
        &of.0,
        "dryRun=All&fieldValidation=Ignore",
        with(odd.clone(), json!({"metadata": {"name": "b"}})),
    )
    .await;
    let object = with(odd, json!({"metadata": {"name": "b"}}));
    s.post_with(&of.0, "fieldValidation=Strict", object).await;
    s.get(&of.0, "a").await;
    s.note("a default that was removed comes back")
        .json_patch(&of.0, "a", json!([{"op": "remove", "path": "/spec/size"}]))
        .await;
    s.merge_patch(
        &of.0,
        "a",
        json!({"spec": {"size": 4, "odd": 2, "part": {"d": null}}}),
    )
    .await;
    let patch = json!({"spec": {"odd": 2}});
    s.merge_patch(&of.0, "a?fieldValidation=Strict", patch)
        .await;
    let current = s.quietly(Ask::get(s.item(&of.0, "a"))).await.body;
    let changes = json!({"spec": {"odd": 3, "size": null}});
    s.put(&of.0, "a", with(current, changes)).await;
}

async fn schema_violations_are_422_with_their_causes(s: &mut Session) {
    let of = define_typed(s, &json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "required": ["must"], "properties": {
        "must": {"type": "string"}, "color": {"type": "string", "enum": ["red", "green"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 2}, "small": {"type": "integer", "format": "int32"},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1.5},
        "port": {"x-kubernetes-int-or-string": true}, "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "day": {"type": "string", "format": "date"}, "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"}},
        "map": {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "integer"}},
        "none": {"type": "object", "additionalProperties": false},
    }}}})).await;
    let rows = [
        (
            "everything in order",
            json!({"must": "x", "color": "red", "size": 2, "ratio": 1, "port": "50%", "word": "ab", "day": "2024-02-29", "list": [true], "map": {"a": 1}}),
        ),
        ("something missing", json!({})),
        ("not in the enum", json!({"must": "x", "color": "blue"})),
        ("too large", json!({"must": "x", "size": 6})),
        ("too small and odd", json!({"must": "x", "size": -1})),
        (
            "not that large",
            json!({"must": "x", "small": 3_000_000_000_i64}),
        ),
        ("not a whole number", json!({"must": "x", "size": 2.5})),
        ("whole as a float", json!({"must": "x", "size": 4.0})),
        ("at an exclusive bound", json!({"must": "x", "ratio": 0})),
        ("over a bound", json!({"must": "x", "ratio": 1.75})),
        (
            "another type",
            json!({"must": 5, "list": "x", "map": [], "word": {}}),
        ),
        ("neither", json!({"must": "x", "port": true})),
        ("no match", json!({"must": "x", "word": "AB"})),
        ("too long", json!({"must": "x", "word": "abcde"})),
        ("too short", json!({"must": "x", "word": "a"})),
        ("no date", json!({"must": "x", "day": "yesterday"})),
        (
            "a number where a date belongs",
            json!({"must": "x", "day": 5}),
        ),
        (
            "a list where a date belongs",
            json!({"must": "x", "day": [5]}),
        ),
        ("too few", json!({"must": "x", "list": [], "map": {}})),
        (
            "too many",
            json!({"must": "x", "list": [true, false, 1], "map": {"a": 1, "b": "2"}}),
        ),
        ("not allowed", json!({"must": "x", "none": {"a": 1}})),
        ("no object", json!("x")),
    ];
    for (note, spec) in rows {
        post_spec(s, &of, note, &spec).await;
    }
    let path = s.path(&of.0);
    let ask = Ask::post(path, &with(mk_gadget(&of.1, "a"), json!({"spec": null})));
    s.note("no spec").ask(ask).await;
}

async fn schema_alternatives_are_weighed(s: &mut Session) {
    let number = |more: Value| with(json!({"type": "integer"}), more);
    let of = define_typed(s, &mk_spec(&json!({
        "any": number(json!({"anyOf": [{"minimum": 5}, {"maximum": 1}]})),
        "one": number(json!({"oneOf": [{"minimum": 5}, {"maximum": 7}]})),
        "all": number(json!({"allOf": [{"minimum": 5}, {"maximum": 7}]})),
        "not": number(json!({"not": {"minimum": 5}})),
        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "deep": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}},
            "anyOf": [{"properties": {"a": {"required": ["b"], "properties": {"b": {"minimum": 5}}}}}, {"required": ["c"]}]},
    }))).await;
    let rows = [
        (
            "all good",
            json!({"any": 0, "one": 3, "all": 6, "not": 4, "either": {"a": "x"}, "deep": {"a": {"b": 5}}}),
        ),
        ("none of any", json!({"any": 3})),
        ("both of one", json!({"one": 6})),
        ("not all", json!({"all": 8})),
        ("what it must not be", json!({"not": 5})),
        ("neither", json!({"either": {}})),
        ("both", json!({"either": {"a": "x", "b": "y"}})),
        ("deep within", json!({"deep": {"a": {"b": 4}}})),
        (
            "another type",
            json!({"any": "x", "one": "x", "all": "x", "not": "x"}),
        ),
    ];
    for (note, spec) in rows {
        post_spec(s, &of, note, &spec).await;
    }
}

async fn schema_nulls_are_dropped_defaulted_or_kept(s: &mut Session) {
    let text = |more: Value| with(json!({"type": "string"}), more);
    let of = define_typed(s, &mk_spec(&json!({
        "plain": text(json!({})), "filled": text(json!({"default": "d"})), "null": text(json!({"nullable": true})),
        "both": text(json!({"nullable": true, "default": "d"})), "chosen": text(json!({"nullable": true, "enum": ["x"]})),
        "list": {"type": "array", "items": text(json!({}))}, "filledList": {"type": "array", "items": text(json!({"default": "d"}))},
        "map": {"type": "object", "additionalProperties": text(json!({}))}, "must": text(json!({})),
    }))).await;
    let rows = [
        (
            "nulls",
            json!({"plain": null, "filled": null, "null": null, "both": null, "map": {"a": null}, "filledList": [null]}),
        ),
        ("nothing", json!({})),
        ("null of an enum", json!({"chosen": null})),
        ("null in a list", json!({"list": [null]})),
    ];
    for (note, spec) in rows {
        // Not `with`, which takes nulls for removals.
        post_spec(s, &of, note, &spec).await;
    }
}

async fn schema_embedded_objects_are_objects(s: &mut Session) {
    let of = define_typed(s, &mk_spec(&json!({
        "free": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "typed": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "string"}}},
    }))).await;
    let rows = [
        (
            "a whole object",
            json!({"free": with(mk_config_map("x"), json!({"metadata": {"labels": {"a": "b"}, "odd": 1, "creationTimestamp": null}}))}),
        ),
        ("no kind", json!({"free": {"apiVersion": "v1"}})),
        ("neither", json!({"free": {}})),
        (
            "empty ones",
            json!({"free": {"apiVersion": "", "kind": ""}}),
        ),
        (
            "bad ones",
            json!({"free": {"apiVersion": "a/b/c", "kind": "Not-A-Kind!"}}),
        ),
        (
            "bad metadata",
            json!({"free": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a/b", "labels": {"a b": "c d"}}}}),
        ),
        (
            "pruned",
            json!({"typed": {"apiVersion": "v1", "kind": "X", "data": "d", "more": 1}}),
        ),
    ];
    for (note, spec) in rows {
        post_spec(s, &of, note, &spec).await;
    }
    let path = s.path(&of.0);
    let view = |body: &Value| json!([body["code"], body["reason"], body["message"]]);
    for (note, spec) in [
        (
            "a kind that is a number",
            json!({"free": {"apiVersion": "v1", "kind": 1}}),
        ),
        (
            "labels that are numbers",
            json!({"free": {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": 1}}}}),
        ),
        (
            "metadata that is a text",
            json!({"free": {"apiVersion": "v1", "kind": "X", "metadata": "x"}}),
        ),
    ] {
        s.note(note)
            .ask(Ask::post(&path, &mk_with(&of.1, "a", &spec)).viewed(view))
            .await;
    }
}

async fn schema_lists_are_sets_or_maps(s: &mut Session) {
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": {"type": "string"}}});
    let of = define_typed(s, &mk_spec(&json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "pairs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"], "items": item},
        "plain": {"type": "array", "items": {"type": "string"}},
    }))).await;
    let rows = [
        (
            "all unique",
            json!({"set": ["a", "b"], "map": [{"k": "a"}, {"k": "b"}], "pairs": [{"k": "a"}, {"k": "a", "p": 2}], "plain": ["a", "a"]}),
        ),
        (
            "a set with repetitions",
            json!({"set": ["a", "b", "a", "a", "b"]}),
        ),
        (
            "a map with repetitions",
            json!({"map": [{"k": "a"}, {"k": "a", "v": "x"}]}),
        ),
        (
            "pairs with repetitions",
            json!({"pairs": [{"k": "a"}, {"k": "a", "p": 1}]}),
        ),
    ];
    for (note, spec) in rows {
        post_spec(s, &of, note, &spec).await;
    }
}

async fn schema_holds_for_the_status_alone(s: &mut Session) {
    let status = json!({"type": "object", "required": ["phase"], "properties": {"phase": {"type": "string", "enum": ["On", "Off"]}, "count": {"type": "integer", "default": 1},
        "seen": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    let of = define_typed(s, &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}, "status": status}})).await;
    s.note("a status is not looked at here")
        .post(
            &of.0,
            with(mk_gadget(&of.1, "a"), json!({"status": {"phase": 5}})),
        )
        .await;
    let view: fn(&Value) -> Value = |body| causes(&content(body));
    for (note, status) in [
        ("good", json!({"phase": "On", "odd": 1})),
        ("bad", json!({"phase": "Broken", "count": "1"})),
        ("missing", json!({"phase": null})),
        ("repeated", json!({"seen": ["a", "a"]})),
    ] {
        let path = s.item(&of.0, "a/status");
        let ask = Ask::merge_patch(path, &json!({"status": status}));
        s.note(note).ask(ask.viewed(view)).await;
    }
    let current = s.quietly(Ask::get(s.item(&of.0, "a"))).await.body;
    let changes = json!({"status": {"phase": "Off", "count": null}, "spec": {"size": "bad"}});
    s.put(&of.0, "a/status", with(current, changes)).await;
    s.merge_patch(
        &of.0,
        "a",
        json!({"spec": {"size": 2}, "status": {"phase": "On"}}),
    )
    .await;
}

/// Changes the schema of Gadgets and waits until reads of `a` show it: it defaults `spec.mark`.
async fn redefine(s: &mut Session, group: &str, properties: &Value) {
    let path = format!("{}/gadgets.{group}", CRDS.everywhere());
    let mark = with(
        properties.clone(),
        json!({"mark": {"type": "string", "default": "new"}}),
    );
    let current = s.quietly(Ask::get(&path)).await.body;
    let mut changed = current;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = mk_spec(&mark);
    s.quietly(Ask::put(&path, &changed)).await;
    let own = s.item(&gadgets(s), "a");
    s.until(&own, |answer| answer.body["spec"]["mark"] == "new")
        .await;
}

async fn schema_that_changes_is_applied_to_what_is_stored(s: &mut Session) {
    let number = json!({"type": "integer"});
    let (of, group) = define_typed(s, &mk_spec(&json!({"keep": number, "gone": number}))).await;
    s.post(&of, mk_with(&group, "a", &json!({"keep": 1, "gone": 2})))
        .await;
    redefine(
        s,
        &group,
        &json!({"keep": number, "come": {"type": "integer", "default": 5}}),
    )
    .await;
    s.note("read under the new schema").get(&of, "a").await;
    s.list(&of, "").await;
    s.note("a patch that changes nothing writes what was read")
        .merge_patch(&of, "a", json!({}))
        .await;
    s.note("and once more, nothing")
        .merge_patch(&of, "a", json!({}))
        .await;
    s.merge_patch(&of, "a", json!({"spec": {"keep": 2}})).await;
}

async fn schema_faults_that_were_there_are_tolerated(s: &mut Session) {
    let list = |more: Value| with(json!({"type": "array", "items": {"type": "string"}}), more);
    let (of, group) = define_typed(s, &mk_spec(&json!({"size": {"type": "integer"}, "word": {"type": "string"}, "list": list(json!({}))}))).await;
    let object = mk_with(
        &group,
        "a",
        &json!({"size": 9, "word": "x", "list": ["a", "a"]}),
    );
    s.post(&of, object).await;
    let strict = json!({"size": {"type": "integer", "maximum": 5}, "word": {"type": "string"}, "list": list(json!({"x-kubernetes-list-type": "set"}))});
    redefine(s, &group, &strict).await;
    s.note("elsewhere")
        .merge_patch(&of, "a", json!({"spec": {"word": "y"}}))
        .await;
    s.note("the fault itself")
        .merge_patch(&of, "a", json!({"spec": {"size": 8}}))
        .await;
    s.note("more repetitions")
        .merge_patch(&of, "a", json!({"spec": {"list": ["a", "a", "b", "b"]}}))
        .await;
    s.note("mended")
        .merge_patch(&of, "a", json!({"spec": {"size": 5, "list": ["a"]}}))
        .await;
    s.note("and not to be broken again")
        .merge_patch(&of, "a", json!({"spec": {"list": ["a", "a"]}}))
        .await;
}

async fn schema_of_each_version_decides_what_it_shows(s: &mut Session) {
    let group = group(s);
    let text = |default: &str| json!({"type": "string", "default": default});
    let mut definition = mk_typed(
        &group,
        &mk_spec(&json!({"both": {"type": "integer"}, "one": text("1")})),
    );
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"] =
        mk_spec(&json!({"both": {"type": "integer"}, "two": text("2")}));
    definition["spec"]["versions"]
        .as_array_mut()
        .expect("a list")
        .push(second);
    define(s, &definition).await;
    let (one, two) = (
        gadgets(s),
        Resource::custom(&group, "v2", "gadgets", Scope::Namespaced),
    );
    s.post(&one, mk_with(&group, "a", &json!({"both": 1, "two": "x"})))
        .await;
    s.get(&one, "a").await;
    s.get(&two, "a").await;
    s.merge_patch(&two, "a", json!({"spec": {"both": 2}})).await;
    s.get(&one, "a").await;
}

async fn schema_rules_in_cel(s: &mut Session) {
    let group = group(s);
    let schema = mk_spec(
        &json!({"size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "too large"}]}, "word": {"type": "string"}}),
    );
    let path = format!("{}?dryRun=All", CRDS.everywhere());
    let ask = Ask::post(path, &mk_typed(&group, &schema))
        .viewed(|body| body["spec"]["versions"][0]["schema"].clone());
    s.note("the definition").ask(ask).await;
    let of = define_typed(s, &schema).await;
    post_spec(s, &of, "within the rule", &json!({"size": 4})).await;
    post_spec(s, &of, "wrong otherwise", &json!({"word": 1})).await;
    post_spec(s, &of, "against the rule", &json!({"size": 6})).await;
    refuse(
        s,
        "a rule that says nothing",
        &mk_spec(&json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": " "}]}})),
    )
    .await;
}
