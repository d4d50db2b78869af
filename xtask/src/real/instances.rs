//! The oracle's directories: `<cache>/caretaker/real/` with one directory of programs per pinned version and
//! `run/<name>/` per instance, and the commands that work on an instance by its name.
//!
//! Everything here works from the directory of an instance and from what `/proc` shows of its processes, so it copes
//! with instances in any condition: half started, half dead, or left over from before a reboot.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::certs::{Identity, IdentityFiles};
use super::processes::{ProcessId, tail, using};
use super::servers::Role;

/// A name becomes a directory, a kubeconfig context and an argument: short enough for all of them.
const NAME_CHARS_MAX: usize = 40;
/// Programs that suites start with the kubeconfig of an instance. They end with it.
const GUESTS: &[&str] = &["caretaker"];

/// The directory of everything the oracle keeps.
#[derive(Clone, Debug)]
pub struct OracleHome(PathBuf);

/// The condition of an instance, by its directory and its processes.
#[derive(Debug, PartialEq, Eq)]
pub enum InstanceCondition {
    /// It became ready, and all its processes run.
    Running,
    /// It is not ready yet, or its start was cut off.
    Starting,
    /// Some of its processes are gone.
    Broken(Vec<Role>),
    /// All its processes are gone.
    Stale,
}

/// The status of an instance, as `cargo xtask real status` prints it.
#[derive(Debug)]
pub struct InstanceStatus {
    name: String,
    condition: InstanceCondition,
    processes: Vec<(Role, ProcessId)>,
    /// Seconds since its directory was made, if the file system knows.
    age_secs: Option<u64>,
    /// The kubeconfig of the administrator.
    kubeconfig: PathBuf,
}

// === impl OracleHome ===

