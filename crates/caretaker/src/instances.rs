//! The registry of running `caretaker up` processes of this user: a file per instance in a private directory.
//!
//! The process holds a lock on its file for as long as it runs and removes the file at its end. The lock, not the process
//! id, says whether an instance runs: a file that a killed process left behind is not locked, and the next instance of
//! that name takes it. `up` claims a name; `graph`, `explain` and `schedule` look for instances when there is no
//! kubeconfig.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// The ending of the files.
const EXTENSION: &str = "instance";

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A reader locks a file for a moment in order to see whether its process runs. A claim waits for such readers.
const CLAIM_TRIES: u32 = 5;
const CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// A running instance, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningInstance {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// The URL of the API server.
    pub(crate) server: String,
    pub(crate) kubeconfig: PathBuf,
}

/// The claim of this process on a name. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct InstanceClaim {
    path: PathBuf,
    file: File,
}

// === impl RunningInstance ===

impl RunningInstance {
    /// Says that this instance is used.
    pub(crate) fn chosen(&self) -> String {
        let Self { name, server, .. } = self;
        format!("there is no kubeconfig; using the running caretaker up {name:?} at {server}")
    }
}

// === impl InstanceClaim ===

impl InstanceClaim {
    /// Claims a name in this directory, which is created if it is missing.
    ///
    /// # Errors
    /// If a running instance has the name, or the directory is not private.
    pub(crate) fn new(directory: &Path, name: &str) -> Result<Self> {
        create_private(directory)?;
        let path = directory.join(format!("{name}.{EXTENSION}"));
        for _ in 0..CLAIM_TRIES {
            let file = open(&path).with_context(|| format!("cannot write {}", path.display()))?;
            match file.try_lock() {
                // Its last owner may have removed the file between the two calls.
                Ok(()) if is_at(&file, &path) => {
                    let emptied = file.set_len(0);
                    emptied.with_context(|| format!("cannot write {}", path.display()))?;
                    return Ok(Self { path, file });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => thread::sleep(CLAIM_PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
        }
        let place = match read(&path) {
            Some(running) => format!(" at {}, process {}", running.server, running.pid),
            None => String::new(),
        };
        bail!(
            "an instance with the name {name:?} runs already{place}: stop it, or choose another --name"
        )
    }

    /// Describes this process to others.
    pub(crate) fn publish(&mut self, instance: &RunningInstance) -> Result<()> {
        let text = serde_json::to_vec(instance)?;
        let written = self.file.write_all(&text);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for InstanceClaim {
    fn drop(&mut self) {
        // Before the lock is released with the file, so that the file of a successor stays.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the file");
        }
    }
}

/// The instances that run, by name. None if other users can write to the directory: a kubeconfig may name programs to
/// run.
pub(crate) fn running(directory: &Path) -> Vec<RunningInstance> {
    let entries = fs::read_dir(directory)
        .ok()
        .filter(|_| is_private(directory));
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == EXTENSION));
    let mut found: Vec<RunningInstance> = files
        .filter(|path| is_locked(path))
        .filter_map(|path| read(&path))
        .collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// The instance of this name.
///
/// # Errors
/// If there is none; the message lists those that run.
pub(crate) fn named(running: Vec<RunningInstance>, name: &str) -> Result<RunningInstance> {
    let known = match running.as_slice() {
        [] => "none runs".to_owned(),
        some => format!("running: {}", listed(some)),
    };
    let found = running.into_iter().find(|instance| instance.name == name);
    found.with_context(|| {
        format!("no caretaker up with the name {name:?} runs on this machine; {known}")
    })
}

/// The instance, if only one runs.
///
/// # Errors
/// If several run; the message lists them.
pub(crate) fn only(mut running: Vec<RunningInstance>) -> Result<Option<RunningInstance>> {
    if running.len() > 1 {
        bail!(
            "there is no kubeconfig, and several caretaker up run on this machine: choose one with --name: {}",
            listed(&running)
        );
    }
    Ok(running.pop())
}

/// Where the kubeconfigs of running instances are, for a message about a missing one. `run` does not choose one by itself:
/// it writes.
pub(crate) fn hint(running: &[RunningInstance]) -> String {
    let paths: Vec<String> = running
        .iter()
        .map(|instance| instance.kubeconfig.display().to_string())
        .collect();
    match paths.as_slice() {
        [] => String::new(),
        paths => format!("; running caretaker up have {}", paths.join(", ")),
    }
}

/// `6443 (https://127.0.0.1:6443), shop (https://127.0.0.1:6444)`.
fn listed(running: &[RunningInstance]) -> String {
    let texts = running
        .iter()
        .map(|instance| format!("{} ({})", instance.name, instance.server));
    texts.collect::<Vec<_>>().join(", ")
}

/// Whether only this user can enter the directory.
pub(crate) fn is_private(directory: &Path) -> bool {
    let user = rustix::process::getuid().as_raw();
    fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

fn create_private(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot create {}", directory.display()));
        }
        _ => {}
    }
    if !is_private(directory) {
        bail!(
            "{} is not a directory that only this user can enter: remove it, or set XDG_RUNTIME_DIR",
            directory.display()
        );
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Whether the file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (own.dev(), own.ino()) == (found.dev(), found.ino())
}

fn is_locked(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// `None` for a file that cannot be read, and for an instance that has claimed its name and is not ready.
fn read(path: &Path) -> Option<RunningInstance> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mk_instance(name: &str) -> RunningInstance {
        RunningInstance {
            name: name.to_owned(),
            pid: 7,
            server: "https://127.0.0.1:6443".to_owned(),
            kubeconfig: "/k".into(),
        }
    }

    #[test]
    fn running_instances_are_found_and_a_name_is_given_once() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path().join("caretaker");
        assert_eq!(running(&directory), []);
        let mut shop = InstanceClaim::new(&directory, "shop").unwrap();
        // Not ready yet.
        assert_eq!(running(&directory), []);
        shop.publish(&mk_instance("shop")).unwrap();
        let mut port = InstanceClaim::new(&directory, "6443").unwrap();
        port.publish(&mk_instance("6443")).unwrap();
        let names = |found: Vec<RunningInstance>| found.into_iter().map(|found| found.name);
        assert!(names(running(&directory)).eq(["6443", "shop"]));
        let mode = fs::metadata(&shop.path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);

        let refused = InstanceClaim::new(&directory, "shop").unwrap_err();
        let expected = "an instance with the name \"shop\" runs already at https://127.0.0.1:6443, process 7: stop it, or \
                        choose another --name";
        assert_eq!(refused.to_string(), expected);
        drop(shop);
        drop(port);
        assert_eq!(running(&directory), []);
        assert_eq!(directory.read_dir().unwrap().count(), 0);
        InstanceClaim::new(&directory, "shop").unwrap();
    }

    #[test]
    fn one_instance_is_chosen_and_several_are_listed() {
        assert_eq!(only(vec![]).unwrap(), None);
        assert_eq!(
            only(vec![mk_instance("a")]).unwrap(),
            Some(mk_instance("a"))
        );
        let both = || vec![mk_instance("a"), mk_instance("b")];
        let error = only(both()).unwrap_err().to_string();
        let list = "a (https://127.0.0.1:6443), b (https://127.0.0.1:6443)";
        assert!(
            error.ends_with(&format!("choose one with --name: {list}")),
            "{error}"
        );
        assert_eq!(named(both(), "b").unwrap(), mk_instance("b"));
        let error = named(both(), "c").unwrap_err().to_string();
        assert!(error.ends_with(&format!("running: {list}")), "{error}");
        assert_eq!(hint(&both()), "; running caretaker up have /k, /k");
        assert_eq!(hint(&[]), "");
        assert!(
            named(vec![], "c")
                .unwrap_err()
                .to_string()
                .ends_with("none runs")
        );
    }

    #[test]
    fn a_file_without_a_process_is_no_instance() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path();
        fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
        let left = directory.join("shop.instance");
        fs::write(&left, serde_json::to_vec(&mk_instance("shop")).unwrap()).unwrap();
        assert_eq!(running(directory), []);
        let mut claim = InstanceClaim::new(directory, "shop").unwrap();
        assert_eq!(running(directory), []);
        claim.publish(&mk_instance("shop")).unwrap();
        assert_eq!(running(directory), [mk_instance("shop")]);
        // A lock on something else is no instance.
        let odd = File::create(directory.join("odd.instance")).unwrap();
        odd.lock().unwrap();
        assert_eq!(running(directory), [mk_instance("shop")]);
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path();
        fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
        let mut claim = InstanceClaim::new(directory, "shop").unwrap();
        claim.publish(&mk_instance("shop")).unwrap();
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(running(directory), []);
        let refused = InstanceClaim::new(directory, "other").unwrap_err();
        assert!(
            refused.to_string().contains("only this user can enter"),
            "{refused}"
        );
    }
}
