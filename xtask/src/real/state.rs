//! What is remembered of an instance between two commands.
//!
//! The state file is written before the first process starts and after each one, so that whatever happens to the
//! command that starts an instance, `down` knows what to end. It is believed only as far as `/proc` agrees with it:
//! processes that are gone, or were started before the machine was booted, make it stale.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::home::{no_room, write_private};
use super::processes::{ProcessId, boot_id};

/// A name becomes a directory, a kubeconfig context and an argument: short enough for all of them.
const NAME_CHARS_MAX: usize = 40;

/// The programs of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The store.
    Etcd,
    /// kube-apiserver.
    Apiserver,
    /// kube-controller-manager.
    ControllerManager,
}

/// One started program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) role: Role,
    #[serde(flatten)]
    pub(crate) id: ProcessId,
    /// The loopback port on which it is spoken to.
    pub(crate) port: u16,
}

/// What is remembered of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) name: String,
    /// The Kubernetes version it was started with.
    pub(crate) kubernetes: String,
    pub(crate) started_at_unix_secs: u64,
    /// Start times of processes mean nothing under another boot of the machine.
    pub(crate) boot_id: String,
    /// The command that is starting the instance, until it is ready.
    pub(crate) starter: Option<ProcessId>,
    pub(crate) processes: Vec<Process>,
}

/// What a look at an instance's directory shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// All its processes run.
    Running,
    /// Another command is still starting it.
    Starting,
    /// Some of its processes are gone.
    Broken(Vec<Role>),
    /// None of its processes is there any more, or it was started before the machine was booted.
    Stale,
}

// === impl Role ===

impl Role {
    /// All of them, in the order in which they start.
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::Apiserver, Self::ControllerManager];

    /// The word for it on the command line and in file names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
        }
    }

    /// The file name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }

    /// Where its output goes.
    pub(crate) fn log(self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.log", self.word()))
    }
}

// === impl State ===

impl State {
    pub(crate) fn new(name: &str, kubernetes: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            kubernetes: kubernetes.to_owned(),
            started_at_unix_secs: now_unix_secs(),
            boot_id: boot_id()?,
            starter: Some(ProcessId::own()?),
            processes: Vec::new(),
        })
    }

    /// Reads the state file in an instance's directory.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        let path = file_in(dir);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let state: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a state file", path.display()))?;
        // The name decides what `down` removes.
        if dir.file_name() != Some(OsStr::new(&state.name)) {
            bail!("{} is the state file of another instance", path.display());
        }
        Ok(state)
    }

    /// Writes the state file, all of it or nothing.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let path = file_in(dir);
        let next = path.with_extension("json.next");
        let text =
            serde_json::to_string_pretty(self).context("the state cannot be written down")?;
        write_private(&next, &format!("{text}\n"))?;
        fs::rename(&next, &path).map_err(|error| no_room(error, &path))
    }

    /// Looks which of the processes are there.
    pub(crate) fn condition(&self) -> Result<Condition> {
        if self.boot_id != boot_id()? {
            return Ok(Condition::Stale);
        }
        if self.starter.is_some_and(ProcessId::is_alive) {
            return Ok(Condition::Starting);
        }
        let gone: Vec<Role> = self
            .processes
            .iter()
            .filter(|process| !process.id.is_alive())
            .map(|process| process.role)
            .collect();
        Ok(match gone.len() {
            n if n == self.processes.len() => Condition::Stale,
            0 if self.starter.is_none() => Condition::Running,
            _ => Condition::Broken(gone),
        })
    }

    /// Everything that may have to be ended, in that order: who starts processes, then who uses the others.
    pub(crate) fn to_stop(&self) -> Result<Vec<ProcessId>> {
        if self.boot_id != boot_id()? {
            return Ok(Vec::new());
        }
        let own = ProcessId::own()?;
        let starter = self.starter.filter(|starter| *starter != own);
        Ok(starter
            .into_iter()
            .chain(self.processes.iter().rev().map(|process| process.id))
            .collect())
    }

    /// The process of a role, if it was started.
    pub(crate) fn process(&self, role: Role) -> Option<&Process> {
        self.processes.iter().find(|process| process.role == role)
    }
}

