//! Parsers of flag values in Go's syntax, which clap does not have: booleans, durations, feature gates, resources.
//!
//! Each parser reads one text, or its error says what the text should look like.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

/// From this verbosity on klog logs details.
const KLOG_DETAILS: u8 = 4;

/// A feature gate, `CronVolcanoJobSupport=false`. The component that kube-controller-manager allows before a colon is
/// dropped, because there is one component here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeatureGate {
    pub(crate) name: String,
    pub(crate) on: bool,
}

/// `deployments.apps` or `pods`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceName {
    pub(crate) resource: String,
    /// Empty for the core group.
    pub(crate) group: String,
}

/// `deployment/web`: a type as in kubectl (resource, singular, short name or kind, with or without group) and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectArgument {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct VerbosityFlags {
    /// Log more to stderr: -v, -vv for details, or klog's levels, as in -v=4; RUST_LOG takes precedence
    #[arg(
        short = 'v',
        long = "v",
        visible_alias = "verbose",
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "",
        action = clap::ArgAction::Append
    )]
    verbosity: Vec<VerboseFlag>,
}

/// The value of one `-v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerboseFlag {
    /// Number of steps above the default.
    Steps(u8),
    /// Level of klog.
    Klog(u8),
}

/// A value is no whole number of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number from {min} to {max}")]
pub(crate) struct InvalidNumber {
    min: i64,
    max: i64,
}

/// A value was not understood; holds what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub(crate) struct InvalidValue(pub(crate) &'static str);

/// `true` and `false` as Go's strconv parses them.
pub(crate) fn switch(text: &str) -> Result<bool, InvalidValue> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(InvalidValue("true or false")),
    }
}

/// A whole number from `MIN` to `MAX`.
pub(crate) fn number<T: TryFrom<i64>, const MIN: i64, const MAX: i64>(
    text: &str,
) -> Result<T, InvalidNumber> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or(InvalidNumber { min: MIN, max: MAX })
}

/// A port; 0 has a meaning of its own.
pub(crate) fn port(text: &str) -> Result<u16, InvalidNumber> {
    number::<u16, 0, { u16::MAX as i64 }>(text)
}

/// Concurrent requests: at least one.
pub(crate) fn workers(text: &str) -> Result<u16, InvalidNumber> {
    number::<u16, 1, { u16::MAX as i64 }>(text)
}

/// A duration of Go, `1m30s` or `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, InvalidValue> {
    const INVALID: InvalidValue = InvalidValue("a duration like 500ms, 60s or 16m40s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // jiff also parses days and words, which Go does not.
    if !text.ends_with(|last: char| "smhµun".contains(last)) || text.contains(char::is_whitespace)
    {
        return Err(INVALID);
    }
    let duration: SignedDuration = text.parse().map_err(|_| INVALID)?;
    Duration::try_from(duration).map_err(|_| INVALID)
}

/// A rate per second.
pub(crate) fn rate(text: &str) -> Result<f32, InvalidValue> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() => Ok(rate),
        _ => Err(InvalidValue("a number")),
    }
}

/// A rate that is not above zero means no limit, as in client-go.
pub(crate) fn limit(rate: Option<f32>) -> Option<f32> {
    rate.filter(|rate| *rate > 0.0)
}

// === impl FeatureGate ===

impl FromStr for FeatureGate {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        const INVALID: InvalidValue = InvalidValue("a list like Gate=true,OtherGate=false");
        let (name, on) = text.trim().split_once('=').ok_or(INVALID)?;
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name).trim();
        let on = switch(on.trim()).map_err(|_| INVALID)?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(INVALID);
        }
        Ok(Self {
            name: name.to_owned(),
            on,
        })
    }
}

// === impl ResourceName ===

impl FromStr for ResourceName {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim();
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let empty_group = text.contains('.') && group.is_empty();
        if resource.is_empty() || empty_group || !text.chars().all(is_plain) {
            return Err(InvalidValue(
                "a list like events,leases.coordination.k8s.io",
            ));
        }
        Ok(Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        })
    }
}

// === impl ObjectArgument ===

impl ObjectArgument {
    /// The object of kubectl's two forms: `deployment/web`, or `deployment web` in two words.
    pub(super) fn of(words: &[String]) -> Result<Option<Self>, String> {
        const ONE: &str = "give one object, like deployment/web or deployment web";
        let of = |kind: &str, name: &str| Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let (kind, name) = match words {
            [] => return Ok(None),
            [word] => match word.split_once('/') {
                Some(parts) => parts,
                None if word.is_empty() => ("", ""),
                None => return Err(format!("{word} needs a name: {word}/NAME")),
            },
            [kind, name] if !kind.contains('/') => (kind.as_str(), name.as_str()),
            _ => return Err(ONE.to_owned()),
        };
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err(ONE.to_owned());
        }
        Ok(Some(of(kind, name)))
    }
}

// === impl VerbosityFlags ===

impl VerbosityFlags {
    /// 0: warnings and errors, 1: info, 2: debug.
    pub(crate) fn level(&self) -> u8 {
        let mut steps: u8 = 0;
        let mut klog = 0;
        for flag in &self.verbosity {
            match flag {
                VerboseFlag::Steps(more) => steps = steps.saturating_add(*more),
                VerboseFlag::Klog(number) => klog = *number,
            }
        }
        let of_klog = match klog {
            0 => 0,
            1..KLOG_DETAILS => 1,
            KLOG_DETAILS.. => 2,
        };
        steps.min(2).max(of_klog)
    }
}

