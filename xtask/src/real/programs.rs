//! Go programs that suites run as clients: kubectl, helm, upstream's e2e specs, and programs of ours on client-go.
//!
//! Each has a module of its own below `xtask/real`, so that a change of its versions does not rebuild the oracle. It is
//! built once into the oracle's directory, under a name that differs when its module or its source does.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{
    self, BUILD, SCRATCH_PREFIX, check_go, clear_killed, compile, fnv1a, linker_flags, lock,
    module_dir,
};
use super::instances::{OracleHome, create_private_dir};
use super::servers::Role;

/// kubectl in the oracle's version.
pub(crate) const KUBECTL: GoProgram = GoProgram {
    name: "kubectl",
    file: "kubectl",
    package: "k8s.io/kubernetes/cmd/kubectl",
    sources: &[
        include_str!("../../real/kubectl/go.mod"),
        include_str!("../../real/kubectl/go.sum"),
    ],
};

pub(crate) const HELM: GoProgram = GoProgram {
    name: "helm",
    file: "helm",
    package: "helm.sh/helm/v3/cmd/helm",
    sources: &[
        include_str!("../../real/helm/go.mod"),
        include_str!("../../real/helm/go.sum"),
    ],
};

/// Our programs on client-go and controller-runtime.
pub(crate) const INTEROP: GoProgram = GoProgram {
    name: "interop",
    file: "interop",
    package: ".",
    sources: &[
        include_str!("../../real/interop/go.mod"),
        include_str!("../../real/interop/go.sum"),
        include_str!("../../real/interop/main.go"),
        include_str!("../../real/interop/clients.go"),
        include_str!("../../real/interop/manager.go"),
    ],
};

/// Upstream's e2e specs, as a program of Go's tests.
pub(crate) const E2E: GoProgram = GoProgram {
    name: "e2e",
    file: "e2e.test",
    package: ".",
    sources: &[
        include_str!("../../real/e2e/go.mod"),
        include_str!("../../real/e2e/go.sum"),
        include_str!("../../real/e2e/main_test.go"),
    ],
};

/// A program that a suite runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoProgram {
    /// The name of its module's directory.
    name: &'static str,
    /// The name of the file that Go builds; it ends in `.test` for a program of tests.
    file: &'static str,
    package: &'static str,
    /// Everything that decides what is built: module and source files.
    sources: &'static [&'static str],
}

// === impl GoProgram ===

impl GoProgram {
    /// The path of the program, which is built first where it is missing.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        let home = OracleHome::from_env()?;
        let place = home.path().join(self.key());
        let program = place.join(self.file);
        if program.is_file() {
            return Ok(program);
        }
        let go = check_go()?;
        let _lock = lock(home.path())?;
        if program.is_file() {
            return Ok(program);
        }
        eprintln!("building {} with {go}; this takes some minutes", self.name);
        clear_killed(home.path())?;
        let scratch = tempfile::Builder::new()
            .prefix(SCRATCH_PREFIX)
            .tempdir_in(home.path());
        let scratch = scratch.context("cannot make a directory for the build")?;
        let (out, temp) = (scratch.path().join("bin"), scratch.path().join("tmp"));
        create_private_dir(&out)?;
        create_private_dir(&temp)?;
        let verb: &[&str] = match self.file.ends_with(".test") {
            true => &["test", "-c"],
            false => &BUILD,
        };
        let module = module_dir().join(self.name);
        compile(verb, &module, &[self.package], &out, &temp)?;
        fs::rename(&out, &place).with_context(|| format!("cannot make {}", place.display()))?;
        Ok(program)
    }

    fn key(&self) -> String {
        let text = self.sources.concat() + &linker_flags();
        format!("{}-{:016x}", self.name, fnv1a(text.as_bytes()))
    }
}

/// The command line of a kube-controller-manager for a server that is not the oracle's.
pub(crate) fn manager_line(kubeconfig: &Path, controllers: &str) -> Result<Vec<String>> {
    let programs = build::ensure(&OracleHome::from_env()?)?;
    let program = programs.path(Role::ControllerManager);
    Ok(vec![
        program.display().to_string(),
        format!("--controllers={controllers}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        // No client needs its port.
        "--secure-port=0".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ])
}

/// A name that differs when the contents of a file do.
pub(crate) fn file_key(name: &str, file: &Path) -> Result<String> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(format!("{name}-{:016x}", fnv1a(&text)))
}

#[cfg(test)]
mod tests {
    use super::super::build::kubernetes_version;
    use super::*;

    #[test]
    fn kubectl_and_the_specs_have_the_version_of_the_oracle() {
        let required = format!("k8s.io/kubernetes {}\n", kubernetes_version());
        for program in [KUBECTL, E2E] {
            assert!(program.sources[0].contains(&required), "{program:?}");
        }
    }

    #[test]
    fn a_change_of_the_sources_changes_the_place() {
        let other = GoProgram {
            sources: &["other"],
            ..KUBECTL
        };
        assert_ne!(KUBECTL.key(), other.key());
        assert!(KUBECTL.key().starts_with("kubectl-"));
    }
}
