//! The output of `caretaker schedule next` at a fixed time.

use caretaker_machinery::cron::zone;
use serde_json::Value;

use super::*;

fn mk_args(expression: &str, time_zone: Option<&str>, after: &str) -> ScheduleNext {
    ScheduleNext {
        expression: expression.to_owned(),
        time_zone: time_zone.map(|name| zone::find(name).unwrap()),
        after: Some(after.parse().unwrap()),
        count: 3,
        output: ListFormat::Table,
    }
}

fn answer(args: &ScheduleNext) -> NextOutput {
    next(args, "2026-10-24T00:00:00Z".parse().unwrap()).unwrap()
}

#[test]
fn the_table_notes_clock_changes() {
    let args = mk_args("30 2 * * *", Some("Europe/Berlin"), "2026-10-24T12:00:00Z");
    let expected = "\
At 02:30 every day (Europe/Berlin)

SLOT                 DAY  OFFSET  FROM NOW  NOTE
2026-10-25 02:30:00  Sun  +02:00  in 1d 0h
2026-10-25 02:30:00  Sun  +01:00  in 1d 1h  the same time again, clocks went back 1h
2026-10-26 02:30:00  Mon  +01:00  in 2d 1h

On 2026-10-25 the clocks go back from 03:00 to 02:00: 02:30 comes twice.
On 2027-03-28 the clocks go forward from 02:00 to 03:00: 02:30 does not exist that day.
";
    assert_eq!(answer(&args).text, expected);
}

#[test]
fn a_schedule_that_is_never_due_is_no_error() {
    let args = mk_args("0 0 31 4 *", None, "2026-10-24T12:00:00Z");
    let expected = "Never: there is no such time (UTC)\n\nNo time within five years.\n";
    assert_eq!(answer(&args).text, expected);
}

#[test]
fn json_has_a_fixed_order_and_up_to_count_times() {
    let cases = [
        (
            "0 0 29 2 *",
            None,
            r#"{"schedule":"0 0 29 2 *","timeZone":"UTC","next":["2092-02-29T00:00:00Z","2096-02-29T00:00:00Z"]}"#,
        ),
        (
            "@yearly",
            Some("Europe/London"),
            r#"{"schedule":"@yearly","timeZone":"Europe/London","next":["2091-01-01T00:00:00Z","2092-01-01T00:00:00Z","2093-01-01T00:00:00Z"]}"#,
        ),
        (
            "CRON_TZ=Asia/Kathmandu 0 0 1 4 *",
            None,
            r#"{"schedule":"CRON_TZ=Asia/Kathmandu 0 0 1 4 *","timeZone":"Asia/Kathmandu","next":["2090-04-01T00:00:00+05:45","2091-04-01T00:00:00+05:45","2092-04-01T00:00:00+05:45"]}"#,
        ),
    ];
    for (expression, zone, expected) in cases {
        let mut args = mk_args(expression, zone, "2090-01-01T00:00:00Z");
        args.output = ListFormat::Json;
        let text = answer(&args).text;
        assert_eq!(text, format!("{expected}\n"));
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}

#[test]
fn an_overridden_zone_gives_a_notice() {
    let after = "2026-10-24T12:00:00Z";
    let note = |zone| answer(&mk_args("TZ=Asia/Tokyo 0 9 * * *", zone, after)).note;
    assert_eq!(note(None), None);
    assert_eq!(note(Some("Asia/Tokyo")), None);
    let expected = "the schedule names time zone Asia/Tokyo, which overrides --time-zone UTC";
    assert_eq!(note(Some("UTC")).as_deref(), Some(expected));
}

#[test]
fn parse_errors_have_a_caret_line() {
    let point = |text: &str| pointed(text, &CronSchedule::parse(text).unwrap_err());
    let lines = |text: &str| -> Vec<String> {
        let message = point(text);
        message.lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(lines("0 25 * * *"), ["  0 25 * * *", "    ^^"]);
    assert_eq!(lines("0 0 * * mon-"), ["  0 0 * * mon-", "              ^"]);
    assert_eq!(
        lines("0 0 * * \u{663}"),
        ["  0 0 * * \u{663}", "          ^"]
    );
    assert_eq!(lines(""), ["  ", "  ^"]);
    // Control characters have no caret line.
    assert_eq!(lines("0 0\u{1b}[2J * * *").len(), 0);
    assert_eq!(lines(&"9".repeat(101)).len(), 0);
}

#[test]
fn the_time_from_now_has_two_units() {
    for (secs, expected) in [
        (0, "in 0s"),
        (59, "in 59s"),
        (61, "in 1m 1s"),
        (3_600, "in 1h 0m"),
        (90_000, "in 1d 1h"),
        (-90, "1m 30s ago"),
    ] {
        assert_eq!(from_now(SignedDuration::from_secs(secs)), expected);
    }
}
