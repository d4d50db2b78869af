//! The kubeconfig file of a run and its temporary directory. Both are removed at the end.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use caretaker_apiserver::listen::KubeconfigFile;
use tempfile::TempDir;

/// Where the kubeconfig of one run is written.
#[derive(Debug)]
pub(crate) struct KubeconfigLocation {
    kubeconfig: PathBuf,
    /// The directory of the kubeconfig is created for this user only.
    private: bool,
    /// Temporary directory of a command, removed with this value.
    scratch: Option<TempDir>,
}

// === impl KubeconfigLocation ===

impl KubeconfigLocation {
    /// The path of the user; else a temporary directory if there is a command; else a file per instance.
    pub(crate) fn choose(given: Option<&Path>, instance: &str, for_command: bool) -> Result<Self> {
        let scratch = for_command
            .then(scratch)
            .transpose()
            .context("cannot create a temporary directory")?;
        let kubeconfig = match (given, &scratch) {
            (Some(given), _) => absolute(given).context("--kubeconfig-out is not a file path")?,
            (None, Some(scratch)) => scratch.path().join("kubeconfig"),
            (None, None) => directory().join(format!("{instance}.kubeconfig")),
        };
        Ok(Self {
            kubeconfig,
            private: given.is_none(),
            scratch,
        })
    }

    /// Writes the kubeconfig, which is removed when the value is dropped.
    pub(crate) fn write(&self, text: String) -> Result<KubeconfigFile> {
        let path = self.kubeconfig.clone();
        Ok(if self.private {
            KubeconfigFile::write_private(path, text)?
        } else {
            KubeconfigFile::write(path, text)?
        })
    }

    /// The discovery cache of kubectl for a command.
    pub(crate) fn cache(&self) -> Option<PathBuf> {
        Some(self.scratch.as_ref()?.path().join("cache"))
    }
}

/// Creates a directory that only this user can enter.
fn scratch() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("caretaker-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

/// `$XDG_RUNTIME_DIR/caretaker`, or a directory of this user among the temporary files.
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
