//! Random inputs in random order.

use super::*;

proptest::proptest! {
    /// Whatever happens in whatever order: no panic, no request without a pause between failures, and nothing is
    /// missing but at the end of a complete list.
    #[test]
    fn nothing_that_happens_makes_a_feed_panic_or_jump_to_conclusions(
        steps in proptest::collection::vec((0_u8..17, 0_u64..12, "[a-d]"), 0..200),
    ) {
        let mut script = FeedScript::new();
        for (what, number, name) in steps {
            script.elapsed += Duration::from_millis(100 * number);
            match what {
                0 | 1 => { script.pass_waits(); }
                2 => script.put(FeedInput::Opened),
                3 => script.line(&event("ADDED", &name, number)),
                4 => script.line(&event("DELETED", &name, number)),
                5 => script.line(&end(number)),
                6 => script.line(&bookmark(number)),
                7 => script.put(FeedInput::Page(page(number, "", &[(&name, number)]).to_string().as_bytes())),
                8 => script.put(FeedInput::Page(page(number, &name, &[(&name, number)]).to_string().as_bytes())),
                9 => script.refuse([200, 400, 401, 404, 410, 429, 500, 504][usize::try_from(number).unwrap() % 8]),
                10 => script.put(FeedInput::Unanswered),
                11 => script.end([WatchEnd::Clean, WatchEnd::Broken, WatchEnd::Idle][usize::try_from(number).unwrap() % 3]),
                12 => script.put(FeedInput::Again),
                13 => script.line(&error([410, 500, 504, 0][usize::try_from(number).unwrap() % 4], "")),
                14 => script.put(FeedInput::Line(name.as_bytes())),
                15 => script.put(FeedInput::Unreachable),
                _ => script.put(FeedInput::Overlong),
            }
            let said = script.said();
            let missing = said.iter().position(|said| said.starts_with("missing"));
            let synced = said.iter().rposition(|said| said == "synced");
            proptest::prop_assert!(missing.is_none() || synced > missing, "{:?}", said);
        }
    }
}
