//! `caretaker run` behind a faulty proxy, killed and restarted; `cargo xtask faults` runs many larger seeds.

use std::time::Duration;

use caretaker_machinery::clock::Clock;
use caretaker_testbed::faults::{self, ControllerHost, FaultsPlan, FaultsSize};
use caretaker_testbed::target::Target;
use jiff::Timestamp;

/// A seed with two processes at once.
const SEED: u64 = 1;

#[test]
fn survivors_behind_a_faulty_proxy_equal_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let host = ControllerHost::Program {
        path: env!("CARGO_BIN_EXE_caretaker").into(),
        directory: directory.path().to_owned(),
        now: Timestamp::now(),
    };
    let size = FaultsSize {
        pause_max: Duration::from_millis(300),
        ..FaultsSize::SMALL
    };
    let plan = FaultsPlan::of(SEED, size);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let report = runtime.block_on(async {
        let target = Target::embedded_on(Clock::wall(Timestamp::now));
        faults::run(&target, &host, &plan).await.unwrap()
    });
    let details = [report.violations.as_slice(), &report.stories].concat();
    assert!(report.is_right(), "{report}\n{}", details.join("\n"));
    let faults: usize = report.faults.values().sum();
    assert!(
        report.processes == 2 && report.kills > 0 && faults > 10,
        "{report}"
    );
}
