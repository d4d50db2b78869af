//! Builds the pinned control plane from Go modules, once, into the user's cache directory.
//!
//! The versions stand in `xtask/real/go.mod` and nowhere else. A build goes into a directory beside its final place and
//! is renamed when it is complete, so a directory of programs is either whole or absent; a lock keeps two builds apart.
//! What Go itself caches (modules, compiled packages) stays where Go keeps it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::home::{Home, MEGABYTE, create_private_dir, lock, no_room, require_room};
use super::processes::{POLL, using};
use super::state::Role;
use crate::interrupt;

const GO_MOD: &str = include_str!("../../real/go.mod");
const GO_SUM: &str = include_str!("../../real/go.sum");
const KUBERNETES: &str = "k8s.io/kubernetes";
const ETCD: &str = "go.etcd.io/etcd/server/v3";
/// What is built, and the name `go build` gives it where that is not the one we use.
const PACKAGES: [(Role, &str, &str); 3] = [
    (Role::Etcd, ETCD, "server"),
    (
        Role::Apiserver,
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-apiserver",
    ),
    (
        Role::ControllerManager,
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-controller-manager",
    ),
];
/// The packages that hold the version `/version` and User-Agent tell; without it they say v0.0.0.
const VERSION_PACKAGES: [&str; 2] = [
    "k8s.io/component-base/version",
    "k8s.io/client-go/pkg/version",
];
/// The programs have 230 MB, and the largest is linked beside them before it joins them.
const BUILD_BYTES: u64 = 350 * MEGABYTE;
/// The name of a directory that is being built in, followed by the pid of who builds.
const SCRATCH_PREFIX: &str = "building-";
/// How long an interrupted `go` gets to end its compilers.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);
/// What of Go's messages is looked at for the reason of a failure.
const MESSAGE_LINES_MAX: usize = 200;

/// The built programs.
#[derive(Debug)]
pub struct Programs {
    dir: PathBuf,
}

/// How a build went.
#[derive(Debug)]
pub struct Report {
    /// Where the programs are.
    pub programs: Programs,
    /// How long it took, or nothing when they were there already.
    pub took: Option<Duration>,
}

/// Ends `go` and its compilers when it is dropped before it ended by itself.
struct Compiler(Child);

/// A directory that is removed unless it was renamed away.
struct Scratch(PathBuf);

// === impl Programs ===

impl Programs {
    fn complete(dir: PathBuf) -> Option<Self> {
        PACKAGES
            .iter()
            .all(|(role, ..)| dir.join(role.program()).is_file())
            .then_some(Self { dir })
    }

    /// The directory that holds them.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The program of a role.
    pub(crate) fn path(&self, role: Role) -> PathBuf {
        self.dir.join(role.program())
    }

    /// Bytes of all programs together.
    pub fn size_bytes(&self) -> u64 {
        PACKAGES
            .iter()
            .filter_map(|(role, ..)| self.path(*role).metadata().ok())
            .map(|meta| meta.len())
            .sum()
    }
}

// === impl Compiler ===

impl Compiler {
    fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait().context("cannot wait for go")? {
                return Ok(status);
            }
            interrupt::check()?;
            thread::sleep(POLL);
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        // The group is signalled only while its leader has not been waited for, so its number is still its own.
        for signal in [Signal::INT, Signal::KILL] {
            let deadline = Instant::now() + INTERRUPT_GRACE;
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            let _ = kill_process_group(group, signal);
            while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
    }
}

// === impl Scratch ===

impl Drop for Scratch {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if self.0.exists() => {
                eprintln!("cannot remove {}: {error}", self.0.display());
            }
            _ => {}
        }
    }
}

/// The Kubernetes version that is built, as `v1.2.3`.
pub fn kubernetes_version() -> &'static str {
    required_version(KUBERNETES)
}

/// The programs, built now if they were not yet.
pub fn ensure(home: &Home) -> Result<Report> {
    let place = home.path().join(key());
    let already = || {
        Programs::complete(place.clone()).map(|programs| Report {
            programs,
            took: None,
        })
    };
    if let Some(report) = already() {
        return Ok(report);
    }
    let go = check_go()?;
    let _lock = lock(home.path(), "another build is running")?;
    if let Some(report) = already() {
        return Ok(report);
    }
    let started = Instant::now();
    let (kubernetes, etcd) = (kubernetes_version(), required_version(ETCD));
    eprintln!(
        "building Kubernetes {kubernetes} and etcd {etcd} with {go}; the first time takes some minutes"
    );
    let built = build(home.path(), &place);
    home.tidy();
    Ok(Report {
        programs: built?,
        took: Some(started.elapsed()),
    })
}

fn build(home: &Path, place: &Path) -> Result<Programs> {
    clear_killed(home)?;
    require_room(home, BUILD_BYTES)?;
    let scratch = Scratch(home.join(format!("{SCRATCH_PREFIX}{}", process::id())));
    let (out, temp) = (scratch.0.join("bin"), scratch.0.join("tmp"));
    create_private_dir(&out)?;
    create_private_dir(&temp)?;
    compile(&out, &temp)?;
    for (role, _, built_as) in PACKAGES {
        let (from, to) = (out.join(built_as), out.join(role.program()));
        fs::rename(&from, &to).with_context(|| format!("go built no {}", from.display()))?;
    }
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    fs::rename(&out, place).map_err(|error| no_room(error, place))?;
    Programs::complete(place.to_owned())
        .context("the programs vanished right after they were built")
}

