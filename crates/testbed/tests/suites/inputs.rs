//! Rows of `docs/inputs.md` that take a server, a collector and something between them. Each test names its row;
//! `docs/inputs.md` has all rows.

use std::time::Duration;

use caretaker_testbed::checkers::{History, Known, violations};
use caretaker_testbed::collector::{Collector, NAME};
use caretaker_testbed::crash::{Cast, Generation};
use caretaker_testbed::objects::{
    CONFIG_MAPS, CRDS, Resource, SECRETS, Scope, mk_config_map, mk_object, with,
};
use caretaker_testbed::suites::Checked;
use caretaker_testbed::suites::stage::{Made, Stage, owned};
use caretaker_testbed::target::Target;
use caretaker_testbed::wire::{Act, Asked, Fate, Log, Reply, Who, Wire};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const DISCOVERY: Duration = Duration::from_secs(30);
/// Time enough for feeds to have listed everything.
const SETTLED: Duration = Duration::from_secs(3);

/// A server, a collector of ConfigMaps, Secrets and Gadgets, and what is between them.
struct Play {
    target: Target,
    stage: Stage,
    log: Log,
    since: u64,
    kinds: Vec<Known>,
    _generation: Generation,
}

// === impl Play ===

impl Play {
    async fn new(fate: impl FnMut(&Asked<'_>) -> Fate + Send + 'static) -> Self {
        let target = Target::embedded();
        let log = Log::default();
        let users = Wire::new(target.client(), Who::User, &log, None);
        let through = target.through(users.client());
        let stage = Stage::set(&through, &Collector::Standing, "inputs".to_owned()).await;
        let since = History::now(target.client()).await.unwrap();
        let gadgets = Resource::custom("inputs.example.com", "v1", "gadgets", Scope::Namespaced);
        let kinds = vec![
            Known::new(CONFIG_MAPS, "v1", "ConfigMap"),
            Known::new(SECRETS, "v1", "Secret"),
            Known::new(gadgets, "inputs.example.com/v1", "Gadget"),
        ];
        let meddler: Box<dyn caretaker_testbed::wire::Meddler> = Box::new(fate);
        let wire = Wire::new(target.client(), Who::Controllers, &log, Some(meddler));
        let cast = Cast {
            names: &[NAME],
            kinds: &kinds,
            discovery: DISCOVERY,
            ahead: SignedDuration::ZERO,
        };
        let generation = Generation::start(&target, &wire, &cast).unwrap();
        sleep(SETTLED).await;
        Self {
            target,
            stage,
            log,
            since,
            kinds,
            _generation: generation,
        }
    }

    async fn map(&self, name: &str, owners: &[Value]) -> Made {
        let map = owned(mk_config_map(name), owners);
        self.stage.make(&CONFIG_MAPS, map).await.unwrap()
    }

    async fn secret(&self, name: &str, owners: &[Value]) -> Made {
        let secret = owned(mk_object("v1", "Secret", name), owners);
        self.stage.make(&SECRETS, secret).await.unwrap()
    }

    async fn delete(&self, made: &Made) {
        let options = json!({"propagationPolicy": "Background"});
        self.stage.delete(made, options).await.unwrap();
    }

    /// What the collector has asked for so far, about single objects.
    fn asked(&self) -> Vec<Act> {
        let mut acts = self.log.acts();
        acts.retain(|act| act.who == Who::Controllers);
        acts
    }

    /// Nothing happened that must not happen; for plays whose kinds were always there.
    async fn check_history(&self, kinds: usize) {
        let kinds = &self.kinds[..kinds];
        let history = History::read(self.target.client(), kinds, self.since).await;
        let found = violations(&history.unwrap(), &self.log.acts());
        assert!(found.is_empty(), "{found:?}");
    }
}

fn pass(_: &Asked<'_>) -> Fate {
    Fate::Pass
}

fn check(what: &str, checked: Checked) {
    checked.unwrap_or_else(|why| panic!("{what}: {why}"));
}

/// A5: somebody rewrites the object once a second, and it goes all the same, with the version it had.
#[tokio::test(start_paused = true)]
async fn a05_an_object_with_a_heartbeat_still_goes() {
    // Everything takes long enough that a heartbeat comes between a decision and its request now and then.
    let play = Play::new(|asked| match asked.is_effect {
        true => Fate::Late(Duration::from_millis(700)),
        false => Fate::Pass,
    })
    .await;
    let owner = play.map("owner", &[]).await;
    let child = play.secret("child", &[owner.reference()]).await;
    sleep(SETTLED).await;
    play.delete(&owner).await;
    let began = Instant::now();
    let mut beats = 0;
    while play.stage.look(&child).await.unwrap().is_some() {
        beats += 1;
        let beat = json!({"metadata": {"annotations": {"beat": beats.to_string()}}});
        check("a beat", play.stage.change(&child, beat).await);
        sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() < Duration::from_secs(60), "still there");
    }
    assert!(beats > 0);
    play.check_history(2).await;
}

