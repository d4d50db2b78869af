//! Ctrl-C and its kin as a flag that waiting loops look at, so that what was started half-way is cleared away.
//!
//! Only commands that would leave something behind ask for it; the others end at once as every program does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGINT, SIGTERM and SIGHUP no longer end this process but make [`check`] refuse.
pub fn watch() -> Result<()> {
    let register = |signal| signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED));
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .try_for_each(|signal| register(signal).map(drop))
        .context("cannot watch for Ctrl-C")
}

/// An error once this process was asked to end.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
