//! Bad input, one request at a time: too large, too deep, broken, forged. Nothing is stored and the server lives on.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(body_of_more_than_3_mib_is_413),
    api_case!(body_that_is_very_deep_is_400),
    api_case!(body_that_is_no_utf8),
    api_case!(body_with_duplicate_keys_takes_the_last),
    api_case!(body_with_huge_numbers_is_400),
    api_case!(body_with_control_characters_and_escapes),
    api_case!(body_of_yaml_with_many_aliases_is_400),
    api_case!(config_map_of_more_than_1_mib_is_422),
    api_case!(continue_tokens_that_are_forged_are_400),
    api_case!(continue_tokens_of_another_place_are_harmless),
    api_case!(json_patch_of_too_many_operations_is_413),
    api_case!(json_patch_that_copies_too_much_is_422),
    api_case!(selectors_of_absurd_length),
    api_case!(limits_and_timeouts_of_absurd_size),
    api_case!(merge_patch_of_many_nulls_changes_nothing),
    api_case!(names_in_paths_that_cannot_be),
];

const CHARACTERS_MAX: usize = 400;

/// Only the beginning of long texts: error messages quote what was sent.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => text.chars().take(CHARACTERS_MAX).collect::<String>().into(),
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), shortened(value)))
            .collect(),
        other => other.clone(),
    }
}

fn post(path: &str, body: impl Into<bytes::Bytes>) -> Ask {
    Ask::with_body(Method::POST, path, "application/json", body).viewed(shortened)
}

async fn body_of_more_than_3_mib_is_413(s: &mut Session) {
    let big = with(
        mk_config_map("a"),
        json!({"data": {"k": "x".repeat(3 * 1024 * 1024)}}),
    );
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(&path, &big)).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.ask(Ask::put(format!("{path}/a"), &big)).await;
    s.ask(Ask::merge_patch(format!("{path}/a"), &big)).await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn body_that_is_very_deep_is_400(s: &mut Session) {
    /// Deeper than Go's decoder goes, and far deeper than any object.
    const DEPTH: usize = 20_000;
    let deep = |open: &str, close: &str| {
        let nested = format!("{}{}", open.repeat(DEPTH), close.repeat(DEPTH));
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{nested}}}"#
        )
    };
    let path = s.path(&CONFIG_MAPS);
    s.ask(post(&path, deep("[", "]"))).await;
    s.ask(post(&path, "[".repeat(DEPTH))).await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn body_that_is_no_utf8(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let body = |value: &[u8]| {
        let mut body =
            br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":""#
                .to_vec();
        body.extend(value);
        body.extend(br#""}}"#);
        body
    };
    s.note("a lone continuation byte")
        .ask(post(&path, body(b"\x80")))
        .await;
    s.quietly(Ask::new(Method::DELETE, format!("{path}/a")))
        .await;
    s.note("overlong").ask(post(&path, body(b"\xc0\xaf"))).await;
    s.quietly(Ask::new(Method::DELETE, format!("{path}/a")))
        .await;
    s.note("half a surrogate pair")
        .ask(post(&path, body(br"\ud800")))
        .await;
    s.note("not even JSON")
        .ask(post(&path, vec![0xff, 0xfe, 0x00]))
        .await;
}

async fn body_with_duplicate_keys_takes_the_last(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let body = r#"{"apiVersion":"v1","kind":"Secret","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"}}"#;
    s.ask(post(&path, body)).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn body_with_huge_numbers_is_400(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for number in ["99999999999999999999", "1e400", "1.5", "-1", "1e2", "007"] {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","generation":{number}}}}}"#
        );
        s.ask(post(&path, body)).await;
        s.quietly(Ask::new(Method::DELETE, format!("{path}/a")))
            .await;
    }
}

async fn body_with_control_characters_and_escapes(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let body = |value: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"k":"{value}"}}}}"#
        )
    };
    s.note("a raw line feed")
        .ask(post(&path, body("a\nb")))
        .await;
    s.note("escaped")
        .ask(post(&path, body(r"\u0000\n\t\/\ud83d\ude00<&>\u2028")))
        .await;
    s.note("an unknown escape")
        .ask(post(&path, body(r"\x")))
        .await;
    s.note("a byte order mark")
        .ask(post(&path, format!("\u{feff}{}", body("v"))))
        .await;
}

