//! `caretaker up -- COMMAND`: runs the command beside the server, as if it had been started directly.
//!
//! The command has its own streams and gets the signals of this process; its exit code becomes ours.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::kubeconfig::KubeconfigLocation;
use super::signals::{StopSignals, in_foreground};
use crate::wiring::notice;

/// Exit code of shells for a command that does not exist.
const NOT_FOUND: u8 = 127;

/// Exit code of shells for a command that cannot be executed.
const NOT_RUNNABLE: u8 = 126;

/// Shells add this to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

pub(crate) async fn run(
    command: &[OsString],
    kubeconfig: &Path,
    location: &KubeconfigLocation,
    signals: &mut StopSignals,
) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command given")?;
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    if let Some(cache) = location.cache() {
        // kubectl caches discovery by address, and the next server may have the same address.
        command.env("KUBECACHEDIR", cache);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let missing = error.kind() == ErrorKind::NotFound;
            notice(&format!("cannot run {}: {error}", program.display()));
            return Ok(ExitCode::from(if missing {
                NOT_FOUND
            } else {
                NOT_RUNNABLE
            }));
        }
    };
    let status = loop {
        tokio::select! { biased;
            status = child.wait() => break status.context("cannot wait for the command")?,
            signal = signals.next() => forward(signal, &child),
        }
    };
    Ok(ExitCode::from(code_of(status)))
}

/// Ctrl-C in a terminal reaches the command by itself; a second SIGINT would mean something else to it.
fn forward(signal: Signal, child: &Child) {
    if signal == Signal::INT && in_foreground() {
        return;
    }
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let Some(pid) = pid {
        // The command may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| Some(SIGNALLED + status.signal()?))
        .and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_stays_and_a_signal_is_added_to_128() {
        // As wait(2) has them: the code in the second byte, the signal in the first.
        let cases = [
            (0, 0),
            (3 << 8, 3),
            (255 << 8, 255),
            (2, 130),
            (9, 137),
            (15, 143),
        ];
        for (raw, code) in cases {
            assert_eq!(code_of(ExitStatus::from_raw(raw)), code, "{raw}");
        }
    }
}