impl OracleHome {
    /// The directory below `$XDG_CACHE_HOME`, else below `~/.cache`.
    pub fn from_env() -> Result<Self> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let cache = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .context("neither XDG_CACHE_HOME nor HOME names a directory: set one of them to an absolute path")?;
        Ok(Self(cache.join("caretaker").join("real")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn instance(&self, name: &str) -> PathBuf {
        self.0.join("run").join(name)
    }

    /// The names of all instances that have a directory, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let run = self.0.join("run");
        let entries = match run.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => bail!("cannot read {}: {error}", run.display()),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.retain(|name| check_name(name).is_ok());
        names.sort();
        Ok(names)
    }

    /// The given name, or without one the name of the only instance.
    pub fn pick(&self, name: Option<&str>) -> Result<String> {
        if let Some(name) = name {
            return Ok(name.to_owned());
        }
        match self.names()?.as_slice() {
            [] => bail!("no instance exists: start one with `cargo xtask real up`"),
            [only] => Ok(only.clone()),
            several => bail!(
                "several instances exist; name one of them: {}",
                several.join(", ")
            ),
        }
    }

    /// Makes the directory of a new instance. The file system lets one command succeed for a name.
    pub(super) fn reserve(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        let dir = self.instance(name);
        create_private_dir(&self.0.join("run"))?;
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{name:?} is {} already; take another --name, or end it with `cargo xtask real down {name}`",
                self.condition(name)?
            ),
            Err(error) => Err(error).with_context(|| format!("cannot make {}", dir.display())),
        }
    }

    /// The directory of an instance that exists.
    pub(super) fn existing(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        let dir = self.instance(name);
        if !dir.exists() {
            bail!(
                "no instance {name:?} exists: `cargo xtask real status` lists them, `cargo xtask real up` starts one"
            );
        }
        Ok(dir)
    }

    /// The condition of an instance that exists. A program belongs to the instance from when its log exists.
    pub fn condition(&self, name: &str) -> Result<InstanceCondition> {
        let dir = self.existing(name)?;
        let alive: Vec<Role> = processes_of(&dir)?
            .into_iter()
            .map(|(role, _)| role)
            .collect();
        let gone: Vec<Role> = Role::ALL
            .into_iter()
            .filter(|role| role.log(&dir).exists() && !alive.contains(role))
            .collect();
        Ok(match (ready_mark(&dir).exists(), alive.is_empty()) {
            (true, true) => InstanceCondition::Stale,
            (true, false) if gone.is_empty() => InstanceCondition::Running,
            (true, false) => InstanceCondition::Broken(gone),
            (false, _) => InstanceCondition::Starting,
        })
    }

    /// The status of every instance.
    pub fn status(&self) -> Result<Vec<InstanceStatus>> {
        let of = |name: String| {
            let dir = self.instance(&name);
            let made = fs::metadata(&dir).and_then(|meta| meta.created());
            let age = made
                .ok()
                .and_then(|made| SystemTime::now().duration_since(made).ok());
            Ok(InstanceStatus {
                condition: self.condition(&name)?,
                processes: processes_of(&dir)?,
                age_secs: age.as_ref().map(Duration::as_secs),
                kubeconfig: IdentityFiles(&dir).kubeconfig(Identity::Admin),
                name,
            })
        };
        self.names()?.into_iter().map(of).collect()
    }

    /// The last lines of the logs of an instance, by program; of all its programs when none is named.
    pub fn logs(
        &self,
        name: &str,
        role: Option<Role>,
        lines: usize,
    ) -> Result<Vec<(Role, String)>> {
        let dir = self.existing(name)?;
        let found: Vec<_> = Role::ALL
            .into_iter()
            .filter(|known| role.is_none_or(|role| role == *known))
            .filter(|role| role.log(&dir).exists())
            .map(|role| (role, tail(&role.log(&dir), lines)))
            .collect();
        match role {
            Some(role) if found.is_empty() => bail!("{name:?} runs no {}", role.word()),
            _ => Ok(found),
        }
    }

    /// Ends an instance in any condition and removes its directory. Returns the condition it was in.
    pub fn down(&self, name: &str) -> Result<InstanceCondition> {
        let condition = self.condition(name)?;
        self.remove(name)?;
        Ok(condition)
    }

    /// Ends all processes of an instance, then removes its directory. Keeps the directory when a process does not end.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let dir = self.instance(name);
        let users = using(&dir, GUESTS)?.into_iter();
        let servers = processes_of(&dir)?.into_iter().rev().map(|(_, id)| id);
        // Clients end before the server that they use, the server before its store.
        for id in users.chain(servers) {
            id.stop()?;
        }
        match fs::remove_dir_all(&dir) {
            Err(error) if dir.exists() => bail!("cannot remove {}: {error}", dir.display()),
            _ => Ok(()),
        }
    }
}

// === impl InstanceCondition ===

impl fmt::Display for InstanceCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Starting => f.write_str("starting, or its start was cut off"),
            Self::Stale => f.write_str("stale: its processes are gone"),
            Self::Broken(gone) => {
                let gone: Vec<&str> = gone.iter().map(|role| role.word()).collect();
                write!(f, "broken: {} gone", gone.join(", "))
            }
        }
    }
}

// === impl InstanceStatus ===

impl fmt::Display for InstanceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.condition)?;
        match self.age_secs {
            None => writeln!(f)?,
            Some(secs @ ..120) => writeln!(f, ", started {secs} s ago")?,
            Some(secs @ ..7200) => writeln!(f, ", started {} min ago", secs / 60)?,
            Some(secs @ ..172_800) => writeln!(f, ", started {} h ago", secs / 3600)?,
            Some(secs) => writeln!(f, ", started {} days ago", secs / 86_400)?,
        }
        for (role, id) in &self.processes {
            writeln!(f, "  {:<18}  pid {}", role.word(), id.pid)?;
        }
        writeln!(f, "  KUBECONFIG={}", self.kubeconfig.display())
    }
}

