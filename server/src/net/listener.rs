//! Accepts connections, answers plain HTTP, and upgrades to WebSocket.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tracing::{debug, warn};
use usher_shared::limits::FRAME_BYTES_MAX;

use super::gate::Gate;
use super::link;
use super::server::Server;
use super::welcome::Credential;

/// A request's headers must be here in this time.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a request's headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Frames of a connection that the peer does not read; then the server waits.
const WRITE_BUFFER_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

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
                    tokio::spawn(serve_http(stream, Arc::clone(&server), Door::Unix));
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
                tokio::spawn(serve_http(stream, Arc::clone(&server), Door::Tcp(peer)));
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

/// Which door a connection came through.
#[derive(Clone, Copy, Debug)]
enum Door {
    /// The file system let it in.
    Unix,
    /// Anybody on this machine.
    Tcp(SocketAddr),
}

async fn serve_http<S>(stream: S, server: Arc<Server>, door: Door)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(respond(request, server, door).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!(%error, "connection failed");
    }
}

async fn respond(
    request: Request<Incoming>,
    server: Arc<Server>,
    door: Door,
) -> Response<Full<Bytes>> {
    if matches!(door, Door::Tcp(_)) && !names_this_machine(request.headers()) {
        return plain(StatusCode::FORBIDDEN);
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => plain(server.health().await),
        (&Method::GET, "/ws") => upgrade(request, server, door),
        _ => plain(StatusCode::NOT_FOUND),
    }
}

/// Answers without a body and ends the connection: an idle one would cost a file descriptor.
fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A web page that had its own name resolve to this machine sends that name. (DNS rebinding)
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
}

/// Returns the token of a request. The name of the scheme may be in any case (RFC 9110, 11.1).
fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

fn upgrade(
    mut request: Request<Incoming>,
    server: Arc<Server>,
    door: Door,
) -> Response<Full<Bytes>> {
    let headers = request.headers();
    if let Some(origin) = headers.get(ORIGIN)
        && !origin.to_str().is_ok_and(|origin| server.allows_origin(origin))
    {
        return plain(StatusCode::FORBIDDEN);
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let (Some(accept), true, true, true) = (
        key,
        version,
        has_token(headers, CONNECTION, "upgrade"),
        has_token(headers, UPGRADE, "websocket"),
    ) else {
        return plain(StatusCode::BAD_REQUEST);
    };
    let peer = match door {
        Door::Unix => None,
        Door::Tcp(peer) => Some(peer.ip()),
    };
    let credential = Credential { bearer: bearer(headers), peer };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgraded.await {
            Ok(stream) => {
                let socket = WebSocketStream::from_raw_socket(
                    Gate::new(TokioIo::new(stream)),
                    Role::Server,
                    Some(socket_config()),
                )
                .await;
                link::serve(socket, server, credential).await;
            }
            Err(error) => debug!(%error, "upgrade failed"),
        }
    });
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    match accept.parse() {
        Ok(accept) => headers.insert(SEC_WEBSOCKET_ACCEPT, accept),
        Err(_) => return plain(StatusCode::BAD_REQUEST),
    };
    response
}

fn socket_config() -> WebSocketConfig {
    // The default read buffer takes 128 KiB of every connection at once.
    WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
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

    #[test]
    fn c136_only_names_of_this_machine_pass() {
        let named = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            names_this_machine(&headers)
        };
        for host in ["localhost:4317", "LOCALHOST", "127.0.0.1:1", "127.0.0.1", "[::1]:4317"] {
            assert!(named(host), "{host}");
        }
        for host in ["attacker.test", "attacker.test:4317", "10.0.0.1:4317", "127.0.0.1.evil.test"]
        {
            assert!(!named(host), "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new()));
    }
}
