//! Rows of CronJobs at a fixed time.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-10-24T12:00:30Z".parse().unwrap()
}

fn mk_cron_job(name: &str, spec: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-10-24T11:00:10Z"},
        "spec": spec, "status": status})
}

fn read(spec: &Value, status: &Value) -> CronRow {
    row(
        &KINDS[0],
        &mk_cron_job("a", spec, status),
        &TimeZone::UTC,
        now(),
    )
}

#[test]
fn the_next_time_follows_the_last_time_or_the_creation() {
    let last = json!({"lastScheduleTime": "2026-10-24T11:57:00Z"});
    let cases = [
        (
            json!({"schedule": "*/5 * * * *"}),
            json!({}),
            "2026-10-24T12:05:00Z",
            270,
        ),
        (
            json!({"schedule": "*/5 * * * *"}),
            last.clone(),
            "2026-10-24T12:05:00Z",
            270,
        ),
        (
            json!({"schedule": "@every 7m"}),
            json!({}),
            "2026-10-24T12:03:10Z",
            160,
        ),
        (
            json!({"schedule": "@every 7m"}),
            last.clone(),
            "2026-10-24T12:04:00Z",
            210,
        ),
        // The clocks go back that night, and 02:30 comes twice.
        (
            json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}),
            json!({}),
            "2026-10-25T02:30:00+02:00",
            44_970,
        ),
        (
            json!({"schedule": "TZ=Asia/Tokyo 0 0 * * *", "timeZone": "UTC"}),
            json!({}),
            "2026-10-25T00:00:00+09:00",
            10_770,
        ),
    ];
    for (spec, status, next, left) in cases {
        let row = read(&spec, &status);
        assert_eq!(row.next.as_deref(), Some(next), "{spec}");
        assert_eq!((row.seconds_left, row.note), (Some(left), None), "{spec}");
    }
}

#[test]
fn a_cron_job_without_a_next_time_has_a_note() {
    let cases = [
        (json!({"schedule": "@daily", "suspend": true}), None),
        (
            json!({"schedule": "0 0 31 2 *"}),
            Some("never due within five years"),
        ),
        (
            json!({"schedule": "x"}),
            Some(
                "the schedule has 1 field; five are needed: minute, hour, day of month, month, day of week",
            ),
        ),
        (
            json!({"schedule": "@daily", "timeZone": "Atlantis"}),
            Some(
                "unknown time zone \"Atlantis\"; a name of the IANA database is needed, capitals as there, like Europe/Berlin",
            ),
        ),
        (
            json!({}),
            Some(
                "the schedule has no fields; five are needed: minute, hour, day of month, month, day of week",
            ),
        ),
    ];
    for (spec, note) in cases {
        let row = read(&spec, &json!({}));
        assert_eq!((row.next, row.note.as_deref()), (None, note), "{spec}");
    }
    let mut object = mk_cron_job("a", &json!({"schedule": "@daily"}), &json!({}));
    object["metadata"]["deletionTimestamp"] = "2026-10-24T12:00:00Z".into();
    let row = row(&KINDS[0], &object, &TimeZone::UTC, now());
    assert_eq!(
        (row.next, row.note.as_deref()),
        (None, Some("is being deleted"))
    );
}

#[test]
fn the_table_shows_both_kinds_and_a_column_of_notes() {
    let zone = zone::find("Europe/Berlin").unwrap();
    let status = json!({"active": [{}, {}], "lastScheduleTime": "2026-10-24T11:55:00Z",
        "lastSuccessfulTime": "2026-10-23T11:55:00Z"});
    let report = mk_cron_job("report", &json!({"schedule": "*/5 * * * *"}), &status);
    let train = mk_cron_job(
        "train",
        &json!({"schedule": "@daily", "suspend": true}),
        &json!({}),
    );
    let mut rows = vec![
        row(&KINDS[0], &report, &zone, now()),
        row(&KINDS[1], &train, &zone, now()),
    ];
    let expected = "\
CRONJOB          SCHEDULE     ZONE           NEXT RUN             LEFT       LAST RUN    LAST SUCCESS  ACTIVE  SUSPENDED
cronjob/report   */5 * * * *  Europe/Berlin  2026-10-24 14:05:00  in 4m 30s  5m 30s ago  1d 0h ago     2       no
cronvcjob/train  @daily       Europe/Berlin  -                    -          never       never         0       yes
";
    assert_eq!(table(&rows, false, now()), expected);
    let odd = mk_cron_job("odd", &json!({"schedule": "a\nb"}), &json!({}));
    rows.push(row(&KINDS[0], &odd, &zone, now()));
    let all = table(&rows, true, now());
    assert!(all.starts_with("NAMESPACE  CRONJOB "), "{all}");
    assert_eq!(all.lines().count(), 4, "{all}");
    assert!(all.lines().nth(3).unwrap().contains("a\u{fffd}b"), "{all}");
    assert!(
        all.contains("the schedule has 2 fields; five are needed"),
        "{all}"
    );
}

#[test]
fn long_cells_are_cut() {
    assert_eq!(cell("abc"), "abc");
    assert_eq!(cell(&"x".repeat(60)).chars().count(), 60);
    assert_eq!(cell(&"x".repeat(61)).chars().count(), 61);
    assert!(cell(&"x".repeat(1000)).ends_with('…'));
}

#[test]
fn missing_kinds_are_named() {
    let cases = [
        (
            CronRequestError::NotServed,
            "the server does not serve cronjobs.batch.volcano.sh",
        ),
        (
            CronRequestError::Forbidden,
            "missing in this output: cronjobs.batch.volcano.sh (forbidden to list)",
        ),
        (
            CronRequestError::Other("it burns".to_owned()),
            "missing in this output: cronjobs.batch.volcano.sh (it burns)",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(gap(&KINDS[1], &error), expected);
    }
}

#[test]
fn ten_thousand_rows_with_a_million_missed_times_are_fast() {
    let mut object = mk_cron_job("a", &json!({"schedule": "* * * * *"}), &json!({}));
    object["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z".into();
    let rows: Vec<CronRow> = (0..10_000)
        .map(|_| row(&KINDS[0], &object, &TimeZone::UTC, now()))
        .collect();
    assert_eq!(table(&rows, true, now()).lines().count(), 10_001);
}