/// A9: an owner of a kind that may not be read keeps its child; others are collected meanwhile; a grant ends it.
#[tokio::test(start_paused = true)]
async fn a09_an_owner_that_may_not_be_read_keeps_its_child_until_it_may() {
    let granted_at = Instant::now() + Duration::from_secs(600);
    let play = Play::new(move |asked| {
        let is_hit = asked.uri.contains("/configmaps") && Instant::now() < granted_at;
        match is_hit {
            true => Fate::Reply(Reply::failure(403, "Forbidden")),
            false => Fate::Pass,
        }
    })
    .await;
    let owner = play.map("owner", &[]).await;
    let child = play.secret("child", &[owner.reference()]).await;
    play.delete(&owner).await;
    let other = play.secret("other", &[]).await;
    let others = play.secret("others", &[other.reference()]).await;
    play.delete(&other).await;
    check("another kind", play.stage.goes(&[&others]).await);
    check("forbidden", play.stage.remain(&[&child]).await);
    tokio::time::sleep_until(granted_at).await;
    check("granted", play.stage.goes(&[&child]).await);
    play.check_history(2).await;
}

/// A17: every request takes 29 s, and some never end; the cascade is slow and complete.
#[tokio::test(start_paused = true)]
async fn a17_a_slow_server_is_waited_for() {
    let mut number = 0;
    let play = Play::new(move |asked| {
        if !asked.is_effect {
            return Fate::Pass;
        }
        number += 1;
        match number % 5 {
            0 => Fate::Swallowed,
            1 => Fate::Ghost,
            _ => Fate::Late(Duration::from_secs(29)),
        }
    })
    .await;
    let owner = play.map("owner", &[]).await;
    let mut children = Vec::new();
    for number in 0..12 {
        let name = format!("child-{number}");
        children.push(play.secret(&name, &[owner.reference()]).await);
    }
    sleep(SETTLED).await;
    play.delete(&owner).await;
    let children: Vec<&Made> = children.iter().collect();
    check("slow", play.stage.goes(&children).await);
    play.check_history(2).await;
}

/// A19: discovery fails, loses a group and finds it again. The owner of that group lives all the time.
#[tokio::test(start_paused = true)]
async fn a19_a_group_that_flickers_costs_nobody_an_object() {
    let began = Instant::now();
    let play = Play::new(move |asked| {
        let minute = began.elapsed().as_secs() / 60;
        let is_root = asked.uri == "/apis";
        let is_group = asked.uri.contains("inputs.example.com");
        match minute {
            2 if is_root => Fate::Reply(Reply::failure(503, "ServiceUnavailable")),
            3 if is_root => Fate::Altered(without_gadgets),
            3 if is_group => Fate::Reply(Reply::text(404, "404 page not found\n")),
            5 if is_root => Fate::Reply(Reply::text(200, "<html>Welcome</html>")),
            _ => Fate::Pass,
        }
    })
    .await;
    let kind = play.stage.define(json!({})).await.unwrap();
    let gadget = kind.object("owner");
    let owner = play.stage.make(&kind.resource, gadget).await.unwrap();
    let child = play.map("child", &[owner.reference()]).await;
    let other = play.map("other", &[]).await;
    // A child that is looked at while its owner's group is gone.
    sleep(Duration::from_secs(200)).await;
    let late = play.secret("late", &[owner.reference()]).await;
    let others = play.secret("others", &[other.reference()]).await;
    play.delete(&other).await;
    check("another group", play.stage.goes(&[&others]).await);
    for _ in 0..4 {
        check("flickering", play.stage.remain(&[&child, &late]).await);
    }
    play.delete(&owner).await;
    check("afterwards", play.stage.goes(&[&child, &late]).await);
}

