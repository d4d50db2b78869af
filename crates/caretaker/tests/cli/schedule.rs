//! `caretaker schedule next`: needs no cluster, answers on stdout, complains on stderr.

use serde_json::{Value, json};

use crate::process::{Ended, World};

fn next(arguments: &[&str]) -> Ended {
    let arguments = [&["schedule", "next"], arguments].concat();
    World::new().caretaker(&arguments).end()
}

#[test]
fn slots_are_printed_as_json() {
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
fn without_flags_the_next_five_slots_come_by_the_clocks_of_greenwich() {
    let ended = next(&["*/5 * * * *"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "Every 5 minutes (UTC)");
    assert_eq!(lines.len(), 8, "{}", ended.stdout);
    assert!(lines[3].contains("  +00:00  in "), "{}", ended.stdout);
}

#[test]
fn the_zone_of_the_schedule_wins_and_that_is_said() {
    let ended = next(&["TZ=UTC @daily", "--time-zone", "Asia/Tokyo", "-o", "json"]);
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.contains(r#""timeZone":"UTC""#));
    let expected =
        "caretaker: the schedule itself names UTC, so --time-zone Asia/Tokyo does not count\n";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn what_is_not_understood_ends_with_one_and_a_message() {
    let cases: &[(&[&str], &str)] = &[
        (&["0 25 * * *"], "hour \"25\": 25 is above 23"),
        (&["0 25 * * *"], "  0 25 * * *\n    ^^\n"),
        (&["0 0 * *"], "4 fields; five are needed"),
        (&["TZ=0"], "a blank and a schedule are needed"),
        (&["@reboot", "-o", "json"], "\"@reboot\" is not known"),
        (&["@daily", "--time-zone", "Local"], "is refused"),
        (&["@daily", "--time-zone", "utc"], "unknown time zone"),
        (&["@daily", "--after", "soon"], "a time is needed"),
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
