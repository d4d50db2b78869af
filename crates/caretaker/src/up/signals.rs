//! The signals that ask this process to end.

use anyhow::{Context, Result};
use rustix::process::{Signal, getpgrp};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// SIGINT and SIGTERM from the moment of [`Signals::listen`] on. SIGHUP keeps its meaning, so that `nohup` works.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
}

// === impl Signals ===

impl Signals {
    /// From now on these signals do not end the process by themselves. Needs a tokio runtime around it.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! { biased;
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
        }
    }
}

/// Whether Ctrl-C in the terminal reaches this process and its children alike, without anybody passing it on.
pub(crate) fn in_foreground() -> bool {
    // The terminal of this process, whatever its streams are; there is none in a service or in CI.
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
    })
}
