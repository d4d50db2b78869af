//! The same random scripts on two fresh real servers, once with the Go collector and once with ours: what is left?
//!
//! `suites gc-random` performs the scripts and says of every object what became of it, with `?` where that is a race
//! between the user and any collector. This compares the two outputs object by object. With the Go collector on both
//! sides it shows what such a comparison is worth.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::suite::{self, GC, Whose};
use super::{SUITES, run_into};
use crate::real::{Identity, Instance, Options};

/// What to perform.
#[derive(Debug)]
pub struct Wanted {
    /// The first seed.
    pub seed: u64,
    pub seeds: u64,
    /// The collector that is set beside the Go one.
    pub against: Whose,
}

/// What both sides made of the scripts.
#[derive(Debug)]
pub struct Report {
    go: Vec<Line>,
    other: Vec<Line>,
    against: Whose,
    took: Duration,
}

/// One line of `suites gc-random`: what was left of a script.
#[derive(Debug, Deserialize)]
struct Line {
    seed: u64,
    objects: usize,
    races: usize,
    left: BTreeMap<String, Left>,
    unlike: Vec<String>,
    script: String,
}

/// What became of an object.
#[derive(Debug, Deserialize)]
struct Left {
    /// What has to be the same on both sides.
    must: String,
    /// All of it.
    was: String,
}

/// The last line of `suites gc-random`.
#[derive(Debug, Deserialize)]
struct End {
    scripts: usize,
}

/// Performs the scripts with both collectors.
pub fn gc_random(wanted: &Wanted) -> Result<Report> {
    let suites = SUITES.build()?;
    let started = Instant::now();
    let go = side(&suites, wanted, Whose::Peer, "random-go")?;
    let other = side(&suites, wanted, wanted.against, "random-other")?;
    if go.len() != other.len() {
        bail!("{} scripts here and {} there", go.len(), other.len());
    }
    Ok(Report {
        go,
        other,
        against: wanted.against,
        took: started.elapsed(),
    })
}

/// Performs the scripts with one collector on a server of their own. What was said stays in a file of this name.
fn side(suites: &Path, wanted: &Wanted, whose: Whose, file: &str) -> Result<Vec<Line>> {
    let caretaker = match whose {
        Whose::Ours => Some(suite::caretaker()?),
        Whose::Peer => None,
    };
    let log = suite::log(GC.name, whose)?;
    let output: PathBuf = log.with_file_name(format!("{file}.jsonl"));
    let name = format!("conformance-random-{}", std::process::id());
    let instance = Instance::start(&name, &Options::default())?;
    let line = match &caretaker {
        Some(program) => suite::ours(GC, program, &instance),
        None => suite::peer(GC, &instance)?,
    };
    eprintln!("performing with {}; this takes minutes", line[0]);
    let mut command = Command::new(suites);
    command
        .arg("gc-random")
        .arg("--kubeconfig")
        .arg(instance.kubeconfig(Identity::Admin))
        .arg(format!("--seed={}", wanted.seed))
        .arg(format!("--seeds={}", wanted.seeds))
        .arg("--log")
        .arg(&log)
        .arg("--")
        .args(line);
    let ran = run_into(&mut command, &output);
    instance.stop()?;
    ran.with_context(|| format!("the collector's log: {}", log.display()))?;
    let said = fs::read_to_string(&output).context("cannot read what was left")?;
    read(&said)
}

/// Takes the output of `suites gc-random` apart: a line for each script, then one with their number.
fn read(output: &str) -> Result<Vec<Line>> {
    let output = output.trim_end();
    let start = output.rfind('\n').map_or(0, |at| at + 1);
    let end: End = serde_json::from_str(&output[start..]).context("the scripts have no end")?;
    let lines = output[..start].lines();
    let lines: Vec<Line> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
    if end.scripts != lines.len() {
        bail!("{} scripts, but {} lines", end.scripts, lines.len());
    }
    Ok(lines)
}

// === impl Report ===

impl Report {
    /// How many scripts did not end the same.
    pub fn different(&self) -> usize {
        let pairs = self.go.iter().zip(&self.other);
        pairs
            .filter(|(go, other)| !differences(go, other).is_empty())
            .count()
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self.against {
            Whose::Ours => ("Go", "ours"),
            Whose::Peer => ("Go", "Go again"),
        }
    }
}

/// What is not the same on both sides: the object, and how it ended here and there.
fn differences<'a>(go: &'a Line, other: &'a Line) -> Vec<(&'a str, &'a str, &'a str)> {
    let pairs = go.left.iter().filter_map(|(name, go)| {
        let other = other.left.get(name)?;
        (go.must != other.must).then_some((name.as_str(), go.was.as_str(), other.was.as_str()))
    });
    pairs.collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (here, there) = self.names();
        let (mut objects, mut races, mut raced) = (0, 0, 0);
        for (go, other) in self.go.iter().zip(&self.other) {
            objects += go.objects;
            races += go.races;
            let pairs = go.left.iter().zip(other.left.values());
            raced += pairs
                .filter(|((_, go), other)| go.must == other.must && go.was != other.was)
                .count();
            let differences = differences(go, other);
            for (name, go, other) in &differences {
                writeln!(f, "{name} {here}: {go}, {there}: {other}")?;
            }
            for (side, unlike) in [(here, &go.unlike), (there, &other.unlike)] {
                for why in unlike {
                    writeln!(f, "seed {}, {side}, unlike the model: {why}", go.seed)?;
                }
            }
            if !differences.is_empty() {
                writeln!(f, "{}", go.script)?;
            }
        }
        let (scripts, different) = (self.go.len(), self.different());
        writeln!(
            f,
            "{scripts} scripts with {objects} objects in {:.0} s: {different} scripts differ; {races} objects are a race, {raced} ended otherwise by it",
            self.took.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(must: &str, was: &str) -> String {
        let left = format!(r#"{{"o1":{{"must":"{must}","was":"{was}"}}}}"#);
        format!(
            "{{\"seed\":7,\"objects\":9,\"races\":2,\"left\":{left},\"unlike\":[],\"script\":\"seed 7\"}}\n{{\"scripts\":1}}\n"
        )
    }

    fn report(other: &str) -> Report {
        Report {
            go: read(&output("Gone", "Gone [] []")).unwrap(),
            other: read(other).unwrap(),
            against: Whose::Ours,
            took: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_difference_is_printed_with_its_script() {
        let text = "\
o1 Go: Gone [] [], ours: There [] []
seed 7
1 scripts with 9 objects in 60 s: 1 scripts differ; 2 objects are a race, 0 ended otherwise by it
";
        let report = report(&output("There", "There [] []"));
        assert_eq!((report.to_string().as_str(), report.different()), (text, 1));
    }

    #[test]
    fn what_is_a_race_is_counted_and_no_difference() {
        let report = report(&output("Gone", "There [] []"));
        assert_eq!(report.different(), 0);
        assert!(report.to_string().ends_with(", 1 ended otherwise by it\n"));
    }

    #[test]
    fn an_output_without_its_end_is_no_report() {
        let whole = output("?", "?");
        let cut = whole.lines().next().unwrap();
        for broken in ["", "{}", cut, "{\"scripts\":1}"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }
}
