//! Looking through messages, newest first, a bounded piece at a time.

use usher_shared::counter::MessageSeq;
use usher_shared::id::{SessionId, UserId};

use super::conn::{Param, Row, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::sql;
use crate::domain::search::{Finder, Needle};
use crate::domain::session::SessionKey;

/// Text of one piece, bytes, about: long messages are looked through part by part.
pub(super) const PIECE_BYTES: u64 = 1_048_576;
/// Messages of one piece; together with their texts, if those are short, they are not more.
const MESSAGES_MAX: i64 = 64;
/// Parts of a long message that are read at once, each of some 16 KiB.
const PARTS_MAX: i64 = 16;
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

/// Where to look next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPlace {
    scope: Scope,
    /// Messages before this one: a key within a user, a number within a session.
    before: i64,
    /// The rest of this one first.
    pub(super) rest: Option<Rest>,
}

/// Whose messages are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    User(UserId),
    Session(SessionId, SessionKey),
}

/// A message, and how far it was looked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    key: i64,
    session_id: SessionId,
    seq: i64,
    bytes: u64,
    /// Its own text, if it is short and was not looked at.
    own: Option<String>,
    /// What is before this byte was looked at.
    pub(super) from: u64,
    /// The end of that: a match may have begun there.
    seen: String,
}

impl SearchPlace {
    /// The newest message of a session.
    pub fn in_session(id: SessionId, key: SessionKey) -> Self {
        Self { scope: Scope::Session(id, key), before: i64::MAX, rest: None }
    }
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

/// The next messages, newest first, each with its place in the order.
struct Batch {
    messages: Vec<(i64, Rest)>,
    /// Before which place more may be.
    next: Option<i64>,
}

/// What looking through a message came to.
enum Looked {
    Found(Hit),
    NotFound,
    /// The piece is full.
    NotYet(Rest),
}

impl Reads<'_> {
    /// Returns where to begin in all of a user's sessions.
    pub fn search_start(&mut self, user: UserId) -> Result<SearchPlace, StoreError> {
        let newest = query_one(self.conn, sql::MESSAGE_KEY_MAX, &[], |row| row.int(0))?;
        let before = newest.unwrap_or(0).saturating_add(1);
        Ok(SearchPlace { scope: Scope::User(user), before, rest: None })
    }

    /// Looks through the next piece.
    pub fn search(
        &mut self,
        place: SearchPlace,
        needle: &Needle,
    ) -> Result<SearchPiece, StoreError> {
        let SearchPlace { scope, mut before, rest } = place;
        let mut piece = SearchPiece { hits: Vec::new(), looked_bytes: 0, next: None };
        let Batch { messages, next } = match rest {
            Some(rest) => Batch { messages: vec![(before, rest)], next: Some(before) },
            None => self.messages_before(scope, before)?,
        };
        for (order, message) in messages {
            if piece.looked_bytes >= PIECE_BYTES {
                piece.next = Some(SearchPlace { scope, before, rest: None });
                return Ok(piece);
            }
            before = order;
            match self.look_through(message, needle, &mut piece.looked_bytes)? {
                Looked::Found(hit) => piece.hits.push(hit),
                Looked::NotFound => {}
                Looked::NotYet(rest) => {
                    piece.next = Some(SearchPlace { scope, before, rest: Some(rest) });
                    return Ok(piece);
                }
            }
        }
        piece.next = next.map(|before| SearchPlace { scope, before, rest: None });
        Ok(piece)
    }

    fn messages_before(&mut self, scope: Scope, before: i64) -> Result<Batch, StoreError> {
        let rest = |row: &dyn Row, session_id| {
            Ok(Rest {
                key: row.int(0)?,
                session_id,
                seq: row.int(1)?,
                own: row.opt_text(2)?.map(str::to_owned),
                bytes: row.int(3)?.unsigned_abs(),
                from: 0,
                seen: String::new(),
            })
        };
        match scope {
            Scope::User(user) => {
                let from = before.saturating_sub(ROWS_MAX).max(0);
                let user = Param::Id(user.uuid());
                let params = [user, Param::Int(from), Param::Int(before), Param::Int(MESSAGES_MAX)];
                let found = query_all(self.conn, sql::MESSAGES_TO_SEARCH, &params, |row| {
                    let message = rest(row, SessionId::from_uuid(row.uuid(4)?))?;
                    Ok((message.key, message))
                })?;
                let full = found.len() as i64 == MESSAGES_MAX;
                let next = found.last().filter(|_| full).map_or(from, |(key, _)| *key);
                Ok(Batch { messages: found, next: (next > 0).then_some(next) })
            }
            Scope::Session(id, key) => {
                let params = [Param::Int(key.0), Param::Int(before), Param::Int(MESSAGES_MAX)];
                let found = query_all(self.conn, sql::MESSAGES_TO_SEARCH_IN, &params, |row| {
                    let message = rest(row, id)?;
                    Ok((message.seq, message))
                })?;
                let full = found.len() as i64 == MESSAGES_MAX;
                let next = found.last().filter(|_| full).map(|(seq, _)| *seq);
                Ok(Batch { messages: found, next })
            }
        }
    }

    /// Looks at one message until the piece is full.
    fn look_through(
        &mut self,
        mut message: Rest,
        needle: &Needle,
        looked_bytes: &mut u64,
    ) -> Result<Looked, StoreError> {
        let mut finder = Finder::behind(needle, std::mem::take(&mut message.seen));
        let mut snippet = None;
        if message.from == 0 {
            let own = match message.own.take() {
                Some(own) => own,
                None => self.own_text(message.key)?,
            };
            snippet = finder.push(&own);
            message.from = own.len() as u64;
            *looked_bytes += message.from;
        }
        while snippet.is_none() && message.from < message.bytes {
            if *looked_bytes >= PIECE_BYTES {
                message.seen = finder.seen();
                return Ok(Looked::NotYet(message));
            }
            let at = i64::try_from(message.from).unwrap_or(i64::MAX);
            let params = [Param::Int(message.key), Param::Int(at), Param::Int(PARTS_MAX)];
            let before = message.from;
            self.conn.query(sql::PARTS_NEXT, &params, &mut |row| {
                let text = row.text(1)?;
                message.from = row.int(0)?.unsigned_abs() + text.len() as u64;
                if snippet.is_none() {
                    snippet = finder.push(text);
                }
                Ok(())
            })?;
            // Deleted meanwhile, or written anew.
            if message.from <= before {
                break;
            }
            *looked_bytes += message.from - before;
        }
        let (session_id, seq) = (message.session_id, MessageSeq::new(message.seq.unsigned_abs()));
        Ok(snippet
            .map_or(Looked::NotFound, |snippet| Looked::Found(Hit { session_id, seq, snippet })))
    }

    fn own_text(&mut self, key: i64) -> Result<String, StoreError> {
        let found = query_one(self.conn, sql::MESSAGE_OWN_TEXT, &[Param::Int(key)], |row| {
            Ok(row.text(0)?.to_owned())
        })?;
        Ok(found.unwrap_or_default())
    }
}
