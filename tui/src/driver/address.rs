//! Where a server listens, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
}

/// Why a string is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `unix:PATH` nor `ws://HOST:PORT`.
    #[error("not an address")]
    Malformed,
    /// `wss://`: encrypted links are not built into this client.
    #[error("wss is not supported")]
    Encrypted,
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let named = !path.is_empty() && !path.contains('\0');
            return named.then(|| Self::Unix(PathBuf::from(path))).ok_or(AddressError::Malformed);
        }
        if text.starts_with("wss://") {
            return Err(AddressError::Encrypted);
        }
        let rest = text.strip_prefix("ws://").ok_or(AddressError::Malformed)?;
        let authority = rest.strip_suffix("/ws").unwrap_or(rest);
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').ok_or(AddressError::Malformed)?;
        let port = port.parse().map_err(|_| AddressError::Malformed)?;
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
        .map(|host| Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "ws://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "ws://{host}:{port}"),
        }
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
        ] {
            assert_eq!(text.parse::<ServerAddress>(), Err(AddressError::Malformed), "{text:?}");
        }
        assert_eq!("wss://host:443".parse::<ServerAddress>(), Err(AddressError::Encrypted));
    }
}