/// Ends and removes what builds left that were killed. We hold the lock, so no other is there.
fn clear_killed(home: &Path) -> Result<()> {
    let entries = home
        .read_dir()
        .with_context(|| format!("cannot read {}", home.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with(SCRATCH_PREFIX) {
            let scratch = Scratch(path);
            for id in using(&scratch.0, &["go"])? {
                id.stop()?;
            }
        }
    }
    Ok(())
}

fn compile(out: &Path, temp: &Path) -> Result<()> {
    let child = Command::new("go")
        .args([
            "build",
            "-trimpath",
            "-mod=readonly",
            "-ldflags",
            &linker_flags(),
        ])
        .arg(format!("-o={}/", out.display()))
        .args(PACKAGES.map(|(_, package, _)| package))
        .current_dir(module_dir())
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOTMPDIR", temp)
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start go")?;
    let mut compiler = Compiler(child);
    let messages = compiler
        .0
        .stderr
        .take()
        .map(|stderr| thread::spawn(|| pass_on(stderr)));
    let status = compiler.wait()?;
    if status.success() {
        return Ok(());
    }
    let messages = messages
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    bail!(reason_of_failure(status, &messages))
}

fn reason_of_failure(status: ExitStatus, messages: &[String]) -> String {
    let says = |what: &str| messages.iter().any(|line| line.contains(what));
    if says("no space left on device") || says("disk quota exceeded") {
        return "no room to build: make some where go says above, or let XDG_CACHE_HOME, GOCACHE or GOMODCACHE name a \
                directory on another disk"
            .to_owned();
    }
    if says("dial tcp") || says("connection refused") || says("proxyconnect") {
        return "go could not fetch the modules, as it says above: check the network, or GOPROXY"
            .to_owned();
    }
    format!("go ended with {status}; the reason stands above")
}

/// Shows what Go says and keeps the end of it.
fn pass_on(stderr: ChildStderr) -> Vec<String> {
    let mut kept = Vec::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        eprintln!("{line}");
        if kept.len() == MESSAGE_LINES_MAX {
            kept.remove(0);
        }
        kept.push(line);
    }
    kept
}

/// Whether there is a Go that can build this; its version if so.
fn check_go() -> Result<String> {
    let needed = go_version_needed();
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .current_dir(module_dir())
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no `go` on the PATH: install Go {needed} or newer (https://go.dev/dl) to build the real control plane"
        ),
        other => other.context("cannot start go")?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("Go {needed} or newer is needed, but the `go` on the PATH says: {said}");
    }
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if is_older(&version, needed) {
        bail!(
            "Go {needed} or newer is needed, but the `go` on the PATH is {version}: install a newer one"
        );
    }
    Ok(version)
}

/// Compares `go1.26.8` with `1.26.0`. What cannot be read (a development version) is not older.
fn is_older(version: &str, needed: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u32>> {
        let text = text.trim_start_matches("go");
        let end = text
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(text.len());
        text[..end]
            .split('.')
            .map(|part| part.parse().ok())
            .collect()
    };
    match (numbers(version), numbers(needed)) {
        (Some(mut have), Some(need)) => {
            have.resize(have.len().max(need.len()), 0);
            have < need
        }
        _ => false,
    }
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

fn linker_flags() -> String {
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

/// Names the directory of programs; differs whenever anything differs from which they are built.
fn key() -> String {
    let text = [GO_MOD, GO_SUM, &linker_flags()].concat();
    format!(
        "{}-etcd-{}-{:016x}",
        kubernetes_version(),
        required_version(ETCD),
        fnv1a(text.as_bytes())
    )
}

/// The 64-bit FNV-1a hash: nobody attacks a cache key of our own files.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn module_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/real"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

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
    fn an_older_go_is_recognised() {
        let table = [
            ("go1.26.0", false),
            ("go1.26.8", false),
            ("go1.27rc1", false),
            ("go1.26", false),
            ("go2.0", false),
            ("devel go1.27-abcdef", false),
            ("go1.25.9", true),
            ("go1.9", true),
            ("go1.3.1", true),
        ];
        for (version, older) in table {
            assert_eq!(is_older(version, "1.26.0"), older, "{version}");
        }
    }

    #[test]
    fn the_reason_of_a_failed_build_is_a_sentence() {
        let failed = ExitStatus::from_raw(256);
        let table = [
            (
                "link: write /x: no space left on device",
                "no room to build",
            ),
            (
                "dial tcp 192.0.2.1:443: i/o timeout",
                "check the network, or GOPROXY",
            ),
            ("undefined: x", "the reason stands above"),
        ];
        for (message, sentence) in table {
            let said = reason_of_failure(failed, &[message.to_owned()]);
            assert!(said.contains(sentence), "{message}: {said}");
        }
    }

    #[test]
    fn programs_count_only_when_all_are_there() {
        let dir = tempfile::tempdir().unwrap();
        for (role, ..) in PACKAGES {
            assert!(Programs::complete(dir.path().to_owned()).is_none());
            fs::write(dir.path().join(role.program()), "123").unwrap();
        }
        let programs = Programs::complete(dir.path().to_owned()).unwrap();
        assert_eq!(programs.size_bytes(), 9);
    }
}
