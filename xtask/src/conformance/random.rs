//! The same random scripts on two fresh real servers, once with the Go collector and once with ours: what is left?
//!
//! `suites gc-random` performs the scripts and says of every object what became of it, with `?` where that is a race
//! between the user and any collector. This compares the two outputs object by object. With the Go collector on both
//! sides it shows what such a comparison is worth.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::suite::{GC, Whose};
use super::{kept_file, run_lines, suite_command, suites};
use crate::real::{Instance, Options};

/// The scripts to run.
#[derive(Debug, clap::Args)]
pub struct RandomScripts {
    /// How many scripts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The seed of the first; `--seed S --seeds 1` performs one script again
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// The collector of kube-controller-manager on both sides: shows what is a race
    #[arg(long)]
    peer: bool,
}

/// The objects that both sides left of the scripts.
#[derive(Debug)]
pub struct RandomReport {
    go: Vec<ScriptLine>,
    other: Vec<ScriptLine>,
    against: Whose,
    took: Duration,
}

/// One line of `suites gc-random`: the objects that are left of a script.
#[derive(Debug, Deserialize)]
struct ScriptLine {
    seed: u64,
    objects: usize,
    races: usize,
    left: BTreeMap<String, ObjectEnd>,
    unlike: Vec<String>,
    script: String,
}

/// The end of an object.
#[derive(Debug, Deserialize)]
struct ObjectEnd {
    /// The part that has to be the same on both sides.
    must: String,
    was: String,
}

/// Runs the scripts with both collectors.
pub fn gc_random(scripts: &RandomScripts) -> Result<RandomReport> {
    let suites = suites()?;
    let started = Instant::now();
    let against = Whose::of(scripts.peer);
    let go = side(&suites, scripts, Whose::Peer, "random-go.jsonl")?;
    let other = side(&suites, scripts, against, "random-other.jsonl")?;
    if go.len() != other.len() {
        bail!("{} scripts here and {} there", go.len(), other.len());
    }
    Ok(RandomReport {
        go,
        other,
        against,
        took: started.elapsed(),
    })
}

/// Runs the scripts with one collector on a server of their own. The output stays in a file of this name.
fn side(
    suites: &Path,
    scripts: &RandomScripts,
    whose: Whose,
    file: &str,
) -> Result<Vec<ScriptLine>> {
    let caretaker = whose.build()?;
    let (log, output) = (GC.log(whose)?, kept_file(file)?);
    let ran = Instance::run("conformance-random", &Options::default(), |instance| {
        let line = GC.command_line(caretaker.as_deref(), instance)?;
        eprintln!("performing with {}; this takes minutes", line[0]);
        let mut command = suite_command(suites, "gc-random", instance);
        command
            .arg(format!("--seed={}", scripts.seed))
            .arg(format!("--seeds={}", scripts.seeds))
            .arg("--log")
            .arg(&log)
            .arg("--")
            .args(line);
        run_lines(&mut command, &output, "scripts")
    });
    let (lines, _) = ran.with_context(|| format!("the collector's log: {}", log.display()))?;
    Ok(lines)
}

// === impl RandomReport ===

impl RandomReport {
    /// The number of scripts that did not end the same.
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

/// The objects that ended differently, each with its end here and there.
fn differences<'a>(go: &'a ScriptLine, other: &'a ScriptLine) -> Vec<(&'a str, &'a str, &'a str)> {
    let pairs = go.left.iter().filter_map(|(name, go)| {
        let other = other.left.get(name)?;
        (go.must != other.must).then_some((name.as_str(), go.was.as_str(), other.was.as_str()))
    });
    pairs.collect()
}

impl fmt::Display for RandomReport {
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
    use super::super::read_lines;
    use super::*;

    fn output(must: &str, was: &str) -> String {
        let left = format!(r#"{{"o1":{{"must":"{must}","was":"{was}"}}}}"#);
        format!(
            "{{\"seed\":7,\"objects\":9,\"races\":2,\"left\":{left},\"unlike\":[],\"script\":\"seed 7\"}}\n{{\"scripts\":1}}\n"
        )
    }

    fn read(output: &str) -> Result<Vec<ScriptLine>> {
        read_lines(output, "scripts")
    }

    fn report(other: &str) -> RandomReport {
        RandomReport {
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
