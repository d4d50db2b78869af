//! An HTTP proxy between `caretaker run` and its server: it can be away, or accept connections and never answer.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::process::UpProcess;

/// A proxy that tunnels connections to a server, or not.
pub(crate) struct TestProxy {
    address: SocketAddr,
    server: SocketAddr,
    /// Whether connections are accepted and hang.
    hangs: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

// === impl TestProxy ===

impl TestProxy {
    /// A proxy of the server's address. Its port is closed at first.
    pub(crate) fn of(up: &UpProcess) -> Self {
        let server = up.server().rsplit('/').next().unwrap().parse().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self {
            address: free.local_addr().unwrap(),
            server,
            hangs: Arc::default(),
            connections: Arc::default(),
        }
    }

    /// A copy of the server's kubeconfig that names the proxy.
    pub(crate) fn kubeconfig(&self, up: &UpProcess) -> PathBuf {
        let text = std::fs::read_to_string(up.kubeconfig()).unwrap();
        let proxy = format!("proxy-url: \"http://{}\"\n    server: ", self.address);
        let text = text.replace("server: ", &proxy);
        write(&up.world.path("proxied"), &text)
    }

    /// Opens the port.
    pub(crate) fn open(&self) {
        let listener = TcpListener::bind(self.address).unwrap();
        let (server, hangs) = (self.server, self.hangs.clone());
        let connections = self.connections.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let mut open = connections.lock().unwrap();
                open.push(client.try_clone().unwrap());
                if hangs.load(Ordering::Relaxed) {
                    continue;
                }
                let server = TcpStream::connect(server).unwrap();
                open.push(server.try_clone().unwrap());
                thread::spawn(move || tunnel(client, server));
            }
        });
    }

    /// The number of connections that were forwarded. Each has two ends.
    pub(crate) fn forwarded(&self) -> usize {
        self.connections.lock().unwrap().len() / 2
    }

    /// From now on connections are accepted and nothing is answered.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    /// Forwards connections again. Those that hang are cut.
    pub(crate) fn resume(&self) {
        self.hangs.store(false, Ordering::Relaxed);
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Answers CONNECT, then copies bytes in both directions.
fn tunnel(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut line = String::from("start");
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line)?;
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client);
    thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let _ = io::copy(&mut reader, &mut server);
    server.shutdown(Shutdown::Both)
}

/// Writes a file and returns its path.
pub(crate) fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    path.to_owned()
}
