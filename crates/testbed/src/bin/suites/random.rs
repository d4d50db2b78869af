//! `suites gc-random`: runs random ownership scripts and prints what was left of each.

use std::io::Write as _;
use std::path::PathBuf;

use caretaker_testbed::ownership::model::{self, ExpectedEnd, ModelScope, ObjectEnd};
use caretaker_testbed::ownership::run::ScriptRunner;
use caretaker_testbed::ownership::{OwnershipScript, ScriptShape};
use caretaker_testbed::target::Target;
use clap::Args;
use serde_json::{Value, json};

use super::{SeedArgs, source};

#[derive(Args)]
pub(super) struct RandomArgs {
    /// The server: the current context of this kubeconfig; the objects stay there
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(flatten)]
    seeds: SeedArgs,
    /// Scripts that run at the same time
    #[arg(long, default_value_t = 50)]
    jobs: usize,
    /// File for the controllers' output; otherwise it goes to stderr
    #[arg(long)]
    log: Option<PathBuf>,
    /// The command of the garbage collector, started and killed here; without it one has to run already
    #[arg(last = true)]
    controllers: Vec<String>,
}

// === impl RandomArgs ===

impl RandomArgs {
    /// Runs all scripts, then prints their number.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let target = Target::real(&self.kubeconfig).await?;
        let source = source(&self.controllers, self.log.as_ref());
        let runner = ScriptRunner::start(&target, &source).await;
        let mut runner = runner.map_err(anyhow::Error::msg)?;
        let seeds = self.seeds.range();
        let script = |seed| OwnershipScript::of(seed, ScriptShape::LARGE);
        let scripts: Vec<OwnershipScript> = seeds.map(script).collect();
        for group in scripts.chunks(self.jobs.max(1)) {
            let ends = runner.run(group).await.map_err(anyhow::Error::msg)?;
            for (script, ends) in group.iter().zip(&ends) {
                writeln!(std::io::stdout().lock(), "{}", ended(script, ends))?;
            }
        }
        let line = json!({"scripts": scripts.len()});
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }
}

/// The line about a script. `must` has a `?` where the model calls the end a race; `was` is the actual end.
fn ended(script: &OwnershipScript, ends: &[ObjectEnd]) -> Value {
    let expected = model::expected(script, ModelScope::Both);
    let (mut left, mut unlike) = (serde_json::Map::new(), Vec::new());
    for (number, (expected, end)) in expected.iter().zip(ends).enumerate() {
        let name = script.name(number);
        unlike.extend(expected.difference(end).map(|why| format!("{name}: {why}")));
        left.insert(name, left_of(expected, end));
    }
    let races = expected.iter().filter(|own| own.presence.is_none()).count();
    json!({
        "seed": script.seed, "objects": ends.len(), "races": races, "left": left, "unlike": unlike,
        "script": script.to_string(),
    })
}

fn left_of(expected: &ExpectedEnd, end: &ObjectEnd) -> Value {
    let shown = |is_determined: bool, text: String| match is_determined {
        true => text,
        false => "?".to_owned(),
    };
    let text = [
        shown(expected.presence.is_some(), format!("{:?}", end.presence)),
        shown(
            expected.finalizers.is_some(),
            format!("{:?}", end.finalizers),
        ),
        shown(
            expected.references.is_some(),
            format!("{:?}", end.references),
        ),
    ];
    json!({"must": text.join(" "), "was": format!("{:?} {:?} {:?}", end.presence, end.finalizers, end.references)})
}
