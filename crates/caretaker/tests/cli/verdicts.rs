//! `caretaker explain` of Jobs, CronJobs and Pods: the verdicts of their controllers and the assumed flags.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::inspect::{TestCluster, reference};
use crate::process::UpProcess;

const BATCH: &str = "/apis/batch/v1/namespaces/default";
const VOLCANO: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default";

/// Finish time of all finished objects here.
const ENDED: &str = "2026-01-01T00:00:00Z";
/// That minute, as in the names of scheduled Jobs.
const TICK: &str = "29453760";

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

/// Creates a Job with these owners.
fn job(client: &HttpClient, name: &str, owners: &[&Value], spec: &Value) -> Value {
    let mut whole = json!({"template": template()});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": whole,
        "metadata": {"name": name, "ownerReferences": owners}});
    client.create(&format!("{BATCH}/jobs"), &job)
}

/// Creates a finished Job with this TTL.
fn finished(client: &HttpClient, name: &str, owners: &[&Value], ttl_secs: i64) {
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

/// Creates a CronJob that runs in the first minute of each year, unless the spec has a schedule.
fn cron_job(client: &HttpClient, name: &str, spec: &Value) -> Value {
    let mut whole =
        json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template()}}});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": whole});
    client.create(&format!("{BATCH}/cronjobs"), &cron_job)
}

fn set_status(client: &HttpClient, cron_job: &Value, status: Value) {
    let path = format!(
        "{BATCH}/cronjobs/{}",
        cron_job["metadata"]["name"].as_str().unwrap()
    );
    let (_, mut cron_job) = client.get(&path);
    cron_job["status"] = status;
    client.put(&format!("{path}/status"), &cron_job);
}

/// A controller reference to a CronJob.
fn managed_by(cron_job: &Value) -> Value {
    let mut owner = reference(cron_job);
    owner["controller"] = true.into();
    owner
}

#[test]
fn explain_shows_when_a_finished_job_is_deleted() {
    let cluster = TestCluster::with("none");
    finished(&cluster.client, "later", &[], i32::MAX.into());
    finished(&cluster.client, "over", &[], 60);
    let text = cluster.ok("explain job/later");
    let expected = "\
ttl-after-finished-controller: it finished at 2026-01-01T00:00:00Z, and its TTL of 2147483647 s expires \
at 2094-01-19T03:14:07Z.
  Next: would delete it at 2094-01-19T03:14:07Z (foreground: its dependents are deleted first).
";
    assert!(text.contains(expected), "{text}");
    let over: Value = serde_json::from_str(&cluster.ok("explain job/over -o json")).unwrap();
    let verdict = &over["controllers"][0];
    assert_eq!(verdict["controller"], "ttl-after-finished-controller");
    assert_eq!(verdict["verdict"]["rule"], "Expired");
    assert_eq!(
        (&verdict["next"]["action"], &verdict["next"]["policy"]),
        (&json!("delete"), &json!("Foreground"))
    );
    let text = cluster.ok("explain ns/default");
    assert!(!text.contains("ttl-after-finished"), "{text}");
}

#[test]
fn an_expired_job_is_deleted_with_a_summary_line() {
    let up = UpProcess::start(&[]);
    let client = HttpClient::of(&up.kubeconfig());
    let mut events = client.watch("/apis/batch/v1/namespaces/default/jobs?watch=true");
    finished(&client, "over", &[], 60);
    assert!(events.any(|line| line.unwrap().contains("DELETED")));
    let (ended, _) = up.stop();
    let output = "caretaker: deleted Job default/over (TTL expired) in ";
    assert!(ended.stderr.contains(output), "{}", ended.stderr);
}

