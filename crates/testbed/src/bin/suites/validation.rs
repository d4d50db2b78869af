//! `suites validation`: sends objects with random changes to two servers and prints their disagreements.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use caretaker_testbed::target::Target;
use caretaker_testbed::validation::{AllowedCauses, PreparedServer, ValidationCase};
use clap::Args;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::SeedArgs;

#[derive(Args)]
pub(super) struct ValidationArgs {
    /// The other server: the current context of this kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(flatten)]
    seeds: SeedArgs,
    /// Cases that run at the same time
    #[arg(long, default_value_t = 8)]
    jobs: usize,
}

/// The answers to the objects of one kind.
#[derive(Default)]
struct KindCount {
    answers: usize,
    equal: usize,
    allowed: usize,
    refused: usize,
}

// === impl ValidationArgs ===

impl ValidationArgs {
    /// Runs every case on both servers; prints a line for each, then their number.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let real = PreparedServer::new(Target::real(&self.kubeconfig).await?).await?;
        let ours = PreparedServer::new(Target::embedded()).await?;
        let allowed = AllowedCauses::read()?;
        let lines = self.seeds.range().map(|seed| {
            let case = ValidationCase::of(seed);
            let (real, ours, allowed) = (&real, &ours, &allowed);
            async move { compared(&case, real, ours, allowed).await }
        });
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

/// The line about a case: counts by kind, and where the answers of the two servers differ.
async fn compared(
    case: &ValidationCase,
    real: &PreparedServer,
    ours: &PreparedServer,
    allowed: &AllowedCauses,
) -> Value {
    let (real, ours) = (case.run(real).await, case.run(ours).await);
    let mut kinds: BTreeMap<&str, KindCount> = BTreeMap::new();
    let mut unlike = Vec::new();
    for (real, ours) in real.iter().zip(&ours) {
        let count = kinds.entry(&real.kind).or_default();
        let differences = real.differences(ours);
        count.answers += 1;
        count.refused += usize::from(real.code >= 300);
        if differences.is_empty() && real.code == ours.code {
            count.equal += 1;
        } else if allowed.cover(&real.kind, &differences) {
            count.allowed += 1;
        } else {
            let only = |said: &std::collections::BTreeSet<String>| {
                let said = said
                    .iter()
                    .filter(|text| differences.contains(&text.as_str()));
                said.cloned().collect::<Vec<_>>()
            };
            unlike.push(json!({"kind": real.kind, "request": real.request, "codes": [real.code, ours.code], "real": only(&real.said), "ours": only(&ours.said)}));
        }
    }
    let kinds: BTreeMap<_, _> = kinds
        .iter()
        .map(|(kind, count)| {
            let KindCount {
                answers,
                equal,
                allowed,
                refused,
            } = count;
            (
                kind,
                json!({"answers": answers, "equal": equal, "allowed": allowed, "refused": refused}),
            )
        })
        .collect();
    json!({"seed": case.seed, "kinds": kinds, "unlike": unlike})
}
