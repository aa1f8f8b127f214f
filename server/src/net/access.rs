//! Who may connect: the token, and how many wrong ones an address may show.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// Wrong tokens of one address within [`WINDOW`]; further wrong ones are refused unread.
const WRONG_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered.
const ADDRESSES_MAX: usize = 4_096;

/// What a shown token came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The right one.
    Right,
    /// A wrong one.
    Wrong,
    /// A wrong one, and too many before it.
    TooMany,
}

/// The server's token, as a digest: comparing digests takes the same time for every guess.
pub struct Access {
    digest: [u8; 32],
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
        let digest = Sha256::digest(token).into();
        Ok(Self { digest, wrong: Mutex::default() })
    }

    /// Judges a token shown from an address.
    pub(super) fn judge(&self, token: &str, peer: IpAddr) -> Shown {
        if <[u8; 32]>::from(Sha256::digest(token)) == self.digest {
            return Shown::Right;
        }
        let now = Instant::now();
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= ADDRESSES_MAX {
            wrong.retain(|_, times| times.last().is_some_and(|last| now - *last < WINDOW));
        }
        let times = wrong.entry(peer).or_default();
        times.retain(|time| now - *time < WINDOW);
        if times.len() >= WRONG_MAX {
            return Shown::TooMany;
        }
        times.push(now);
        Shown::Wrong
    }
}

fn make_token(file: &Path) -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
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
        let peer = IpAddr::from([127, 0, 0, 1]);
        drop(Access::load(&file).unwrap());
        let token = std::fs::read_to_string(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Access::load(&file).unwrap();
        assert_eq!(again.judge(token.trim(), peer), Shown::Right);
        assert_eq!(again.judge(&token.trim()[..63], peer), Shown::Wrong);
    }

    #[test]
    fn many_wrong_tokens_are_refused_and_the_right_one_always_gets_in() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "right\n").unwrap();
        let access = Access::load(&file).unwrap();
        let peer = IpAddr::from([127, 0, 0, 1]);
        for _ in 0..WRONG_MAX {
            assert_eq!(access.judge("wrong", peer), Shown::Wrong);
        }
        assert_eq!(access.judge("wrong", peer), Shown::TooMany);
        assert_eq!(access.judge("right", peer), Shown::Right);
        assert_eq!(access.judge("wrong", IpAddr::from([127, 0, 0, 2])), Shown::Wrong);
    }
}
