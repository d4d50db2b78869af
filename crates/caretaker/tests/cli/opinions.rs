//! `caretaker explain` of Jobs, CronJobs and Pods: what their controllers decide, and which flags of them that rests on.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::Client;
use crate::look::{Scene, reference};
use crate::process::Up;

const BATCH: &str = "/apis/batch/v1/namespaces/default";
const VOLCANO: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default";

/// When everything here that has ended did.
const ENDED: &str = "2026-01-01T00:00:00Z";
/// The minute of that, as Jobs of CronJobs have it in their names.
const TICK: &str = "29453760";

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

/// A Job of these owners.
fn job(client: &Client, name: &str, owners: &[&Value], spec: &Value) -> Value {
    let mut whole = json!({"template": template()});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": whole,
        "metadata": {"name": name, "ownerReferences": owners}});
    client.create(&format!("{BATCH}/jobs"), &job)
}

/// A finished Job with a TTL of so many seconds.
fn finished(client: &Client, name: &str, owners: &[&Value], ttl_secs: i64) {
    let mut job = job(
        client,
        name,
        owners,
        &json!({"ttlSecondsAfterFinished": ttl_secs}),
    );
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": ENDED});
    job["status"] = json!({"startTime": ENDED, "completionTime": ENDED,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
    client.put(&format!("{BATCH}/jobs/{name}/status"), &job);
}

/// A CronJob of every year's first minute, or of what the spec says.
fn cron_job(client: &Client, name: &str, spec: &Value) -> Value {
    let mut whole =
        json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template()}}});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": whole});
    client.create(&format!("{BATCH}/cronjobs"), &cron_job)
}

fn set_status(client: &Client, cron_job: &Value, status: Value) {
    let path = format!(
        "{BATCH}/cronjobs/{}",
        cron_job["metadata"]["name"].as_str().unwrap()
    );
    let (_, mut cron_job) = client.get(&path);
    cron_job["status"] = status;
    client.put(&format!("{path}/status"), &cron_job);
}

/// A reference to the CronJob that manages something.
fn managed_by(cron_job: &Value) -> Value {
    let mut owner = reference(cron_job);
    owner["controller"] = true.into();
    owner
}

#[test]
fn a_finished_job_says_when_it_goes() {
    let scene = Scene::with("none");
    finished(&scene.client, "later", &[], i32::MAX.into());
    finished(&scene.client, "over", &[], 60);
    let text = scene.ok("explain job/later");
    let expected = "\
ttl-after-finished-controller: it finished at 2026-01-01T00:00:00Z, and the 2147483647 s that it stays after that are over \
at 2094-01-19T03:14:07Z.
  Next: would be deleted at 2094-01-19T03:14:07Z (foreground: what hangs on it goes before it).
";
    assert!(text.contains(expected), "{text}");
    let over: Value = serde_json::from_str(&scene.ok("explain job/over -o json")).unwrap();
    let opinion = &over["controllers"][0];
    assert_eq!(opinion["controller"], "ttl-after-finished-controller");
    assert_eq!(opinion["verdict"]["rule"], "Expired");
    assert_eq!(
        (&opinion["next"]["action"], &opinion["next"]["policy"]),
        (&json!("delete"), &json!("Foreground"))
    );
    let text = scene.ok("explain ns/default");
    assert!(!text.contains("ttl-after-finished"), "{text}");
}

#[test]
fn a_job_whose_time_is_over_goes_and_is_told_of() {
    let up = Up::start(&[]);
    let client = Client::of(&up.kubeconfig());
    let mut events = client.watch("/apis/batch/v1/namespaces/default/jobs?watch=true");
    finished(&client, "over", &[], 60);
    assert!(events.any(|line| line.unwrap().contains("DELETED")));
    let (ended, _) = up.stop();
    let told = "caretaker: deleted Job default/over (TTL after its finish is over) in ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_job_whose_tick_is_not_recorded_waits_for_that() {
    let scene = Scene::with("none");
    let cron = cron_job(&scene.client, "report", &json!({"timeZone": "UTC"}));
    set_status(
        &scene.client,
        &cron,
        json!({"lastScheduleTime": "2025-01-01T00:00:00Z"}),
    );
    let owner = managed_by(&cron);
    let (over, later) = (format!("report-{TICK}"), "report-29453761");
    finished(&scene.client, &over, &[&owner], 60);
    finished(&scene.client, later, &[&owner], i32::MAX.into());
    let assumed = "  Assumed: cronjob-controller/batch works in the same process.\n";
    let text = scene.ok(&format!("explain job/{over}"));
    let expected = format!(
        "\
ttl-after-finished-controller: its time is over, and it stays until the CronJob report tells its slot {ENDED} in its status.
  Next: nothing.
{assumed}"
    );
    assert!(text.contains(&expected), "{text}");
    let text = scene.ok(&format!("explain job/{later}"));
    let expected = format!(
        "goes before it), if the CronJob report tells its slot 2026-01-01T00:01:00Z in its status by then.\n{assumed}"
    );
    assert!(text.contains(&expected), "{text}");
    // One that nobody made for a slot waits for nobody, and neither does one whose slot is told.
    finished(&scene.client, "report-mabc", &[&owner], 60);
    set_status(&scene.client, &cron, json!({"lastScheduleTime": ENDED}));
    for name in ["report-mabc", &over] {
        let text = scene.ok(&format!("explain job/{name}"));
        assert!(
            text.contains("  Next: would be deleted now (fore"),
            "{text}"
        );
        assert!(!text.contains("Assumed"), "{text}");
    }
}

