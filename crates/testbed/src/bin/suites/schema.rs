//! `suites schema`: sends random schemas and objects to two servers and prints their disagreements.

use std::io::Write as _;
use std::path::PathBuf;

use caretaker_testbed::schemas::SchemaCase;
use caretaker_testbed::target::Target;
use clap::Args;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::SeedArgs;

#[derive(Args)]
pub(super) struct SchemaArgs {
    /// The other server: the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(flatten)]
    seeds: SeedArgs,
    /// Cases that run at the same time
    #[arg(long, default_value_t = 16)]
    jobs: usize,
}

// === impl SchemaArgs ===

impl SchemaArgs {
    /// Runs every case on both servers; prints a line for each, then their number.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let real = Target::real(&self.kubeconfig).await?;
        let seeds = self.seeds.range();
        let lines = seeds.map(|seed| compared(SchemaCase::of(seed), &real));
        let mut lines = futures::stream::iter(lines).buffered(self.jobs.max(1));
        let mut cases = 0;
        while let Some(line) = lines.next().await {
            writeln!(std::io::stdout().lock(), "{line}")?;
            cases += 1;
        }
        writeln!(std::io::stdout().lock(), "{}", json!({"cases": cases}))?;
        Ok(())
    }
}

/// The line about a case: where the answers of the two servers differ.
async fn compared(case: SchemaCase, real: &Target) -> Value {
    let (real, ours) = (case.run(real).await, case.run(&Target::embedded()).await);
    let pairs = real.iter().zip(&ours).enumerate();
    let unlike: Vec<Value> = pairs
        .filter(|(_, (real, ours))| real != ours)
        .map(|(number, (real, ours))| json!({"answer": number, "real": real, "ours": ours}))
        .collect();
    let codes = |code: u64| real.iter().filter(|answer| answer["code"] == code).count();
    let mut line = json!({
        "seed": case.seed, "answers": real.len(), "taken": codes(200) + codes(201), "invalid": codes(422), "unlike": unlike,
    });
    if real.len() != ours.len() || !unlike.is_empty() {
        line["schema"] = case.schema;
        line["lengths"] = json!([real.len(), ours.len()]);
    }
    line
}
