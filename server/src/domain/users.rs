//! Users and their tokens: who may act, and as whom.
//!
//! The first user is the one who runs the server; it comes with the database and stays. Every other
//! one is added by name and shows a token. A removed user is gone for good: its name can be given
//! to a new user, who gets nothing of what the old one had.

use std::ops::RangeInclusive;

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
    /// It holds a character that is not shown, or that changes how others are shown.
    #[error("a name must not hold control or format characters")]
    Control,
}

/// The characters of Unicode's general category Cf (format): zero width, or they change the order in
/// which others are shown, so that one name passes for another. And the separators of lines and
/// paragraphs. Source: UnicodeData.txt of Unicode 16.
const FORMAT: [RangeInclusive<char>; 21] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
];

fn is_unseen(c: char) -> bool {
    c.is_control() || FORMAT.iter().any(|range| range.contains(&c))
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
        } else if text.contains(is_unseen) {
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

/// What an addition came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// A new user.
    User(UserId),
    /// A further token of one who was there.
    Token,
}

/// Adds a user with a token, or gives one who is there a further token.
pub fn add(existing: Option<&UserRecord>, name: &UserName, fresh: Fresh) -> Decision<Added> {
    let Fresh { id, digest, now } = fresh;
    let (changes, reply) = match existing {
        Some(user) => (vec![Change::AddToken(user.id, digest, now)], Added::Token),
        None => {
            let user = Change::AddUser(id, name.as_str().to_owned());
            (vec![user, Change::AddToken(id, digest, now)], Added::User(id))
        }
    };
    Decision { changes, events: Vec::new(), reply }
}

/// Undoes an addition whose token nobody has seen.
pub fn take_back(added: Added, digest: TokenDigest, now: UnixMillis) -> Decision<()> {
    decided(match added {
        Added::User(id) => vec![Change::RevokeTokens(id), Change::RemoveUser(id, now)],
        Added::Token => vec![Change::RevokeToken(digest)],
    })
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
            ("\u{202e}eve", UserNameError::Control),
            ("ev\u{200b}e", UserNameError::Control),
            ("\u{2066}a", UserNameError::Control),
            ("a\u{ad}b", UserNameError::Control),
            ("\u{feff}", UserNameError::Control),
            ("a\u{2028}b", UserNameError::Control),
            ("a\u{e0041}", UserNameError::Control),
        ] {
            assert_eq!(UserName::parse(text), Err(error), "{text:?}");
        }
    }
}
