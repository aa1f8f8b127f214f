//! What decisions and readers may ask for: point reads and bounded lists.

use std::sync::Arc;

use usher_shared::counter::{MessageSeq, Position};
use usher_shared::id::{EntryId, MessageId, SessionId, StoreId, TaskId, TurnId, UndoId, UserId};
use usher_shared::limits::MESSAGE_CONTENT_BYTES_MAX;
use usher_shared::prompt::cut_at_char;
use usher_shared::time::UnixMillis;
use uuid::Uuid;

use super::conn::{Conn, Lock, Param, query_all, query_one};
use super::error::StoreError;
use super::{row, sql};
use crate::domain::entry::Entry;
use crate::domain::message::Message;
use crate::domain::session::{
    Caller, OpenTurn, Session, SessionKey, Stop, Task, TaskKey, TurnPrompt,
};
use crate::domain::turn_end::TurnRecords;

/// Reads inside one transaction: all of them see the same state.
pub struct Reads<'a> {
    pub(super) conn: &'a mut dyn Conn,
}

/// Which part of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageBounds {
    /// The newest messages.
    Newest,
    /// Messages before this one.
    Before(MessageSeq),
    /// Messages after this one.
    After(MessageSeq),
}

/// A part of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Ascending.
    pub messages: Vec<Message>,
    /// Whether more exist in the direction that was asked for.
    pub has_more: bool,
}

/// A part of one message's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// The text.
    pub text: String,
    /// Whether this is all there is by now.
    pub eof: bool,
}

/// What a look for a part of a text came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFound {
    /// The part.
    Range(TextRange),
    /// The part would begin inside a character.
    InsideCharacter,
    /// Not even its first character would fit.
    NoRoom,
}

impl<'a> Reads<'a> {
    pub(super) fn new(conn: &'a mut dyn Conn) -> Self {
        Self { conn }
    }

    /// Returns the name of this database.
    pub fn store_id(&mut self) -> Result<StoreId, StoreError> {
        query_one(self.conn, sql::META_GET, &[Param::Text("store_id")], |row| {
            Ok(row.text(0)?.to_owned())
        })?
        .and_then(|text| Uuid::try_parse(&text).ok())
        .map(StoreId::from_uuid)
        .ok_or(StoreError::Damaged("no store id"))
    }

    /// Returns the user that local connections act for.
    pub fn first_user(&mut self) -> Result<Caller, StoreError> {
        query_one(self.conn, sql::USER_FIRST, &[], |row| {
            Ok(Caller { id: UserId::from_uuid(row.uuid(0)?), name: row.text(1)?.to_owned() })
        })?
        .ok_or(StoreError::Damaged("no user"))
    }

