//! CronJobs of both kinds through kubectl: a Job every minute, on a clock that runs sixty times as fast.

use crate::process::TestProcess;
use crate::session::KubectlSession;

/// A kind of CronJob, with the names of its Jobs and Events.
struct CronTypeNames {
    /// Types of the CronJob and of its Jobs for kubectl.
    word: &'static str,
    jobs: &'static str,
    api_version: &'static str,
    /// The Job spec around a Pod template.
    job: &'static str,
    forbidden: &'static str,
    /// Columns of `kubectl get`.
    columns: &'static [&'static str],
}

const BATCH: CronTypeNames = CronTypeNames {
    word: "cronjob",
    jobs: "jobs.batch",
    api_version: "batch/v1",
    job: "{template: {}}",
    forbidden: "JobAlreadyActive",
    columns: &[],
};

const VOLCANO: CronTypeNames = CronTypeNames {
    word: "cronvcjob",
    jobs: "jobs.batch.volcano.sh",
    api_version: "batch.volcano.sh/v1alpha1",
    job: "{minAvailable: 1, tasks: [{name: t, replicas: 1, template: {}}]}",
    forbidden: "ForbidConcurrent",
    columns: &["SCHEDULE", "SUSPEND", "LAST SCHEDULE"],
};

/// The lines of a watch of Events.
struct EventWatch {
    watch: TestProcess,
    seen: Vec<String>,
}

// === impl CronTypeNames ===

impl CronTypeNames {
    /// A CronJob that runs every minute; its Pods run for this time.
    fn manifest(&self, name: &str, spec: &str, run_secs: &str) -> String {
        let pods = format!(
            "{{metadata: {{annotations: {{simulate.caretaker.dev/run-seconds: \"{run_secs}\"}}}}, \
             spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}"
        );
        let job = self.job.replace("{}", &pods);
        let api_version = self.api_version;
        format!(
            "apiVersion: {api_version}\nkind: CronJob\nmetadata: {{name: {name}}}\n\
             spec: {{schedule: \"* * * * *\", {spec}, jobTemplate: {{spec: {job}}}}}\n---\n"
        )
    }
}

// === impl EventWatch ===

impl EventWatch {
    fn of(session: &KubectlSession) -> Self {
        let columns = "custom-columns=:.involvedObject.name,:.reason,:.message";
        Self {
            watch: session.spawn("get events -w --no-headers -o", &[columns]),
            seen: Vec::new(),
        }
    }

    /// The message of the next Event about `who` with this reason, after the first `skipped`.
    fn about(&mut self, who: &str, reason: &str, skipped: usize) -> String {
        loop {
            let mut text = self.seen.iter().filter(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(who) && words.next() == Some(reason)
            });
            if let Some(line) = text.nth(skipped) {
                return line.clone();
            }
            let line = self.watch.line();
            self.seen.push(line);
        }
    }

    /// The position of an Event among all lines.
    fn place(&self, line: &str) -> usize {
        self.seen.iter().position(|seen| seen == line).unwrap()
    }
}

fn session() -> Option<KubectlSession> {
    KubectlSession::start_with(&["--simulate-workloads", "--clock-speed=60"])
}

/// The names of the Jobs of a CronJob.
fn jobs(session: &KubectlSession, kind: &CronTypeNames, cron_job: &str) -> Vec<String> {
    let all = session.ok(&format!(
        "get {} --no-headers -o custom-columns=:.metadata.name",
        kind.jobs
    ));
    let prefix = format!("{cron_job}-");
    all.lines()
        .map(|line| line.trim().to_owned())
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

/// Runs four CronJobs for minutes: Allow, Forbid, Replace and suspended.
fn minutes_pass(session: &KubectlSession, kind: &CronTypeNames) {
    let mut events = EventWatch::of(session);
    let manifests = [
        kind.manifest("tick", "successfulJobsHistoryLimit: 1", "5"),
        kind.manifest("hold", "concurrencyPolicy: Forbid", "forever"),
        kind.manifest("swap", "concurrencyPolicy: Replace", "forever"),
        kind.manifest("still", "suspend: true", "5"),
    ];
    session.with_file("apply", &manifests.concat());

    // Jobs are created and finish; the history limit keeps the last successful one.
    let created = events.about("tick", "SuccessfulCreate", 0);
    let ended = events.about("tick", "SawCompletedJob", 0);
    let pruned = events.about("tick", "SuccessfulDelete", 0);
    assert!(
        events.place(&created) < events.place(&ended),
        "{:?}",
        events.seen
    );
    assert!(
        events.place(&ended) < events.place(&pruned),
        "{:?}",
        events.seen
    );
    events.about("tick", "SuccessfulCreate", 1);

    // Forbid: no Job is created while one runs.
    events.about("hold", kind.forbidden, 0);

    // Replace: the running Job is deleted for the next one.
    let replaced = events.about("swap", "SuccessfulDelete", 0);
    let next = events.about("swap", "SuccessfulCreate", 1);
    assert!(
        events.place(&replaced) < events.place(&next),
        "{:?}",
        events.seen
    );

    // The suspended CronJob created no Job, until it is resumed.
    assert_eq!(jobs(session, kind, "still"), Vec::<String>::new());
    let word = kind.word;
    session.ok_with(
        &format!("patch {word} still --type merge -p"),
        &[r#"{"spec":{"suspend":false}}"#],
    );
    events.about("still", "SuccessfulCreate", 0);
}

/// Checks the columns and the description of a CronJob that has run.
fn shows(session: &KubectlSession, kind: &CronTypeNames) {
    let word = kind.word;
    let table = session.ok(&format!("get {word}"));
    let heads = table.lines().next().unwrap();
    for expected in [&["NAME", "AGE"], kind.columns].concat() {
        assert!(heads.contains(expected), "{table}");
    }
    let row = table
        .lines()
        .find(|line| line.starts_with("tick "))
        .unwrap();
    let is_shown = kind.columns.contains(&"SCHEDULE");
    assert!(!is_shown || row.contains("* * * * *"), "{table}");

    let described = session.ok(&format!("describe {word} tick"));
    for expected in [
        "* * * * *",
        "SuccessfulCreate",
        "Created job tick-",
        "SawCompletedJob",
    ] {
        assert!(described.contains(expected), "{expected}: {described}");
    }
    assert!(!described.contains("swap"), "{described}");

    let columns = "custom-columns=:.involvedObject.kind,:.involvedObject.name,:.reason";
    let text = session.ok(&format!(
        "get events --field-selector involvedObject.name=tick --no-headers -o {columns}"
    ));
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        rows.iter().all(|row| row[..2] == ["CronJob", "tick"]),
        "{text}"
    );
    for expected in ["SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"] {
        assert!(rows.iter().any(|row| row[2] == expected), "{text}");
    }
}

#[test]
fn cron_jobs_of_kubernetes_create_prune_forbid_replace_and_rest() {
    let Some(session) = session() else {
        return;
    };
    minutes_pass(&session, &BATCH);
    assert_eq!(jobs(&session, &BATCH, "hold").len(), 1);
    shows(&session, &BATCH);
}

#[test]
fn cron_jobs_of_volcano_create_prune_forbid_replace_and_rest() {
    let Some(session) = session() else {
        return;
    };
    minutes_pass(&session, &VOLCANO);
    assert_eq!(jobs(&session, &VOLCANO, "hold").len(), 1);
    shows(&session, &VOLCANO);
}
