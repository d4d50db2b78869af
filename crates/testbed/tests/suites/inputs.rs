//! Rows of the fault catalogue that need a server, a collector and faults between them. Each test names its row;
//! `docs/inputs.md` has all rows.

use std::time::Duration;

use caretaker_testbed::case::CheckResult;
use caretaker_testbed::checkers::KnownKind;
use caretaker_testbed::controllers::COLLECTOR;
use caretaker_testbed::controllers::process::{ControllerProcess, ProcessOptions};
use caretaker_testbed::environment::Environment;
use caretaker_testbed::fixtures::{CreatedObject, owned};
use caretaker_testbed::objects::{
    CONFIG_MAPS, CRDS, Resource, SECRETS, Scope, mk_config_map, mk_object, with,
};
use caretaker_testbed::wire::{
    FakeReply, RecordedRequest, RequestFate, RequestSender, WireRequest,
};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const DISCOVERY: Duration = Duration::from_secs(30);
/// Time for the feeds to list everything.
const SETTLED: Duration = Duration::from_secs(3);

/// An environment with a collector of ConfigMaps, Secrets and Gadgets behind a faulty wire.
struct CollectorWorld {
    env: Environment,
    kinds: Vec<KnownKind>,
    _process: ControllerProcess,
}

// === impl CollectorWorld ===