#[test]
fn what_is_said_about_aborted_jobs_counts_and_is_repeated() {
    let scene = Scene::with("gc-controller");
    let jobs = format!("{VOLCANO}/jobs");
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"minAvailable": 1}});
    let mut job = scene.client.create(&jobs, &job);
    job["status"] = json!({"state": {"phase": "Aborted", "lastTransitionTime": ENDED}});
    scene.client.put(&format!("{jobs}/gang/status"), &job);
    let text = scene.ok("explain vcjob/gang");
    let expected = "\
gc-controller: it has not finished.
  Next: nothing.
  Assumed: no --ttl-after-aborted.
";
    assert!(text.contains(expected), "{text}");
    let text = scene.ok("explain vcjob/gang --ttl-after-aborted=24h");
    for expected in [
        "gc-controller: it was aborted at 2026-01-01T00:00:00Z, and the 86400 s that it stays after that are over since",
        "\n  Next: would be deleted now (foreground: what hangs on it goes before it).\n",
        "\n  Assumed: --ttl-after-aborted=86400s.\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn how_many_pods_are_kept_is_said() {
    let scene = Scene::with("none");
    let pods = "/api/v1/namespaces/default/pods";
    let spec = &template()["spec"];
    for (name, phase) in [
        ("one", "Succeeded"),
        ("two", "Failed"),
        ("three", "Running"),
    ] {
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let mut pod = scene.client.create(pods, &pod);
        pod["status"] = json!({ "phase": phase });
        scene.client.put(&format!("{pods}/{name}/status"), &pod);
    }
    let text = scene.ok("explain pod/one");
    let expected = "\
pod-garbage-collector-controller: it is no Pod that has to be cleaned up.
  Next: nothing.
  Assumed: --terminated-pod-gc-threshold=12500, --terminated-pod-gc-threshold-per-namespace=0.
";
    assert!(text.contains(expected), "{text}");
    let text = scene.ok("explain pod/three");
    assert!(!text.contains("Assumed"), "{text}");
    for flag in [
        "--terminated-pod-gc-threshold",
        "--terminated-pod-gc-threshold-per-namespace",
    ] {
        // One of the two is too many, the older one, or else the one whose name comes first.
        let told = ["one", "two"].map(|name| {
            let text = scene.ok(&format!("explain pod/{name} {flag}=1 -o json"));
            let told: Value = serde_json::from_str(&text).unwrap();
            let opinion = &told["controllers"][0];
            let assumed = opinion["assumed"].as_array().unwrap();
            assert!(assumed.contains(&json!(format!("{flag}=1"))), "{text}");
            opinion["verdict"]["rule"].clone()
        });
        let unwanted = told.iter().filter(|rule| **rule == "Unwanted");
        assert_eq!(unwanted.count(), 1, "{flag}: {told:?}");
    }
}

/// The opinion of the controller of CronJobs.
fn of_cron_job(scene: &Scene, name: &str, flags: &str) -> Value {
    let text = scene.ok(&format!("explain cronjob/{name} {flags} -o json"));
    let told: Value = serde_json::from_str(&text).unwrap();
    let opinion = told["controllers"][0].clone();
    assert_eq!(opinion["controller"], "cronjob-controller/batch", "{text}");
    opinion
}

