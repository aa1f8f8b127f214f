//! Who may connect: the owner's token, and how many wrong ones an address may show.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::fresh_token;
use crate::domain::users::TokenDigest;

/// Wrong tokens of one address within [`WINDOW`]; further wrong ones are refused unread.
const WRONG_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered.
const ADDRESSES_MAX: usize = 4_096;

/// What a wrong token came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// One of few.
    Few,
    /// Too many before it.
    TooMany,
}

/// The token of the server's owner, as a digest: comparing digests takes the same time for every
/// guess. And the wrong tokens that were shown lately.
pub struct Access {
    digest: TokenDigest,
    wrong: Mutex<HashMap<IpAddr, Vec<Instant>>>,
}

impl Access {
    /// Reads the token of `file`, or makes one there (mode 0600) if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read or made, or is blank.
    pub fn load(file: &Path) -> std::io::Result<Self> {
        let token = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make_token(file)?,
            Err(error) => return Err(error),
        };
        let token = token.trim();
        if token.is_empty() {
            return Err(std::io::Error::other("the token is blank"));
        }
        Ok(Self { digest: TokenDigest::of(token), wrong: Mutex::default() })
    }

    /// Tells whether this is the token of the server's owner.
    pub(super) fn is_owners(&self, digest: &TokenDigest) -> bool {
        *digest == self.digest
    }

    /// Notes a wrong token shown from an address.
    pub(super) fn note_wrong(&self, peer: IpAddr) -> Wrong {
        let now = Instant::now();
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= ADDRESSES_MAX {
            wrong.retain(|_, times| times.last().is_some_and(|last| now - *last < WINDOW));
        }
        let times = wrong.entry(peer).or_default();
        times.retain(|time| now - *time < WINDOW);
        if times.len() >= WRONG_MAX {
            return Wrong::TooMany;
        }
        times.push(now);
        Wrong::Few
    }
}

fn make_token(file: &Path) -> std::io::Result<String> {
    let token = fresh_token()?;
    let mut out =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(out, "{token}")?;
    out.sync_all()?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_private_token_once_and_knows_it_again() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        drop(Access::load(&file).unwrap());
        let token = std::fs::read_to_string(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Access::load(&file).unwrap();
        assert!(again.is_owners(&TokenDigest::of(token.trim())));
        assert!(!again.is_owners(&TokenDigest::of(&token.trim()[..63])));
    }

    #[test]
    fn many_wrong_tokens_of_one_address_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::load(&dir.path().join("token")).unwrap();
        let peer = IpAddr::from([127, 0, 0, 1]);
        for _ in 0..WRONG_MAX {
            assert_eq!(access.note_wrong(peer), Wrong::Few);
        }
        assert_eq!(access.note_wrong(peer), Wrong::TooMany);
        assert_eq!(access.note_wrong(IpAddr::from([127, 0, 0, 2])), Wrong::Few);
    }
}
