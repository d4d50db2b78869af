//! Ctrl-C and other signals as a flag that waiting loops check, so that a command ends what it started.
//!
//! Only commands that would leave processes or files behind call [`watch`]; the others end at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGINT, SIGTERM and SIGHUP no longer end this process but make [`check`] fail.
pub fn watch() -> Result<()> {
    let register = |signal| signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED));
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .try_for_each(|signal| register(signal).map(drop))
        .context("cannot watch for Ctrl-C")
}

/// Fails once this process has received one of the signals.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
