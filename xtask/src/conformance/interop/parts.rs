//! What each part needs, and how it runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::steps::{self, StepOutcome};
use super::{InteropPart, PartOutcome};
use crate::cargo::{Running, workspace};
use crate::conformance::kubectl::ComparedServer;
use crate::conformance::{kept_file, suites};
use crate::real::{GoProgram, HELM, INTEROP, KUBECTL, OracleHome, file_key, manager_line};

/// The controllers of kube-controller-manager that run on our server.
const CONTROLLERS: &str = "cronjob-controller,deployment-controller,disruption-controller,\
garbage-collector-controller,job-controller,namespace-controller,replicaset-controller,\
serviceaccount-controller,statefulset-controller";

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

/// What the parts share.
#[derive(Debug, Default)]
pub(super) struct PartContext {
    /// Our server with everything on, started for the first part that needs it.
    server: Option<ComparedServer>,
}

/// Where a part runs.
struct PartPlace {
    kubeconfig: PathBuf,
    /// Directories of programs that come before the search path.
    programs: Vec<PathBuf>,
    scratch: tempfile::TempDir,
}

/// A tool that the machine has, or the sentence that it has not.
type Available<T> = std::result::Result<T, String>;

// === impl PartContext ===

impl PartContext {
    pub(super) fn run(&mut self, part: InteropPart) -> Result<PartOutcome> {
        match part {
            InteropPart::Controllers => controllers(),
            InteropPart::ClientGoJson => self.go(&["client-go"], JSON),
            InteropPart::ClientGoProtobuf => self.go(&["client-go"], PROTOBUF),
            InteropPart::ControllerRuntime => self.go(&["controller-runtime"], PROTOBUF),
            InteropPart::Helm => self.helm(),
            InteropPart::Python => self.python(),
            InteropPart::Kopf => self.kopf(),
            InteropPart::Javascript => self.javascript(),
            InteropPart::Rust => self.rust(),
        }
    }

    /// A place on the shared server.
    fn place(&mut self) -> Result<PartPlace> {
        let server = match self.server.take() {
            Some(server) => server,
            None => ComparedServer::ours()?,
        };
        let place = PartPlace::new(&server)?;
        self.server = Some(server);
        Ok(place)
    }

    fn go(&mut self, words: &[&str], content_type: &str) -> Result<PartOutcome> {
        let program = match built(&INTEROP) {
            Ok(program) => program,
            Err(lack) => return Ok(PartOutcome::Skipped(lack)),
        };
        let place = self.place()?;
        let mut command = Command::new(program);
        command.args(words).arg(&place.kubeconfig).arg(content_type);
        place.program(&mut command, words[0])
    }

    fn helm(&mut self) -> Result<PartOutcome> {
        let helm = match built(&HELM) {
            Ok(program) => program,
            Err(lack) => return Ok(PartOutcome::Skipped(lack)),
        };
        let mut place = self.place()?;
        place.programs.extend(helm.parent().map(Path::to_path_buf));
        place.script(include_str!("../../../data/interop/helm.txt"))
    }

    fn python(&mut self) -> Result<PartOutcome> {
        let environment = match python_environment()? {
            Ok(environment) => environment,
            Err(lack) => return Ok(PartOutcome::Skipped(lack)),
        };
        let place = self.place()?;
        let mut command = Command::new(environment.join("bin/python"));
        command.arg(data().join("python/client.py"));
        place.program(&mut command, "python")
    }

    fn kopf(&mut self) -> Result<PartOutcome> {
        let environment = match python_environment()? {
            Ok(environment) => environment,
            Err(lack) => return Ok(PartOutcome::Skipped(lack)),
        };
        let mut place = self.place()?;
        place.programs.push(environment.join("bin"));
        place.script(include_str!("../../../data/interop/kopf.txt"))
    }

    fn javascript(&mut self) -> Result<PartOutcome> {
        let directory = match javascript_directory()? {
            Ok(directory) => directory,
            Err(lack) => return Ok(PartOutcome::Skipped(lack)),
        };
        let place = self.place()?;
        let mut command = Command::new("node");
        command.arg(directory.join("client.mjs"));
        place.program(&mut command, "javascript")
    }

    fn rust(&mut self) -> Result<PartOutcome> {
        let place = self.place()?;
        let mut command = Command::new(suites()?);
        command
            .args(["kube", "--kubeconfig"])
            .arg(&place.kubeconfig);
        place.program(&mut command, "rust")
    }
}

/// The Go controllers on a server of ours that runs none, with simulated Nodes and Pods.
fn controllers() -> Result<PartOutcome> {
    // The program is the oracle's, so without Go there is no controller at all.
    let off = [
        "--controllers=-*",
        "--no-service-accounts",
        "--no-namespace-upkeep",
    ];
    let server = ComparedServer::up(&off)?;
    let place = PartPlace::new(&server)?;
    let line = match manager_line(&place.kubeconfig, CONTROLLERS) {
        Ok(line) => line,
        Err(error) => return Ok(PartOutcome::Skipped(format!("{error:#}"))),
    };
    let log = kept_file("interop-controllers.log")?;
    let log = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let _manager = Running::start(
        Command::new(&line[0])
            .args(&line[1..])
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log),
    )?;
    let _nodes = Running::start(
        Command::new(suites()?)
            .args(["nodes", "--kubeconfig"])
            .arg(&place.kubeconfig),
    )?;
    place.script(include_str!("../../../data/interop/controllers.txt"))
}