/// Two minutes pass. The second slot replaces the Job of the first, and no other.
#[test]
fn replace_leaves_a_job_that_a_user_started() {
    let up = UpProcess::start(&["--clock-speed=60"]);
    let client = HttpClient::of(&up.kubeconfig());
    let watched = format!("{BATCH}/jobs?watch=true");
    let mut events = client.watch(&watched);
    let spec = json!({"schedule": "* * * * *", "concurrencyPolicy": "Replace"});
    let cron = cron_job(&client, "report", &spec);
    job(&client, "by-hand", &[&managed_by(&cron)], &json!({}));
    let deleted = events.find(|line| line.as_ref().unwrap().contains("DELETED"));
    let deleted: Value = serde_json::from_str(&deleted.unwrap().unwrap()).unwrap();
    let name = deleted["object"]["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("report-"), "{deleted}");
    let (_, by_hand) = client.get(&format!("{BATCH}/jobs/by-hand"));
    assert!(by_hand["metadata"]["uid"].is_string(), "{by_hand}");
    let (_, cron) = client.get(&format!("{BATCH}/cronjobs/report"));
    let active = cron["status"]["active"].as_array().unwrap();
    assert!(active.iter().all(|job| job["name"] != "by-hand"), "{cron}");
}

/// The example of a CronJob in Volcano's documentation names a Queue that an empty cluster does not have.
#[test]
fn a_volcano_job_without_its_queue_shows_why_it_waits() {
    let up = UpProcess::start(&["--simulate-workloads"]);
    let client = HttpClient::of(&up.kubeconfig());
    let watched = format!("{VOLCANO}/jobs?watch=true");
    let mut jobs = client.watch(&watched);
    let mut events = client.watch("/api/v1/namespaces/default/events?watch=true");
    let task = json!({"name": "t", "replicas": 1, "template": template()});
    let gang = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"queue": "mine", "minAvailable": 1, "tasks": [task]}});
    client.create(&format!("{VOLCANO}/jobs"), &gang);
    let why = "the Queue mine does not exist";
    assert!(jobs.any(|line| line.unwrap().contains(why)));
    let event = events.find(|line| line.as_ref().unwrap().contains(why));
    let event = event.unwrap().unwrap();
    assert!(event.contains("QueueNotFound"), "{event}");
    let queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "mine"}});
    client.create("/apis/scheduling.volcano.sh/v1beta1/queues", &queue);
    assert!(jobs.any(|line| line.unwrap().contains(r#""phase":"Completed""#)));
}

#[test]
fn a_job_waits_until_its_schedule_time_is_recorded() {
    let cluster = TestCluster::with("none");
    // No later slot ends the wait.
    let spec = json!({"timeZone": "UTC", "schedule": "0 0 30 2 *"});
    let cron = cron_job(&cluster.client, "report", &spec);
    set_status(
        &cluster.client,
        &cron,
        json!({"lastScheduleTime": "2025-01-01T00:00:00Z"}),
    );
    let owner = managed_by(&cron);
    let (over, later) = (format!("report-{TICK}"), "report-29453761");
    finished(&cluster.client, &over, &[&owner], 60);
    finished(&cluster.client, later, &[&owner], i32::MAX.into());
    let assumed = "  Assumed: cronjob-controller/batch runs in the same process.\n";
    let stays = format!(
        "its TTL has expired, but it stays until the status of CronJob report records its slot {ENDED}"
    );
    let text = cluster.ok(&format!("explain job/{over}"));
    let expected = format!(
        "\
ttl-after-finished-controller: {stays}.
  Next: nothing.
  Note: {stays} (TickUnrecorded)
{assumed}"
    );
    assert!(text.contains(&expected), "{text}");
    let text = cluster.ok(&format!("explain job/{later}"));
    let expected = format!(
        "first), if the status of CronJob report has the schedule time 2026-01-01T00:01:00Z by then.\n{assumed}"
    );
    assert!(text.contains(&expected), "{text}");
    // A manual Job does not wait, and neither does a Job whose schedule time is in the status.
    finished(&cluster.client, "report-mabc", &[&owner], 60);
    set_status(&cluster.client, &cron, json!({"lastScheduleTime": ENDED}));
    for name in ["report-mabc", &over] {
        let text = cluster.ok(&format!("explain job/{name}"));
        assert!(text.contains("  Next: would delete it now (fore"), "{text}");
        assert!(!text.contains("Assumed"), "{text}");
    }
}

#[test]
fn explain_shows_what_history_limits_and_replace_do_to_a_job() {
    let cluster = TestCluster::with("none");
    let client = &cluster.client;
    let spec =
        json!({"timeZone": "UTC", "concurrencyPolicy": "Replace", "successfulJobsHistoryLimit": 1});
    let cron = cron_job(client, "report", &spec);
    let owner = managed_by(&cron);
    let slot = format!("report-{TICK}");
    let running = job(client, &slot, &[&owner], &json!({}));
    job(client, "report-mabc", &[&owner], &json!({}));
    for name in ["report-m1", "report-m2"] {
        finished(client, name, &[&owner], i32::MAX.into());
    }
    let year: i32 = running["metadata"]["creationTimestamp"].as_str().unwrap()[..4]
        .parse()
        .unwrap();
    let deleted = "(background: its dependents are deleted afterwards)";
    for (name, because, next) in [
        (
            slot.as_str(),
            "it still runs, and the concurrency policy of its CronJob report is Replace",
            format!("would delete it at {}-01-01T00:00:00Z {deleted}", year + 1),
        ),
        (
            "report-mabc",
            "a user started it, so its CronJob report neither replaces it nor waits for it",
            "nothing".to_owned(),
        ),
        (
            "report-m1",
            "its CronJob report keeps only 1 successful Jobs, and 1 are younger than it",
            format!("would delete it now {deleted}"),
        ),
        (
            "report-m2",
            "its CronJob report keeps 1 successful Jobs, and 0 are younger than it",
            "nothing".to_owned(),
        ),
    ] {
        let text = cluster.ok(&format!("explain job/{name}"));
        let expected = format!("\ncronjob-controller/batch: {because}.\n  Next: {next}.\n");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn explain_uses_and_shows_ttl_after_aborted() {
    let cluster = TestCluster::with("gc-controller");
    let jobs = format!("{VOLCANO}/jobs");
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"minAvailable": 1}});
    let mut job = cluster.client.create(&jobs, &job);
    job["status"] = json!({"state": {"phase": "Aborted", "lastTransitionTime": ENDED}});
    cluster.client.put(&format!("{jobs}/gang/status"), &job);
    let text = cluster.ok("explain vcjob/gang");
    let expected = "\
gc-controller: it has not finished.
  Next: nothing.
  Assumed: no --ttl-after-aborted.
";
    assert!(text.contains(expected), "{text}");
    let text = cluster.ok("explain vcjob/gang --ttl-after-aborted=24h");
    for expected in [
        "gc-controller: it was aborted at 2026-01-01T00:00:00Z, and its TTL of 86400 s expired at",
        "\n  Next: would delete it now (foreground: its dependents are deleted first).\n",
        "\n  Assumed: --ttl-after-aborted=86400s.\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn explain_uses_and_shows_the_pod_thresholds() {
    let cluster = TestCluster::with("none");
    let pods = "/api/v1/namespaces/default/pods";
    let spec = &template()["spec"];
    for (name, phase) in [
        ("one", "Succeeded"),
        ("two", "Failed"),
        ("three", "Running"),
    ] {
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let mut pod = cluster.client.create(pods, &pod);
        pod["status"] = json!({ "phase": phase });
        cluster.client.put(&format!("{pods}/{name}/status"), &pod);
    }
    let text = cluster.ok("explain pod/one");
    let expected = "\
pod-garbage-collector-controller: Pod GC has no reason to remove it.
  Next: nothing.
  Assumed: --terminated-pod-gc-threshold=12500, --terminated-pod-gc-threshold-per-namespace=0.
";
    assert!(text.contains(expected), "{text}");
    let text = cluster.ok("explain pod/three");
    assert!(!text.contains("Assumed"), "{text}");
    for flag in [
        "--terminated-pod-gc-threshold",
        "--terminated-pod-gc-threshold-per-namespace",
    ] {
        // One of the two is over the threshold: the older one, or the first by name.
        let output = ["one", "two"].map(|name| {
            let text = cluster.ok(&format!("explain pod/{name} {flag}=1 -o json"));
            let output: Value = serde_json::from_str(&text).unwrap();
            let verdict = &output["controllers"][0];
            let assumed = verdict["assumed"].as_array().unwrap();
            assert!(assumed.contains(&json!(format!("{flag}=1"))), "{text}");
            verdict["verdict"]["rule"].clone()
        });
        let unwanted = output.iter().filter(|rule| **rule == "Unwanted");
        assert_eq!(unwanted.count(), 1, "{flag}: {output:?}");
    }
}

/// The verdict of the CronJob controller.
fn of_cron_job(cluster: &TestCluster, name: &str, flags: &str) -> Value {
    let text = cluster.ok(&format!("explain cronjob/{name} {flags} -o json"));
    let output: Value = serde_json::from_str(&text).unwrap();
    let verdict = output["controllers"][0].clone();
    assert_eq!(verdict["controller"], "cronjob-controller/batch", "{text}");
    verdict
}

#[test]
fn explain_shows_the_next_time_of_a_cron_job_and_its_zone() {
    let cluster = TestCluster::with("none");
    cron_job(&cluster.client, "plain", &json!({}));
    cron_job(&cluster.client, "zoned", &json!({"timeZone": "Asia/Tokyo"}));
    cron_job(&cluster.client, "off", &json!({"suspend": true}));
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
        let verdict = of_cron_job(&cluster, name, flags);
        assert_eq!(verdict["verdict"]["rule"], "WaitsForSlot", "{verdict}");
        let message = verdict["verdict"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("its next slot is 20") && message.ends_with(time),
            "{message}"
        );
        assert_eq!(
            (&verdict["next"]["action"], &verdict["assumed"]),
            (&json!("wait"), &assumed)
        );
    }
    let verdict = of_cron_job(&cluster, "off", "");
    assert_eq!(verdict["verdict"]["rule"], "Suspended");
    assert_eq!(verdict["assumed"], json!([]));
    // Without the flag, both commands use the local zone, as the controllers do.
    let zone = Some("Asia/Kathmandu");
    let output = cluster.run_in(zone, "explain cronjob/plain").stdout;
    let expected = "\n  Assumed: --default-time-zone=Asia/Kathmandu.\n";
    assert!(output.contains(expected), "{output}");
    let rows = cluster.run_in(zone, "schedule list -o json").stdout;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[1]["name"], "plain");
    assert_eq!(rows[1]["timeZone"], "Asia/Kathmandu");
}

