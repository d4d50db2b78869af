//! All instances there are, whoever started them: showing, reading and ending them by name.
//!
//! Everything here works from the directory of an instance and what `/proc` says about its processes, so it copes
//! with instances in any condition: half started, half dead, left over from before a reboot, or without a state.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::certs::{Files, Identity};
use super::home::Home;
use super::processes::{tail, using};
use super::state::{Condition, Role, State, check_name, now_unix_secs};

/// Programs that suites start beside an instance, with its kubeconfig; they have nothing to do when it is gone.
const GUESTS: &[&str] = &["caretaker"];

/// One line of `status`.
#[derive(Debug)]
pub struct Summary {
    /// The instance's name.
    pub name: String,
    /// What a look at its processes shows, in a few words.
    pub condition: String,
    /// Role, pid and port of each process, and whether it is alive.
    pub processes: Vec<(Role, u32, u16, bool)>,
    /// Seconds since it was started, if that is known.
    pub age_secs: Option<u64>,
    /// The kubeconfig of the administrator.
    pub kubeconfig: PathBuf,
}

/// Ends an instance in whatever condition it is and removes its directory. Says what it was.
pub fn down(home: &Home, name: &str) -> Result<String> {
    check_name(name)?;
    let dir = home.instance(name);
    if !dir.exists() {
        bail!("{}", no_such(name));
    }
    match State::load(&dir) {
        Ok(state) => {
            let condition = describe(&state)?;
            clear(home, &state)?;
            Ok(format!("{name} ({condition}) ended and removed"))
        }
        Err(error) => {
            remove(home, name)?;
            Ok(format!(
                "{name} removed; it had no state to go by ({error:#})"
            ))
        }
    }
}

/// The given name, or without one the name of the only instance there is.
pub fn pick(home: &Home, name: Option<&str>) -> Result<String> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let names = home.names()?;
    match names.as_slice() {
        [] => bail!("there is no instance: start one with `cargo xtask real up`"),
        [only] => Ok(only.clone()),
        several => bail!(
            "there are several instances; name one of them: {}",
            several.join(", ")
        ),
    }
}

/// What there is to say about each instance.
pub fn status(home: &Home) -> Result<Vec<Summary>> {
    home.names()?
        .iter()
        .map(|name| summary(home, name))
        .collect()
}

/// The last lines of the logs of an instance, by program; of all its programs when none is named.
pub fn logs(
    home: &Home,
    name: &str,
    role: Option<Role>,
    lines: usize,
) -> Result<Vec<(Role, String)>> {
    check_name(name)?;
    let dir = home.instance(name);
    if !dir.exists() {
        bail!("{}", no_such(name));
    }
    let wanted = Role::ALL
        .into_iter()
        .filter(|known| role.is_none_or(|role| role == *known));
    let found: Vec<_> = wanted
        .filter(|role| role.log(&dir).exists())
        .map(|role| (role, tail(&role.log(&dir), lines)))
        .collect();
    match (role, found.is_empty()) {
        (Some(role), true) => bail!("{name:?} runs no {}", role.word()),
        _ => Ok(found),
    }
}

fn summary(home: &Home, name: &str) -> Result<Summary> {
    let dir = home.instance(name);
    let kubeconfig = Files(&dir).kubeconfig(Identity::Admin);
    let name = name.to_owned();
    Ok(match State::load(&dir) {
        Ok(state) => Summary {
            name,
            condition: describe(&state)?,
            processes: state
                .processes
                .iter()
                .map(|p| (p.role, p.id.pid, p.port, p.id.is_alive()))
                .collect(),
            age_secs: Some(now_unix_secs().saturating_sub(state.started_at_unix_secs)),
            kubeconfig,
        },
        Err(_) => Summary {
            name,
            condition: "left over, without a readable state".to_owned(),
            processes: Vec::new(),
            age_secs: None,
            kubeconfig,
        },
    })
}

/// Says that a name is nobody's.
pub(super) fn no_such(name: &str) -> String {
    format!(
        "there is no instance {name:?}: `cargo xtask real status` shows what there is, `cargo xtask real up` starts one"
    )
}

/// What a look at its processes shows, in a few words.
pub(super) fn describe(state: &State) -> Result<String> {
    Ok(match state.condition()? {
        Condition::Running => "running".to_owned(),
        Condition::Starting => "starting".to_owned(),
        Condition::Stale => "stale: its processes are gone".to_owned(),
        Condition::Broken(gone) if gone.is_empty() => "broken: its start was cut off".to_owned(),
        Condition::Broken(gone) => {
            let gone: Vec<&str> = gone.into_iter().map(Role::word).collect();
            format!("broken: {} gone", gone.join(", "))
        }
    })
}

/// Ends all processes of an instance, then removes its directory. The directory stays when a process cannot be ended.
pub(super) fn clear(home: &Home, state: &State) -> Result<()> {
    for id in state.to_stop()? {
        id.stop()?;
    }
    remove(home, &state.name)
}

fn remove(home: &Home, name: &str) -> Result<()> {
    let dir = home.instance(name);
    // Those that no state file names: started in the last moment of a command that was killed, or by a suite.
    let programs = [&Role::ALL.map(Role::program)[..], GUESTS].concat();
    for id in using(&dir, &programs)? {
        id.stop()?;
    }
    match fs::remove_dir_all(&dir) {
        Err(error) if dir.exists() => bail!("cannot remove {}: {error}", dir.display()),
        _ => {}
    }
    home.tidy();
    Ok(())
}
