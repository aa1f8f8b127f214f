//! Where a PostgreSQL database is, said without its password.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::tls::{Authorities, DatabaseTls, Encrypted};
use crate::store::StoreError;

/// How long one attempt to connect may take, unless the URL says otherwise.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// A network that swallows everything is noticed after this.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// `postgres://USER:PASSWORD@HOST/NAME`, as it was written. It may hold a password: nothing shows
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Takes any text; what connects refuses one that is no such URL.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Takes a command line's text. A parser that refused it would show it.
    ///
    /// # Errors
    /// None.
    pub fn any(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }

    /// Returns how to connect. Reads the certificates that are trusted, if any are needed.
    ///
    /// `sslmode` is `require`, `verify-ca` or `verify-full`, which all mean that nothing goes in the
    /// clear and that the certificate is verified for the host's name; or `disable` or `prefer`,
    /// which both mean that nothing is encrypted, as without it. `sslrootcert` names a file (PEM) of
    /// the authorities that count instead of the machine's (`system`), and asks for TLS by itself.
    pub(super) fn endpoint(&self) -> Result<Endpoint, StoreError> {
        // The parser's own words may quote a part of the password.
        let bad = || StoreError::Database("not of the form postgres://USER@HOST/NAME".to_owned());
        if !self.0.starts_with("postgres://") && !self.0.starts_with("postgresql://") {
            return Err(bad());
        }
        let (rest, wish) = split(&self.0).ok_or_else(|| {
            let why = "sslmode is disable, prefer, require, verify-ca or verify-full, and \
                sslrootcert a file or system";
            StoreError::Database(why.to_owned())
        })?;
        let mut config = Config::from_str(&rest).map_err(|_| bad())?;
        let authorities = match (wish.encrypted, &wish.authorities) {
            (false, _) => Authorities::None,
            (true, None) => Authorities::System,
            (true, Some(file)) => Authorities::File(file),
        };
        config.ssl_mode(if wish.encrypted { SslMode::Require } else { SslMode::Disable });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WAIT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        if config.get_application_name().is_none() {
            config.application_name("usherd");
        }
        Ok(Endpoint { config, tls: DatabaseTls::of(authorities)? })
    }
}

/// How to connect.
#[derive(Clone)]
pub(super) struct Endpoint {
    config: Config,
    tls: DatabaseTls,
}

impl Endpoint {
    /// Connects.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, Encrypted>), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

/// What a URL says about TLS.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    encrypted: bool,
    authorities: Option<PathBuf>,
}

/// Takes what a URL says about TLS out of it; None if that makes no sense.
fn split(url: &str) -> Option<(String, Wish)> {
    let mut wish = Wish::default();
    let (mut mode, mut named) = (None, false);
    // A question mark before the host is one of a password.
    let (start, query) = match url.rsplit_once('?') {
        Some((start, query)) if !query.contains('@') => (start, query),
        Some(_) | None => return Some((url.to_owned(), wish)),
    };
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => mode = Some(true),
            Some(("sslmode", "disable" | "prefer")) => mode = Some(false),
            Some(("sslmode", _)) => return None,
            Some(("sslrootcert", "system")) => (wish.authorities, named) = (None, true),
            Some(("sslrootcert", file)) => {
                (wish.authorities, named) = (Some(decoded(file)?.into()), true);
            }
            Some(_) | None => others.push(pair),
        }
    }
    // Who says whom to trust wants it to matter.
    wish.encrypted = mode.unwrap_or(named);
    let rest = match others.as_slice() {
        [] => start.to_owned(),
        others => format!("{start}?{}", others.join("&")),
    };
    Some((rest, wish))
}

/// Undoes percent-encoding; None if it is none.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_error_and_in_no_debug_output() {
        for text in [
            "postgres://anna:hunter2-geheim@",
            "postgres://anna:hunter2-geheim?x=1@host/name",
            "postgres://anna:hunter2-geheim@host:notaport/name",
            "mysql://anna:hunter2-geheim@host/name",
            "hunter2-geheim",
        ] {
            let url = DatabaseUrl::new(text);
            assert!(!format!("{url:?}").contains("hunter2"));
            let said = match url.endpoint() {
                Ok(endpoint) => format!("{:?}", endpoint.config),
                Err(error) => error.to_string(),
            };
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn what_a_url_says_about_tls_is_taken_out_of_it() {
        let start = "postgres://anna:pass?word@host/name";
        let wish = |encrypted, file: Option<&str>| Wish {
            encrypted,
            authorities: file.map(PathBuf::from),
        };
        for (query, rest, expected) in [
            ("", "", wish(false, None)),
            ("?", "?", wish(false, None)),
            ("?sslmode=disable", "", wish(false, None)),
            ("?sslmode=prefer&connect_timeout=3", "?connect_timeout=3", wish(false, None)),
            ("?sslmode=require", "", wish(true, None)),
            ("?a=1&sslmode=verify-full&b=2", "?a=1&b=2", wish(true, None)),
            ("?sslrootcert=system", "", wish(true, None)),
            ("?sslrootcert=/ca.pem", "", wish(true, Some("/ca.pem"))),
            ("?sslrootcert=/ca.pem&sslmode=disable", "", wish(false, Some("/ca.pem"))),
            (
                "?sslrootcert=/etc/my%20ca.pem&sslmode=verify-ca",
                "",
                wish(true, Some("/etc/my ca.pem")),
            ),
        ] {
            let said = split(&format!("{start}{query}")).unwrap();
            assert_eq!(said, (format!("{start}{rest}"), expected), "{query}");
        }
        for query in
            ["?sslmode=", "?sslmode=yes", "?sslrootcert=%", "?sslrootcert=%f", "?sslrootcert=%ff"]
        {
            assert_eq!(split(&format!("{start}{query}")), None, "{query}");
        }
    }
}
