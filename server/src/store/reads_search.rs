//! Looking through messages, newest first, a bounded piece at a time.

use usher_shared::counter::MessageSeq;
use usher_shared::id::{SessionId, UserId};

use super::conn::{Param, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::sql;
use crate::domain::search::{Finder, Needle};
use crate::domain::session::SessionKey;

/// Messages of one piece.
const MESSAGES_MAX: i64 = 64;
/// Rows, of whomever, that one piece passes over at most.
const ROWS_MAX: i64 = 10_000;

/// A message that holds what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its session.
    pub session_id: SessionId,
    /// Its number.
    pub seq: MessageSeq,
    /// The text around the first match.
    pub snippet: String,
}

/// Where to look next: before this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPlace {
    /// In all of a user's sessions, before the message with this key.
    User(UserId, i64),
    /// In one session, before the message with this number.
    Session(SessionId, SessionKey, i64),
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPiece {
    /// What was found in it, newest first.
    pub hits: Vec<Hit>,
    /// How much text was looked at, bytes.
    pub looked_bytes: u64,
    /// Where to go on; None: that was all.
    pub next: Option<SearchPlace>,
}

/// A message that is looked at.
struct Candidate {
    key: i64,
    session_id: SessionId,
    seq: i64,
    text: String,
    bytes: u64,
}

impl Reads<'_> {
    /// Returns where to begin in all of a user's sessions.
    pub fn search_start(&mut self, user: UserId) -> Result<SearchPlace, StoreError> {
        let newest = query_one(self.conn, sql::MESSAGE_KEY_MAX, &[], |row| row.int(0))?;
        Ok(SearchPlace::User(user, newest.unwrap_or(0).saturating_add(1)))
    }

    /// Looks through the next piece.
    pub fn search(
        &mut self,
        place: SearchPlace,
        needle: &Needle,
    ) -> Result<SearchPiece, StoreError> {
        let (candidates, next) = match place {
            SearchPlace::User(user, before) => self.of_user(user, before)?,
            SearchPlace::Session(id, key, before) => self.of_session(id, key, before)?,
        };
        let looked_bytes = candidates.iter().map(|message| message.bytes).sum();
        let mut hits = Vec::new();
        for message in candidates {
            hits.extend(self.hit(message, needle)?);
        }
        Ok(SearchPiece { hits, looked_bytes, next })
    }

    fn of_user(
        &mut self,
        user: UserId,
        before: i64,
    ) -> Result<(Vec<Candidate>, Option<SearchPlace>), StoreError> {
        let from = before.saturating_sub(ROWS_MAX).max(0);
        let params = [
            Param::Id(user.uuid()),
            Param::Int(from),
            Param::Int(before),
            Param::Int(MESSAGES_MAX),
        ];
        let found = query_all(self.conn, sql::MESSAGES_TO_SEARCH, &params, |row| {
            Ok(Candidate {
                key: row.int(0)?,
                session_id: SessionId::from_uuid(row.uuid(4)?),
                seq: row.int(1)?,
                text: row.text(2)?.to_owned(),
                bytes: row.int(3)?.unsigned_abs(),
            })
        })?;
        let next = match found.last() {
            Some(oldest) if found.len() as i64 == MESSAGES_MAX => oldest.key,
            Some(_) | None => from,
        };
        Ok((found, (next > 0).then_some(SearchPlace::User(user, next))))
    }

    fn of_session(
        &mut self,
        session_id: SessionId,
        key: SessionKey,
        before: i64,
    ) -> Result<(Vec<Candidate>, Option<SearchPlace>), StoreError> {
        let params = [Param::Int(key.0), Param::Int(before), Param::Int(MESSAGES_MAX)];
        let found = query_all(self.conn, sql::MESSAGES_TO_SEARCH_IN, &params, |row| {
            Ok(Candidate {
                key: row.int(0)?,
                session_id,
                seq: row.int(1)?,
                text: row.text(2)?.to_owned(),
                bytes: row.int(3)?.unsigned_abs(),
            })
        })?;
        let full = found.len() as i64 == MESSAGES_MAX;
        let oldest = found.last().filter(|_| full).map(|oldest| oldest.seq);
        Ok((found, oldest.map(|seq| SearchPlace::Session(session_id, key, seq))))
    }

    /// Looks at one message; the parts of a long one are read one after the other.
    fn hit(&mut self, message: Candidate, needle: &Needle) -> Result<Option<Hit>, StoreError> {
        let mut finder = Finder::new(needle);
        let mut snippet = finder.push(&message.text);
        if snippet.is_none() && (message.text.len() as u64) < message.bytes {
            let params = [Param::Int(message.key), Param::Int(i64::MAX)];
            self.conn.query(sql::PARTS_FROM, &params, &mut |row| {
                if snippet.is_none() {
                    snippet = finder.push(row.text(1)?);
                }
                Ok(())
            })?;
        }
        let (session_id, seq) = (message.session_id, MessageSeq::new(message.seq.unsigned_abs()));
        Ok(snippet.map(|snippet| Hit { session_id, seq, snippet }))
    }
}
