//! The rows of `TestSyncCronJob`, in upstream's order and under upstream's names (typos included).

use super::{CASE, IDLE, JobBefore, STARTED, SyncCase, SyncOutcome};

pub(super) const CASES: [SyncCase; 65] = [
    SyncCase {
        name: "Abnormal situation, error schedule",
        deviation: "cron-permanent-errors",
        now: 3,
        spec: r#"{"schedule": "wrong shcedlue"}"#,
        then: SyncOutcome { events: 1, ..IDLE },
        ..CASE
    },
    SyncCase {
        name: "Abnormal situation, error TimeZone",
        deviation: "cron-permanent-errors",
        now: 3,
        spec: r#"{"timeZone": "error TZ"}"#,
        then: SyncOutcome { events: 1, ..IDLE },
        ..CASE
    },
    SyncCase {
        name: "Abnormal situation, suspend",
        now: 3,
        spec: r#"{"suspend": true}"#,
        then: IDLE,
        ..CASE
    },
    SyncCase {
        name: "First run, is not time, Allow",
        now: 3,
        policy: "Allow",
        then: SyncOutcome {
            requeue: Some(2),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is not time, Forbid",
        now: 3,
        policy: "Forbid",
        then: SyncOutcome {
            requeue: Some(2),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is not time, Replace",
        now: 3,
        policy: "Replace",
        then: SyncOutcome {
            requeue: Some(2),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is not time in TZ",
        now: 0,
        policy: "Allow",
        spec: r#"{"schedule": "0 10 * * *", "timeZone": "Pacific/Honolulu"}"#,
        then: SyncOutcome {
            requeue: Some(600),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, Allow",
        now: 5,
        policy: "Allow",
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, Forbid",
        now: 5,
        policy: "Forbid",
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, Replace",
        now: 5,
        policy: "Forbid",
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, has startingDeadlineSeconds, Allow",
        now: 5,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 60}"#,
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time in TZ, Allow",
        now: 600,
        policy: "Allow",
        spec: r#"{"schedule": "0 10 * * *", "timeZone": "Pacific/Honolulu"}"#,
        then: SyncOutcome {
            requeue: Some(1440),
            last_schedule: Some(600),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, uses schedule's TZ despite conflict with TimeZone setting",
        now: 600,
        spec: r#"{"schedule": "TZ=UTC 0 20 * * *", "timeZone": "Pacific/Honolulu"}"#,
        then: SyncOutcome {
            requeue: Some(1440),
            last_schedule: Some(600),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, miss Time, no startingDeadlineSeconds, Allow",
        now: 7,
        policy: "Allow",
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, miss Time, no miss deadline, Allow",
        now: 7,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 180}"#,
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, miss deadline, Allow",
        now: 7,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 60}"#,
        then: SyncOutcome {
            requeue: Some(3),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, manymiss, no startingDeadlineSeconds, Allow",
        now: 600,
        policy: "Allow",
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(600),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, manymiss, has startingDeadlineSeconds, Allow",
        now: 1440,
        policy: "Allow",
        spec: r#"{"schedule": "* * * * *", "startingDeadlineSeconds": 60060}"#,
        then: SyncOutcome {
            requeue: Some(1),
            last_schedule: Some(1440),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, job exist and done, Allow",
        deviation: "cron-derived-active",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::unwatched("Completed", 5)],
        then: SyncOutcome {
            requeue: Some(5),
            is_written: true,
            last_schedule: Some(5),
            last_successful: Some(6),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, job exist but not owned by this CronJob, Allow",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::unwatched("Running", 5).unowned()],
        then: SyncOutcome {
            requeue: Some(5),
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, job in active but not in lister, Allow",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::deleted("Completed", 5).active()],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, is time, nameSpace is terminating",
        now: 5,
        policy: "Allow",
        namespace_terminates: true,
        then: SyncOutcome {
            has_failed: true,
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, @every schedule, not time, Allow",
        now: 5,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h"}"#,
        then: SyncOutcome {
            requeue: Some(55),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, @every schedule, is time, Allow",
        now: 60,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h"}"#,
        then: SyncOutcome {
            requeue: Some(60),
            last_schedule: Some(60),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "First run, @every schedule, is time, miss deadline, Allow",
        now: 90,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60}"#,
        then: SyncOutcome {
            requeue: Some(30),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "First run, @every schedule, is time, no miss deadline, Allow",
        now: 90,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#,
        then: SyncOutcome {
            requeue: Some(30),
            last_schedule: Some(60),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, @every schedule, pre all done, is not time, Allow",
        deviation: "cron-derived-active",
        now: 30,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(30),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, @every schedule, pre all done, is time, Allow",
        now: 60,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(60),
            last_schedule: Some(60),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, @every schedule, pre active, is not time, Allow",
        deviation: "cron-derived-active",
        now: 30,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Running", 0).active()],
        then: SyncOutcome {
            requeue: Some(30),
            is_written: true,
            last_schedule: Some(0),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, @every schedule, pre activee all done, is time, Allow",
        now: 60,
        policy: "Allow",
        spec: r#"{"schedule": "@every 1h", "startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Running", 0).active()],
        then: SyncOutcome {
            requeue: Some(60),
            last_schedule: Some(60),
            active: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "noy first run, successfulJobHistoryLimit is 0",
        now: 7,
        policy: "Allow",
        spec: r#"{"successfulJobsHistoryLimit": 0}"#,
        jobs: &[JobBefore::watched("Completed", 5)],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            is_written: true,
            last_schedule: Some(5),
            last_successful: Some(6),
            events: 1,
            deleted: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "noy first run, successfulJobHistoryLimit is 5",
        now: 22,
        policy: "Allow",
        spec: r#"{"successfulJobsHistoryLimit": 5}"#,
        jobs: &[
            JobBefore::watched("Completed", 5),
            JobBefore::watched("Completed", 10),
            JobBefore::watched("Completed", 15),
            JobBefore::watched("Completed", 20),
        ],
        last_schedule: Some(20),
        then: SyncOutcome {
            requeue: Some(3),
            is_written: true,
            last_schedule: Some(20),
            last_successful: Some(21),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is not time, Allow",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is not time, Forbid",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Forbid",
        spec: r#"{"startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is not time, Replace",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Replace",
        spec: r#"{"startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is not time, Replace",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Replace",
        spec: r#"{"startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Failed", 0)],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, one suc and one fail, is not time, Allow",
        now: 7,
        policy: "Allow",
        jobs: &[
            JobBefore::watched("Completed", 0),
            JobBefore::watched("Failed", 5),
        ],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            is_written: true,
            last_schedule: Some(5),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is not time, Allow",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Allow",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is not time, Forbid",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Forbid",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is not time, Replace",
        deviation: "cron-derived-active",
        now: 3,
        policy: "Replace",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(2),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is time, Allow",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is time, Forbid",
        now: 5,
        policy: "Forbid",
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is time, Replace",
        now: 5,
        policy: "Replace",
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, is time, suspend",
        deviation: "cron-derived-active",
        now: 5,
        policy: "Allow",
        spec: r#"{"suspend": true}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done fail, is time, Allow",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::watched("Failed", 0)],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, one suc and one fail, is time, Allow",
        now: 15,
        policy: "Allow",
        jobs: &[
            JobBefore::watched("Completed", 0),
            JobBefore::watched("Failed", 5),
        ],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(15),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is time, Allow",
        now: 5,
        policy: "Allow",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is time, Forbid",
        now: 5,
        policy: "Forbid",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done but in active, is time, Replace",
        now: 5,
        policy: "Replace",
        jobs: &[JobBefore::watched("Completed", 0).active()],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            last_successful: Some(1),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, job exist and in active, is time, Allow",
        deviation: "cron-derived-active",
        now: 5,
        policy: "Allow",
        jobs: &[
            JobBefore::watched("Running", 5).active(),
            JobBefore::watched("Completed", 0),
        ],
        then: SyncOutcome {
            requeue: Some(5),
            is_written: true,
            last_schedule: Some(5),
            last_successful: Some(1),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, miss deadline, Allow",
        deviation: "cron-derived-active",
        now: 7,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 60}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(3),
            is_written: true,
            last_schedule: Some(0),
            last_successful: Some(1),
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, no miss deadline, Allow",
        now: 7,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 180}"#,
        jobs: &[JobBefore::watched("Completed", 0)],
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            last_successful: Some(1),
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, not time, Allow",
        now: 7,
        policy: "Allow",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, not time, Forbid",
        now: 7,
        policy: "Forbid",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, not time, Replace",
        now: 7,
        policy: "Replace",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, not time, suspend",
        now: 7,
        policy: "Allow",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, Allow",
        now: 10,
        policy: "Allow",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(10),
            active: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, Forbid",
        now: 10,
        policy: "Forbid",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(5),
            active: 1,
            events: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, Replace",
        now: 10,
        policy: "Replace",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(10),
            events: 3,
            deleted: 1,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, suspend",
        now: 10,
        policy: "Allow",
        spec: r#"{"suspend": true}"#,
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, Replace, get job failed",
        deviation: "cron-preconditions",
        now: 10,
        policy: "Replace",
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(10),
            events: 3,
            deleted: 1,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, miss deadline",
        now: 12,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 60}"#,
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(5),
            active: 1,
            ..IDLE
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre active, is time, no miss deadline",
        now: 12,
        policy: "Allow",
        spec: r#"{"startingDeadlineSeconds": 180}"#,
        jobs: &[JobBefore::watched("Running", 5).active()],
        last_schedule: Some(5),
        then: SyncOutcome {
            requeue: Some(3),
            last_schedule: Some(10),
            active: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, manymiss, Allow",
        now: 600,
        policy: "Allow",
        jobs: &[JobBefore::watched("Completed", 5)],
        then: SyncOutcome {
            requeue: Some(5),
            last_schedule: Some(600),
            last_successful: Some(6),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
    SyncCase {
        name: "not first run, pre all done, manymiss, has startingDeadlineSeconds, Allow",
        now: 1440,
        policy: "Allow",
        spec: r#"{"schedule": "* * * * *", "startingDeadlineSeconds": 60060}"#,
        jobs: &[JobBefore::watched("Completed", 5)],
        then: SyncOutcome {
            requeue: Some(1),
            last_schedule: Some(1440),
            last_successful: Some(6),
            events: 2,
            ..STARTED
        },
        ..CASE
    },
];