// === impl PartPlace ===

impl PartPlace {
    fn new(server: &ComparedServer) -> Result<Self> {
        let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
        let kubeconfig = scratch.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig, "default")?;
        let kubectl = KUBECTL.ensure()?;
        Ok(Self {
            kubeconfig,
            programs: kubectl
                .parent()
                .map(Path::to_path_buf)
                .into_iter()
                .collect(),
            scratch,
        })
    }

    fn prepare(&self, command: &mut Command) {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let path = self
            .programs
            .iter()
            .cloned()
            .chain(std::env::split_paths(&rest));
        let path: OsString = std::env::join_paths(path).unwrap_or(rest.clone());
        command
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("TMPDIR", self.scratch.path())
            .env("HELM_CACHE_HOME", self.scratch.path().join("cache"))
            .env("HELM_CONFIG_HOME", self.scratch.path().join("config"))
            .env("HELM_DATA_HOME", self.scratch.path().join("data"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
    }

    /// Runs a program that prints its steps. Its errors go to a file.
    fn program(&self, command: &mut Command, name: &str) -> Result<PartOutcome> {
        let log = kept_file(&format!("interop-{name}.log"))?;
        let file =
            fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let output = self.scratch.path().join("steps");
        let stdout = fs::File::create(&output).context("cannot write the steps")?;
        self.prepare(command);
        let status = Running::start(command.stdout(stdout).stderr(file))?.wait()?;
        let text = fs::read_to_string(&output).context("cannot read the steps")?;
        let steps = steps::read(&text);
        let steps =
            steps.with_context(|| format!("{name} ended with {status}; see {}", log.display()))?;
        Ok(PartOutcome::Ran(steps))
    }

    fn script(&self, text: &str) -> Result<PartOutcome> {
        let outcomes: Vec<StepOutcome> =
            steps::run_script(text, &data(), |command| self.prepare(command))?;
        Ok(PartOutcome::Ran(outcomes))
    }
}

fn data() -> PathBuf {
    workspace().join("xtask/data/interop")
}

/// A Go program, or why it cannot be built.
fn built(program: &GoProgram) -> Available<PathBuf> {
    program.ensure().map_err(|error| format!("{error:#}"))
}

/// A virtual environment with the Python clients, made once.
fn python_environment() -> Result<Available<PathBuf>> {
    let requirements = data().join("python/requirements.txt");
    let place = OracleHome::from_env()?
        .path()
        .join(file_key("python", &requirements)?);
    let done = place.join("complete");
    if done.is_file() {
        return Ok(Ok(place));
    }
    let steps: [(PathBuf, Vec<OsString>); 2] = [
        (
            "python3".into(),
            vec![
                "-m".into(),
                "venv".into(),
                "--clear".into(),
                place.clone().into(),
            ],
        ),
        (
            place.join("bin/pip"),
            vec![
                "install".into(),
                "--quiet".into(),
                "-r".into(),
                requirements.into(),
            ],
        ),
    ];
    for (program, arguments) in steps {
        if let Err(lack) = ran(Command::new(program).args(arguments))? {
            return Ok(Err(lack));
        }
    }
    fs::write(&done, "").with_context(|| format!("cannot write {}", done.display()))?;
    Ok(Ok(place))
}

/// A directory with the JavaScript client and the program, made once.
fn javascript_directory() -> Result<Available<PathBuf>> {
    let source = data().join("javascript");
    let package = source.join("package.json");
    let place = OracleHome::from_env()?
        .path()
        .join(file_key("javascript", &package)?);
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    for name in ["package.json", "client.mjs"] {
        fs::copy(source.join(name), place.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    let done = place.join("complete");
    if !done.is_file() {
        let mut install = Command::new("npm");
        install
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            .current_dir(&place);
        if let Err(lack) = ran(&mut install)? {
            return Ok(Err(lack));
        }
        fs::write(&done, "").with_context(|| format!("cannot write {}", done.display()))?;
    }
    Ok(Ok(place))
}

/// Runs a tool; a tool that is missing or fails is a sentence.
fn ran(command: &mut Command) -> Result<Available<()>> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Err(format!("no `{program}` is on the PATH")));
        }
        Err(error) => bail!("cannot start {program}: {error}"),
        Ok(output) => output,
    };
    if output.status.success() {
        return Ok(Ok(()));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Ok(Err(format!(
        "{program} failed: {}",
        last.unwrap_or("no message")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_a_sentence() {
        let lack = ran(&mut Command::new("no-such-program-anywhere")).unwrap();
        assert_eq!(
            lack,
            Err("no `no-such-program-anywhere` is on the PATH".to_owned())
        );
        assert_eq!(ran(&mut Command::new("true")).unwrap(), Ok(()));
        let failed = ran(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).unwrap();
        assert_eq!(failed, Err("sh failed: why".to_owned()));
    }
}
