//! The kubeconfigs by which `explain` finds the admin servers of this user's running processes.
//!
//! `run` and `up` write one each, into a private directory, and remove it when they end. Its last line names the API
//! server whose objects the controllers handle. A process that was killed leaves its file behind, so a server that does
//! not answer is no error.

use std::fs;
use std::path::{Path, PathBuf};

use crate::instances;

/// Ends the names of these files. The names of instances have no dot, so other kubeconfigs never end like this.
const ENDING: &str = ".admin.kubeconfig";

/// Begins the last line of such a kubeconfig.
const SERVER_MARK: &str = "# controllers of ";

/// The path of the kubeconfig of the admin server on this port.
pub(crate) fn path(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!("{port}{ENDING}"))
}

/// A kubeconfig that also names the API server.
pub(crate) fn marked(kubeconfig: &str, server: &str) -> String {
    format!("{kubeconfig}{SERVER_MARK}{}\n", bare(server))
}

/// The kubeconfigs in this directory whose processes handle the objects of this API server. None if other users can write
/// there: a kubeconfig may name programs to run.
pub(crate) fn find(directory: &Path, server: &str) -> Vec<PathBuf> {
    let is_private = instances::is_private(directory);
    let entries = fs::read_dir(directory).ok().filter(|_| is_private);
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let names_server = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let last = text
            .lines()
            .last()
            .and_then(|line| line.strip_prefix(SERVER_MARK));
        last == Some(bare(server))
    };
    let is_admin = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(ENDING))
    };
    let mut found: Vec<PathBuf> = paths.filter(is_admin).filter(names_server).collect();
    found.sort();
    found
}

/// A kubeconfig may have the address with or without a slash at its end.
fn bare(server: &str) -> &str {
    server.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn finds_the_admin_servers_of_one_api_server() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path();
        fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
        let server = "https://127.0.0.1:6443";
        for (port, of) in [
            (1, server),
            (2, "https://127.0.0.1:6443/"),
            (3, "https://other"),
        ] {
            fs::write(path(directory, port), marked("apiVersion: v1\n", of)).unwrap();
        }
        fs::write(directory.join("6443.kubeconfig"), marked("", server)).unwrap();
        fs::write(path(directory, 4), "apiVersion: v1\n").unwrap();
        let expected = [1, 2].map(|port| path(directory, port));
        assert_eq!(find(directory, server), expected);
        assert_eq!(find(directory, "https://127.0.0.1:6443/"), expected);
        assert_eq!(
            find(&directory.join("missing"), server),
            [""; 0].map(PathBuf::from)
        );
        // Another user could have put a file there.
        fs::set_permissions(directory, Permissions::from_mode(0o770)).unwrap();
        assert!(find(directory, server).is_empty());
    }
}
