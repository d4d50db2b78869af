//! Where the oracle keeps things: `<cache>/caretaker/real/` with one directory of programs per pinned version and
//! `run/<name>/` per instance.
//!
//! Everything here is for this user alone. Directories that hold nothing are removed again. A lock on a directory
//! keeps commands apart that would make the same thing in it; it leaves no file behind.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::statvfs;

use super::processes::POLL;
use super::state::{Condition, State, check_name};
use crate::interrupt;

/// What an instance writes in its first minute: etcd's first log segment has 64 MB, its file of data 20 MB.
const INSTANCE_BYTES: u64 = 150 * MEGABYTE;
/// The unit in which sizes are said.
pub(crate) const MEGABYTE: u64 = 1_000_000;
/// The way out of a full disk.
const OTHER_DISK: &str = "make room, or let XDG_CACHE_HOME name a directory on another disk";

/// The directory of everything the oracle keeps.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

// === impl Home ===

impl Home {
    /// The place named by the environment: `$XDG_CACHE_HOME`, else `~/.cache`.
    pub fn from_env() -> Result<Self> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let cache = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .context("neither XDG_CACHE_HOME nor HOME names a directory: set one of them to an absolute path")?;
        Ok(Self::below(&cache))
    }

    /// The place below a given cache directory.
    pub(crate) fn below(cache: &Path) -> Self {
        Self(cache.join("caretaker").join("real"))
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// The directory of an instance, whether it exists or not.
    pub(crate) fn instance(&self, name: &str) -> PathBuf {
        self.run().join(name)
    }

    /// The names of all instances that have a directory, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match self.run().read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => bail!("cannot read {}: {error}", self.run().display()),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.retain(|name| check_name(name).is_ok());
        names.sort();
        Ok(names)
    }

    /// Makes the directory of a new instance and its first state file. At most one command succeeds for a name.
    pub(crate) fn reserve(&self, name: &str, kubernetes: &str) -> Result<(PathBuf, State)> {
        let _lock = lock(&self.run(), "another `real up` is choosing its directory")?;
        let dir = self.instance(name);
        if dir.exists() {
            self.refuse_taken(name)?;
        }
        let reserved = require_room(&self.run(), INSTANCE_BYTES)
            .and_then(|()| create_private_dir(&dir))
            .and_then(|()| State::new(name, kubernetes))
            .and_then(|state| state.save(&dir).map(|()| state));
        if reserved.is_err() {
            // Nothing was started yet; an empty directory must not stay.
            let _ = fs::remove_dir_all(&dir);
            self.tidy();
        }
        Ok((dir, reserved?))
    }

    /// Removes those of the directories above all others that hold nothing (any more).
    pub(crate) fn tidy(&self) {
        let dirs = [
            Some(self.run()),
            Some(self.0.clone()),
            self.0.parent().map(Path::to_owned),
        ];
        for dir in dirs.into_iter().flatten() {
            // Refused by the system unless it is empty.
            let _ = fs::remove_dir(dir);
        }
    }

    fn refuse_taken(&self, name: &str) -> Result<()> {
        let known = State::load(&self.instance(name)).and_then(|state| state.condition());
        let what = match known {
            Ok(Condition::Running) => {
                format!("{name:?} is running already; take another --name or")
            }
            Ok(Condition::Starting) => {
                format!("{name:?} is just being started; wait, or take another --name, or")
            }
            Ok(Condition::Broken(_)) => {
                format!("{name:?} runs only in part; look at `cargo xtask real logs {name}`, then")
            }
            Ok(Condition::Stale) => format!("{name:?} is a leftover whose processes are gone;"),
            Err(_) => format!("{name:?} is a leftover without a readable state;"),
        };
        bail!("{what} end it with `cargo xtask real down {name}`")
    }
}

/// Makes a directory, and those above it, that only this user may enter.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| no_room(error, path))
}

/// Writes a file that only this user may read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| no_room(error, path))
}

