//! Upstream's samples of the built-in kinds, in JSON and in protobuf, beside our encoding.
//!
//! No server is needed: the samples are files of two modules that the oracle is built from, so Go finds them, and
//! downloads the modules where they are missing. `suites protobuf` compares; this module counts.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::{kept_file, run_lines, suites};
use crate::real::run_go;

/// The modules with samples, and the directory of the newest samples in each.
const SAMPLES: [(&str, &str); 2] = [
    ("k8s.io/api", "testdata/HEAD"),
    ("k8s.io/apiextensions-apiserver", "pkg/apis/testdata/HEAD"),
];
/// Fewer samples of served kinds than this mean that the samples moved, not that all is well.
const SERVED_MIN: usize = 70;

/// The outcomes of all samples.
#[derive(Debug)]
pub struct ProtobufReport(Vec<SampleLine>);

/// One line of `suites protobuf`.
#[derive(Debug, Deserialize)]
struct SampleLine {
    name: String,
    /// Whether the server has a type for the kind.
    served: bool,
    /// The first difference.
    different: Option<String>,
}

/// Compares all samples.
pub fn protobuf() -> Result<ProtobufReport> {
    let directories = SAMPLES
        .iter()
        .map(|(module, directory)| Ok(module_directory(module)?.join(directory)))
        .collect::<Result<Vec<_>>>()?;
    let mut command = Command::new(suites()?);
    command.arg("protobuf").args(directories);
    let (lines, _) = run_lines(&mut command, &kept_file("protobuf.jsonl")?, "samples")?;
    Ok(ProtobufReport(lines))
}

/// The directory of a pinned module in the cache of Go.
fn module_directory(module: &str) -> Result<PathBuf> {
    let go = |words: &[&str]| run_go(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    // Does nothing for a module that is in the cache.
    go(&["mod", "download", module])?;
    let directory = go(&["list", "-m", "-f", "{{.Dir}}", module])?;
    match directory.trim() {
        "" => {
            bail!("Go knows no directory of {module}: `go mod download` in xtask/real fetches it")
        }
        directory => Ok(directory.into()),
    }
}

// === impl ProtobufReport ===

impl ProtobufReport {
    /// The number of samples that differ; at least 1 if there are too few to show anything.
    pub fn failed(&self) -> usize {
        let is_short = usize::from(self.served() < SERVED_MIN);
        self.different().count().max(is_short)
    }

    fn served(&self) -> usize {
        self.0.iter().filter(|line| line.served).count()
    }

    fn different(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.0.iter();
        lines.filter_map(|line| Some((line.name.as_str(), line.different.as_deref()?)))
    }
}

impl fmt::Display for ProtobufReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, place) in self.different() {
            writeln!(f, "{name}: {place}")?;
        }
        let (all, served, different) = (self.0.len(), self.served(), self.different().count());
        writeln!(
            f,
            "{served} samples of served kinds: {} equal, {different} different; {} of kinds that are not served",
            served - different,
            all - served
        )?;
        if served < SERVED_MIN {
            writeln!(f, "at least {SERVED_MIN} were expected")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_lines;
    use super::*;

    fn mk_report(equal: usize) -> ProtobufReport {
        let mut output = r#"{"name":"a.v1.A","served":true,"different":null}"#.to_owned() + "\n";
        output = output.repeat(equal);
        output += r#"{"name":"a.v1.B","served":true,"different":"decoded, .x: 1 for 2"}"#;
        output += "\n{\"name\":\"a.v1.C\",\"served\":false,\"different\":null}\n";
        output += &format!("{{\"samples\":{}}}\n", equal + 2);
        ProtobufReport(read_lines(&output, "samples").unwrap())
    }

    #[test]
    fn samples_are_counted_and_differences_named() {
        let report = mk_report(100);
        assert_eq!(report.failed(), 1);
        let text = "\
a.v1.B: decoded, .x: 1 for 2
101 samples of served kinds: 100 equal, 1 different; 1 of kinds that are not served
";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn too_few_samples_are_a_failure() {
        let mut report = mk_report(2);
        report.0.remove(2);
        assert_eq!((report.served(), report.different().count()), (2, 0));
        assert_eq!(report.failed(), 1);
        assert!(report.to_string().ends_with("at least 70 were expected\n"));
    }
}
