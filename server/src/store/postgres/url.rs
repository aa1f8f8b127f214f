//! Where a PostgreSQL database is, said without its password.

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::Config;

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
    /// Takes any text; [`super::super::Store::connect`] refuses what is no such URL.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns how to connect.
    pub(super) fn config(&self) -> Result<Config, StoreError> {
        // The parser's own words may quote a part of the password.
        let bad = || StoreError::Database("not of the form postgres://USER@HOST/NAME".to_owned());
        if !self.0.starts_with("postgres://") && !self.0.starts_with("postgresql://") {
            return Err(bad());
        }
        let mut config = Config::from_str(&self.0).map_err(|_| bad())?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WAIT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        if config.get_application_name().is_none() {
            config.application_name("usherd");
        }
        Ok(config)
    }
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
            let said = match url.config() {
                Ok(config) => format!("{config:?}"),
                Err(error) => error.to_string(),
            };
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