impl CollectorWorld {
    async fn new(fate: impl FnMut(&WireRequest<'_>) -> RequestFate + Send + 'static) -> Self {
        let env = Environment::recorded("inputs").await.unwrap();
        let gadgets = Resource::custom("inputs.example.com", "v1", "gadgets", Scope::Namespaced);
        let kinds = vec![
            KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
            KnownKind::new(SECRETS, "v1", "Secret"),
            KnownKind::new(gadgets, "inputs.example.com/v1", "Gadget"),
        ];
        let options = ProcessOptions {
            names: &[COLLECTOR],
            kinds: &kinds,
            discovery: DISCOVERY,
            ahead: SignedDuration::ZERO,
        };
        let (_, process) = env.start_process(&options, Some(Box::new(fate))).unwrap();
        sleep(SETTLED).await;
        Self {
            env,
            kinds,
            _process: process,
        }
    }

    async fn map(&self, name: &str, owners: &[Value]) -> CreatedObject {
        let map = owned(mk_config_map(name), owners);
        self.env.make(&CONFIG_MAPS, map).await.unwrap()
    }

    async fn secret(&self, name: &str, owners: &[Value]) -> CreatedObject {
        let secret = owned(mk_object("v1", "Secret", name), owners);
        self.env.make(&SECRETS, secret).await.unwrap()
    }

    async fn delete(&self, made: &CreatedObject) {
        let options = json!({"propagationPolicy": "Background"});
        self.env.delete(made, options).await.unwrap();
    }

    /// The collector's requests about single objects.
    fn asked(&self) -> Vec<RecordedRequest> {
        let mut acts = self.env.log().acts();
        acts.retain(|act| act.who == RequestSender::Controllers);
        acts
    }

    /// No safety rule is broken; only for kinds that were always defined.
    async fn check_history(&self, kinds: usize) {
        let kinds = &self.kinds[..kinds];
        let found = self.env.violations(kinds).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

fn pass(_: &WireRequest<'_>) -> RequestFate {
    RequestFate::Pass
}

fn check(what: &str, checked: CheckResult) {
    checked.unwrap_or_else(|why| panic!("{what}: {why}"));
}

/// A5: a client rewrites the object once a second, and it is collected all the same.
#[tokio::test(start_paused = true)]
async fn a05_an_object_with_a_heartbeat_still_goes() {
    // Everything takes long enough that a heartbeat comes between a decision and its request now and then.
    let world = CollectorWorld::new(|asked| match asked.is_effect {
        true => RequestFate::Late(Duration::from_millis(700)),
        false => RequestFate::Pass,
    })
    .await;
    let owner = world.map("owner", &[]).await;
    let child = world.secret("child", &[owner.reference()]).await;
    sleep(SETTLED).await;
    world.delete(&owner).await;
    let began = Instant::now();
    let mut beats = 0;
    while world.env.look(&child).await.unwrap().is_some() {
        beats += 1;
        let beat = json!({"metadata": {"annotations": {"beat": beats.to_string()}}});
        check("a beat", world.env.change(&child, beat).await);
        sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() < Duration::from_secs(60), "still there");
    }
    assert!(beats > 0);
    world.check_history(2).await;
}

/// A9: an owner of a kind that may not be read keeps its child; others are collected meanwhile; a grant ends it.
#[tokio::test(start_paused = true)]
async fn a09_an_owner_that_may_not_be_read_keeps_its_child_until_it_may() {
    let granted_at = Instant::now() + Duration::from_secs(600);
    let world = CollectorWorld::new(move |asked| {
        let is_hit = asked.uri.contains("/configmaps") && Instant::now() < granted_at;
        match is_hit {
            true => RequestFate::Reply(FakeReply::failure(403, "Forbidden")),
            false => RequestFate::Pass,
        }
    })
    .await;
    let owner = world.map("owner", &[]).await;
    let child = world.secret("child", &[owner.reference()]).await;
    world.delete(&owner).await;
    let other = world.secret("other", &[]).await;
    let others = world.secret("others", &[other.reference()]).await;
    world.delete(&other).await;
    check("another kind", world.env.goes(&[&others]).await);
    check("forbidden", world.env.remain(&[&child]).await);
    tokio::time::sleep_until(granted_at).await;
    check("granted", world.env.goes(&[&child]).await);
    world.check_history(2).await;
}

/// A17: every request takes 29 s, and some never end; the cascade is slow and complete.
#[tokio::test(start_paused = true)]
async fn a17_a_slow_server_is_waited_for() {
    let mut number = 0;
    let world = CollectorWorld::new(move |asked| {
        if !asked.is_effect {
            return RequestFate::Pass;
        }
        number += 1;
        match number % 5 {
            0 => RequestFate::Swallowed,
            1 => RequestFate::Ghost,
            _ => RequestFate::Late(Duration::from_secs(29)),
        }
    })
    .await;
    let owner = world.map("owner", &[]).await;
    let mut children = Vec::new();
    for number in 0..12 {
        let name = format!("child-{number}");
        children.push(world.secret(&name, &[owner.reference()]).await);
    }
    sleep(SETTLED).await;
    world.delete(&owner).await;
    let children: Vec<&CreatedObject> = children.iter().collect();
    check("slow", world.env.goes(&children).await);
    world.check_history(2).await;
}

/// A19: discovery fails, loses a group and finds it again. The owner of that group lives all the time.
#[tokio::test(start_paused = true)]
async fn a19_a_group_that_flickers_costs_no_object() {
    let began = Instant::now();
    let world = CollectorWorld::new(move |asked| {
        let minute = began.elapsed().as_secs() / 60;
        let is_root = asked.uri == "/apis";
        let is_group = asked.uri.contains("inputs.example.com");
        match minute {
            2 if is_root => RequestFate::Reply(FakeReply::failure(503, "ServiceUnavailable")),
            3 if is_root => RequestFate::altered(without_gadgets),
            3 if is_group => RequestFate::Reply(FakeReply::text(404, "404 page not found\n")),
            5 if is_root => RequestFate::Reply(FakeReply::text(200, "<html>Welcome</html>")),
            _ => RequestFate::Pass,
        }
    })
    .await;
    let kind = world.env.define(json!({})).await.unwrap();
    let gadget = kind.object("owner");
    let owner = world.env.make(&kind.resource, gadget).await.unwrap();
    let child = world.map("child", &[owner.reference()]).await;
    let other = world.map("other", &[]).await;
    // A child that is looked at while its owner's group is gone.
    sleep(Duration::from_secs(200)).await;
    let late = world.secret("late", &[owner.reference()]).await;
    let others = world.secret("others", &[other.reference()]).await;
    world.delete(&other).await;
    check("another group", world.env.goes(&[&others]).await);
    for _ in 0..4 {
        check("flickering", world.env.remain(&[&child, &late]).await);
    }
    world.delete(&owner).await;
    check("afterwards", world.env.goes(&[&child, &late]).await);
}

/// What discovery says of a server that does not know the group of our Gadgets.
fn without_gadgets(mut reply: FakeReply) -> FakeReply {
    let mut document: Value = serde_json::from_str(&reply.text).unwrap();
    for list in ["items", "groups"] {
        if let Some(groups) = document[list].as_array_mut() {
            groups.retain(|group| {
                let name = [&group["metadata"]["name"], &group["name"]];
                !name.iter().any(|name| *name == "inputs.example.com")
            });
        }
    }
    reply.text = document.to_string();
    reply
}

/// A20: a definition goes while its objects are watched, and comes back with another scope.
#[tokio::test(start_paused = true)]
async fn a20_a_definition_may_come_back_with_another_scope() {
    let world = CollectorWorld::new(pass).await;
    let env = &world.env;
    let kind = env.define(json!({})).await.unwrap();
    let owner = env
        .make(&kind.resource, kind.object("owner"))
        .await
        .unwrap();
    let child = world.map("child", &[owner.reference()]).await;
    let free = world.map("free", &[]).await;
    check("before", env.remain(&[&child]).await);
    let definition = format!("{}/gadgets.inputs.example.com", CRDS.everywhere());
    let gone = json!({"propagationPolicy": "Background"});
    let delete = caretaker_testbed::session::Ask::new(Method::DELETE, &definition).json(&gone);
    env.send(delete, &[200]).await.unwrap();
    check(
        "its objects went with it",
        env.goes(&[&owner, &child]).await,
    );
    let clusterwide = json!({"spec": {"scope": "Cluster"}});
    let kind = env.define(clusterwide).await.unwrap();
    let owner = env
        .make(&kind.resource, kind.object("owner"))
        .await
        .unwrap();
    let child = world.map("child", &[owner.reference()]).await;
    check("again", env.remain(&[&owner, &child, &free]).await);
    world.delete(&owner).await;
    check("and again", env.goes(&[&child]).await);
    check("others", env.remain(&[&free]).await);
}

/// A21: an admission webhook denies a delete for a while. It is retried with backoff and delays no other delete.
#[tokio::test(start_paused = true)]
async fn a21_a_denied_delete_is_retried_and_delays_no_other() {
    for (status, reason) in [
        (403, "Forbidden"),
        (500, "InternalError"),
        (400, "BadRequest"),
    ] {
        let allowed_at = Instant::now() + Duration::from_secs(300);
        let world = CollectorWorld::new(move |asked| {
            let is_denied = *asked.method == Method::DELETE && asked.uri.ends_with("/denied");
            match is_denied && Instant::now() < allowed_at {
                true => RequestFate::Instead(FakeReply::failure(status, reason)),
                false => RequestFate::Pass,
            }
        })
        .await;
        // The server itself must not carry it out either.
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let owner = world.map("owner", &[]).await;
        let denied = owned(mk_config_map("denied"), &[owner.reference()]);
        let denied = world.env.make(&CONFIG_MAPS, with(denied, hold)).await;
        let denied = denied.unwrap();
        let other = world.secret("other", &[owner.reference()]).await;
        sleep(SETTLED).await;
        world.delete(&owner).await;
        check("others", world.env.goes(&[&other]).await);
        check("denied", world.env.deleting(&[&denied]).await);
        let tries = world.asked().len();
        assert!(tries < 30, "{status}: {tries} requests");
        check("released", world.env.release(&denied).await);
        check("in the end", world.env.goes(&[&denied]).await);
        world.check_history(2).await;
    }
}

/// G5, G14: almost 3 MiB of references with absurd uids, and an annotation as long as they come.
#[tokio::test(start_paused = true)]
async fn g05_three_mebibytes_of_references_are_judged_one_by_one() {
    const OWNERS: usize = 280;
    let world = CollectorWorld::new(pass).await;
    let owners: Vec<Value> = (0..OWNERS)
        .map(|number| {
            let uid = format!("{number}-{}", "\u{e4}".repeat(5_000));
            json!({"apiVersion": "v1", "kind": "Secret", "name": format!("absent-{number}"), "uid": uid})
        })
        .collect();
    let long = json!({"metadata": {"annotations": {"long": "a".repeat(250_000)}}});
    let child = with(owned(mk_config_map("child"), &owners), long);
    assert!(child.to_string().len() > 2_900_000);
    let child = world.env.make(&CONFIG_MAPS, child).await.unwrap();
    let other = world.map("other", &owners[..1]).await;
    check("all", world.env.goes(&[&child, &other]).await);
    let requests = world.asked().len();
    assert!(requests <= OWNERS + 2 + 1, "{requests} requests");
}

/// G15: a storm of updates that concern no owner costs no request.
#[tokio::test(start_paused = true)]
async fn g15_a_storm_of_updates_costs_no_request() {
    let world = CollectorWorld::new(pass).await;
    let owner = world.map("owner", &[]).await;
    let child = world.secret("child", &[owner.reference()]).await;
    sleep(SETTLED).await;
    let before = world.asked().len();
    for number in 0..500 {
        let change = json!({"metadata": {"annotations": {"n": number.to_string()}}});
        check("a change", world.env.change(&child, change.clone()).await);
        check("a change", world.env.change(&owner, change).await);
    }
    sleep(SETTLED).await;
    assert_eq!(world.asked().len(), before);
    world.delete(&owner).await;
    check("and yet", world.env.goes(&[&child]).await);
    assert_eq!(world.asked().len(), before + 1, "{:?}", world.asked());
}
