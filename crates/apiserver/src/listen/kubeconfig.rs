//! The kubeconfig of one server: its text, and the file that exists while the server runs.
//!
//! The file is created by a rename, so a process that waits for it never reads a part of it. Only its owner can read it. It
//! is removed when its [`KubeconfigFile`] is dropped, unless another process has replaced it. A kubeconfig that this module
//! did not write is never overwritten.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::{Builder, NamedTempFile};

use super::RemoteAddress;
use super::auth::BearerToken;

/// Marks a file that an earlier process wrote and could not remove; such a file is overwritten.
const MARK: &str = "# Written by caretaker, which removes it when it ends.\n";

/// Name of cluster, user and context in a kubeconfig without a chosen name, and of the user in the URL of a server
/// without TLS.
pub const KUBECONFIG_CONTEXT: &str = "caretaker";

/// A kubeconfig on disk. Dropping it removes the file.
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    text: String,
}

/// The kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The path exists and is not a kubeconfig of this program.
    #[error("{0} exists and was not written by caretaker: name another file")]
    Foreign(PathBuf),
    /// Other users could read or replace the file.
    #[error(
        "{0} is not a directory that only this user can enter: remove it, or name another place"
    )]
    NotPrivate(PathBuf),
    /// An error of the operating system.
    #[error("cannot write {path}: {why}")]
    Io {
        /// The file that could not be written.
        path: PathBuf,
        why: String,
    },
}

/// The content of a kubeconfig.
pub(super) struct KubeconfigContent<'a> {
    /// The name of the current context, its cluster and its user.
    pub(super) context: &'a str,
    /// The URL of the current context.
    pub(super) url: &'a str,
    /// Other URLs; each context has a cluster of the same name.
    pub(super) remote: &'a [RemoteAddress],
    /// The PEM of the certificate authority.
    pub(super) authority: Option<&'a str>,
    pub(super) token: &'a BearerToken,
}

/// The text of a kubeconfig.
///
/// client-go ignores the user of a cluster without TLS. The URL of such a server therefore has the token as password.
pub(super) fn render(content: &KubeconfigContent<'_>) -> String {
    let trust = content.authority.map_or_else(String::new, |pem| {
        let pem = STANDARD.encode(pem);
        format!("    certificate-authority-data: {pem}\n")
    });
    let (user, token) = (content.context, content.token.reveal());
    let (mut clusters, mut contexts) = (String::new(), String::new());
    let remote = content.remote.iter();
    let remote = remote.map(|address| (address.context.as_str(), address.url.as_str()));
    for (name, url) in iter::once((user, content.url)).chain(remote) {
        let url = match url.strip_prefix("http://") {
            Some(address) => format!("http://{KUBECONFIG_CONTEXT}:{token}@{address}"),
            None => url.to_owned(),
        };
        clusters += &format!("- name: \"{name}\"\n  cluster:\n    server: \"{url}\"\n{trust}");
        contexts += &format!(
            "- name: \"{name}\"\n  context:\n    cluster: \"{name}\"\n    user: \"{user}\"\n    namespace: default\n"
        );
    }
    format!(
        "{MARK}apiVersion: v1
kind: Config
clusters:
{clusters}users:
- name: \"{user}\"
  user:
    token: \"{token}\"
contexts:
{contexts}current-context: \"{user}\"
"
    )
}

// === impl KubeconfigFile ===

impl KubeconfigFile {
    /// Writes `text` to `path`, in a directory that exists.
    ///
    /// # Errors
    /// If the path exists and is not ours, or the file cannot be written.
    pub fn write(path: PathBuf, text: String) -> Result<Self, KubeconfigError> {
        let temporary = temporary_beside(&path).map_err(io_error(&path))?;
        Self::finish(temporary, path, text)
    }