/// What discovery says of a server that does not know the group of our Gadgets.
fn without_gadgets(mut reply: Reply) -> Reply {
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
    let play = Play::new(pass).await;
    let stage = &play.stage;
    let kind = stage.define(json!({})).await.unwrap();
    let owner = stage
        .make(&kind.resource, kind.object("owner"))
        .await
        .unwrap();
    let child = play.map("child", &[owner.reference()]).await;
    let free = play.map("free", &[]).await;
    check("before", stage.remain(&[&child]).await);
    let definition = format!("{}/gadgets.inputs.example.com", CRDS.everywhere());
    let gone = json!({"propagationPolicy": "Background"});
    let delete = caretaker_testbed::session::Ask::new(Method::DELETE, &definition).json(&gone);
    stage.send(delete, &[200]).await.unwrap();
    check(
        "its objects went with it",
        stage.goes(&[&owner, &child]).await,
    );
    let clusterwide = json!({"spec": {"scope": "Cluster"}});
    let kind = stage.define(clusterwide).await.unwrap();
    let owner = stage
        .make(&kind.resource, kind.object("owner"))
        .await
        .unwrap();
    let child = play.map("child", &[owner.reference()]).await;
    check("again", stage.remain(&[&owner, &child, &free]).await);
    play.delete(&owner).await;
    check("and again", stage.goes(&[&child]).await);
    check("others", stage.remain(&[&free]).await);
}

/// A21: an admission webhook denies a delete for a while: it is tried again, ever more slowly, and holds up nobody.
#[tokio::test(start_paused = true)]
async fn a21_a_delete_that_is_denied_is_tried_again_and_holds_up_nobody() {
    for (status, reason) in [
        (403, "Forbidden"),
        (500, "InternalError"),
        (400, "BadRequest"),
    ] {
        let allowed_at = Instant::now() + Duration::from_secs(300);
        let play = Play::new(move |asked| {
            let is_denied = *asked.method == Method::DELETE && asked.uri.ends_with("/denied");
            match is_denied && Instant::now() < allowed_at {
                true => Fate::Instead(Reply::failure(status, reason)),
                false => Fate::Pass,
            }
        })
        .await;
        // The server itself must not carry it out either.
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let owner = play.map("owner", &[]).await;
        let denied = owned(mk_config_map("denied"), &[owner.reference()]);
        let denied = play.stage.make(&CONFIG_MAPS, with(denied, hold)).await;
        let denied = denied.unwrap();
        let other = play.secret("other", &[owner.reference()]).await;
        sleep(SETTLED).await;
        play.delete(&owner).await;
        check("others", play.stage.goes(&[&other]).await);
        check("denied", play.stage.deleting(&[&denied]).await);
        let tries = play.asked().len();
        assert!(tries < 30, "{status}: {tries} requests");
        check("released", play.stage.release(&denied).await);
        check("in the end", play.stage.goes(&[&denied]).await);
        play.check_history(2).await;
    }
}

/// G5, G14: almost 3 MiB of references with absurd uids, and an annotation as long as they come.
#[tokio::test(start_paused = true)]
async fn g05_three_mebibytes_of_references_are_judged_one_by_one() {
    const OWNERS: usize = 280;
    let play = Play::new(pass).await;
    let owners: Vec<Value> = (0..OWNERS)
        .map(|number| {
            let uid = format!("{number}-{}", "\u{e4}".repeat(5_000));
            json!({"apiVersion": "v1", "kind": "Secret", "name": format!("absent-{number}"), "uid": uid})
        })
        .collect();
    let long = json!({"metadata": {"annotations": {"long": "a".repeat(250_000)}}});
    let child = with(owned(mk_config_map("child"), &owners), long);
    assert!(child.to_string().len() > 2_900_000);
    let child = play.stage.make(&CONFIG_MAPS, child).await.unwrap();
    let other = play.map("other", &owners[..1]).await;
    check("all", play.stage.goes(&[&child, &other]).await);
    let requests = play.asked().len();
    assert!(requests <= OWNERS + 2 + 1, "{requests} requests");
}

/// G15: a storm of updates that concern no owner costs no request.
#[tokio::test(start_paused = true)]
async fn g15_a_storm_of_updates_wakes_nobody() {
    let play = Play::new(pass).await;
    let owner = play.map("owner", &[]).await;
    let child = play.secret("child", &[owner.reference()]).await;
    sleep(SETTLED).await;
    let before = play.asked().len();
    for number in 0..500 {
        let change = json!({"metadata": {"annotations": {"n": number.to_string()}}});
        check("a change", play.stage.change(&child, change.clone()).await);
        check("a change", play.stage.change(&owner, change).await);
    }
    sleep(SETTLED).await;
    assert_eq!(play.asked().len(), before);
    play.delete(&owner).await;
    check("and yet", play.stage.goes(&[&child]).await);
    assert_eq!(play.asked().len(), before + 1, "{:?}", play.asked());
}