#[test]
fn a_cron_job_says_its_next_slot_and_by_which_clocks() {
    let scene = Scene::with("none");
    cron_job(&scene.client, "plain", &json!({}));
    cron_job(&scene.client, "zoned", &json!({"timeZone": "Asia/Tokyo"}));
    cron_job(&scene.client, "off", &json!({"suspend": true}));
    for (name, flags, time, assumed) in [
        (
            "plain",
            "--default-time-zone=UTC",
            "-01-01T00:00:00Z",
            json!(["--default-time-zone=UTC"]),
        ),
        (
            "plain",
            "--default-time-zone=Asia/Tokyo",
            "-12-31T15:00:00Z",
            json!(["--default-time-zone=Asia/Tokyo"]),
        ),
        (
            "zoned",
            "--default-time-zone=UTC",
            "-12-31T15:00:00Z",
            json!([]),
        ),
    ] {
        let opinion = of_cron_job(&scene, name, flags);
        assert_eq!(opinion["verdict"]["rule"], "WaitsForSlot", "{opinion}");
        let message = opinion["verdict"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("its next slot is 20") && message.ends_with(time),
            "{message}"
        );
        assert_eq!(
            (&opinion["next"]["action"], &opinion["assumed"]),
            (&json!("wait"), &assumed)
        );
    }
    let opinion = of_cron_job(&scene, "off", "");
    assert_eq!(opinion["verdict"]["rule"], "Suspended");
    assert_eq!(opinion["assumed"], json!([]));
    // Without a word about it, both commands take the machine's zone, as the controllers do.
    let zone = Some("Asia/Kathmandu");
    let told = scene.run_in(zone, "explain cronjob/plain").stdout;
    let expected = "\n  Assumed: --default-time-zone=Asia/Kathmandu.\n";
    assert!(told.contains(expected), "{told}");
    let rows = scene.run_in(zone, "schedule list -o json").stdout;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[1]["name"], "plain");
    assert_eq!(rows[1]["timeZone"], "Asia/Kathmandu");
}

#[test]
fn a_cron_job_says_why_its_last_slot_has_no_job() {
    let scene = Scene::with("none");
    let client = &scene.client;
    let make = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["timeZone"] = "UTC".into();
        let cron = cron_job(client, name, &spec);
        set_status(
            client,
            &cron,
            json!({"lastScheduleTime": "2025-01-01T00:00:00Z"}),
        );
        cron
    };
    let free = make("free", json!({}));
    // This year's first minute, by the server's clock.
    let year = &free["metadata"]["creationTimestamp"].as_str().unwrap()[..4];
    let slot = format!("{year}-01-01T00:00:00Z");
    let tick = slot.parse::<Timestamp>().unwrap().as_second() / 60;
    make("late", json!({"startingDeadlineSeconds": 60}));
    make("lost", json!({}));
    job(client, &format!("lost-{tick}"), &[], &json!({}));
    // A Job that may be gone soon: the CronJob itself is asked for first.
    make("swift", json!({"successfulJobsHistoryLimit": 0}));
    job(client, &format!("swift-{tick}"), &[], &json!({}));
    let busy = make("busy", json!({"concurrencyPolicy": "Forbid"}));
    let running = job(client, "busy-m1", &[&managed_by(&busy)], &json!({}));
    let meta = &running["metadata"];
    let active = json!([{"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": meta["name"],
        "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}]);
    set_status(
        client,
        &busy,
        json!({"lastScheduleTime": "2025-01-01T00:00:00Z", "active": active}),
    );
    let foreign = "was skipped, because a Job of its name belongs to somebody else";
    for (name, why) in [
        (
            "late",
            "was skipped, because it was found later than its startingDeadlineSeconds of 60",
        ),
        ("lost", foreign),
        ("swift", foreign),
        (
            "busy",
            "waits, because a Job still runs and the concurrency policy is Forbid; \
             when that ends before the next slot comes, it starts",
        ),
    ] {
        let opinion = of_cron_job(&scene, name, "");
        assert_eq!(opinion["verdict"]["rule"], "WaitsForSlot", "{opinion}");
        let message = opinion["verdict"]["message"].as_str().unwrap();
        assert!(
            message.ends_with(&format!("; the slot {slot} {why}")),
            "{message}"
        );
    }
    let opinion = of_cron_job(&scene, "free", "");
    assert_eq!(opinion["first"], json!([]));
    assert_eq!(opinion["verdict"]["rule"], "SlotCame");
    assert_eq!(opinion["next"]["action"], "create");
}

#[test]
fn what_is_written_before_slots_are_looked_at_hides_none() {
    let scene = Scene::with("none");
    let client = &scene.client;
    let spec = json!({"concurrencyPolicy": "Forbid", "timeZone": "UTC"});
    let busy = cron_job(client, "busy", &spec);
    // A year ago, and its status lists no Jobs.
    set_status(
        client,
        &busy,
        json!({"lastScheduleTime": "2025-01-01T00:00:00Z"}),
    );
    let owner = managed_by(&busy);
    job(client, "busy-m1", &[&owner], &json!({}));
    for name in ["busy-m2", "busy-m3", "busy-m4", "busy-m5"] {
        finished(client, name, &[&owner], i32::MAX.into());
    }
    let text = scene.ok("explain cronjob/busy");
    let expected = "before the next slot comes, it starts.
  First: Jobs beyond its history limits would be deleted.
  First: its status would be brought up to date.
  Next: nothing before ";
    assert!(text.contains(expected), "{text}");
}