/// Makes a directory and holds it for one command at a time; the lock ends with the value, or with the process. While
/// another holds it, says why once and waits.
pub(crate) fn lock(dir: &Path, why: &str) -> Result<File> {
    let mut said = false;
    loop {
        create_private_dir(dir)?;
        let handle = match File::open(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.with_context(|| format!("cannot open {}", dir.display()))?,
        };
        match handle.try_lock() {
            Ok(()) if is_at(&handle, dir) => return Ok(handle),
            // It was removed, as an empty directory is, before it could be locked.
            Ok(()) => continue,
            Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", dir.display()),
            Err(TryLockError::WouldBlock) => {}
        }
        if !said {
            eprintln!("{why}; waiting for it");
            said = true;
        }
        interrupt::check()?;
        thread::sleep(POLL);
    }
}

fn is_at(handle: &File, dir: &Path) -> bool {
    let inode =
        |metadata: io::Result<Metadata>| metadata.map(|found| (found.dev(), found.ino())).ok();
    inode(handle.metadata()) == inode(fs::metadata(dir))
}

/// Refuses early what would fail halfway: less than that much room where a directory is.
pub(crate) fn require_room(dir: &Path, bytes: u64) -> Result<()> {
    let disk = statvfs(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < bytes {
        let (needed, free, dir) = (bytes / MEGABYTE, free / MEGABYTE, dir.display());
        bail!("{needed} MB are needed but only {free} MB are free in {dir}: {OTHER_DISK}");
    }
    Ok(())
}

/// Says what to do about a file that could not be written.
pub(crate) fn no_room(error: io::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            anyhow!("no room for {path}: {OTHER_DISK}")
        }
        _ => anyhow!(error).context(format!("cannot write {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::processes::ProcessId;
    use super::super::state::file_in;
    use super::*;

    #[test]
    fn a_name_is_given_once_and_a_leftover_is_called_one() {
        let cache = tempfile::tempdir().unwrap();
        let home = Home::below(cache.path());
        let gone = ProcessId {
            start_ticks: 1,
            ..ProcessId::own().unwrap()
        };
        let (dir, mut state) = home.reserve("here", "v1").unwrap();
        let refusal = || home.reserve("here", "v1").unwrap_err().to_string();
        assert!(refusal().contains("is just being started"), "{}", refusal());
        state.starter = Some(gone);
        state.save(&dir).unwrap();
        assert!(refusal().contains("is a leftover"), "{}", refusal());
        fs::write(file_in(&dir), "?").unwrap();
        assert!(refusal().contains("is a leftover"), "{}", refusal());
        assert!(
            refusal().contains("cargo xtask real down here"),
            "{}",
            refusal()
        );
        assert_eq!(home.names().unwrap(), ["here"]);
        home.reserve("there", "v1").unwrap();
        assert_eq!(home.names().unwrap(), ["here", "there"]);
    }

    #[test]
    fn only_empty_directories_are_tidied_away() {
        let cache = tempfile::tempdir().unwrap();
        let home = Home::below(cache.path());
        let (dir, _) = home.reserve("here", "v1").unwrap();
        home.tidy();
        assert!(dir.exists());
        fs::remove_dir_all(&dir).unwrap();
        home.tidy();
        assert_eq!(cache.path().read_dir().unwrap().count(), 0);
        home.tidy();
    }

    #[test]
    fn a_lock_keeps_the_second_out_and_is_not_fooled_by_a_removed_directory() {
        let cache = tempfile::tempdir().unwrap();
        let dir = cache.path().join("dir");
        let held = lock(&dir, "").unwrap();
        assert!(matches!(
            File::open(&dir).unwrap().try_lock(),
            Err(TryLockError::WouldBlock)
        ));
        fs::remove_dir(&dir).unwrap();
        assert!(!is_at(&held, &dir));
        let again = lock(&dir, "").unwrap();
        assert!(is_at(&again, &dir));
    }

    #[test]
    fn a_full_disk_is_said_with_the_way_out() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = no_room(full, Path::new("/x/y")).to_string();
        assert_eq!(error, format!("no room for /x/y: {OTHER_DISK}"));
        let error = require_room(Path::new("/"), u64::MAX)
            .unwrap_err()
            .to_string();
        assert!(error.contains("MB are needed but only"), "{error}");
        assert!(error.ends_with(OTHER_DISK), "{error}");
        require_room(Path::new("/"), 0).unwrap();
    }
}
