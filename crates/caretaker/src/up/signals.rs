//! The signals that stop this process.

use anyhow::{Context, Result};
use rustix::process::{Signal, getpgrp};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// SIGINT and SIGTERM since [`StopSignals::listen`]. SIGHUP keeps its meaning, so that `nohup` works.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Stream,
    terminate: Stream,
}

// === impl StopSignals ===

impl StopSignals {
    /// Disables the default action of these signals. Must be called inside a tokio runtime.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot register a signal handler");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! { biased;
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
        }
    }
}

/// Whether Ctrl-C in the terminal sends SIGINT to this process and its children alike.
pub(crate) fn in_foreground() -> bool {
    // The controlling terminal, wherever the streams go; services and CI have none.
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
    })
}