/// Makes a directory, and those above it, that only this user may enter.
pub(super) fn create_private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// A file that exists once the instance is ready.
pub(super) fn ready_mark(dir: &Path) -> PathBuf {
    dir.join("ready")
}

/// The living processes of an instance, in the order in which they start.
fn processes_of(dir: &Path) -> Result<Vec<(Role, ProcessId)>> {
    let mut found = Vec::new();
    for role in Role::ALL {
        let ids = using(dir, &[role.program()])?;
        found.extend(ids.into_iter().map(|id| (role, id)));
    }
    Ok(found)
}

/// A name is a plain word that is not a program's.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_role = Role::ALL.iter().any(|role| role.word() == name);
    if name.is_empty()
        || name.len() > NAME_CHARS_MAX
        || !name.chars().all(is_plain)
        || name.starts_with('-')
        || is_role
    {
        bail!(
            "{name:?} cannot name an instance: use at most {NAME_CHARS_MAX} of a-z, 0-9 and -, and not a program's name"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::super::test_programs::mk_program;
    use super::*;

    fn mk_home() -> (tempfile::TempDir, OracleHome) {
        let cache = tempfile::tempdir().unwrap();
        let home = OracleHome(cache.path().to_owned());
        (cache, home)
    }

    /// A shell under the name of a role's program, with its log.
    fn mk_process(dir: &Path, role: Role) -> Child {
        fs::write(role.log(dir), "first\nlast\n").unwrap();
        mk_program(role.program(), dir)
    }

    #[test]
    fn a_name_is_reserved_once() {
        let (_cache, home) = mk_home();
        home.reserve("here").unwrap();
        let refusal = home.reserve("here").unwrap_err().to_string();
        assert!(refusal.contains("is starting"), "{refusal}");
        assert!(refusal.contains("cargo xtask real down here"), "{refusal}");
        home.reserve("there").unwrap();
        assert_eq!(home.names().unwrap(), ["here", "there"]);
        assert!(home.pick(None).is_err());
        assert!(home.existing("gone").is_err());
    }

    #[test]
    fn the_condition_follows_the_processes_and_down_ends_them() {
        let (_cache, home) = mk_home();
        let dir = home.reserve("here").unwrap();
        let condition = || home.condition("here").unwrap();
        let mut etcd = mk_process(&dir, Role::Etcd);
        assert_eq!(condition(), InstanceCondition::Starting);
        fs::write(ready_mark(&dir), "").unwrap();
        assert_eq!(condition(), InstanceCondition::Running);
        let mut apiserver = mk_process(&dir, Role::Apiserver);
        assert_eq!(home.status().unwrap()[0].processes.len(), 2);
        apiserver.kill().unwrap();
        apiserver.wait().unwrap();
        let broken = InstanceCondition::Broken(vec![Role::Apiserver]);
        assert_eq!(home.down("here").unwrap(), broken);
        assert!(!etcd.wait().unwrap().success());
        assert!(!dir.exists());
        home.reserve("here").unwrap();
        fs::write(ready_mark(&dir), "").unwrap();
        assert_eq!(condition(), InstanceCondition::Stale);
    }

    #[test]
    fn logs_are_shown_by_program() {
        let (_cache, home) = mk_home();
        let dir = home.reserve("here").unwrap();
        fs::write(Role::Etcd.log(&dir), "first\nlast\n").unwrap();
        let logs = home.logs("here", None, 1).unwrap();
        assert_eq!(logs, [(Role::Etcd, "last".to_owned())]);
        assert!(home.logs("here", Some(Role::Apiserver), 1).is_err());
    }

    #[test]
    fn names_are_plain_words() {
        for name in ["a", "oracle-2", "0"] {
            check_name(name).unwrap();
        }
        let long = "a".repeat(NAME_CHARS_MAX + 1);
        for name in ["", "-a", "A", "a/b", "..", "a b", "etcd", &long] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