/// Seconds since 1970 by this machine's clock.
pub(crate) fn now_unix_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Whether a word can name an instance.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty()
        || name.len() > NAME_CHARS_MAX
        || !name.chars().all(is_plain)
        || name.starts_with('-')
    {
        bail!(
            "{name:?} cannot name an instance: use 1 to {NAME_CHARS_MAX} of a-z, 0-9 and -, not beginning with -"
        );
    }
    if Role::ALL.iter().any(|role| role.word() == name) {
        bail!("{name:?} cannot name an instance: it is the word for one of its programs");
    }
    Ok(())
}

/// Where the state of an instance is.
pub(crate) fn file_in(dir: &Path) -> PathBuf {
    dir.join("state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_state(starter: Option<ProcessId>, ids: &[ProcessId]) -> State {
        let processes = ids
            .iter()
            .zip(Role::ALL)
            .map(|(&id, role)| Process { role, id, port: 1 })
            .collect();
        State {
            starter,
            processes,
            ..State::new("here", "v1").unwrap()
        }
    }

    /// A process that has never been.
    fn mk_gone() -> ProcessId {
        ProcessId {
            start_ticks: 1,
            ..ProcessId::own().unwrap()
        }
    }

    #[test]
    fn the_condition_follows_from_who_is_alive() {
        let (own, gone) = (ProcessId::own().unwrap(), mk_gone());
        let table = [
            (mk_state(Some(own), &[]), Condition::Starting),
            (mk_state(Some(own), &[own]), Condition::Starting),
            (mk_state(Some(gone), &[]), Condition::Stale),
            (mk_state(Some(gone), &[own, own]), Condition::Broken(vec![])),
            (mk_state(None, &[own, own]), Condition::Running),
            (
                mk_state(None, &[own, gone]),
                Condition::Broken(vec![Role::Apiserver]),
            ),
            (mk_state(None, &[gone, gone]), Condition::Stale),
            (mk_state(None, &[]), Condition::Stale),
        ];
        for (state, condition) in table {
            assert_eq!(state.condition().unwrap(), condition, "{state:?}");
        }
    }

    #[test]
    fn nothing_of_an_earlier_boot_is_believed_or_signalled() {
        let own = ProcessId::own().unwrap();
        let state = State {
            boot_id: "earlier".to_owned(),
            ..mk_state(None, &[own, own])
        };
        assert_eq!(state.condition().unwrap(), Condition::Stale);
        assert_eq!(state.to_stop().unwrap(), []);
    }

    #[test]
    fn users_of_a_server_are_stopped_before_it_and_a_foreign_starter_first() {
        let ids = [1, 2, 3].map(|pid| ProcessId {
            pid,
            start_ticks: 1,
        });
        let starter = ProcessId {
            pid: 9,
            start_ticks: 1,
        };
        assert_eq!(
            mk_state(Some(starter), &ids).to_stop().unwrap(),
            [starter, ids[2], ids[1], ids[0]]
        );
        let own = ProcessId::own().unwrap();
        assert_eq!(
            mk_state(Some(own), &ids).to_stop().unwrap(),
            [ids[2], ids[1], ids[0]]
        );
    }

    #[test]
    fn a_state_survives_its_file_and_a_wrong_file_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let dir = cache.path().join("here");
        fs::create_dir(&dir).unwrap();
        let state = mk_state(None, &[mk_gone()]);
        state.save(&dir).unwrap();
        assert_eq!(State::load(&dir).unwrap(), state);
        let refusal = || State::load(&dir).unwrap_err().to_string();
        State {
            name: "..".to_owned(),
            ..state
        }
        .save(&dir)
        .unwrap();
        assert!(
            refusal().ends_with("is the state file of another instance"),
            "{}",
            refusal()
        );
        for damaged in ["", "{", "{}", "[]", r#"{"name":"here"}"#] {
            fs::write(file_in(&dir), damaged).unwrap();
            assert!(
                refusal().ends_with("is not a state file"),
                "{damaged:?}: {}",
                refusal()
            );
        }
    }

    #[test]
    fn names_are_plain_words_that_mean_nothing_else() {
        for name in ["a", "oracle-2", "0"] {
            check_name(name).unwrap();
        }
        let long = "a".repeat(NAME_CHARS_MAX + 1);
        for name in [
            "",
            "-a",
            "A",
            "a/b",
            "..",
            "a b",
            "etcd",
            "apiserver",
            "controller-manager",
            long.as_str(),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