    /// Returns a task. A decision owns it from here on.
    pub fn task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.conn.lock(Lock::Task(id))?;
        query_one(self.conn, sql::TASK_BY_ID, &[Param::Id(id.uuid())], row::task)
    }

    /// Returns the task that a client's request made.
    pub fn task_by_request(
        &mut self,
        owner: UserId,
        request: &str,
    ) -> Result<Option<Task>, StoreError> {
        let params = [Param::Id(owner.uuid()), Param::Text(request)];
        query_one(self.conn, sql::TASK_BY_REQUEST, &params, row::task)
    }

    /// Returns a user's newest tasks, the newest first.
    pub fn tasks(
        &mut self,
        owner: UserId,
        include_archived: bool,
        max: u32,
    ) -> Result<Vec<Task>, StoreError> {
        let archived = Param::Int(i64::from(include_archived));
        let params = [Param::Id(owner.uuid()), archived, Param::Int(i64::from(max))];
        query_all(self.conn, sql::TASKS_OF_USER, &params, row::task)
    }

    /// Returns a session with its open turn. A decision owns it from here on.
    pub fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        self.conn.lock(Lock::Session(id))?;
        query_one(self.conn, sql::SESSION_BY_ID, &[Param::Id(id.uuid())], row::session)
    }

    /// Returns the session that a client's request made in a task.
    pub fn session_by_request(
        &mut self,
        task: TaskKey,
        request: &str,
    ) -> Result<Option<Session>, StoreError> {
        let params = [Param::Int(task.0), Param::Text(request)];
        query_one(self.conn, sql::SESSION_BY_REQUEST, &params, row::session)
    }

    /// Returns two sessions. A decision owns both from here on, taken in the order of their ids, so
    /// that two decisions never wait for each other.
    pub fn session_pair(
        &mut self,
        first: SessionId,
        second: SessionId,
    ) -> Result<(Option<Session>, Option<Session>), StoreError> {
        self.conn.lock(Lock::Session(first.min(second)))?;
        self.conn.lock(Lock::Session(first.max(second)))?;
        Ok((self.session(first)?, self.session(second)?))
    }

    /// Returns a task's sessions, oldest first. A decision owns all of them from here on.
    pub fn sessions_of_task(&mut self, id: TaskId) -> Result<Vec<Session>, StoreError> {
        self.conn.lock(Lock::SessionsOf(id))?;
        query_all(self.conn, sql::SESSIONS_OF_TASK, &[Param::Id(id.uuid())], row::session)
    }

    /// Returns the newest sessions of a task that nobody deletes, the newest first.
    pub fn newest_of_task(&mut self, id: TaskId, max: u32) -> Result<Vec<Session>, StoreError> {
        let params = [Param::Id(id.uuid()), Param::Int(i64::from(max))];
        query_all(self.conn, sql::SESSIONS_OF_TASK_NEWEST, &params, row::session)
    }

    /// Returns the oldest session of a task that nobody deletes.
    pub fn first_of_task(&mut self, id: TaskId) -> Result<Option<Session>, StoreError> {
        query_one(self.conn, sql::SESSION_OF_TASK_FIRST, &[Param::Id(id.uuid())], row::session)
    }

    /// Returns the sessions that a user used last, of tasks that are not archived, the newest first.
    pub fn sessions_of_user(&mut self, id: UserId, max: u32) -> Result<Vec<Session>, StoreError> {
        let params = [Param::Id(id.uuid()), Param::Int(i64::from(max))];
        query_all(self.conn, sql::SESSIONS_OF_USER, &params, row::session)
    }

    /// Returns the sessions with an open turn that no server runs any more.
    pub fn sessions_left(&mut self) -> Result<Vec<SessionId>, StoreError> {
        let params = [Param::Id(self.conn.node()), Param::Int(self.conn.lease_clock()?)];
        query_all(self.conn, sql::SESSIONS_LEFT, &params, |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Tells whether a turn is open and no server runs it any more.
    pub fn is_left(&mut self, turn: TurnId) -> Result<bool, StoreError> {
        let (node, now) = (Param::Id(self.conn.node()), Param::Int(self.conn.lease_clock()?));
        let params = [node, now, Param::Id(turn.uuid())];
        Ok(query_one(self.conn, sql::TURN_LEFT, &params, |_| Ok(()))?.is_some())
    }

    /// Returns the session that a message is in.
    pub fn session_of_message(&mut self, id: MessageId) -> Result<Option<SessionId>, StoreError> {
        query_one(self.conn, sql::SESSION_OF_MESSAGE, &[Param::Id(id.uuid())], |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns the sessions that may have a head to start.
    pub fn sessions_waiting(&mut self) -> Result<Vec<SessionId>, StoreError> {
        query_all(self.conn, sql::SESSIONS_WAITING, &[], |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns the visible entries in order.
    pub fn visible_entries(&mut self, session: SessionKey) -> Result<Vec<Entry>, StoreError> {
        query_all(self.conn, sql::ENTRIES_VISIBLE, &[Param::Int(session.0)], row::entry)
    }

    /// Returns the names and places of the visible entries in order.
    pub fn visible_places(
        &mut self,
        session: SessionKey,
    ) -> Result<Vec<(EntryId, Position)>, StoreError> {
        query_all(self.conn, sql::ENTRY_PLACES_VISIBLE, &[Param::Int(session.0)], |row| {
            let position = u64::try_from(row.int(1)?);
            let position = position.map_err(|_| StoreError::Damaged("a negative position"))?;
            Ok((EntryId::from_uuid(row.uuid(0)?), Position::new(position)))
        })
    }

    /// Returns the last stored entry, reserved or not.
    pub fn tail(&mut self, session: SessionKey) -> Result<Option<Entry>, StoreError> {
        query_one(self.conn, sql::ENTRY_LAST, &[Param::Int(session.0)], row::entry)
    }

    /// Returns the stored entry directly before a place, reserved or not.
    pub fn above(
        &mut self,
        session: SessionKey,
        place: Position,
    ) -> Result<Option<Entry>, StoreError> {
        let place = i64::try_from(place.get()).unwrap_or(i64::MAX);
        let params = [Param::Int(session.0), Param::Int(place)];
        query_one(self.conn, sql::ENTRY_ABOVE, &params, row::entry)
    }

    fn entries_of_turn(
        &mut self,
        session: SessionKey,
        turn: TurnId,
    ) -> Result<Vec<Entry>, StoreError> {
        let params = [Param::Int(session.0), Param::Id(turn.uuid())];
        query_all(self.conn, sql::ENTRIES_OF_TURN, &params, row::entry)
    }

    /// Returns what a remove or clear took, if it was not before `since`.
    pub fn removed_ids(
        &mut self,
        session: SessionKey,
        undo: UndoId,
        since: UnixMillis,
    ) -> Result<Vec<EntryId>, StoreError> {
        let params = [Param::Int(session.0), Param::Id(undo.uuid()), Param::Int(since.get())];
        query_all(self.conn, sql::ENTRIES_REMOVED, &params, |row| {
            Ok(EntryId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns the first visible entry.
    pub fn head(&mut self, session: SessionKey) -> Result<Option<Entry>, StoreError> {
        query_one(self.conn, sql::ENTRY_HEAD, &[Param::Int(session.0)], row::entry)
    }

    /// Returns a stored entry of a session, reserved or not.
    pub fn entry(&mut self, session: SessionKey, id: EntryId) -> Result<Option<Entry>, StoreError> {
        let params = [Param::Int(session.0), Param::Id(id.uuid())];
        query_one(self.conn, sql::ENTRY_BY_ID, &params, row::entry)
    }

    /// Returns what is stored of a session's open turn.
    pub fn turn_records(
        &mut self,
        session: &Session,
        turn: &OpenTurn,
    ) -> Result<TurnRecords, StoreError> {
        let (entries, prompt) = match turn.prompt {
            TurnPrompt::Entries => (self.entries_of_turn(session.key, turn.id)?, None),
            TurnPrompt::Message(id) => (Vec::new(), self.message(session, id)?),
        };
        let next = match turn.stop {
            Stop::Replaced(by) => self.entries_of_turn(session.key, by)?,
            Stop::Asked | Stop::NotAsked => Vec::new(),
        };
        let params = [Param::Int(session.key.0), Param::Id(turn.id.uuid())];
        let streaming = self.messages(sql::MESSAGES_STREAMING, &params, session.id)?;
        Ok(TurnRecords { entries, prompt, streaming, next })
    }

    /// Returns a message.
    pub fn message(
        &mut self,
        session: &Session,
        id: MessageId,
    ) -> Result<Option<Message>, StoreError> {
        let params = [Param::Int(session.key.0), Param::Id(id.uuid())];
        Ok(self.messages(sql::MESSAGE_BY_ID, &params, session.id)?.pop())
    }

    /// Returns the prompt of a turn, if it is in the transcript.
    pub fn prompt_of_turn(
        &mut self,
        session: &Session,
        turn: TurnId,
    ) -> Result<Option<Message>, StoreError> {
        let params = [Param::Int(session.key.0), Param::Id(turn.uuid())];
        Ok(self.messages(sql::MESSAGE_PROMPT_OF_TURN, &params, session.id)?.pop())
    }

    /// Returns a part of a transcript.
    pub fn page(
        &mut self,
        session: &Session,
        bounds: PageBounds,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let (statement, seq) = match bounds {
            PageBounds::Newest => (sql::MESSAGES_BEFORE, session.last_seq.next()),
            PageBounds::Before(seq) => (sql::MESSAGES_BEFORE, seq),
            PageBounds::After(seq) => (sql::MESSAGES_AFTER, seq),
        };
        let params = [
            Param::Int(session.key.0),
            Param::Int(i64::try_from(seq.get()).unwrap_or(i64::MAX)),
            Param::Int(i64::from(limit) + 1),
        ];
        let mut messages = self.messages(statement, &params, session.id)?;
        let has_more = messages.len() > limit as usize;
        messages.truncate(limit as usize);
        messages.sort_by_key(|message| message.seq);
        Ok(Page { messages, has_more })
    }

    /// Returns the text of a message from byte `offset` on, at most `length` bytes, at characters'
    /// bounds. None if there is no such message.
    pub fn text(
        &mut self,
        session: &Session,
        id: MessageId,
        offset: u64,
        length: u64,
    ) -> Result<Option<TextFound>, StoreError> {
        let Some(message) = self.message(session, id)? else { return Ok(None) };
        let total = message.content_bytes;
        let end = offset.saturating_add(length).min(total);
        let mut bytes = Vec::new();
        let params = [
            Param::Int(session.key.0),
            Param::Id(id.uuid()),
            Param::Int(i64::try_from(offset).unwrap_or(i64::MAX)),
            Param::Int(i64::try_from(end).unwrap_or(i64::MAX)),
        ];
        self.conn.query(sql::TEXT_RANGE, &params, &mut |row| {
            let start = row.int(0)?.unsigned_abs();
            let content = row.text(1)?.as_bytes();
            let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(content.get(skip..).unwrap_or_default());
            Ok(())
        })?;
        bytes.truncate(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
        // The end may have cut a character; the start must not.
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Ok(Some(TextFound::InsideCharacter)),
        };
        if whole == 0 && !bytes.is_empty() {
            return Ok(Some(TextFound::NoRoom));
        }
        bytes.truncate(whole);
        let eof = offset.saturating_add(whole as u64) >= total;
        let text = String::from_utf8(bytes).map_err(|_| StoreError::Damaged("not text"))?;
        Ok(Some(TextFound::Range(TextRange { text, eof })))
    }

    /// Runs a query for messages, each with as much of its text as lists show.
    fn messages(
        &mut self,
        statement: &'static str,
        params: &[Param<'_>],
        session_id: SessionId,
    ) -> Result<Vec<Message>, StoreError> {
        let found = query_all(self.conn, statement, params, |row| row::message(row, session_id))?;
        found.into_iter().map(|(key, message)| self.with_parts(key, message)).collect()
    }

    fn with_parts(&mut self, key: i64, mut message: Message) -> Result<Message, StoreError> {
        if message.content.len() as u64 == message.content_bytes {
            return Ok(message);
        }
        let mut content = message.content.to_string();
        let params = [Param::Int(key), Param::Int(MESSAGE_CONTENT_BYTES_MAX as i64)];
        self.conn.query(sql::PARTS_FROM, &params, &mut |row| {
            content.push_str(row.text(1)?);
            Ok(())
        })?;
        message.content = Arc::from(cut_at_char(&content, MESSAGE_CONTENT_BYTES_MAX));
        Ok(message)
    }
}