async fn body_of_yaml_with_many_aliases_is_400(s: &mut Session) {
    let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let below = format!("*a{}, ", level - 1).repeat(9);
        yaml.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            below.trim_end_matches(", ")
        ));
    }
    let path = s.path(&CONFIG_MAPS);
    s.ask(
        Ask::with_body(Method::POST, path, "application/yaml", yaml)
            .viewed(|body| json!({"reason": body["reason"]})),
    )
    .await;
}

async fn config_map_of_more_than_1_mib_is_422(s: &mut Session) {
    const MIB: usize = 1024 * 1024;
    let sized = |size: usize| {
        with(
            mk_object("v1", "ConfigMap", "a"),
            json!({"data": {"k": "x".repeat(size)}}),
        )
    };
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(&path, &sized(MIB + 1)).viewed(shortened))
        .await;
    let status = s
        .quietly(Ask::post(format!("{path}?dryRun=All"), &sized(MIB)))
        .await
        .status;
    s.record(json!({"request": "one byte less", "status": status}));
}

/// base64url without padding; the tokens cases forge are JSON that needs no more.
fn token(json: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in json.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            out.push(char::from(
                ALPHABET[(bits >> (18 - 6 * place) & 63) as usize],
            ));
        }
    }
    out
}

async fn continue_tokens_that_are_forged_are_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.path(&CONFIG_MAPS);
    for token in [
        "garbage".to_owned(),
        "%00".to_owned(),
        "AAAA".to_owned(),
        token("{}"),
        token("[]"),
        token(r#"{"v":"meta.k8s.io/v9","rv":5,"start":"a"}"#),
        token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
        token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#),
        token(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../../secrets/a"}"#),
        token(r#"{"v":"meta.k8s.io/v1","rv":"5","start":"a"}"#),
    ] {
        s.ask(Ask::get(format!("{path}?continue={token}")).viewed(shortened))
            .await;
    }
    let long = s
        .quietly(Ask::get(format!("{path}?continue={}", "A".repeat(8000))))
        .await;
    s.record(json!({"request": "8,000 characters", "status": long.status, "body": shortened(&long.body)}));
}

async fn continue_tokens_of_another_place_are_harmless(s: &mut Session) {
    for name in ["a", "b"] {
        s.post(&CONFIG_MAPS, mk_config_map(name)).await;
    }
    s.post(&SECRETS, mk_object("v1", "Secret", "z")).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    s.note("the token of another resource")
        .list(&SECRETS, &page.after(""))
        .await;
}

async fn json_patch_of_too_many_operations_is_413(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let patch = |count: usize| {
        Value::from(vec![
            json!({"op": "test", "path": "/data/k", "value": "v"});
            count
        ])
    };
    s.json_patch(&CONFIG_MAPS, "a", patch(10_000)).await;
    s.json_patch(&CONFIG_MAPS, "a", patch(10_001)).await;
}

async fn json_patch_that_copies_too_much_is_422(s: &mut Session) {
    /// Doubles the data 24 times: 16 MiB out of a few bytes.
    const DOUBLINGS: usize = 24;
    let object = with(
        mk_object("v1", "ConfigMap", "a"),
        json!({"metadata": {"annotations": {"a": "xxxxxxxxxxxxxxxx"}}}),
    );
    s.post(&CONFIG_MAPS, object).await;
    let copies = (0..DOUBLINGS).map(|n| json!({"op": "copy", "from": "/metadata/annotations", "path": format!("/metadata/annotations/{n}")}));
    let path = s.item(&CONFIG_MAPS, "a");
    let body = Value::from_iter(copies).to_string();
    s.ask(
        Ask::with_body(Method::PATCH, path, "application/json-patch+json", body).viewed(shortened),
    )
    .await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn selectors_of_absurd_length(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    let path = s.path(&CONFIG_MAPS);
    let many = (0..3000)
        .map(|n| format!("v{n}"))
        .collect::<Vec<_>>()
        .join(",");
    let counted = |body: &Value| json!({"items": body["items"].as_array().map(Vec::len), "message": shortened(&body["message"])});
    let list = |query: String| Ask::get(format!("{path}?{query}")).viewed(counted);
    for (what, query) in [
        ("3,000 values", format!("labelSelector=l%20in%20({many},1)")),
        (
            "3,000 requirements",
            format!("labelSelector={}l%3D1", "l!%3D2,".repeat(3000)),
        ),
        ("parentheses", format!("labelSelector={}", "(".repeat(5000))),
        (
            "one long key",
            format!("labelSelector={}", "k".repeat(20_000)),
        ),
        (
            "3,000 fields",
            format!(
                "fieldSelector={}metadata.name%3Da",
                "metadata.name!%3Db,".repeat(2500)
            ),
        ),
    ] {
        let answer = s.quietly(list(query)).await;
        s.record(json!({"request": what, "status": answer.status, "body": counted(&answer.body)}));
    }
}

async fn limits_and_timeouts_of_absurd_size(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let query = "limit=9223372036854775807&timeoutSeconds=9223372036854775807";
    s.list(&CONFIG_MAPS, query).await;
    s.list(&CONFIG_MAPS, "limit=-9223372036854775808").await;
    s.list(&CONFIG_MAPS, "timeoutSeconds=-1").await;
    // How soon it ends after that depends on how far the server's clock is from overflowing.
    s.watch(&CONFIG_MAPS, "timeoutSeconds=9223372036854775807")
        .await;
    let mut watch = s.watch(&CONFIG_MAPS, "timeoutSeconds=2147483647").await;
    s.take(&mut watch, 1).await;
    let mut watch = s.watch(&CONFIG_MAPS, "timeoutSeconds=0").await;
    s.take(&mut watch, 1).await;
    let options = json!({"gracePeriodSeconds": 9_223_372_036_854_775_807_i64});
    s.delete_with(&CONFIG_MAPS, "a", options).await;
}

async fn merge_patch_of_many_nulls_changes_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let nulls: Value = (0..20_000)
        .map(|n| (format!("n{n}"), Value::Null))
        .collect::<serde_json::Map<_, _>>()
        .into();
    s.merge_patch(&CONFIG_MAPS, "a", json!({ "data": nulls }))
        .await;
}

async fn names_in_paths_that_cannot_be(s: &mut Session) {
    for name in [
        "%E0%80%80",
        "..%2f..%2fsecrets",
        "a%0ab",
        "a%20b",
        "%25",
        "a;b",
        "a:b",
    ] {
        s.get(&CONFIG_MAPS, name).await;
    }
    let long = "n".repeat(5000);
    let path = s.item(&CONFIG_MAPS, &long);
    let answer = s.quietly(Ask::get(path)).await;
    s.record(json!({"request": "a name of 5,000 characters", "status": answer.status}));
    s.delete(&CONFIG_MAPS, "%2e%2e").await;
    s.put(&CONFIG_MAPS, "%2e", mk_config_map(".")).await;
    s.get_path(CONFIG_MAPS.collection("Not_A_Namespace")).await;
    s.ask(Ask::post(
        CONFIG_MAPS.collection("Not_A_Namespace"),
        &mk_config_map("a"),
    ))
    .await;
}

#[cfg(test)]
mod tests {
    use super::token;

    #[test]
    fn tokens_are_base64url() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("{}", "e30"),
            ("???>", "Pz8_Pg"),
        ] {
            assert_eq!(token(text), encoded);
        }
    }
}
