//! Descriptions of schedules, and effects of offset changes.

use super::*;

#[test]
fn describes_fields() {
    for (expression, words) in [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        (
            "*/7 * * * *",
            "every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56",
        ),
        ("@hourly", "every hour at minute 0"),
        ("5,10 * * * *", "every hour at minutes 5 and 10"),
        ("30 2 * * *", "at 02:30 every day"),
        (
            "0,30 9,17 * * 1-5",
            "at 09:00, 09:30, 17:00 and 17:30 on Monday to Friday",
        ),
        ("0 */2 * * *", "every 2 hours from 0 on at minute 0"),
        (
            "*/15 */6 * * *",
            "every 15 minutes of every 6th hour from 0 on",
        ),
        ("*/20 9-17 * * *", "every 20 minutes of the hours 9 to 17"),
        ("* 3 * * *", "every minute of hour 3"),
        (
            "1-5 8,9,10,12 * * *",
            "at minutes 1 to 5 of the hours 8 to 10 and 12 every day",
        ),
        (
            "0 0 1,2,3,22 * *",
            "at 00:00 on the 1st to 3rd and 22nd of the month",
        ),
        (
            "0 0 13 * 5",
            "at 00:00 on the 13th of the month and also on every Friday",
        ),
        ("0 0 13 * 0-6", "at 00:00 every day"),
        ("0 0 , * 6,0", "at 00:00 on Sunday and Saturday"),
        (
            "0 12 * 3-5,12 *",
            "at 12:00 every day in March to May and December",
        ),
        (
            "0 0 29 2 *",
            "at 00:00 on the 29th of the month in February, in leap years only",
        ),
        ("0 0 31 4 *", "never: there is no such time"),
        (", * * * *", "never: there is no such time"),
        ("@every 90m", "every 1h 30m, counted from the time before"),
        ("TZ=Asia/Tokyo @daily", "at 00:00 every day (Asia/Tokyo)"),
    ] {
        assert_eq!(mk_schedule(expression).description(), words, "{expression}");
    }
}

#[test]
fn reports_effects_of_clock_changes() {
    let berlin = "on 2027-03-28 the clocks go forward from 02:00 to 03:00";
    let back = "on 2027-10-31 the clocks go back from 03:00 to 02:00";
    let cases: &[(&str, &str, &[String])] = &[
        ("Europe/Berlin", "30 2 * * *", &[
            format!("{berlin}: 02:30 does not exist that day"),
            format!("{back}: 02:30 comes twice"),
        ]),
        ("Europe/Berlin", "*/10 2 * * 0", &[
            format!("{berlin}: 02:00, 02:10, 02:20 and 3 more do not exist that day"),
            format!("{back}: 02:00, 02:10, 02:20 and 3 more come twice"),
        ]),
        ("Europe/Berlin", "30 2 * * 1", &[]),
        ("Europe/Berlin", "30 3 * * *", &[]),
        ("Europe/Berlin", "*/5 * * * *", &[]),
        ("Europe/Berlin", "@every 1h", &[]),
        ("UTC", "30 2 * * *", &[]),
        ("America/Havana", "0 12 * * 6", &[
            "on 2027-03-14 the clocks go forward from 00:00 to 01:00: 2027-03-14 12:00 is a slot as well".to_owned(),
        ]),
        ("Africa/Cairo", "0 12 * * 5", &[
            "on 2027-04-30 the clocks go forward from 00:00 to 01:00: 2027-04-30 12:00 is left out".to_owned(),
        ]),
    ];
    for (zone, expression, expected) in cases {
        let schedule = mk_schedule(expression);
        let found = schedule.clock_change_effects(at("2026-12-01T00:00:00Z"), &mk_zone(zone));
        let texts: Vec<String> = found.into_iter().map(|effect| effect.text).collect();
        assert_eq!(texts, *expected, "{zone} {expression}");
    }
}
