//! Tokens of ServiceAccounts with the binary: issued by kubectl or by HTTP, and used as bearer tokens.

use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::UpProcess;
use crate::session::KubectlSession;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const NAMESPACES: &str = "/api/v1/namespaces";

fn mk_account(client: &HttpClient, name: &str) {
    client.create(ACCOUNTS, &json!({"metadata": {"name": name}}));
}

fn issue(client: &HttpClient, name: &str) -> String {
    let request = client.create(&format!("{ACCOUNTS}/{name}/token"), &json!({}));
    request["status"]["token"].as_str().unwrap().to_owned()
}

fn get_as(client: &HttpClient, token: &str) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    client.get_with(NAMESPACES, &[("Authorization", &bearer)])
}

#[test]
fn a_service_account_is_a_user_until_it_is_deleted() {
    let up = UpProcess::start(&[]);
    let client = HttpClient::of(&up.kubeconfig());
    mk_account(&client, "robot");
    let token = issue(&client, "robot");
    let (code, list) = get_as(&client, &token);
    assert_eq!((code, &list["kind"]), (200, &json!("NamespaceList")));

    client.delete(&format!("{ACCOUNTS}/robot"));
    let (code, status) = get_as(&client, &token);
    assert_eq!((code, &status["message"]), (401, &json!("Unauthorized")));
    mk_account(&client, "robot");
    assert_eq!(get_as(&client, &token).0, 401, "another uid");

    let (ended, _world) = up.stop();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn each_instance_accepts_its_own_tokens_only() {
    let ups = [UpProcess::start(&[]), UpProcess::start(&[])];
    let clients = ups.each_ref().map(|up| HttpClient::of(&up.kubeconfig()));
    for client in &clients {
        mk_account(client, "robot");
    }
    let token = issue(&clients[0], "robot");
    assert_eq!(get_as(&clients[0], &token).0, 200);
    assert_eq!(get_as(&clients[1], &token).0, 401);
    let review = json!({"spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let verdicts = clients
        .each_ref()
        .map(|client| client.create(path, &review)["status"].clone());
    assert_eq!(verdicts[0]["authenticated"], true, "{}", verdicts[0]);
    let error = "[invalid bearer token, invalid signature, no keys found]";
    assert_eq!(verdicts[1], json!({"user": {}, "error": error}));
}

#[test]
fn no_log_line_shows_a_token() {
    let up = UpProcess::start(&["-v=9"]);
    let client = HttpClient::of(&up.kubeconfig());
    mk_account(&client, "robot");
    let token = issue(&client, "robot");
    assert_eq!(get_as(&client, &token).0, 200);
    let cut = &token[..token.len() - 2];
    assert_eq!(get_as(&client, cut).0, 401);
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    client.create(path, &json!({"spec": {"token": token}}));
    let (ended, _world) = up.stop();
    let claims = token.split('.').nth(1).unwrap();
    assert!(!ended.stderr.contains(claims), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused a token"), "{}", ended.stderr);
}

#[test]
fn kubectl_asks_who_the_user_is_and_what_it_may_do() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.ok("create serviceaccount robot");
    let token =
        session.ok("create token robot --duration=10m --audience=https://kubernetes.default.svc");
    let token = token.trim_end();
    let user = "system:serviceaccount:default:robot";
    let as_robot = session.ok(&format!(
        "auth whoami --token={token} -o jsonpath={{.status.userInfo.username}}"
    ));
    assert_eq!(as_robot.trim_end(), user);
    let whoami = session.ok(&format!("auth whoami --as={user} -o json"));
    let whoami: Value = serde_json::from_str(&whoami).unwrap();
    assert_eq!(whoami["status"]["userInfo"]["username"], user);
    session.says("auth can-i create deployments", "yes");
    session.says(&format!("auth can-i create deployments --as={user}"), "yes");
    let refused = session.run("auth can-i create deployments --as=system:anonymous", &[]);
    assert_eq!(
        (refused.code, refused.stdout.trim_end()),
        (1, ""),
        "{}",
        refused.stderr
    );
    let list = session.ok("auth can-i --list");
    assert!(list.contains("*.*"), "{list}");
    let complaint = session.fails("create token missing");
    assert!(
        complaint.contains("serviceaccounts \"missing\" not found"),
        "{complaint}"
    );
    let complaint = session.fails("create token robot --duration=1m");
    assert!(
        complaint.contains("may not specify a duration less than 10 minutes"),
        "{complaint}"
    );
}
