//! How the admin server of `caretaker run` is opened: its socket, its certificates, its token, and the file that tells
//! people about them.
//!
//! `caretaker up` needs none of this: its admin server is a listener beside the API's, with the same authority and token.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use caretaker_apiserver::listen::{KubeconfigFile, Listener, Token};
use tokio::net::TcpListener;

use crate::wiring;

/// A token is short; whatever is longer is another file.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// What a caller has to show.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// The token in a file that somebody gave us.
    Given(PathBuf),
    /// A fresh token. It is written, with address and authority, as a kubeconfig into this directory, which is made if
    /// it is not there, for this user only: `kubectl --kubeconfig F get --raw /metrics` works with it.
    Fresh(PathBuf),
}

/// Listens for the admin server. The file exists as long as the value does; there is none for a given token, nor where
/// nothing can be written, which is said and no reason to stop.
///
/// # Errors
/// When the port is taken or the given token cannot be read.
pub(crate) async fn open(
    address: IpAddr,
    port: u16,
    credentials: &Credentials,
) -> Result<(Listener, Option<KubeconfigFile>)> {
    let address = SocketAddr::new(address, port);
    let token = match credentials {
        Credentials::Given(path) => read(path)?,
        Credentials::Fresh(_) => wiring::token()?,
    };
    let socket = TcpListener::bind(address).await;
    let socket = socket.with_context(|| {
        format!("the admin server cannot listen on {address}: choose another --secure-port, or 0 for none")
    })?;
    let port = socket
        .local_addr()
        .context("the socket has no address")?
        .port();
    let listener = Listener::new(socket, wiring::tls()?, token)?;
    let Credentials::Fresh(directory) = credentials else {
        return Ok((listener, None));
    };
    let path = directory.join(format!("admin-{port}.kubeconfig"));
    let file = match KubeconfigFile::write_private(path, listener.kubeconfig()) {
        Ok(file) => Some(file),
        Err(error) => {
            eprintln!(
                "caretaker: metrics and graph cannot be read, because nobody knows the token ({error}); \
                 --admin-token-file names one"
            );
            None
        }
    };
    Ok((listener, file))
}

fn read(path: &Path) -> Result<Token> {
    let name = path.display();
    let length = std::fs::metadata(path)
        .with_context(|| format!("cannot read {name}"))?
        .len();
    if length > TOKEN_FILE_BYTES_MAX {
        bail!("{name} is too long to be a token");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Token::from_text(&text).with_context(|| {
        format!(
            "{name} does not contain a token: one line of letters, digits and -._~+/= is needed"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn a_fresh_token_is_told_in_a_private_file_that_goes_with_the_server() {
        let world = tempfile::tempdir().unwrap();
        let directory = world.path().join("caretaker");
        let credentials = Credentials::Fresh(directory.clone());
        let (listener, file) = open(HERE, 0, &credentials).await.unwrap();
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(
            text.contains(&listener.url()) && text.contains("token: "),
            "{text}"
        );
        assert_eq!(file.path().parent(), Some(directory.as_path()));
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_given_token_is_used_and_written_nowhere() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("token");
        let open = async |text: &str| {
            std::fs::write(&path, text).unwrap();
            open(HERE, 0, &Credentials::Given(path.clone())).await
        };
        let (listener, file) = open("s3cret\n").await.unwrap();
        assert!(file.is_none() && listener.kubeconfig().contains("\"s3cret\""));
        for text in ["", "two words", &"x".repeat(5000)] {
            let error = open(text).await.err().unwrap();
            assert!(format!("{error:#}").contains("token"), "{error:#}");
        }
        let missing = Credentials::Given(world.path().join("missing"));
        assert!(super::open(HERE, 0, &missing).await.is_err());
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_and_a_directory_that_cannot_be_made_is_not() {
        let taken = TcpListener::bind((HERE, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let nowhere = Credentials::Fresh("/proc/nowhere".into());
        let error = open(HERE, port, &nowhere).await.err().unwrap();
        assert!(format!("{error:#}").contains("--secure-port"), "{error:#}");
        let (_listener, file) = open(HERE, 0, &nowhere).await.unwrap();
        assert!(file.is_none());
    }
}
