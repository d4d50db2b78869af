//! The kubeconfig of one server: its text, and the file that exists while the server does.
//!
//! The file appears whole, by a rename, so whoever waits for it can use it at once. It is readable by its owner only, and
//! it is removed when its [`KubeconfigFile`] is dropped, unless somebody else has put another one in its place meanwhile.
//! A kubeconfig that this module did not write is never overwritten.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::{Builder, NamedTempFile};

use super::auth::Token;

/// Marks a file as ours to overwrite: one that an earlier process could not remove.
const MARK: &str = "# Written by caretaker, which removes it when it ends.\n";

/// Name of cluster, user and context in the kubeconfig.
const CONTEXT: &str = "caretaker";

/// A kubeconfig on disk. Dropping it removes the file.
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    text: String,
}

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The name is taken by something else.
    #[error("{0} exists and was not written by caretaker: name another file")]
    Foreign(PathBuf),
    /// Others could read it or put something in its place.
    #[error(
        "{0} is not a directory that only this user can enter: remove it, or name another place"
    )]
    NotPrivate(PathBuf),
    /// The operating system refused.
    #[error("cannot write {path}: {source}")]
    Io {
        /// What was to be written.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A kubeconfig for the server at `url`, whose certificates `authority` (PEM) signs.
pub(super) fn render(url: &str, authority: Option<&str>, token: &Token) -> String {
    let trust = authority.map_or_else(String::new, |pem| {
        let pem = STANDARD.encode(pem);
        format!("    certificate-authority-data: {pem}\n")
    });
    let token = token.reveal();
    format!(
        "{MARK}apiVersion: v1
kind: Config
clusters:
- name: {CONTEXT}
  cluster:
    server: \"{url}\"
{trust}users:
- name: {CONTEXT}
  user:
    token: \"{token}\"
contexts:
- name: {CONTEXT}
  context:
    cluster: {CONTEXT}
    user: {CONTEXT}
    namespace: default
current-context: {CONTEXT}
"
    )
}

// === impl KubeconfigFile ===

impl KubeconfigFile {
    /// Writes `text` to `path`, in a directory that exists.
    ///
    /// # Errors
    /// When the file belongs to somebody else or cannot be written.
    pub fn write(path: PathBuf, text: String) -> Result<Self, KubeconfigError> {
        let io = |source| KubeconfigError::Io {
            path: path.clone(),
            source,
        };
        let temporary = temporary_beside(&path).map_err(io)?;
        Self::finish(temporary, path, text)
    }

    /// Writes `text` to `path`, in a directory that only this user can enter; it is made if it is not there.
    ///
    /// # Errors
    /// When the directory is open to others, or the file cannot be written.
    pub fn write_private(path: PathBuf, text: String) -> Result<Self, KubeconfigError> {
        let io = |source| KubeconfigError::Io {
            path: path.clone(),
            source,
        };
        let directory = directory_of(&path);
        let mut builder = DirBuilder::new();
        match builder.mode(0o700).create(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
            _ => {}
        }
        let temporary = temporary_beside(&path).map_err(io)?;
        let found = fs::symlink_metadata(directory).map_err(io)?;
        let own = temporary.as_file().metadata().map_err(io)?;
        if !is_private(&found, &own) {
            return Err(KubeconfigError::NotPrivate(directory.to_owned()));
        }
        Self::finish(temporary, path, text)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn finish(
        mut temporary: NamedTempFile,
        path: PathBuf,
        text: String,
    ) -> Result<Self, KubeconfigError> {
        let io = |source| KubeconfigError::Io {
            path: path.clone(),
            source,
        };
        match fs::read(&path) {
            Ok(found) if !found.starts_with(MARK.as_bytes()) => {
                return Err(KubeconfigError::Foreign(path));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        temporary.write_all(text.as_bytes()).map_err(io)?;
        temporary.persist(&path).map_err(|error| io(error.error))?;
        Ok(Self { path, text })
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        let is_ours = fs::read(&self.path).is_ok_and(|found| found == self.text.as_bytes());
        if !is_ours {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the kubeconfig");
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// A file that only this user can read, in the directory where it will get its name.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    Builder::new()
        .prefix(".caretaker-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory_of(path))
}

/// `own` is a file of ours: its owner is this user.
fn is_private(directory: &Metadata, own: &Metadata) -> bool {
    directory.is_dir() && directory.uid() == own.uid() && directory.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::listen::auth::TOKEN_BYTES;

    fn mk_text(url: &str) -> String {
        let token = Token::from_random([7; TOKEN_BYTES]);
        render(url, Some("-----BEGIN…"), &token)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_kubeconfig_names_server_authority_token_and_context() {
        let text = mk_text("https://127.0.0.1:6443");
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let authority = STANDARD.encode("-----BEGIN…");
        assert_eq!(
            config["clusters"][0]["cluster"],
            json!({"server": "https://127.0.0.1:6443", "certificate-authority-data": authority})
        );
        assert_eq!(
            config["users"][0]["user"]["token"],
            "07".repeat(TOKEN_BYTES)
        );
        assert_eq!(config["current-context"], "caretaker");
        assert_eq!(config["contexts"][0]["name"], "caretaker");
        assert_eq!(
            config["contexts"][0]["context"]["user"],
            config["users"][0]["name"]
        );
        assert_eq!(
            config["contexts"][0]["context"]["cluster"],
            config["clusters"][0]["name"]
        );
    }

    #[test]
    fn a_token_of_digits_stays_text_and_plain_http_needs_no_authority() {
        let text = render(
            "http://[::1]:80",
            None,
            &Token::from_random([0x11; TOKEN_BYTES]),
        );
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            config["users"][0]["user"]["token"],
            "11".repeat(TOKEN_BYTES)
        );
        assert_eq!(
            config["clusters"][0]["cluster"],
            json!({"server": "http://[::1]:80"})
        );
    }

    #[test]
    fn the_file_is_private_and_goes_with_its_value() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new").join("6443.kubeconfig");
        let file = KubeconfigFile::write_private(path.clone(), mk_text("a")).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), mk_text("a"));
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(file);
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_leftover_is_replaced_and_a_successor_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kubeconfig");
        let first = KubeconfigFile::write(path.clone(), mk_text("first")).unwrap();
        let second = KubeconfigFile::write(path.clone(), mk_text("second")).unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), mk_text("second"));
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn somebody_else_s_kubeconfig_is_not_touched() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("config");
        fs::write(&path, "apiVersion: v1\n").unwrap();
        let error = KubeconfigFile::write(path.clone(), mk_text("a")).unwrap_err();
        assert!(matches!(error, KubeconfigError::Foreign(_)), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
        assert_eq!(place.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_open_to_others_or_a_link_to_one_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (open, link) = (place.path().join("open"), place.path().join("link"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        let private = place.path().join("private");
        DirBuilder::new().mode(0o700).create(&private).unwrap();
        std::os::unix::fs::symlink(&private, &link).unwrap();
        for directory in [open, link] {
            let error =
                KubeconfigFile::write_private(directory.join("a"), mk_text("a")).unwrap_err();
            assert!(matches!(error, KubeconfigError::NotPrivate(_)), "{error}");
            assert_eq!(directory.read_dir().unwrap().count(), 0);
        }
    }
}
