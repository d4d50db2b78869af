//! Builds the pinned control plane from Go modules, once, into the user's cache directory.
//!
//! Only `xtask/real/go.mod` holds the versions. A build goes into a directory beside its final place and is renamed when
//! it is complete, so a directory of programs is either whole or absent; a lock keeps two builds apart. Modules and
//! compiled packages stay in the caches of Go.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::instances::{OracleHome, create_private_dir};
use super::processes::POLL;
use super::servers::Role;
use crate::cargo::Running;
use crate::interrupt;

const GO_MOD: &str = include_str!("../../real/go.mod");
const GO_SUM: &str = include_str!("../../real/go.sum");
const KUBERNETES: &str = "k8s.io/kubernetes";
const ETCD: &str = "go.etcd.io/etcd/server/v3";
const PACKAGES: [&str; 5] = [
    ETCD,
    "go.etcd.io/etcd/etcdctl/v3",
    "go.etcd.io/etcd/etcdutl/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
];
/// Saves the store of a running etcd.
pub(super) const ETCDCTL: &str = "etcdctl";
/// Makes a data directory from a saved store.
pub(super) const ETCDUTL: &str = "etcdutl";
/// The name that `go build` gives etcd; the others are named as their packages.
const ETCD_BUILT_AS: &str = "server";
/// The packages that hold the version in `/version` and User-Agent; unset it is v0.0.0.
const VERSION_PACKAGES: [&str; 2] = [
    "k8s.io/component-base/version",
    "k8s.io/client-go/pkg/version",
];
/// The command of Go that compiles programs.
pub(super) const BUILD: [&str; 1] = ["build"];
/// Begins the name of a directory of an unfinished build.
pub(super) const SCRATCH_PREFIX: &str = "building-";

/// The built programs of the control plane.
#[derive(Debug)]
pub struct OraclePrograms {
    pub dir: PathBuf,
    /// The duration of the build, or nothing when the programs existed already.
    pub took: Option<Duration>,
}

// === impl OraclePrograms ===

impl OraclePrograms {
    fn complete(dir: PathBuf) -> Option<Self> {
        let is_complete = names().all(|name| dir.join(name).is_file());
        is_complete.then_some(Self { dir, took: None })
    }

    /// The path of a role's program.
    pub(crate) fn path(&self, role: Role) -> PathBuf {
        self.tool(role.program())
    }

    /// The path of a program by its name.
    pub(super) fn tool(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The size of all programs together.
    pub fn size_bytes(&self) -> u64 {
        let files = names().filter_map(|name| self.tool(name).metadata().ok());
        files.map(|meta| meta.len()).sum()
    }
}

/// The file names of all programs.
fn names() -> impl Iterator<Item = &'static str> {
    let roles = Role::ALL.into_iter().map(Role::program);
    roles.chain([ETCDCTL, ETCDUTL])
}

/// The Kubernetes version that is built, as `v1.2.3`.
pub fn kubernetes_version() -> &'static str {
    required_version(KUBERNETES)
}

/// Returns the programs, and builds them first where they are missing.
pub fn ensure(home: &OracleHome) -> Result<OraclePrograms> {
    let place = home.path().join(key());
    let existing = || OraclePrograms::complete(place.clone());
    if let Some(programs) = existing() {
        return Ok(programs);
    }
    let go = check_go()?;
    let _lock = lock(home.path())?;
    if let Some(programs) = existing() {
        return Ok(programs);
    }
    let started = Instant::now();
    let (kubernetes, etcd) = (kubernetes_version(), required_version(ETCD));
    eprintln!(
        "building Kubernetes {kubernetes} and etcd {etcd} with {go}; the first build takes some minutes"
    );
    build(home.path(), &place)?;
    Ok(OraclePrograms {
        took: Some(started.elapsed()),
        ..existing().context("a program is missing right after the build")?
    })
}

/// Makes a directory and locks it until the returned file is dropped. Waits while another command holds the lock.
pub(super) fn lock(dir: &Path) -> Result<File> {
    create_private_dir(dir)?;
    let file = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    let mut is_waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", dir.display()),
            Err(TryLockError::WouldBlock) if !is_waiting => {
                eprintln!("another build is running; waiting for it");
                is_waiting = true;
            }
            Err(TryLockError::WouldBlock) => {}
        }
        interrupt::check()?;
        thread::sleep(POLL);
    }
}

