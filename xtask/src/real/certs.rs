//! Keys, certificates, tokens and kubeconfigs of one instance.
//!
//! [`super::Instance::start`] makes them for each instance and removes them with it; they are never rotated or shared.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::processes::private_file;

/// Names of files in the directory of an instance. The flags of its programs name them too.
pub(super) const CA: &str = "ca.crt";
const TOKENS: &str = "tokens.csv";

/// Names under which the server of an instance may be addressed.
const SERVER_NAMES: [&str; 6] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// 256 bits, which cannot be guessed.
const TOKEN_BYTES: usize = 32;

/// A user of an instance. Both have all rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Identity {
    /// A member of `system:masters`: exempt from authorization and from Priority and Fairness.
    Admin,
    /// An ordinary user, bound to `cluster-admin`: Priority and Fairness applies.
    Ordinary,
}

/// The files of an instance that have to do with identity, by their place in its directory.
#[derive(Debug)]
pub(super) struct IdentityFiles<'a>(pub(super) &'a Path);

// === impl Identity ===

impl Identity {
    pub(super) const ALL: [Self; 2] = [Self::Admin, Self::Ordinary];

    /// Its user name on the server.
    pub fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Ordinary => "ordinary",
        }
    }
}

// === impl IdentityFiles ===

impl IdentityFiles<'_> {
    pub(super) fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.0.join(kubeconfig_name(identity))
    }

    /// Makes keys, certificates and tokens.
    pub(super) fn create(&self) -> Result<()> {
        let ca = authority()?;
        let (server_key, service_account_key) = (key()?, key()?);
        let server = server_params()?
            .signed_by(&server_key, &ca)
            .context("cannot sign a certificate")?;
        self.write(CA, &ca.pem())?;
        self.write("server.crt", &server.pem())?;
        self.write("server.key", &server_key.serialize_pem())?;
        self.write("service-account.key", &service_account_key.serialize_pem())?;
        let public_key = service_account_key.public_key_pem();
        self.write("service-account.pub", &public_key)?;
        self.write(TOKENS, &token_table()?)
    }

    /// Writes the kubeconfig of each identity. They are JSON, which is YAML.
    pub(super) fn create_kubeconfigs(&self, instance: &str, server: &str) -> Result<()> {
        for identity in Identity::ALL {
            let token = self.token(identity)?;
            let user = identity.user();
            let context = format!("{instance}-{user}");
            let kubeconfig = json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": instance, "cluster": {"server": server, "certificate-authority": self.0.join(CA)}}],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": context, "context": {"cluster": instance, "user": user}}],
                "current-context": context,
            });
            self.write(&kubeconfig_name(identity), &format!("{kubeconfig:#}\n"))?;
        }
        Ok(())
    }

    /// The token of an identity, as the server reads it.
    pub(super) fn token(&self, identity: Identity) -> Result<String> {
        let (table, user) = (self.read(TOKENS)?, identity.user());
        table
            .lines()
            .filter_map(|line| line.split_once(','))
            .find(|(_, rest)| rest.split(',').next() == Some(user))
            .map(|(token, _)| token.to_owned())
            .with_context(|| format!("{TOKENS} of the instance holds no token of {user}"))
    }

    /// Reads one of the files.
    pub(super) fn read(&self, name: &str) -> Result<String> {
        let path = self.0.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Writes a file that only this user may read.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.0.join(name);
        let written = private_file(&path)?.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

fn kubeconfig_name(identity: Identity) -> String {
    format!("{}.kubeconfig", identity.user())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
        .distinguished_name
        .push(DnType::CommonName, "caretaker oracle");
    CertifiedIssuer::self_signed(params, key()?).context("cannot make a certificate authority")
}

fn server_params() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(SERVER_NAMES.map(str::to_owned))
        .context("cannot name the server")?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn key() -> Result<KeyPair> {
    KeyPair::generate().context("cannot make a key")
}

/// The file of kube-apiserver's `--token-auth-file`: token, user, uid, groups.
fn token_table() -> Result<String> {
    Identity::ALL
        .into_iter()
        .map(|identity| {
            let user = identity.user();
            // A member of this group is exempt from authorization and from Priority and Fairness.
            let group = match identity {
                Identity::Admin => ",system:masters",
                Identity::Ordinary => "",
            };
            Ok(format!("{},{user},{user}{group}\n", token()?))
        })
        .collect()
}

fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mk_files() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let files = IdentityFiles(dir.path());
        files.create().unwrap();
        let made = files.create_kubeconfigs("here", "https://127.0.0.1:1");
        made.unwrap();
        dir
    }

    #[test]
    fn every_identity_file_is_private_and_tokens_differ() {
        let dir = mk_files();
        let files = IdentityFiles(dir.path());
        for entry in dir.path().read_dir().unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let [admin, ordinary] = Identity::ALL.map(|identity| files.token(identity).unwrap());
        assert_ne!(admin, ordinary);
        assert_eq!(admin.len(), 2 * TOKEN_BYTES);
        let table = files.read(TOKENS).unwrap();
        assert_eq!(
            table,
            format!("{admin},admin,admin,system:masters\n{ordinary},ordinary,ordinary\n")
        );
    }

    #[test]
    fn a_kubeconfig_names_server_authority_and_token() {
        let dir = mk_files();
        let files = IdentityFiles(dir.path());
        let text = std::fs::read_to_string(files.kubeconfig(Identity::Ordinary)).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:1"
        );
        assert_eq!(
            config["clusters"][0]["cluster"]["certificate-authority"],
            json!(dir.path().join(CA))
        );
        assert_eq!(
            config["users"][0]["user"]["token"],
            json!(files.token(Identity::Ordinary).unwrap())
        );
        assert_eq!(config["current-context"], config["contexts"][0]["name"]);
    }
}
