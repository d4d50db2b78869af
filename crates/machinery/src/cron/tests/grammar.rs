//! The grammar of `ParseStandard`, and the positions of our error messages.

use jiff::civil::DateTime;

use super::*;

/// The parsed fields of an expression, without its text.
fn meaning(expression: &str) -> ScheduleKind {
    mk_schedule(expression).kind
}

#[test]
fn accepts_the_oddities_of_robfig_cron() {
    for (odd, plain) in [
        ("\u{a0}1\t2\u{3000}3 4\n5 ", "1 2 3 4 5"),
        ("1,,2, 0 ,1 * *", "1,2 0 1 * *"),
        ("*-5 *-x *-1-2 ?-/1 ?", "* * * * *"),
        ("+05 007 1 1 1", "5 7 1 1 1"),
        ("50/4 22/1 * * *", "50,54,58 22-23 * * *"),
        ("*/60 */100 * * *", "0 0 * * *"),
        ("*/9223372036854775807 * * * *", "0 * * * *"),
        ("0 0 * JAN,feb-Apr,12 Sun-TUE", "0 0 * 1,2-4,12 0-2"),
        ("0 0 * jan/3 mon/2", "0 0 * 1-12/3 1-6/2"),
        ("0 0 * * FR\u{130}", "0 0 * * 5"),
        ("0 0 */1 * *,3", "0 0 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "@yearly"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "@daily"),
        ("@hourly", "0 * * * *"),
        ("TZ=UTC   @hourly\t", "@hourly"),
        ("@every 0s", "@every 1s"),
        ("@every -4h", "@every 1s"),
        ("@every 1ns", "@every 1s"),
        ("@every 0", "@every 1s"),
        ("@every 1h.5m.5s1000ms", "@every 3631s"),
        ("@every +1.99999999999999999999s", "@every 2s"),
        ("@every 1500000\u{b5}s", "@every 1s"),
        ("@every 2000000\u{3bc}s", "@every 2s"),
        ("@every 2562047h47m16.854775807s", "@every 9223372036s"),
    ] {
        assert_eq!(meaning(odd), meaning(plain), "{odd} and {plain}");
    }
}

#[test]
fn stars_decide_how_the_day_fields_combine() {
    let slots = |expression: &str| -> Vec<i8> {
        let schedule = mk_schedule(expression);
        let zone = TimeZone::UTC;
        let slots = schedule.slots(at("2026-02-28T23:59:00Z"), &zone);
        let days = slots.map(|slot| zone.to_datetime(slot));
        let march = days.take_while(|day| day.month() == 3);
        march.map(DateTime::day).collect()
    };
    // 1 March 2026 is a Sunday.
    assert_eq!(slots("0 0 13 * 5"), [6, 13, 20, 27]);
    assert_eq!(slots("0 0 14 * 5"), [6, 13, 14, 20, 27]);
    assert_eq!(slots("0 0 * * 5"), [6, 13, 20, 27]);
    assert_eq!(slots("0 0 14 * *"), [14]);
    assert_eq!(slots("0 0 14 * */1"), [14]);
    assert_eq!(slots("0 0 14 * 0,*"), [14]);
    assert_eq!(slots("0 0 */10 * 5"), [1, 6, 11, 13, 20, 21, 27, 31]);
    assert_eq!(slots("0 0 , * 5"), [6, 13, 20, 27]);
    assert_eq!(slots("0 0 , * *"), [0_i8; 0]);
    assert_eq!(slots("0 0 14 * 0-6").len(), 31);
}

/// A text, the part of it that the error spans, and a part of the message.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "",
        "",
        "no fields; five are needed: minute, hour, day of month, month, day of week",
    ),
    ("   ", "   ", "no fields; five are needed"),
    ("1 2 3 4", "1 2 3 4", "4 fields; five are needed"),
    (" @hourly", " @hourly", "1 field; five are needed"),
    ("0 0 1 1 * 2026", "0 0 1 1 * 2026", "6 fields"),
    (
        "60 * * * *",
        "60",
        "minute \"60\": 60 is above 59; allowed are 0 to 59, *, ranges",
    ),
    ("* 1,2-24 * * *", "24", "hour \"2-24\": 24 is above 23"),
    (
        "* * 0 * *",
        "0",
        "day of month \"0\": 0 is below 1; allowed are 1 to 31,",
    ),
    (
        "* * * 13 *",
        "13",
        "month \"13\": 13 is above 12; allowed are 1 to 12 or jan to dec",
    ),
    (
        "* * * * 7",
        "7",
        "day of week \"7\": 7 is above 6 (Sunday is 0); allowed are 0 to 6 or sun to sat",
    ),
    (
        "* * * * Sunday",
        "Sunday",
        "\"Sunday\" is not a number that can be used here",
    ),
    ("5-1 * * * *", "5-1", "a range cannot end before it begins"),
    ("70/5 * * * *", "70", "70 is above 59"),
    ("1-2-3 * * * *", "1-2-3", "a range has one hyphen"),
    ("*/1/2 * * * *", "*/1/2", "a step has one slash"),
    ("*/0 * * * *", "*/0", "a step must not be 0"),
    ("*/-2 * * * *", "-2", "\"-2\" is negative"),
    ("*/ * * * *", "", "a number is missing"),
    ("-5 * * * *", "", "a number is missing"),
    ("* * * * mon-", "", "a number is missing"),
    ("*/mon * * * *", "mon", "\"mon\" is not a number"),
    ("0x5 * * * *", "0x5", "not a number"),
    ("5.0 * * * *", "5.0", "not a number"),
    ("1_0 * * * *", "1_0", "not a number"),
    ("\u{663} * * * *", "\u{663}", "not a number"),
    (
        "99999999999999999999 * * * *",
        "99999999999999999999",
        "not a number",
    ),
    ("H * * * *", "H", "not a number"),
    ("0 0 L * *", "L", "not a number"),
    ("0 0 * * 5#2", "5#2", "not a number"),
    (
        "@reboot",
        "@reboot",
        "\"@reboot\" is not known; allowed are @yearly, @annually,",
    ),
    ("@Daily", "@Daily", "in small letters"),
    ("@daily ", "@daily ", "is not known"),
    ("@every", "@every", "is not known"),
    (
        "@every  1h",
        " 1h",
        "is not a duration; numbers with the units",
    ),
    ("@every 1", "1", "is not a duration"),
    ("@every 300y", "300y", "is not a duration"),
    (
        "@every 9223372036854775808ns",
        "9223372036854775808ns",
        "is not a duration",
    ),
    ("@every .s", ".s", "is not a duration"),
    (
        "TZ=0",
        "0",
        "after the time zone \"0\" a blank and a schedule are needed",
    ),
    ("CRON_TZ=UTC", "UTC", "a blank and a schedule are needed"),
    (
        "TZ=UTC\t* * * * *",
        "UTC\t*",
        "unknown time zone \"UTC\\t*\"",
    ),
    ("TZ=UTC ", "", "no fields"),
    (
        "TZ=europe/berlin @daily",
        "europe/berlin",
        "unknown time zone \"europe/berlin\"",
    ),
    (
        "CRON_TZ=../../etc/passwd @daily",
        "../../etc/passwd",
        "unknown time zone",
    ),
    ("TZ=Local 0 0 * * *", "Local", "refused"),
    ("tz=UTC 0 0 * * *", "tz=UTC 0 0 * * *", "6 fields"),
];

#[test]
fn refuses_invalid_expressions_with_a_span() {
    for (text, part, message) in REFUSED {
        let error = CronSchedule::parse(text).unwrap_err();
        assert!(error.to_string().contains(message), "{text:?}: {error}");
        assert_eq!(text.get(error.span()), Some(*part), "{text:?}: {error}");
    }
}

#[test]
fn messages_are_short_for_long_schedules() {
    let junk = "9".repeat(10_000) + " * * * *";
    let zone = format!("TZ={} * * * * *", "x".repeat(10_000));
    let long = "1,".repeat(SCHEDULE_BYTES_MAX);
    for text in [&junk, &zone, &long, &"@".repeat(1 << 20)] {
        let error = CronSchedule::parse(text).unwrap_err().to_string();
        assert!(error.len() < 300, "{error}");
    }
    let longest = "1,".repeat(SCHEDULE_BYTES_MAX / 2 - 4) + " * * * *";
    assert_eq!(longest.len(), SCHEDULE_BYTES_MAX);
    assert_eq!(meaning(&longest), meaning("1 * * * *"));
}
