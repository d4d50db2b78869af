//! The suites: tables of cases, grouped by the controllers they run with.

pub mod api;
pub mod cron;
pub mod gc;
pub mod podgc;
pub mod ttl;
pub mod workloads;

use crate::case::TestCase;

/// Cases that run with the same controllers.
pub struct CaseSuite {
    /// The subcommand of the `suites` binary.
    pub name: &'static str,
    /// The controllers that run beside the garbage collector.
    pub controllers: &'static [&'static str],
    pub themes: &'static [CaseTheme],
}

/// Cases about one subject. The frozen transcripts of an API theme are one file, which has the theme's name.
pub struct CaseTheme {
    pub name: &'static str,
    pub cases: &'static [TestCase],
}

/// The suites that also run on a real server; [`crate::crash::SUITE`] does not.
pub const SUITES: &[&CaseSuite] = &[
    &api::SUITE,
    &cron::SUITE,
    &gc::SUITE,
    &podgc::SUITE,
    &ttl::SUITE,
    &workloads::SUITE,
];

// === impl CaseSuite ===

impl CaseSuite {
    /// All cases, each with its theme.
    pub fn cases(&'static self) -> impl Iterator<Item = (&'static CaseTheme, &'static TestCase)> {
        self.themes
            .iter()
            .flat_map(|theme| theme.cases.iter().map(move |case| (theme, case)))
    }
}
