//! Rules on any text file: nothing in it may depend on the machine it was written on.
//!
//! The texts that these rules look for are put together from parts, so that this file passes them itself.

use crate::tree::{File, Finding};

/// Directories directly below `/` whose contents differ between machines.
const PRIVATE_DIRECTORIES: &[&str] = &["Users", "home", "root", "tmp", "work"];

/// Package registries and their caches. A checkout must build wherever the tools' own configuration points.
const REGISTRY_HOSTS: &[&[&str]] = &[
    &["crates", "io-index"],
    &["goproxy", "cn"],
    &["goproxy", "io"],
    &["index", "crates", "io"],
    &["proxy", "golang", "org"],
    &["pypi", "org"],
    &["registry", "npmjs", "org"],
    &["static", "crates", "io"],
    &["sum", "golang", "org"],
];

/// Files that tools write, hosts included.
const LOCK_FILES: &[&str] = &["Cargo.lock", "go.sum"];

/// `places` are directories of this machine that no list can know.
pub(crate) fn machine_paths(file: &File, places: &[String]) -> Vec<Finding> {
    let private = PRIVATE_DIRECTORIES
        .iter()
        .map(|directory| format!("/{directory}/"));
    let here = places.iter().map(|place| format!("{place}/"));
    let wanted: Vec<String> = private.chain(here).collect();
    find(file, |line| {
        let path = wanted.iter().find(|path| holds_absolute(line, path))?;
        Some(format!(
            "`{path}` exists on one machine: use a relative path, or ask the system for the directory"
        ))
    })
}

pub(crate) fn registry_hosts(file: &File) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if LOCK_FILES.contains(&name) {
        return Vec::new();
    }
    let hosts: Vec<String> = REGISTRY_HOSTS.iter().map(|parts| parts.join(".")).collect();
    find(file, |line| {
        let host = hosts.iter().find(|host| line.contains(host.as_str()))?;
        Some(format!(
            "`{host}` is a package registry: leave the choice to the tool's configuration"
        ))
    })
}

fn find(file: &File, advice: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let findings = file
        .lines()
        .filter_map(|(number, line)| Some(file.finding(number, advice(line)?)));
    findings.collect()
}

/// Returns whether `line` holds `path` as the start of a path, not inside a longer one.
fn holds_absolute(line: &str, path: &str) -> bool {
    let inside_a_path = |c: char| c.is_alphanumeric() || "_-.~*$})".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(inside_a_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let places = ["/srv/checkouts".to_string()];
        machine_paths(&File::new("a.md", text), &places).len()
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for directory in PRIVATE_DIRECTORIES {
            for before in ["", "see ", "\"", "`", "=", "(", ":", "file://"] {
                let text = format!("{before}/{directory}/a");
                assert_eq!(count(&text), 1, "{text}");
            }
        }
        assert_eq!(count("fine\n/srv/checkouts/caretaker\nfine"), 1);
    }

    #[test]
    fn parts_of_longer_paths_are_not_found() {
        let fine = [
            "target/tmp/a",
            "${CACHE}/tmp/a",
            "~/tmp/a",
            "https://example.com/home/a",
            "mount it at /tmp",
        ];
        for text in fine {
            assert_eq!(count(text), 0, "{text}");
        }
    }

    #[test]
    fn registry_hosts_are_found_outside_lock_files() {
        for parts in REGISTRY_HOSTS {
            let text = format!("url = \"https://{}/a\"", parts.join("."));
            assert_eq!(
                registry_hosts(&File::new("a.toml", &*text)).len(),
                1,
                "{text}"
            );
            assert_eq!(registry_hosts(&File::new("Cargo.lock", &*text)), []);
            assert_eq!(registry_hosts(&File::new("xtask/real/go.sum", &*text)), []);
        }
        assert_eq!(
            registry_hosts(&File::new("a.md", "registry.k8s.io/pause")),
            []
        );
    }
}