// === impl VerboseFlag ===

impl FromStr for VerboseFlag {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text.chars().all(|c| c == 'v') {
            let more = text.len().saturating_add(1);
            return Ok(Self::Steps(u8::try_from(more).unwrap_or(u8::MAX)));
        }
        let number: Result<u32, _> = text.parse();
        let number = number.map_err(|_| InvalidValue("a number like 2"))?;
        Ok(Self::Klog(u8::try_from(number).unwrap_or(u8::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn durations_have_gos_syntax() {
        let cases = [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("60s", Some(60_000)),
            ("1.5s", Some(1_500)),
            ("1m30s", Some(90_000)),
            ("16m40s", Some(1_000_000)),
            ("1h0m0s", Some(3_600_000)),
            ("-1s", None),
            ("60", None),
            ("", None),
            ("1 minute", None),
            ("1d", None),
            ("P1D", None),
            ("s", None),
        ];
        for (text, millis) in cases {
            let read = duration(text).ok();
            assert_eq!(read, millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn numbers_have_a_range_and_errors_name_it() {
        for (text, expected) in [
            ("0", Some(0)),
            ("65535", Some(65_535)),
            ("65536", None),
            ("-1", None),
            ("1.5", None),
            ("abc", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(port(text).ok(), expected, "{text}");
        }
        let error = workers("0").unwrap_err().to_string();
        assert_eq!(error, "expected a whole number from 1 to 65535");
        assert_eq!(number::<i32, -2, 5>("-2"), Ok(-2));
    }

    #[test]
    fn booleans_have_gos_syntax() {
        for (text, on) in [
            ("true", Some(true)),
            ("1", Some(true)),
            ("False", Some(false)),
            ("f", Some(false)),
            ("yes", None),
            ("", None),
            ("tRUE", None),
        ] {
            assert_eq!(switch(text).ok(), on, "{text}");
        }
    }

    #[test]
    fn a_rate_that_is_not_above_zero_is_no_limit() {
        for (text, expected) in [
            ("20", Some(20.0)),
            ("0.5", Some(0.5)),
            ("0", None),
            ("-1", None),
        ] {
            assert_eq!(limit(Some(rate(text).unwrap())), expected, "{text}");
        }
        for text in ["", "NaN", "inf", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_feature_gate_has_a_name_and_a_boolean() {
        let gate = |name: &str, on| FeatureGate {
            name: name.to_owned(),
            on,
        };
        for (text, expected) in [
            ("A=true", gate("A", true)),
            ("kube:A=false", gate("A", false)),
            (" A = 1 ", gate("A", true)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "A", "A=", "A=maybe", "=true", "kube:=true", "A B=true"] {
            assert!(text.parse::<FeatureGate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_resource_may_name_its_group() {
        let name = |resource: &str, group: &str| ResourceName {
            resource: resource.to_owned(),
            group: group.to_owned(),
        };
        for (text, expected) in [
            ("pods", name("pods", "")),
            ("events.events.k8s.io", name("events", "events.k8s.io")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", ".", "pods.", ".apps", "Pods", "apps/deployments"] {
            assert!(text.parse::<ResourceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_object_is_a_type_and_a_name_in_one_or_two_words() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            ObjectArgument::of(&words)
        };
        assert_eq!(of(""), Ok(None));
        for line in ["deployments.apps/web", "deployments.apps web"] {
            let read = of(line).unwrap().unwrap();
            assert_eq!(
                (read.kind.as_str(), read.name.as_str()),
                ("deployments.apps", "web"),
                "{line}"
            );
        }
        assert_eq!(of("pods"), Err("pods needs a name: pods/NAME".to_owned()));
        for line in [
            "/web",
            "pod/",
            "a/b/c",
            "pod/a b",
            "pod a/b",
            "pod/a pod/b",
            "pod a b",
        ] {
            assert!(
                of(line).unwrap_err().starts_with("give one object"),
                "{line}"
            );
        }
    }

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(flatten)]
        verbosity: VerbosityFlags,
        #[arg(long)]
        other: bool,
    }

    #[test]
    fn verbosity_counts_flags_or_takes_klogs_level() {
        let cases: &[(&[&str], Option<u8>)] = &[
            (&[], Some(0)),
            (&["-v"], Some(1)),
            (&["-vv"], Some(2)),
            (&["-vvvv"], Some(2)),
            (&["-v", "-v"], Some(2)),
            (&["--verbose"], Some(1)),
            (&["-v", "--other"], Some(1)),
            (&["-v=0"], Some(0)),
            (&["-v=2"], Some(1)),
            (&["-v2"], Some(1)),
            (&["-v", "2"], Some(1)),
            (&["--v=4"], Some(2)),
            (&["--v", "10"], Some(2)),
            (&["--v=999"], Some(2)),
            (&["--v=4", "--v=2"], Some(1)),
            (&["-v=-1"], None),
            (&["-vx"], None),
            (&["--v=two"], None),
        ];
        for (flags, level) in cases {
            let arguments = [&["caretaker"], *flags].concat();
            let read = Wrapped::try_parse_from(arguments);
            let found = read.ok().map(|read| read.verbosity.level());
            assert_eq!(found, *level, "{flags:?}");
        }
    }
}
