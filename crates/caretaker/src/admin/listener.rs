//! Opens the admin server of `caretaker run`: socket, certificates, token, and a kubeconfig with the token.
//!
//! `caretaker up` does not use this: its admin server shares the certificates and the token of its API server.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use caretaker_apiserver::listen::{ApiListener, BearerToken, KubeconfigFile};
use tokio::net::TcpListener;

use super::known;
use crate::wiring::{self, notice};

/// Larger files hold something else than a token.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Where the bearer token of the admin server comes from.
#[derive(Debug)]
pub(crate) enum TokenSource {
    /// A file of the user.
    File(PathBuf),
    /// A new token. It is written as a kubeconfig into this directory, which is created if it is missing, readable for
    /// this user only: `kubectl --kubeconfig FILE get --raw /metrics` works with it. The kubeconfig also names the API
    /// server of the controllers.
    Generated { directory: PathBuf, server: String },
}

/// Binds the admin server. The kubeconfig file exists as long as the returned value. There is none for a token of the
/// user, nor if the directory cannot be written, which is a warning.
///
/// # Errors
/// If the port is taken, or the token file cannot be read.
pub(crate) async fn open(
    address: IpAddr,
    port: u16,
    token_source: &TokenSource,
) -> Result<(ApiListener, Option<KubeconfigFile>)> {
    let address = SocketAddr::new(address, port);
    let token = match token_source {
        TokenSource::File(path) => read_token(path)?,
        TokenSource::Generated { .. } => wiring::token()?,
    };
    let socket = bind(address).await?;
    let port = socket
        .local_addr()
        .context("the socket has no address")?
        .port();
    let listener = ApiListener::new(socket, wiring::tls()?, token)?;
    let TokenSource::Generated { directory, server } = token_source else {
        return Ok((listener, None));
    };
    let text = known::marked(&listener.kubeconfig(), server);
    let file = match KubeconfigFile::write_private(known::path(directory, port), text) {
        Ok(file) => Some(file),
        Err(error) => {
            notice(&format!(
                "metrics and graph are not accessible: the token file cannot be written ({error}); \
                 set --admin-token-file"
            ));
            None
        }
    };
    Ok((listener, file))
}

/// Binds the socket of an admin server.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let socket = TcpListener::bind(address).await;
    socket.with_context(|| {
        format!("admin server cannot listen on {address}: choose another --secure-port, or 0 to disable it")
    })
}

fn read_token(path: &Path) -> Result<BearerToken> {
    let name = path.display();
    let length = std::fs::metadata(path)
        .with_context(|| format!("cannot read {name}"))?
        .len();
    if length > TOKEN_FILE_BYTES_MAX {
        bail!("{name} is too large for a token file");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    BearerToken::from_text(&text).with_context(|| {
        format!("{name} contains no token: expected one line of letters, digits and -._~+/=")
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn mk_source(directory: PathBuf) -> TokenSource {
        TokenSource::Generated {
            directory,
            server: "https://a".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_generated_token_is_in_a_private_file_until_the_server_stops() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path().join("caretaker");
        let source = mk_source(directory.clone());
        let (listener, file) = open(HERE, 0, &source).await.unwrap();
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(
            text.contains(&listener.url()) && text.contains("token: "),
            "{text}"
        );
        assert_eq!(file.path().parent(), Some(directory.as_path()));
        assert_eq!(known::find(&directory, "https://a"), [file.path()]);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_token_file_is_used_and_no_kubeconfig_is_written() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("token");
        let open = async |text: &str| {
            std::fs::write(&path, text).unwrap();
            open(HERE, 0, &TokenSource::File(path.clone())).await
        };
        let (listener, file) = open("s3cret\n").await.unwrap();
        assert!(file.is_none() && listener.kubeconfig().contains("\"s3cret\""));
        for text in ["", "two words", &"x".repeat(5000)] {
            let error = open(text).await.err().unwrap();
            assert!(format!("{error:#}").contains("token"), "{error:#}");
        }
        let missing = TokenSource::File(world.path().join("missing"));
        assert!(super::open(HERE, 0, &missing).await.is_err());
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_and_an_unwritable_directory_is_not() {
        let taken = TcpListener::bind((HERE, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let nowhere = mk_source("/proc/nowhere".into());
        let error = open(HERE, port, &nowhere).await.err().unwrap();
        assert!(format!("{error:#}").contains("--secure-port"), "{error:#}");
        let (_listener, file) = open(HERE, 0, &nowhere).await.unwrap();
        assert!(file.is_none());
    }
}
