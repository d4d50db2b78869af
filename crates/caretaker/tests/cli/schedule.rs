//! `caretaker schedule`: `next` without a cluster; `list` and `run` on a server without CronJob controllers.

use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::{ProcessExit, TestDirectories, UpProcess};

const BATCH: &str = "/apis/batch/v1/namespaces/default";
const VOLCANO: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default";

fn next(arguments: &[&str]) -> ProcessExit {
    let arguments = [&["schedule", "next"], arguments].concat();
    TestDirectories::new().caretaker(&arguments).end()
}

#[test]
fn next_prints_json() {
    let ended = next(&[
        "30 2 * * *",
        "--time-zone=America/New_York",
        "--after=2024-03-09T00:00:00Z",
        "--count=2",
        "-o=json",
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let read: Value = serde_json::from_str(&ended.stdout).unwrap();
    let slots = ["2024-03-09T02:30:00-05:00", "2024-03-11T02:30:00-04:00"];
    let expected = json!({"schedule": "30 2 * * *", "timeZone": "America/New_York", "next": slots});
    assert_eq!(read, expected);
}

#[test]
fn next_shows_five_times_in_utc_by_default() {
    let ended = next(&["*/5 * * * *"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "Every 5 minutes (UTC)");
    assert_eq!(lines.len(), 8, "{}", ended.stdout);
    assert!(lines[3].contains("  +00:00  in "), "{}", ended.stdout);
}

#[test]
fn the_zone_of_the_schedule_wins_with_a_notice() {
    let ended = next(&["TZ=UTC @daily", "--time-zone", "Asia/Tokyo", "-o", "json"]);
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.contains(r#""timeZone":"UTC""#));
    let expected =
        "caretaker: the schedule names time zone UTC, which overrides --time-zone Asia/Tokyo\n";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn an_invalid_schedule_fails_with_a_message() {
    let cases: &[(&[&str], &str)] = &[
        (&["0 25 * * *"], "hour \"25\": 25 is above 23"),
        (&["0 25 * * *"], "  0 25 * * *\n    ^^\n"),
        (&["0 0 * *"], "4 fields; five are needed"),
        (&["-5 * * * *"], "  -5 * * * *\n  ^"),
        (
            &["--count", "3", "-5 * * * *", "-o", "json"],
            "minute \"-5\"",
        ),
        (&["TZ=0"], "a blank and a schedule are needed"),
        (&["@reboot", "-o", "json"], "\"@reboot\" is not known"),
        (&["@daily", "--time-zone", "Local"], "is refused"),
        (&["@daily", "--time-zone", "utc"], "unknown time zone"),
        (&["@daily", "--after", "soon"], "expected a time"),
        (&["@daily", "--count", "0"], "--count"),
        (&[], "<EXPR>"),
    ];
    for (arguments, expected) in cases {
        let ended = next(arguments);
        let outcome = (ended.code, ended.stdout.as_str());
        assert_eq!(outcome, (1, ""), "{arguments:?}");
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

/// Creates a CronJob with these fields in its spec.
fn make(client: &HttpClient, path: &str, name: &str, spec: &Value) {
    let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let (api_version, job) = if path == BATCH {
        ("batch/v1", json!({"template": {"spec": pods}}))
    } else {
        let task = json!({"name": "t", "replicas": 1, "template": {"spec": pods}});
        ("batch.volcano.sh/v1alpha1", json!({"tasks": [task]}))
    };
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": job});
    let mut whole = json!({"schedule": "0 0 1 1 *", "jobTemplate": template});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let object = json!({"apiVersion": api_version, "kind": "CronJob", "metadata": {"name": name}, "spec": whole});
    client.create(&format!("{path}/cronjobs"), &object);
}

/// `caretaker schedule LINE` against a server.
fn ask(up: &UpProcess, line: &str) -> ProcessExit {
    let kubeconfig = up.kubeconfig();
    let place = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let words = ["schedule"].into_iter().chain(line.split_whitespace());
    let arguments: Vec<&str> = words.chain(place).collect();
    up.world.caretaker(&arguments).end()
}

/// Reads the Job that the output names.
fn made(client: &HttpClient, path: &str, prefix: &str, ended: &ProcessExit) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let name = ended.stdout.strip_prefix(prefix);
    let name = name.and_then(|rest| rest.strip_suffix(" created\n"));
    let (code, job) = client.get(&format!("{path}/jobs/{}", name.unwrap()));
    assert_eq!(code, 200, "{job}");
    job
}

#[test]
fn cron_jobs_of_both_kinds_are_listed() {
    let up = UpProcess::start(&["--controllers=gc-controller"]);
    let client = HttpClient::of(&up.kubeconfig());
    let ended = ask(&up, "list");
    let expected = "caretaker: no CronJobs found in namespace default\n";
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "", expected)
    );
    let ended = ask(&up, "list -n none");
    let expected = "caretaker: there is no namespace none\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (1, expected));
    make(&client, BATCH, "report", &json!({"timeZone": "Asia/Tokyo"}));
    make(&client, VOLCANO, "train", &json!({"suspend": true}));
    let ended = ask(&up, "list --default-time-zone=UTC");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ended.stdout);
    assert!(lines[0].starts_with("CRONJOB          SCHEDULE   ZONE        NEXT RUN"));
    assert!(
        lines[1].starts_with("cronjob/report   0 0 1 1 *  Asia/Tokyo  20"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].ends_with("never     never         0       yes"),
        "{}",
        lines[2]
    );
    let ended = ask(&up, "list -A -o json");
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap();
    let shown = |index: usize, field: &str| rows[index][field].clone();
    assert_eq!(shown(0, "type"), "cronjob");
    assert_eq!(shown(0, "timeZone"), "Asia/Tokyo");
    assert!(
        shown(0, "next")
            .as_str()
            .unwrap()
            .ends_with("-01-01T00:00:00+09:00")
    );
    assert!(shown(0, "secondsLeft").as_i64().unwrap() > 0);
    assert_eq!(shown(1, "apiVersion"), "batch.volcano.sh/v1alpha1");
    assert_eq!(
        (shown(1, "suspended"), shown(1, "next")),
        (json!(true), Value::Null)
    );
    assert_eq!(shown(1, "lastScheduleTime"), Value::Null);
}

#[test]
fn a_kind_that_is_not_served_hides_no_other() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    make(&client, BATCH, "report", &json!({}));
    let ended = ask(&up, "list");
    assert_eq!(ended.code, 0);
    assert!(
        ended.stdout.contains("\ncronjob/report "),
        "{}",
        ended.stdout
    );
    let expected = "caretaker: the server does not serve cronjobs.batch.volcano.sh\n";
    assert_eq!(ended.stderr, expected);
    made(&client, BATCH, "job.batch/", &ask(&up, "run report"));
}

#[test]
fn a_run_creates_one_job_of_the_cron_job() {
    let up = UpProcess::start(&["--controllers=gc-controller"]);
    let client = HttpClient::of(&up.kubeconfig());
    make(&client, BATCH, "report", &json!({"suspend": true}));
    make(&client, VOLCANO, "train", &json!({}));
    let cases = [
        (BATCH, "report", "run report", "job.batch/report-m"),
        (BATCH, "report", "run cronjob/report", "job.batch/report-m"),
        (
            VOLCANO,
            "train",
            "run train -n default",
            "job.batch.volcano.sh/train-m",
        ),
        (
            VOLCANO,
            "train",
            "run cronvcjob/train",
            "job.batch.volcano.sh/train-m",
        ),
    ];
    for (path, name, line, printed) in cases {
        let ended = ask(&up, line);
        assert!(ended.stdout.starts_with(printed), "{line}: {ended:?}");
        let kept = printed.strip_suffix(&format!("{name}-m")).unwrap();
        let job = made(&client, path, kept, &ended);
        let (_, owner) = client.get(&format!("{path}/cronjobs/{name}"));
        let meta = &job["metadata"];
        assert_eq!(meta["name"].as_str().unwrap().len(), name.len() + 9);
        assert_eq!(
            meta["annotations"]["cronjob.kubernetes.io/instantiate"],
            "manual"
        );
        assert_eq!(meta["labels"]["app"], name);
        let reference = &meta["ownerReferences"][0];
        assert_eq!(reference["uid"], owner["metadata"]["uid"]);
        assert_eq!(
            (&reference["kind"], &reference["controller"]),
            (&json!("CronJob"), &json!(true))
        );
    }
}

#[test]
fn a_run_honours_forbid_unless_it_is_forced() {
    let up = UpProcess::start(&["--controllers=gc-controller"]);
    let client = HttpClient::of(&up.kubeconfig());
    for (path, name) in [(BATCH, "report"), (VOLCANO, "train")] {
        make(&client, path, name, &json!({"concurrencyPolicy": "Forbid"}));
        assert_eq!(ask(&up, &format!("run {name}")).code, 0);
        let ended = ask(&up, &format!("run {name}"));
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        let expected = format!("{name} has concurrencyPolicy Forbid, and {name}-m");
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
        assert_eq!(ask(&up, &format!("run {name} --force")).code, 0);
        let (_, jobs) = client.get(&format!("{path}/jobs"));
        assert_eq!(jobs["items"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_run_of_a_missing_or_ambiguous_name_creates_nothing() {
    let up = UpProcess::start(&["--controllers=gc-controller"]);
    let client = HttpClient::of(&up.kubeconfig());
    for path in [BATCH, VOLCANO] {
        make(&client, path, "both", &json!({}));
    }
    for (line, expected) in [
        (
            "run both",
            "both is ambiguous: use cronjob/both or cronvcjob/both",
        ),
        (
            "run none",
            "cronjob \"none\" not found in namespace default",
        ),
        (
            "run cronvcjob/none",
            "cronvcjob \"none\" not found in namespace default",
        ),
        (
            "run both -n other",
            "cronjob \"both\" not found in namespace other",
        ),
        (
            "run job/both",
            "unknown kind of CronJob \"job\": use cronjob or cronvcjob",
        ),
    ] {
        let ended = ask(&up, line);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        assert_eq!(ended.stderr, format!("caretaker: {expected}\n"), "{line}");
    }
    for path in [BATCH, VOLCANO] {
        let (_, jobs) = client.get(&format!("{path}/jobs"));
        assert_eq!(jobs["items"], json!([]));
    }
}
