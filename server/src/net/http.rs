//! One connection before it is a link: plain HTTP, and the upgrade to WebSocket.

use std::convert::Infallible;
use std::net::SocketAddr;
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
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tracing::debug;
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

/// Which door a connection came through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    /// The file system let it in.
    Unix,
    /// Anybody on this machine.
    Tcp(SocketAddr),
    /// Anybody, over TLS: whatever name led here is one that the certificate was shown for.
    Tls(SocketAddr),
}

/// Serves one connection up to its end or its upgrade.
pub(super) async fn serve<S>(stream: S, server: Arc<Server>, door: Door)
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
        Door::Tcp(peer) | Door::Tls(peer) => Some(peer.ip()),
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
