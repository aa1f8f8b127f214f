//! Users and their tokens: who may act, and as whom.
//!
//! The first user is the one who runs the server; it comes with the database and stays. Every other
//! one is added by name and shows a token. A removed user is gone for good: its name can be given
//! to a new user, who gets nothing of what the old one had.

use sha2::{Digest, Sha256};
use usher_shared::id::UserId;
use usher_shared::time::UnixMillis;

use super::change::{Change, Decision};

/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 64;

/// What a token is stored as. Two of them are compared in constant time for who does not know one:
/// what differs first in a digest says nothing about the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Digests a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A name for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserName(String);

/// Text that names no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserNameError {
    /// Nothing that a reader could see.
    #[error("a name must not be blank")]
    Blank,
    /// Too long.
    #[error("a name has at most 64 bytes")]
    TooLong,
    /// It holds a control character.
    #[error("a name must not hold control characters")]
    Control,
}

impl UserName {
    /// Checks a name.
    ///
    /// # Errors
    /// See [`UserNameError`].
    pub fn parse(text: &str) -> Result<Self, UserNameError> {
        if text.trim().is_empty() {
            Err(UserNameError::Blank)
        } else if text.len() > NAME_BYTES_MAX {
            Err(UserNameError::TooLong)
        } else if text.chars().any(char::is_control) {
            Err(UserNameError::Control)
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a user may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserState {
    /// The one who runs the server: needs no token of its own, and cannot be removed.
    Owner,
    /// Has a token.
    Active,
    /// Has none (any more).
    Revoked,
}

/// A user who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    /// Its name on the wire.
    pub id: UserId,
    /// For people.
    pub name: String,
    /// How many tokens it has.
    pub tokens: u64,
    /// How it may act.
    pub state: UserState,
}

/// Why a user was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserRefusal {
    /// There is no user of that name.
    #[error("there is no user of that name")]
    Unknown,
    /// The owner cannot be removed.
    #[error("this user runs the server and cannot be removed")]
    Owner,
}

/// Fresh values for a new user or token.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// For a new user.
    pub id: UserId,
    /// Of the new token.
    pub digest: TokenDigest,
    /// The time.
    pub now: UnixMillis,
}

fn decided(changes: Vec<Change>) -> Decision<()> {
    Decision { changes, events: Vec::new(), reply: () }
}

/// Adds a user with a token, or gives one who is there a further token.
pub fn add(existing: Option<&UserRecord>, name: &UserName, fresh: Fresh) -> Decision<()> {
    let Fresh { id, digest, now } = fresh;
    match existing {
        Some(user) => decided(vec![Change::AddToken(user.id, digest, now)]),
        None => decided(vec![
            Change::AddUser(id, name.as_str().to_owned()),
            Change::AddToken(id, digest, now),
        ]),
    }
}

/// Takes a user's tokens away.
pub fn revoke(existing: Option<&UserRecord>) -> Result<Decision<()>, UserRefusal> {
    let user = existing.ok_or(UserRefusal::Unknown)?;
    Ok(decided(vec![Change::RevokeTokens(user.id)]))
}

/// Removes a user: nobody can act as it any more, and nobody sees what it owned.
pub fn remove(existing: Option<&UserRecord>, now: UnixMillis) -> Result<Decision<()>, UserRefusal> {
    let user = existing.ok_or(UserRefusal::Unknown)?;
    if user.state == UserState::Owner {
        return Err(UserRefusal::Owner);
    }
    Ok(decided(vec![Change::RevokeTokens(user.id), Change::RemoveUser(user.id, now)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_visible_and_without_controls() {
        assert_eq!(UserName::parse("Zoë 2").map(|name| name.0), Ok("Zoë 2".to_owned()));
        assert!(UserName::parse(&"é".repeat(32)).is_ok());
        for (text, error) in [
            ("", UserNameError::Blank),
            (" \u{3000}", UserNameError::Blank),
            (&"é".repeat(33), UserNameError::TooLong),
            ("a\tb", UserNameError::Control),
            ("a\0", UserNameError::Control),
            ("\u{9b}", UserNameError::Control),
        ] {
            assert_eq!(UserName::parse(text), Err(error), "{text:?}");
        }
    }
}
