//! The text that `up` prints when the server is ready: one line of JSON for scripts, or sentences and commands to try.

use std::io::{self, Write as _};
use std::path::Path;

use caretaker_apiserver::listen::RemoteAddress;
use serde_json::json;

use crate::args::{OutputFormat, UpFlags};

/// Other addresses that the text names; the kubeconfig has all of them.
const REMOTE_SHOWN: usize = 4;

/// Commands to try.
const TRIES: [&str; 3] = [
    "kubectl create configmap hello --from-literal=who=world",
    "kubectl get configmaps --all-namespaces",
    "kubectl delete configmap hello",
];

/// Commands to try where Pods are simulated.
const WORKLOAD_TRIES: [&str; 3] = [
    "kubectl create deployment web --image=nginx --replicas=2",
    "kubectl get deployments,replicasets,pods",
    "kubectl delete deployment web",
];

/// The addresses of a server.
#[derive(Debug, Clone)]
pub(crate) struct ServerBanner {
    /// For clients on this machine.
    pub(crate) url: String,
    /// For clients on other machines.
    pub(crate) remote: Vec<RemoteAddress>,
    /// The admin server.
    pub(crate) admin: Option<String>,
    /// The current context of the kubeconfig.
    pub(crate) context: String,
}

// === impl ServerBanner ===

impl ServerBanner {
    /// Prints the addresses on stdout.
    pub(crate) fn print(&self, args: &UpFlags, kubeconfig: &Path) -> io::Result<()> {
        let text = match (args.output, args.simulate_workloads) {
            (Some(OutputFormat::Json), _) => self.json(kubeconfig),
            (None, false) => self.instructions(kubeconfig, &TRIES),
            (None, true) => self.instructions(kubeconfig, &WORKLOAD_TRIES),
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    fn json(&self, kubeconfig: &Path) -> String {
        let Self {
            url,
            remote,
            admin,
            context,
        } = self;
        let remote: Vec<&str> = remote.iter().map(|address| address.url.as_str()).collect();
        let line = json!({"server": url, "remoteServers": remote, "kubeconfig": kubeconfig, "context": context, "admin": admin});
        format!("{line}\n")
    }

    /// The addresses, the kubeconfig, and commands to try.
    pub(crate) fn instructions(&self, kubeconfig: &Path, tries: &[&str]) -> String {
        let (url, path, quoted) = (&self.url, kubeconfig.display(), quoted(kubeconfig));
        let remote = self.remote_sentence();
        let admin = self.admin.as_ref().map_or_else(String::new, |admin| {
            format!("Health, metrics and the ownership graph are at {admin}, with the token of the kubeconfig.\n")
        });
        let tries = tries.join("\n  ");
        format!(
            "A Kubernetes API server is ready at {url}. Objects are in memory only and are lost when it stops.
{remote}{admin}The kubeconfig is {path}. Try in another terminal:

  export KUBECONFIG={quoted}
  {tries}

Press Ctrl-C to stop it.
"
        )
    }

    /// Which address other machines use, and how the kubeconfig names it.
    fn remote_sentence(&self) -> String {
        let Some(first) = self.remote.first() else {
            return String::new();
        };
        let shown = self.remote.iter().take(REMOTE_SHOWN);
        let shown: Vec<&str> = shown.map(|address| address.url.as_str()).collect();
        let rest = match self.remote.len().saturating_sub(REMOTE_SHOWN) {
            0 => String::new(),
            rest => format!(" and {rest} more addresses"),
        };
        format!(
            "Other machines reach it at {}{rest}: copy the kubeconfig there and use kubectl --context {}.\n",
            shown.join(", "),
            first.context
        )
    }
}

/// A path, quoted for a shell if necessary.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_banner(remote: &[&str]) -> ServerBanner {
        let remote = remote.iter().map(|host| RemoteAddress {
            url: format!("https://{host}:6443"),
            context: format!("caretaker@{host}"),
        });
        ServerBanner {
            url: "https://127.0.0.1:6443".to_owned(),
            remote: remote.collect(),
            admin: None,
            context: "caretaker".to_owned(),
        }
    }

    #[test]
    fn other_machines_are_mentioned_if_they_can_connect() {
        let text = |remote: &[&str]| mk_banner(remote).instructions(Path::new("/k"), &["a", "b"]);
        assert!(!text(&[]).contains("machines"));
        let one = text(&["192.0.2.7"]);
        let expected = "Other machines reach it at https://192.0.2.7:6443: copy the kubeconfig there and use kubectl \
                        --context caretaker@192.0.2.7.\n";
        assert!(one.contains(expected), "{one}");
        let many = text(&["a", "b", "c", "d", "e", "f"]);
        assert!(
            many.contains("https://d:6443 and 2 more addresses: "),
            "{many}"
        );
    }

    #[test]
    fn a_path_with_special_characters_is_quoted() {
        let cases = [
            ("/run/a-1/6443.kubeconfig", "/run/a-1/6443.kubeconfig"),
            ("/a b", "'/a b'"),
            ("/it's", "'/it'\\''s'"),
            ("/$a", "'/$a'"),
        ];
        for (path, expected) in cases {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
