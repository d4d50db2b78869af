//! `caretaker up -- COMMAND`: runs the command beside the server, as if it had been started directly.
//!
//! Its streams are its own, it gets the signals that this process gets, and its end is this process's end.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::place::Place;
use super::signals::{Signals, in_foreground};

/// What shells answer for a command that is not there.
const NOT_FOUND: u8 = 127;

/// What shells answer for a command that is there and cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// What shells add to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

/// Runs the command to its end.
pub(crate) async fn run(
    command: &[OsString],
    kubeconfig: &Path,
    place: &Place,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    if let Some(cache) = place.cache() {
        // What kubectl remembers of a server, it finds by address, and the next server may have the same address.
        command.env("KUBECACHEDIR", cache);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let missing = error.kind() == ErrorKind::NotFound;
            eprintln!("caretaker: cannot run {}: {error}", program.display());
            return Ok(ExitCode::from(if missing {
                NOT_FOUND
            } else {
                NOT_RUNNABLE
            }));
        }
    };
    let status = loop {
        tokio::select! { biased;
            status = child.wait() => break status.context("the command got lost")?,
            signal = signals.next() => pass_on(signal, &child),
        }
    };
    Ok(ExitCode::from(code_of(status)))
}

/// A signal from the keyboard reaches the command without us, and twice would mean something else to it.
fn pass_on(signal: Signal, child: &Child) {
    if signal == Signal::INT && in_foreground() {
        return;
    }
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let Some(pid) = pid {
        // It may have ended in this moment, which is what the signal was for.
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
