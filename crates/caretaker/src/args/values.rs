//! Values of flags that Go's programs write and clap does not know: booleans, durations, feature gates, resources.
//!
//! Nothing here decides anything; each type reads one text, or says what it should look like.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

/// From this number on klog speaks of details; below, of what happens.
const KLOG_DETAILS: u8 = 4;

/// A feature gate, `CronVolcanoJobSupport=false`. The component that kube-controller-manager allows before a colon is
/// left out: there is one component here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) name: String,
    pub(crate) on: bool,
}

/// A resource as logs name it, `deployments.apps` or `pods`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResourceName {
    pub(crate) resource: String,
    /// Empty for core.
    pub(crate) group: String,
}

/// Some object, `deployment/web`: its type as kubectl has it (resource, singular, short name or kind, with or without
/// group), and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectName {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// How much is logged.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Verbosity {
    /// Log more to stderr: -v, -vv for details; also klog's numbers, as in -v=4. RUST_LOG is more exact
    #[arg(
        short = 'v',
        long = "v",
        visible_alias = "verbose",
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "",
        action = clap::ArgAction::Append
    )]
    verbosity: Vec<Louder>,
}

/// One `-v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Louder {
    /// So many steps more.
    Steps(u8),
    /// As much as klog logs at this number.
    Klog(u8),
}

/// `true` and `false` as Go's strconv reads them.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("true or false is needed".into()),
    }
}

/// A duration as Go writes it, `1m30s` or `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let says = || "a duration is needed, like 500ms, 60s or 16m40s".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // jiff reads this notation and others; days and words are not Go's.
    if !text.ends_with(|last: char| "smhµun".contains(last)) || text.contains(char::is_whitespace)
    {
        return Err(says());
    }
    let duration: SignedDuration = text.parse().map_err(|_| says())?;
    Duration::try_from(duration).map_err(|_| says())
}

/// A number per second.
pub(crate) fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() => Ok(rate),
        _ => Err("a number is needed".into()),
    }
}

/// The limit that a rate is: what is not above zero means none, as in client-go.
pub(crate) fn limit(rate: Option<f32>) -> Option<f32> {
    rate.filter(|rate| *rate > 0.0)
}

// === impl Gate ===

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let says = || "a list like Gate=true,OtherGate=false is needed".to_owned();
        let (name, on) = text.trim().split_once('=').ok_or_else(says)?;
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name).trim();
        let on = switch(on.trim()).map_err(|_| says())?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(says());
        }
        Ok(Self {
            name: name.to_owned(),
            on,
        })
    }
}

// === impl ResourceName ===

impl FromStr for ResourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let empty_group = text.contains('.') && group.is_empty();
        if resource.is_empty() || empty_group || !text.chars().all(is_plain) {
            return Err("a list like events,leases.coordination.k8s.io is needed".into());
        }
        Ok(Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        })
    }
}

// === impl ObjectName ===

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("a type and a name are needed, like deployment/web".into()),
        }
    }
}

// === impl Verbosity ===

impl Verbosity {
    /// 0: problems, 1: what happens, 2: details.
    pub(crate) fn level(&self) -> u8 {
        let mut steps: u8 = 0;
        let mut klog = 0;
        for louder in &self.verbosity {
            match louder {
                Louder::Steps(more) => steps = steps.saturating_add(*more),
                Louder::Klog(number) => klog = *number,
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

// === impl Louder ===

impl FromStr for Louder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.chars().all(|c| c == 'v') {
            let more = text.len().saturating_add(1);
            return Ok(Self::Steps(u8::try_from(more).unwrap_or(u8::MAX)));
        }
        let number: Result<u32, _> = text.parse();
        let number = number.map_err(|_| "a number is needed, like 2")?;
        Ok(Self::Klog(u8::try_from(number).unwrap_or(u8::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
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
    fn switches_are_read_as_go_reads_them() {
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
    fn a_gate_is_a_name_and_a_switch_with_or_without_a_component() {
        let gate = |name: &str, on| Gate {
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
            assert!(text.parse::<Gate>().is_err(), "{text}");
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
        let read: ObjectName = "deployments.apps/web".parse().unwrap();
        assert_eq!(
            (read.kind.as_str(), read.name.as_str()),
            ("deployments.apps", "web")
        );
        for text in ["", "web", "/web", "pod/", "a/b/c"] {
            assert!(text.parse::<ObjectName>().is_err(), "{text}");
        }
    }

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(flatten)]
        verbosity: Verbosity,
        #[arg(long)]
        other: bool,
    }

    #[test]
    fn more_is_logged_in_steps_or_by_klogs_numbers() {
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
