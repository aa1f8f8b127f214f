//! Binds sockets and accepts connections.

use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tracing::warn;

use super::http::{self, Door};
use super::server::Server;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A loopback TCP port.
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
        let address: SocketAddr = text
            .parse()
            .map_err(|_| "an address such as 127.0.0.1:4317 or unix:/run/usher.sock".to_owned())?;
        if !address.ip().is_loopback() {
            return Err("other than loopback addresses need TLS, which this version lacks".into());
        }
        Ok(Self::Tcp(address))
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
pub struct Listeners(Vec<Listener>);

impl Listeners {
    /// Binds every address. A Unix socket gets mode 0600; its folder is made with 0700. A socket
    /// file that nobody serves any more is replaced: the caller holds the data directory's lock. If
    /// one address cannot be bound, none stays.
    ///
    /// # Errors
    /// The address and why it cannot be bound.
    pub async fn bind(addresses: &[ListenAddress]) -> Result<Self, String> {
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
        Ok(Self(bound))
    }

    /// Returns what clients connect to.
    pub fn urls(&self) -> Vec<String> {
        let url = |listener: &Listener| match listener {
            Listener::Unix(_, file) => format!("unix:{}", file.0.display()),
            Listener::Tcp(_, address) => format!("ws://{address}/ws"),
        };
        self.0.iter().map(url).collect()
    }

    /// Accepts connections until the tasks' runtime ends; returns the files of its sockets.
    pub fn serve(self, server: &Arc<Server>) -> Vec<SocketFile> {
        let mut files = Vec::new();
        for listener in self.0 {
            let server = Arc::clone(server);
            match listener {
                Listener::Unix(listener, file) => {
                    files.push(file);
                    tokio::spawn(accept_unix(listener, server));
                }
                Listener::Tcp(listener, _) => drop(tokio::spawn(accept_tcp(listener, server))),
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

async fn accept_tcp(listener: TcpListener, server: Arc<Server>) {
    loop {
        let accepted = listener.accept().await.and_then(|(stream, peer)| {
            stream.set_nodelay(true)?;
            Ok((stream, peer))
        });
        match accepted {
            Ok((stream, peer)) => {
                tokio::spawn(http::serve(stream, Arc::clone(&server), Door::Tcp(peer)));
            }
            Err(error) => wait_after(&error).await,
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
    fn listens_on_loopback_and_sockets_only() {
        assert_eq!(
            ListenAddress::parse("unix:/run/u.sock"),
            Ok(ListenAddress::Unix("/run/u.sock".into()))
        );
        assert!(ListenAddress::parse("127.0.0.1:0").is_ok());
        assert!(ListenAddress::parse("[::1]:4317").is_ok());
        for bad in ["", "unix:", "4317", "0.0.0.0:4317", "127.0.0.1:65536", "127.0.0.1", "host:1"] {
            assert!(ListenAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
