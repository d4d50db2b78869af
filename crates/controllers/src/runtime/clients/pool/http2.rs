//! One HTTP/2 connection: its settings, its pings and its end.
//!
//! `h2` is used directly. hyper's client hides when SETTINGS and GOAWAY arrive, and starts a task per request.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::dial::{BoxedStream, ConnectError};
use super::stream::ConnectionFate;

/// How much the server may send on one stream before it is read, in bytes. At 50 ms to the server, a list arrives with
/// 20 MB/s.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// How much the server may send on all streams together, in bytes: enough for 100 of them, the default limit of
/// kube-apiserver, so that streams whose data is not read do not stop the others.
const CONNECTION_WINDOW: u32 = 128 * 1024 * 1024;
/// The largest frame, in bytes. Larger frames than the default of 16 KiB make lists cheaper.
const FRAME_BYTES_MAX: u32 = 64 * 1024;
/// The longest head of a response, in bytes: kube-apiserver sends warnings as headers.
const HEAD_BYTES_MAX: u32 = 256 * 1024;

/// The interval of pings. They also keep state in firewalls and load balancers alive.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// A connection on which a ping has no answer for this time is dead, as in client-go. Together with the interval this is
/// shorter than the timeout of a request: the request fails with its connection, and the next one gets another connection.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends word when the server's first SETTINGS have arrived.
pub(super) struct SettingsWatcher(Option<oneshot::Sender<()>>);

/// Begins a connection. The server's SETTINGS are not known yet, and no stream can be opened before they are.
pub(super) async fn handshake(
    io: BoxedStream,
) -> Result<(SendRequest<Bytes>, Connection<BoxedStream, Bytes>), ConnectError> {
    let handshake = Builder::new()
        .enable_push(false)
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .handshake(io)
        .await;
    Ok(handshake?)
}

pub(super) fn settings_watcher() -> (SettingsWatcher, oneshot::Receiver<()>) {
    let (sender, receiver) = oneshot::channel();
    (SettingsWatcher(Some(sender)), receiver)
}

/// Waits until the server's first SETTINGS allow a stream. The caller limits the time.
pub(super) async fn wait_for_settings(
    settled: oneshot::Receiver<()>,
    fate: &ConnectionFate,
) -> Result<(), ConnectError> {
    settled.await.map_err(|_| match fate.get() {
        Some(why) => ConnectError::Tcp(why.to_owned()),
        None => ConnectError::Closed,
    })
}

/// Drives a connection until it ends. A connection that does not answer pings is dropped, and its streams with it.
pub(super) async fn drive(
    mut connection: Connection<BoxedStream, Bytes>,
    mut watcher: SettingsWatcher,
    fate: ConnectionFate,
) {
    let pings = connection.ping_pong();
    let mut pings = pin!(ping_until_dead(pings));
    let ended = poll_fn(|cx| {
        let polled = connection.poll_unpin(cx);
        watcher.look(connection.max_concurrent_send_streams());
        polled
    });
    tokio::select! {
        biased;
        ended = ended => {
            tracing::debug!(error = ended.err().map(tracing::field::display), "connection ended");
        }
        () = pings.as_mut() => {
            let why = format!("no answer to a ping within {} s", PING_TIMEOUT.as_secs());
            tracing::debug!("connection dropped: {why}");
            fate.set(why);
        }
    }
}

/// Returns when a ping has no answer.
async fn ping_until_dead(pings: Option<PingPong>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        sleep(PING_INTERVAL).await;
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself ends with the same error.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

// === impl SettingsWatcher ===

impl SettingsWatcher {
    fn look(&mut self, streams: usize) {
        if streams > 0
            && let Some(settled) = self.0.take()
        {
            // The connection may have been given up meanwhile.
            let _ = settled.send(());
        }
    }
}
