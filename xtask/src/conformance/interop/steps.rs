//! Steps: the lines that a program prints, and scripts of steps for the shell.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::interrupt;

/// A step and why it failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepOutcome {
    name: String,
    pub(super) failed: Option<String>,
}

/// A step of a script: lines of one shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptStep {
    name: String,
    lines: String,
}

/// Reads the output of a program: `ok NAME`, `FAILED NAME: why`, and at its end `steps N` unless a step failed.
pub(super) fn read(output: &str) -> Result<Vec<StepOutcome>> {
    let (mut steps, mut count) = (Vec::new(), None);
    for line in output.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ok" => steps.push(StepOutcome {
                name: rest.to_owned(),
                failed: None,
            }),
            "FAILED" => {
                let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
                steps.push(StepOutcome {
                    name: name.to_owned(),
                    failed: Some(why.to_owned()),
                });
            }
            "steps" => count = rest.parse::<usize>().ok(),
            // Libraries may print on their own.
            _ => {}
        }
    }
    let has_failed = steps.iter().any(|step| step.failed.is_some());
    ensure!(
        has_failed || count == Some(steps.len()),
        "the output ends after {} steps without their number",
        steps.len()
    );
    Ok(steps)
}

/// Reads a script.
pub(super) fn parse(text: &str) -> Result<Vec<ScriptStep>> {
    let mut steps: Vec<ScriptStep> = Vec::new();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        match (line.strip_prefix("= "), steps.last_mut()) {
            (Some(name), _) => steps.push(ScriptStep {
                name: name.to_owned(),
                lines: String::new(),
            }),
            (None, Some(step)) => {
                step.lines.push_str(line);
                step.lines.push('\n');
            }
            (None, None) => bail!("{line:?} belongs to no step"),
        }
    }
    Ok(steps)
}

/// Runs the steps of a script with the shell, up to the first that fails. `prepare` sets the environment.
pub(super) fn run_script(
    text: &str,
    directory: &Path,
    prepare: impl Fn(&mut Command),
) -> Result<Vec<StepOutcome>> {
    let mut outcomes = Vec::new();
    for step in parse(text)? {
        interrupt::check()?;
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", &step.lines])
            .current_dir(directory)
            .stdin(Stdio::null());
        prepare(&mut command);
        let output = command.output().context("cannot start sh")?;
        let failed = (!output.status.success()).then(|| {
            let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
            let last = lines.len().saturating_sub(3);
            format!("{}: {}", output.status, lines[last..].join(" | "))
        });
        let is_failed = failed.is_some();
        outcomes.push(StepOutcome {
            name: step.name,
            failed,
        });
        if is_failed {
            break;
        }
    }
    Ok(outcomes)
}

// === impl StepOutcome ===

impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failed {
            None => write!(f, "ok      {}", self.name),
            Some(why) => write!(f, "FAILED  {}: {why}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_without_its_number_of_steps_is_refused() {
        assert_eq!(read("ok a\nnoise\nok b\nsteps 2\n").unwrap().len(), 2);
        assert_eq!(read("ok a\nFAILED b: why\n").unwrap().len(), 2);
        for broken in ["", "ok a\n", "ok a\nsteps 2\n", "steps x"] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_script_stops_at_the_first_step_that_fails() {
        let script = "# about\n\n= one\ntrue\necho fine\n= two\nfalse\ntrue\n= three\ntrue\n";
        let outcomes = run_script(script, Path::new("."), |_| {}).unwrap();
        let failed: Vec<bool> = outcomes.iter().map(|step| step.failed.is_some()).collect();
        assert_eq!(failed, [false, true]);
        assert!(parse("true").is_err());
    }

    #[test]
    fn the_scripts_of_the_suite_are_well_formed() {
        for text in [
            include_str!("../../../data/interop/controllers.txt"),
            include_str!("../../../data/interop/helm.txt"),
            include_str!("../../../data/interop/kopf.txt"),
        ] {
            let steps = parse(text).unwrap();
            assert!(steps.len() > 2 && steps.iter().all(|step| !step.lines.is_empty()));
        }
    }
}
