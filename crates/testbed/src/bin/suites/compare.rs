//! `suites compare`: compares the transcripts of two runs of the same suite.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use caretaker_testbed::compare::{AllowedDifferences, differences};
use caretaker_testbed::transcript;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(super) struct CompareArgs {
    /// The output of the real server's run
    real: PathBuf,
    /// The output of the run on the server under test
    ours: PathBuf,
    /// Directory of the frozen transcripts and of `allowed.txt`, the differences that are meant
    #[arg(long)]
    data: PathBuf,
}

/// The transcript of a case in an output, or the need for which it was skipped.
type ReportedTranscript = Result<Vec<Value>, String>;

// === impl CompareArgs ===

impl CompareArgs {
    /// Prints every difference that is not allowed, then one line of JSON: the numbers, the needs for which cases were
    /// skipped, and the cases whose frozen transcript is not the real server's current one.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let file = self.data.join("allowed.txt");
        let allowed = AllowedDifferences::parse(&read(&file)?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        let (real, ours, frozen) = (reported(&self.real)?, reported(&self.ours)?, self.frozen()?);
        let (mut equal, mut meant, mut different) = (0, 0, 0);
        let (mut skipped, mut stale) = (BTreeMap::<&str, usize>::new(), Vec::new());
        for (name, real) in &real {
            if let Ok(real) = real
                && frozen.get(name) != Some(real)
            {
                stale.push(name);
            }
            let ours = ours
                .get(name)
                .with_context(|| format!("{name} ran on one server only"))?;
            let (real, ours) = match (real, ours) {
                (Ok(real), Ok(ours)) => (real, ours),
                (Err(word), _) | (_, Err(word)) => {
                    *skipped.entry(word).or_default() += 1;
                    continue;
                }
            };
            let judgement = allowed.judge(name, differences(real, ours));
            match (judgement.is_fine(), judgement.allowed) {
                (true, 0) => equal += 1,
                (true, _) => meant += 1,
                (false, _) => {
                    different += 1;
                    println!("{}", judgement.report(name, real));
                }
            }
        }
        let summary = json!({
            "checks": real.len(), "equal": equal, "allowed": meant, "different": different,
            "skipped": skipped, "stale": stale,
        });
        println!("{summary}");
        Ok(ExitCode::from(u8::from(different > 0)))
    }

    /// The frozen transcripts of all themes, by case.
    fn frozen(&self) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
        let mut all = BTreeMap::new();
        for entry in
            std::fs::read_dir(&self.data).with_context(|| self.data.display().to_string())?
        {
            let file = entry?.path();
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                all.extend(
                    transcript::read(&read(&file)?).with_context(|| file.display().to_string())?,
                );
            }
        }
        Ok(all)
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// The transcripts of an output, by case; its last line is about no case.
fn reported(file: &Path) -> anyhow::Result<BTreeMap<String, ReportedTranscript>> {
    let mut all = BTreeMap::new();
    for line in read(file)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| file.display().to_string())?;
        let Some(name) = line["name"].as_str() else {
            continue;
        };
        let word = line["skipped"].as_str().unwrap_or_default().to_owned();
        all.insert(
            name.to_owned(),
            line["transcript"].as_array().cloned().ok_or(word),
        );
    }
    Ok(all)
}
