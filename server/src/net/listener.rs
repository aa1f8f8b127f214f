//! Binds sockets and accepts connections.

use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tracing::{debug, warn};

use super::http::{self, Door};
use super::server::Server;
use super::tls::Tls;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl ListenAddress {
    /// Reads `unix:PATH` or `ADDRESS:PORT`.
    ///
    /// # Errors
    /// What would be right, in English, for the operator.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs a path".to_owned()),
                path => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "an address such as 127.0.0.1:4317 or unix:/run/usher.sock".to_owned())
    }

    /// Tells whether other machines can connect to it: then nothing may be spoken in the clear.
    pub fn needs_tls(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(address) => !address.ip().is_loopback(),
        }
    }
}

enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener, SocketAddr),
}

/// The file of a bound Unix socket; removed when dropped.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            warn!(%error, "the socket file could not be removed");
        }
    }
}

/// Bound sockets, not yet served.
pub struct Listeners {
    bound: Vec<Listener>,
    /// Spoken on every TCP port, if there is any.
    tls: Option<Arc<Tls>>,
}

impl Listeners {
    /// Binds every address. A Unix socket gets mode 0600; its folder is made with 0700. A socket
    /// file that nobody serves any more is replaced: the caller holds the data directory's lock. If
    /// one address cannot be bound, none stays. With `tls`, TCP ports speak nothing else.
    ///
    /// # Errors
    /// The address and why it cannot be bound.
    pub async fn bind(addresses: &[ListenAddress], tls: Option<Arc<Tls>>) -> Result<Self, String> {
        let mut bound = Vec::new();
        for address in addresses {
            bound.push(match address {
                ListenAddress::Unix(path) => {
                    let (listener, file) = bind_unix(path)
                        .map_err(|error| format!("unix:{}: {error}", path.display()))?;
                    Listener::Unix(listener, file)
                }
                ListenAddress::Tcp(address) => {
                    let explain = |error: std::io::Error| format!("{address}: {error}");
                    let listener = TcpListener::bind(address).await.map_err(explain)?;
                    let local = listener.local_addr().map_err(explain)?;
                    Listener::Tcp(listener, local)
                }
            });
        }
        Ok(Self { bound, tls })
    }

    /// Returns what clients connect to.
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        let url = |listener: &Listener| match listener {
            Listener::Unix(_, file) => format!("unix:{}", file.0.display()),
            Listener::Tcp(_, address) => format!("{scheme}://{address}/ws"),
        };
        self.bound.iter().map(url).collect()
    }

    /// Accepts connections until the tasks' runtime ends; returns the files of its sockets.
    pub fn serve(self, server: &Arc<Server>) -> Vec<SocketFile> {
        let mut files = Vec::new();
        for listener in self.bound {
            let server = Arc::clone(server);
            match listener {
                Listener::Unix(listener, file) => {
                    files.push(file);
                    tokio::spawn(accept_unix(listener, server));
                }
                Listener::Tcp(listener, _) => {
                    tokio::spawn(accept_tcp(listener, server, self.tls.clone()));
                }
            }
        }
        files
    }
}

fn bind_unix(path: &Path) -> std::io::Result<(UnixListener, SocketFile)> {
    if let Some(folder) = path.parent()
        && !folder.as_os_str().is_empty()
    {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok((listener, file))
}

async fn accept_unix(listener: UnixListener, server: Arc<Server>) {
    let own = rustix::process::getuid().as_raw();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0) {
                    tokio::spawn(http::serve(stream, Arc::clone(&server), Door::Unix));
                } else {
                    warn!("a connection of another user was refused");
                }
            }
            Err(error) => wait_after(&error).await,
        }
    }
}

async fn accept_tcp(listener: TcpListener, server: Arc<Server>, tls: Option<Arc<Tls>>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Fails only for a peer that is gone, which shows when it is read.
                drop(stream.set_nodelay(true));
                admit(&server, enter_tcp(stream, peer, Arc::clone(&server), tls.clone()));
            }
            Err(error) => wait_after(&error).await,
        }
    }
}

/// Serves one connection of whoever up to its end or its upgrade, unless too many wait for theirs.
fn admit(server: &Server, serving: impl Future<Output = ()> + Send + 'static) {
    let Some(place) = server.place_at_the_door() else {
        debug!("too many connections that are no links yet");
        return;
    };
    tokio::spawn(async move {
        serving.await;
        drop(place);
    });
}

/// A handshake takes as long as the peer likes, up to a bound: others are accepted meanwhile.
async fn enter_tcp(
    stream: TcpStream,
    peer: SocketAddr,
    server: Arc<Server>,
    tls: Option<Arc<Tls>>,
) {
    match tls {
        None => http::serve(stream, server, Door::Tcp(peer)).await,
        Some(tls) => {
            if let Some(stream) = tls.accept(stream).await {
                http::serve(stream, server, Door::Tls(peer)).await;
            }
        }
    }
}

/// Out of file descriptors, most likely: gives links the time to end.
async fn wait_after(error: &std::io::Error) {
    warn!(%error, "accept failed");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_other_machines_reach_needs_tls() {
        let needs_tls = |text: &str| ListenAddress::parse(text).unwrap().needs_tls();
        for local in ["unix:/run/u.sock", "127.0.0.1:0", "127.8.8.8:1", "[::1]:4317"] {
            assert!(!needs_tls(local), "{local}");
        }
        for open in ["0.0.0.0:4317", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "[::ffff:127.0.0.1]:1"]
        {
            assert!(needs_tls(open), "{open}");
        }
        for bad in ["", "unix:", "4317", "127.0.0.1:65536", "127.0.0.1", "host:1"] {
            assert!(ListenAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
