//! Who may connect: the owner's token, and how many wrong ones an address may show.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::fresh_token;
use crate::domain::users::TokenDigest;

/// Wrong tokens of one address within [`WINDOW`]; further wrong ones are refused unread.
const WRONG_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered; while so many showed wrong tokens lately, those of others are refused unread.
const ADDRESSES_MAX: usize = 4_096;
/// Bits of an IPv6 address that say whose it is: a customer gets at least a network of this size, and
/// every address in it.
const IPV6_NETWORK_BITS: u32 = 64;

/// A shorter token can be guessed, bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// Whoever can read it can act as the owner.
    #[error("others than its owner have access to it; chmod 600 makes it private")]
    Open,
    /// It is too short, or blank.
    #[error("the token has less than {TOKEN_BYTES_MIN} characters")]
    Short,
}

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
    /// Reads the token of `file`.
    ///
    /// # Errors
    /// If the file is missing, open to others, too short or unreadable.
    pub fn load(file: &Path) -> Result<Self, TokenError> {
        let mut opened = File::open(file)?;
        if opened.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(TokenError::Open);
        }
        let mut text = String::new();
        opened.read_to_string(&mut text)?;
        Self::of(text.trim())
    }

    /// The same, after making a token there (mode 0600) if there is no file.
    ///
    /// # Errors
    /// If the file is open to others, too short or unreadable, or cannot be made.
    pub fn load_or_make(file: &Path) -> Result<Self, TokenError> {
        match Self::load(file) {
            Err(TokenError::File(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Self::of(&make_token(file)?)
            }
            loaded => loaded,
        }
    }

    fn of(token: &str) -> Result<Self, TokenError> {
        if token.len() < TOKEN_BYTES_MIN {
            return Err(TokenError::Short);
        }
        Ok(Self { digest: TokenDigest::of(token), wrong: Mutex::default() })
    }

    /// Tells whether this is the token of the server's owner.
    pub(super) fn is_owners(&self, digest: &TokenDigest) -> bool {
        // Every byte is looked at: a token that somebody chose must not be found by its digest.
        let pairs = digest.as_bytes().iter().zip(self.digest.as_bytes());
        pairs.fold(0, |differing, (shown, owners)| differing | (shown ^ owners)) == 0
    }

    /// Notes a wrong token shown from an address.
    pub(super) fn note_wrong(&self, peer: IpAddr) -> Wrong {
        let (now, peer) = (Instant::now(), network(peer));
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= ADDRESSES_MAX {
            wrong.retain(|_, times| times.last().is_some_and(|last| now - *last < WINDOW));
        }
        if wrong.len() >= ADDRESSES_MAX && !wrong.contains_key(&peer) {
            return Wrong::TooMany;
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

/// Returns what one peer can have many addresses of: the network of an IPv6 address.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - IPV6_NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

fn make_token(file: &Path) -> std::io::Result<String> {
    let token = fresh_token()?;
    let mut out = File::options().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(out, "{token}")?;
    out.sync_all()?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_private_token_once_and_knows_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(matches!(Access::load(&file), Err(TokenError::File(_))));
        drop(Access::load_or_make(&file).unwrap());
        let token = std::fs::read_to_string(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Access::load_or_make(&file).unwrap();
        assert!(again.is_owners(&TokenDigest::of(token.trim())));
        assert!(!again.is_owners(&TokenDigest::of(&token.trim()[..63])));
    }

    #[test]
    fn many_wrong_tokens_of_one_address_are_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::load_or_make(&dir.path().join("token")).unwrap();
        let peer = IpAddr::from([127, 0, 0, 1]);
        for _ in 0..WRONG_MAX {
            assert_eq!(access.note_wrong(peer), Wrong::Few);
        }
        assert_eq!(access.note_wrong(peer), Wrong::TooMany);
        assert_eq!(access.note_wrong(IpAddr::from([127, 0, 0, 2])), Wrong::Few);
    }

    #[test]
    fn who_has_a_network_of_addresses_has_the_wrong_tokens_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::load_or_make(&dir.path().join("token")).unwrap();
        let note = |address: &str| access.note_wrong(address.parse().unwrap());
        for last in 0..WRONG_MAX {
            assert_eq!(note(&format!("2001:db8:1:2::{last}")), Wrong::Few);
        }
        assert_eq!(note("2001:db8:1:2:ffff:ffff:ffff:ffff"), Wrong::TooMany);
        assert_eq!(note("2001:db8:1:3::1"), Wrong::Few);
        // The same address in both notations.
        for _ in 0..WRONG_MAX {
            assert_eq!(note("::ffff:10.0.0.1"), Wrong::Few);
        }
        assert_eq!(note("10.0.0.1"), Wrong::TooMany);
    }

    #[test]
    fn wrong_tokens_from_everywhere_are_not_all_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::load_or_make(&dir.path().join("token")).unwrap();
        let peer = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        for number in 0..ADDRESSES_MAX {
            assert_eq!(access.note_wrong(peer(number)), Wrong::Few);
        }
        assert_eq!(access.note_wrong(peer(ADDRESSES_MAX)), Wrong::TooMany);
        assert_eq!(access.note_wrong(peer(0)), Wrong::Few);
        assert_eq!(access.wrong.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
