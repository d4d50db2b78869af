//! Runs a credential plugin, the `exec` of a kubeconfig user, as client-go 1.36 does
//! (`plugin/pkg/client/auth/exec/exec.go`).
//!
//! The plugin gets the environment of this process, the variables of the kubeconfig and `KUBERNETES_EXEC_INFO`, and prints
//! an `ExecCredential`. Its standard output and its arguments may hold credentials: errors never quote them.
//!
//! DEVIATION(credential-plugins): client-go waits for a plugin for ever. Here it has a time limit, because a controller that
//! has no credentials should say so.

use std::io::IsTerminal as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// The versions of `ExecCredential` that client-go supports.
const VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];

/// The longest run of a plugin.
const RUN_MAX: Duration = Duration::from_secs(60);
/// The longest run of a plugin that may ask the user something.
const INTERACTIVE_RUN_MAX: Duration = Duration::from_secs(600);

/// The largest output of a plugin; certificate chains take a few KiB.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// How much of a plugin's standard error is quoted.
const STDERR_BYTES_MAX: usize = 1024;

/// What a plugin printed.
#[derive(Clone)]
pub(super) struct PluginCredential {
    pub(super) token: Option<String>,
    /// A client certificate chain and its key in PEM.
    pub(super) identity: Option<(String, String)>,
    pub(super) expires: Option<Timestamp>,
}

/// Why there is no credential of a plugin.
#[derive(Debug, Error)]
pub enum PluginError {
    #[error("the kubeconfig names no command")]
    NoCommand,
    #[error("the kubeconfig asks for {0:?}; supported are {VERSIONS:?}")]
    Version(String),
    #[error("it needs a terminal (interactiveMode: Always)")]
    NoTerminal,
    #[error("it cannot be run: {why}{hint}")]
    NotStarted {
        why: std::io::Error,
        /// The hint of the kubeconfig on its own lines, or nothing.
        hint: String,
    },
    #[error("it ended with {status}: {stderr}")]
    Failed { status: ExitStatus, stderr: String },
    #[error("it did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("it printed no ExecCredential")]
    Unreadable,
    #[error("it printed {found:?} instead of {expected:?}")]
    OtherVersion { found: String, expected: String },
    #[error("it printed neither a token nor a client certificate")]
    Empty,
    #[error("it printed only one of client certificate and key")]
    Half,
}

/// The output of a plugin.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredentialObject {
    api_version: String,
    kind: String,
    status: Option<ExecCredentialStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredentialStatus {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the plugin of a user once.
pub(super) async fn run(config: &ExecConfig) -> Result<PluginCredential, PluginError> {
    let version = config.api_version.as_deref().unwrap_or_default();
    if !VERSIONS.contains(&version) {
        return Err(PluginError::Version(version.to_owned()));
    }
    let has_terminal = std::io::stdin().is_terminal();
    let is_interactive = match &config.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !has_terminal => return Err(PluginError::NoTerminal),
        _ => has_terminal,
    };
    let mut command = command(config, version, is_interactive)?;
    let child = command.spawn().map_err(|why| PluginError::NotStarted {
        why,
        hint: hint(config),
    })?;
    let limit = match is_interactive {
        true => INTERACTIVE_RUN_MAX,
        false => RUN_MAX,
    };
    let ended = tokio::time::timeout(limit, output(child)).await;
    // A plugin that is late is killed with its handle.
    let (status, stdout, stderr) = ended.map_err(|_| PluginError::TimedOut(limit))?;
    match status {
        Ok(status) if status.success() => read(&stdout, version),
        Ok(status) => Err(PluginError::Failed {
            status,
            stderr: excerpt(&stderr),
        }),
        Err(why) => Err(PluginError::NotStarted {
            why,
            hint: hint(config),
        }),
    }
}

fn command(
    config: &ExecConfig,
    version: &str,
    is_interactive: bool,
) -> Result<Command, PluginError> {
    let program = config.command.as_deref().unwrap_or_default();
    if program.is_empty() {
        return Err(PluginError::NoCommand);
    }
    let mut spec = json!({"interactive": is_interactive});
    if config.provide_cluster_info {
        spec["cluster"] = json!(config.cluster);
    }
    let info = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    command.args(config.args.iter().flatten());
    for variable in config.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    for name in config.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    let (stdin, stderr) = match is_interactive {
        true => (Stdio::inherit(), Stdio::inherit()),
        false => (Stdio::null(), Stdio::piped()),
    };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(stderr);
    command.kill_on_drop(true);
    Ok(command)
}

/// Waits until the plugin ends. Output that cannot be read is treated as the end of the output.
async fn output(mut child: Child) -> (std::io::Result<ExitStatus>, Vec<u8>, Vec<u8>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) = tokio::join!(all(stdout), all(stderr), child.wait());
    (status, stdout, stderr)
}

