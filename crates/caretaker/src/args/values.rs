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

impl FromStr for ObjectArgument {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(InvalidValue("a type and a name, like deployment/web")),
        }
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
    fn an_object_is_a_type_and_a_name() {
        let read: ObjectArgument = "deployments.apps/web".parse().unwrap();
        assert_eq!(
            (read.kind.as_str(), read.name.as_str()),
            ("deployments.apps", "web")
        );
        for text in ["", "web", "/web", "pod/", "a/b/c"] {
            assert!(text.parse::<ObjectArgument>().is_err(), "{text}");
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
