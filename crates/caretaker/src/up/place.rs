//! Where the kubeconfig goes, and what else a run leaves on disk: nothing.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use caretaker_apiserver::listen::KubeconfigFile;
use tempfile::TempDir;

/// A place on disk for one run.
#[derive(Debug)]
pub(crate) struct Place {
    kubeconfig: PathBuf,
    /// Whether the directory of the kubeconfig is ours to make.
    private: bool,
    /// What belongs to a command alone, removed with this value.
    scratch: Option<TempDir>,
}

// === impl Place ===

impl Place {
    /// `given` by the user; else beside the command's other files, if there is a command; else a file per port.
    pub(crate) fn choose(given: Option<&Path>, port: u16, for_command: bool) -> Result<Self> {
        let scratch = for_command
            .then(scratch)
            .transpose()
            .context("cannot make a temporary directory")?;
        let kubeconfig = match (given, &scratch) {
            (Some(given), _) => absolute(given).context("--kubeconfig-out names no file")?,
            (None, Some(scratch)) => scratch.path().join("kubeconfig"),
            (None, None) => directory().join(format!("{port}.kubeconfig")),
        };
        Ok(Self {
            kubeconfig,
            private: given.is_none(),
            scratch,
        })
    }

    /// Writes the kubeconfig; it is gone when the value is.
    pub(crate) fn write(&self, text: String) -> Result<KubeconfigFile> {
        let path = self.kubeconfig.clone();
        Ok(if self.private {
            KubeconfigFile::write_private(path, text)?
        } else {
            KubeconfigFile::write(path, text)?
        })
    }

    /// Where kubectl may keep what it learns about the server of a command.
    pub(crate) fn cache(&self) -> Option<PathBuf> {
        Some(self.scratch.as_ref()?.path().join("cache"))
    }
}

/// A directory that only this user can enter.
fn scratch() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("caretaker-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

/// A directory of this user that does not outlive the session, or one among everybody's temporary files.
pub(crate) fn directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime {
        Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("caretaker"),
        _ => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("caretaker-{user}"))
        }
    }
}