async fn all(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Reads JSON or YAML, as client-go. The parser's error would quote the output.
fn read(stdout: &[u8], version: &str) -> Result<PluginCredential, PluginError> {
    let object: ExecCredentialObject =
        serde_saphyr::from_slice(stdout).map_err(|_| PluginError::Unreadable)?;
    if object.kind != "ExecCredential" {
        return Err(PluginError::Unreadable);
    }
    if object.api_version != version {
        return Err(PluginError::OtherVersion {
            found: object.api_version,
            expected: version.to_owned(),
        });
    }
    let status = object.status.unwrap_or_default();
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let token = filled(status.token);
    let certificate = filled(status.client_certificate_data);
    let identity = match (certificate, filled(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(PluginError::Half),
    };
    if token.is_none() && identity.is_none() {
        return Err(PluginError::Empty);
    }
    Ok(PluginCredential {
        token,
        identity,
        expires: status.expiration_timestamp,
    })
}

fn hint(config: &ExecConfig) -> String {
    let hint = config.install_hint.as_deref().unwrap_or_default().trim();
    match hint {
        "" => String::new(),
        hint => format!("\n{hint}"),
    }
}

/// The end of the standard error, in one line.
fn excerpt(stderr: &[u8]) -> String {
    let start = stderr.len().saturating_sub(STDERR_BYTES_MAX);
    let text = String::from_utf8_lossy(&stderr[start..]);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_config(yaml: &str) -> ExecConfig {
        let text = format!("apiVersion: client.authentication.k8s.io/v1\n{yaml}");
        serde_saphyr::from_str(&text).unwrap()
    }

    fn mk_script(script: &str) -> ExecConfig {
        let mut config =
            mk_config("command: sh\ninteractiveMode: Never\nprovideClusterInfo: false");
        config.args = Some(vec!["-c".to_owned(), script.to_owned()]);
        config
    }

    #[test]
    fn reads_tokens_and_certificates_in_json_and_yaml() {
        let json =
            br#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",
            "status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z"}}"#;
        let found = read(json, VERSIONS[1]).unwrap();
        assert_eq!(found.token.as_deref(), Some("t"));
        assert_eq!(found.expires.unwrap().to_string(), "2030-01-01T00:00:00Z");
        let yaml = b"kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\n\
            status:\n  clientCertificateData: c\n  clientKeyData: k\n";
        let found = read(yaml, VERSIONS[0]).unwrap();
        assert_eq!(found.identity, Some(("c".to_owned(), "k".to_owned())));
        assert!(found.token.is_none() && found.expires.is_none());
    }

    #[test]
    fn an_unusable_output_is_not_quoted() {
        let head = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
        let table = [
            ("s3cret".to_owned(), "it printed no ExecCredential"),
            (
                r#"{"kind":"Status","status":{"token":"s3cret"}}"#.to_owned(),
                "it printed no ExecCredential",
            ),
            (
                format!(r#"{{{head},"status":{{"token":"s3cret","expirationTimestamp":"soon"}}}}"#),
                "it printed no ExecCredential",
            ),
            (
                format!("{{{}}}", head.replace("/v1", "/v1alpha1")),
                r#"it printed "client.authentication.k8s.io/v1alpha1" instead of "client.authentication.k8s.io/v1""#,
            ),
            (
                format!("{{{head}}}"),
                "it printed neither a token nor a client certificate",
            ),
            (
                format!(r#"{{{head},"status":{{"clientKeyData":"s3cret"}}}}"#),
                "it printed only one of client certificate and key",
            ),
        ];
        for (output, expected) in table {
            let error = read(output.as_bytes(), VERSIONS[0]).err().unwrap();
            assert_eq!(error.to_string(), expected, "{output}");
        }
    }

    #[tokio::test]
    async fn the_plugin_gets_the_environment_of_the_kubeconfig() {
        let script = r#"for part in '"apiVersion":"client.authentication.k8s.io/v1"' '"kind":"ExecCredential"' '"cluster":{"server":"https://a"}' '"interactive":false'
            do case "$KUBERNETES_EXEC_INFO" in *"$part"*) ;; *) echo "$KUBERNETES_EXEC_INFO" >&2; exit 1 ;; esac; done
            printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s"}}' "$TOKEN""#;
        let mut config = mk_script(script);
        let variable = [("name", "TOKEN"), ("value", "t")];
        let variable = variable.map(|(name, value)| (name.to_owned(), value.to_owned()));
        config.env = Some(vec![variable.into_iter().collect()]);
        config.provide_cluster_info = true;
        config.cluster = Some(serde_saphyr::from_str("server: https://a").unwrap());
        let found = run(&config).await.unwrap();
        assert_eq!(found.token.as_deref(), Some("t"));
    }

    #[tokio::test]
    async fn a_failure_says_what_to_do_and_quotes_no_output() {
        let failed = run(&mk_script("echo s3cret; printf 'log\\nin' >&2; exit 3")).await;
        let failed = failed.err().unwrap().to_string();
        assert_eq!(failed, "it ended with exit status: 3: log in");
        let missing = mk_config(
            "command: ./no-such-plugin\nprovideClusterInfo: false\ninstallHint: install it from there",
        );
        let missing = run(&missing).await.err().unwrap().to_string();
        assert!(
            missing.starts_with("it cannot be run: No such file"),
            "{missing}"
        );
        assert!(missing.ends_with("\ninstall it from there"), "{missing}");
        let mut old = mk_script("");
        old.api_version = Some("client.authentication.k8s.io/v1alpha1".to_owned());
        let old = run(&old).await.err().unwrap().to_string();
        assert!(old.contains("supported are"), "{old}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_is_ended() {
        let error = run(&mk_script("sleep 300")).await.err().unwrap();
        assert_eq!(error.to_string(), "it did not end within 60 s");
    }
}