#[test]
fn explain_shows_why_the_last_time_has_no_job() {
    let cluster = TestCluster::with("none");
    let client = &cluster.client;
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
    // The first minute of this year by the server's clock.
    let year = &free["metadata"]["creationTimestamp"].as_str().unwrap()[..4];
    let slot = format!("{year}-01-01T00:00:00Z");
    let tick = slot.parse::<Timestamp>().unwrap().as_second() / 60;
    make("late", json!({"startingDeadlineSeconds": 60}));
    make("lost", json!({}));
    job(client, &format!("lost-{tick}"), &[], &json!({}));
    // The Job may be deleted soon, so the CronJob is read first.
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
    let foreign = "was skipped, because a Job of its name belongs to another owner";
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
        let verdict = of_cron_job(&cluster, name, "");
        assert_eq!(verdict["verdict"]["rule"], "WaitsForSlot", "{verdict}");
        let message = verdict["verdict"]["message"].as_str().unwrap();
        assert!(
            message.ends_with(&format!("; the slot {slot} {why}")),
            "{message}"
        );
    }
    let verdict = of_cron_job(&cluster, "free", "");
    assert_eq!(verdict["first"], json!([]));
    assert_eq!(verdict["verdict"]["rule"], "SlotCame");
    assert_eq!(verdict["next"]["action"], "create");
}

#[test]
fn writes_before_the_schedule_do_not_hide_it() {
    let cluster = TestCluster::with("none");
    let client = &cluster.client;
    let spec = json!({"concurrencyPolicy": "Forbid", "timeZone": "UTC"});
    let busy = cron_job(client, "busy", &spec);
    // The last time is a year ago, and the status does not list its Job.
    set_status(
        client,
        &busy,
        json!({"lastScheduleTime": "2025-01-01T00:00:00Z"}),
    );
    let owner = managed_by(&busy);
    job(client, "busy-28928160", &[&owner], &json!({}));
    for name in ["busy-m2", "busy-m3", "busy-m4", "busy-m5"] {
        finished(client, name, &[&owner], i32::MAX.into());
    }
    let text = cluster.ok("explain cronjob/busy");
    let expected = "before the next slot comes, it starts.
  First: would delete Jobs over its history limits.
  First: would update its status.
  Next: nothing before ";
    assert!(text.contains(expected), "{text}");
}
