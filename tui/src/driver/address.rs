//! Where a server listens, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_rustls::rustls::pki_types::ServerName;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `ws://HOST:PORT`, with or without the path `/ws`.
    Tcp {
        /// A name or an address, IPv6 without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// `wss://HOST[:PORT]`, the same over TLS.
    Tls {
        /// A name or an address, IPv6 without brackets; the server's certificate is for it.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The port of `wss://` if none is written.
const TLS_PORT: u16 = 443;

/// Why a string is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `unix:PATH` nor `ws://HOST:PORT` nor `wss://HOST[:PORT]`.
    #[error("not an address")]
    Malformed,
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let named = !path.is_empty() && !path.contains('\0');
            return named.then(|| Self::Unix(PathBuf::from(path))).ok_or(AddressError::Malformed);
        }
        if let Some(rest) = text.strip_prefix("wss://") {
            let (host, port) = host_and_port(rest, Some(TLS_PORT))?;
            // What no certificate can be for is no address.
            ServerName::try_from(host).map_err(|_| AddressError::Malformed)?;
            return Ok(Self::Tls { host: host.to_owned(), port });
        }
        let rest = text.strip_prefix("ws://").ok_or(AddressError::Malformed)?;
        let (host, port) = host_and_port(rest, None)?;
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

/// Reads what stands behind the scheme.
fn host_and_port(rest: &str, default: Option<u16>) -> Result<(&str, u16), AddressError> {
    let authority = rest.strip_suffix("/ws").unwrap_or(rest);
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let is_bare = !authority.contains(':') || authority.ends_with(']');
    let (host, port) = match default {
        Some(port) if is_bare => (authority, port),
        Some(_) | None => {
            let (host, port) = authority.rsplit_once(':').ok_or(AddressError::Malformed)?;
            (host, port.parse().map_err(|_| AddressError::Malformed)?)
        }
    };
    let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let is_v6 = |host: &str| host.parse::<std::net::Ipv6Addr>().is_ok();
    let is_name = |host: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        !host.is_empty() && host.bytes().all(plain)
    };
    match bracketed {
        Some(host) if is_v6(host) => Ok(host),
        None if is_name(host) => Ok(host),
        Some(_) | None => Err(AddressError::Malformed),
    }
    .map(|host| (host, port))
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => write!(f, "ws://{}", Authority(host, *port)),
            Self::Tls { host, port } => write!(f, "wss://{}", Authority(host, *port)),
        }
    }
}

/// Host and port as a URL has them.
pub(super) struct Authority<'a>(pub(super) &'a str, pub(super) u16);

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(host, port) = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, shown) in [
            ("unix:/run/usher.sock", "unix:/run/usher.sock"),
            ("unix:usher.sock", "unix:usher.sock"),
            ("ws://localhost:4317", "ws://localhost:4317"),
            ("ws://127.0.0.1:4317/ws", "ws://127.0.0.1:4317"),
            ("ws://127.0.0.1:4317/", "ws://127.0.0.1:4317"),
            ("ws://[::1]:4317/ws", "ws://[::1]:4317"),
            ("wss://chat.example", "wss://chat.example:443"),
            ("wss://chat.example:4317/ws", "wss://chat.example:4317"),
            ("wss://127.0.0.1/", "wss://127.0.0.1:443"),
            ("wss://[::1]", "wss://[::1]:443"),
            ("wss://[::1]:4317/ws", "wss://[::1]:4317"),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_kind() {
        for text in [
            "",
            "unix:",
            "unix:a\0b",
            "localhost:4317",
            "http://localhost:4317",
            "ws://localhost",
            "ws://localhost:",
            "ws://localhost:65536",
            "ws://:4317",
            "ws://::1:4317",
            "ws://[localhost]:4317",
            "ws://user@host:4317",
            "ws://host:4317/other",
            "ws://ho st:4317",
            "ws://h\r\nX: y:4317",
            "wss://",
            "wss://host:",
            "wss://host:x",
            "wss://::1",
            "wss://[::1]x",
            "wss://host:443/other",
            "wss://-host-",
            "wss://a..b",
        ] {
            assert_eq!(text.parse::<ServerAddress>(), Err(AddressError::Malformed), "{text:?}");
        }
    }
}