fn build(home: &Path, place: &Path) -> Result<()> {
    clear_killed(home)?;
    let scratch = tempfile::Builder::new()
        .prefix(SCRATCH_PREFIX)
        .tempdir_in(home);
    let scratch = scratch.with_context(|| format!("cannot write in {}", home.display()))?;
    let (out, temp) = (scratch.path().join("bin"), scratch.path().join("tmp"));
    create_private_dir(&out)?;
    create_private_dir(&temp)?;
    compile(&BUILD, module_dir(), &PACKAGES, &out, &temp)?;
    let etcd = out.join(ETCD_BUILT_AS);
    fs::rename(&etcd, out.join(Role::Etcd.program()))
        .with_context(|| format!("go built no {}", etcd.display()))?;
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    fs::rename(&out, place).with_context(|| format!("cannot make {}", place.display()))
}

/// Removes the directories of builds that were killed. The caller holds the lock.
pub(super) fn clear_killed(home: &Path) -> Result<()> {
    let entries = home
        .read_dir()
        .with_context(|| format!("cannot read {}", home.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(OsStr::to_str);
        if name.is_some_and(|name| name.starts_with(SCRATCH_PREFIX)) {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Compiles packages of the module in `module` into the directory `out`, by this command of Go.
pub(super) fn compile(
    verb: &[&str],
    module: &Path,
    packages: &[&str],
    out: &Path,
    temp: &Path,
) -> Result<()> {
    let flags = ["-trimpath", "-mod=readonly", "-ldflags", &linker_flags()];
    let mut command = Command::new("go");
    command
        .args(verb)
        .args(flags)
        .arg(format!("-o={}/", out.display()))
        .args(packages)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOTMPDIR", temp)
        .env_remove("GOOS")
        .env_remove("GOARCH");
    let status = Running::start(&mut command)?.wait()?;
    if !status.success() {
        bail!(
            "go build failed ({status}); see its output above. It needs the network (or GOPROXY) and some GB of disk; \
             XDG_CACHE_HOME, GOCACHE and GOMODCACHE choose other directories"
        );
    }
    Ok(())
}

/// The version of the `go` on the PATH. Go itself refuses a module that needs a newer version.
pub(super) fn check_go() -> Result<String> {
    let version = run_go(&["env".to_owned(), "GOVERSION".to_owned()])?;
    Ok(version.trim().to_owned())
}

/// Runs a command of Go on the pinned modules and returns its output.
pub(crate) fn run_go(arguments: &[String]) -> Result<String> {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(module_dir())
        .env("GOWORK", "off")
        .output();
    let needed = go_version_needed();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "no `go` is on the PATH: install Go {needed} or newer (https://go.dev/dl) to build the real control plane"
        ),
        other => other.context("cannot start go")?,
    };
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("Go {needed} or newer is needed, but the `go` on the PATH failed: {error}");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn go_version_needed() -> &'static str {
    GO_MOD
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .expect("go.mod names its Go version; a test reads it")
}

fn required_version(module: &str) -> &'static str {
    GO_MOD
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix(module)?
                .split_ascii_whitespace()
                .next()
        })
        .find(|version| version.starts_with('v'))
        .expect("go.mod requires the module; a test reads it")
}

pub(super) fn linker_flags() -> String {
    let version = kubernetes_version();
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    let mut flags = "-s -w".to_owned();
    for package in VERSION_PACKAGES {
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "archive"),
        ] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
    }
    flags
}

/// The name of the directory of programs. It differs when the pinned modules or the linker flags differ.
fn key() -> String {
    let text = [GO_MOD, GO_SUM, &linker_flags()].concat();
    format!(
        "{}-etcd-{}-{:016x}",
        kubernetes_version(),
        required_version(ETCD),
        fnv1a(text.as_bytes())
    )
}

/// The 64-bit FNV-1a hash: a cache key of our own files needs no protection from attacks.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(super) fn module_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/real"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_versions_are_read_from_go_mod() {
        assert!(
            kubernetes_version().starts_with("v1."),
            "{}",
            kubernetes_version()
        );
        assert!(
            required_version(ETCD).starts_with("v3."),
            "{}",
            required_version(ETCD)
        );
        assert!(
            go_version_needed().starts_with("1."),
            "{}",
            go_version_needed()
        );
        assert!(linker_flags().contains(&format!("version.gitVersion={}", kubernetes_version())));
    }

    #[test]
    fn etcd_and_its_tools_have_one_version() {
        for package in PACKAGES.iter().filter(|package| package.contains("etcd")) {
            assert_eq!(
                required_version(package),
                required_version(ETCD),
                "{package}"
            );
        }
    }

    #[test]
    fn a_directory_of_programs_is_complete_or_unused() {
        let dir = tempfile::tempdir().unwrap();
        for name in names() {
            assert!(OraclePrograms::complete(dir.path().to_owned()).is_none());
            fs::write(dir.path().join(name), "123").unwrap();
        }
        let programs = OraclePrograms::complete(dir.path().to_owned()).unwrap();
        assert_eq!(programs.size_bytes(), 15);
    }
}