    /// Writes `text` to `path`, in a directory that only this user can enter; creates the directory if it is missing.
    ///
    /// # Errors
    /// If other users can enter the directory, or the file cannot be written.
    pub fn write_private(path: PathBuf, text: String) -> Result<Self, KubeconfigError> {
        let io = io_error(&path);
        let directory = directory_of(&path);
        let mut builder = DirBuilder::new();
        match builder.mode(0o700).create(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
            _ => {}
        }
        let temporary = temporary_beside(&path).map_err(&io)?;
        let found = fs::symlink_metadata(directory).map_err(&io)?;
        let own = temporary.as_file().metadata().map_err(&io)?;
        if !is_private(&found, &own) {
            return Err(KubeconfigError::NotPrivate(directory.to_owned()));
        }
        Self::finish(temporary, path, text)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn finish(
        mut temporary: NamedTempFile,
        path: PathBuf,
        text: String,
    ) -> Result<Self, KubeconfigError> {
        let io = io_error(&path);
        match fs::read(&path) {
            Ok(found) if !found.starts_with(MARK.as_bytes()) => {
                return Err(KubeconfigError::Foreign(path));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        temporary.write_all(text.as_bytes()).map_err(&io)?;
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

fn io_error(path: &Path) -> impl Fn(io::Error) -> KubeconfigError + use<> {
    let path = path.to_owned();
    move |error| KubeconfigError::Io {
        path: path.clone(),
        why: words(&error, &path),
    }
}

/// The words of the operating system where it has any. tempfile hides them behind the name of its temporary file, which
/// means nothing to the user.
fn words(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.to_string(),
        ErrorKind::NotFound => format!(
            "the directory {} does not exist",
            directory_of(path).display()
        ),
        kind => kind.to_string(),
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// A temporary file in the target directory that only this user can read.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    Builder::new()
        .prefix(".caretaker-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory_of(path))
}

/// Whether only this user can enter the directory. `own` is the metadata of a file that this user owns.
fn is_private(directory: &Metadata, own: &Metadata) -> bool {
    directory.is_dir() && directory.uid() == own.uid() && directory.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::listen::auth::TOKEN_BYTES;

    fn mk_content<'a>(url: &'a str, token: &'a BearerToken) -> KubeconfigContent<'a> {
        KubeconfigContent {
            context: "caretaker",
            url,
            remote: &[],
            authority: Some("-----BEGIN…"),
            token,
        }
    }

    fn mk_text(url: &str) -> String {
        render(&mk_content(
            url,
            &BearerToken::from_random([7; TOKEN_BYTES]),
        ))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn kubeconfig_has_server_authority_token_and_context() {
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
    fn other_urls_have_contexts_of_their_own() {
        let urls = ["https://127.0.0.1:1", "https://ci.example:1"];
        let names = ["caretaker-shop", "caretaker-shop@ci.example"];
        let token = BearerToken::from_random([7; TOKEN_BYTES]);
        let remote = [RemoteAddress {
            url: urls[1].to_owned(),
            context: names[1].to_owned(),
        }];
        let text = render(&KubeconfigContent {
            context: names[0],
            remote: &remote,
            ..mk_content(urls[0], &token)
        });
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        for (index, (name, url)) in names.iter().zip(&urls).enumerate() {
            let (cluster, context) = (&config["clusters"][index], &config["contexts"][index]);
            assert_eq!(
                (&cluster["name"], &context["name"]),
                (&json!(name), &json!(name))
            );
            assert_eq!(cluster["cluster"]["server"], *url);
            assert!(cluster["cluster"]["certificate-authority-data"].is_string());
            let expected =
                json!({"cluster": name, "user": "caretaker-shop", "namespace": "default"});
            assert_eq!(context["context"], expected);
        }
        assert_eq!(config["current-context"], "caretaker-shop");
        assert_eq!(config["users"][0]["name"], "caretaker-shop");
        assert_eq!(config["clusters"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn an_error_names_the_file_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("missing").join("kubeconfig");
        let error = KubeconfigFile::write(path.clone(), mk_text("a")).unwrap_err();
        let (path, directory) = (path.display(), path.parent().unwrap().display());
        let expected = format!("cannot write {path}: the directory {directory} does not exist");
        assert_eq!(error.to_string(), expected);
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn numeric_token_is_quoted_and_plain_http_has_it_in_its_url() {
        let token = BearerToken::from_random([0x11; TOKEN_BYTES]);
        let text = render(&KubeconfigContent {
            authority: None,
            ..mk_content("http://[::1]:80", &token)
        });
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            config["users"][0]["user"]["token"],
            "11".repeat(TOKEN_BYTES)
        );
        assert_eq!(
            config["clusters"][0]["cluster"],
            json!({"server": format!("http://caretaker:{}@[::1]:80", "11".repeat(TOKEN_BYTES))})
        );
    }

    #[test]
    fn file_is_private_and_removed_on_drop() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new").join("6443.kubeconfig");
        let file = KubeconfigFile::write_private(path.clone(), mk_text("a")).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), mk_text("a"));
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(file);
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn replaces_own_leftover_and_keeps_a_successor() {
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
    fn never_overwrites_a_foreign_kubeconfig() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("config");
        fs::write(&path, "apiVersion: v1\n").unwrap();
        let error = KubeconfigFile::write(path.clone(), mk_text("a")).unwrap_err();
        assert!(matches!(error, KubeconfigError::Foreign(_)), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
        assert_eq!(place.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn refuses_directories_open_to_others() {
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
