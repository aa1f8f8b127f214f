//! Turns: what their runner and their users do to them.

use std::sync::Arc;

use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, SessionId, TurnId};
use usher_shared::vocabulary::{MessageStatus, Resolution, Role};

use super::{Service, TurnError};
use crate::clock::{fresh_uuid, now};
use crate::domain::message::{Message, MessageDetails};
use crate::domain::session::{Caller, OpenTurn, Session, Target, authorize};
use crate::domain::turn::{self, Cancelled};
use crate::domain::turn_end::{self, Fresh, TurnEnd};
use crate::domain::{Change, Decision, Event};
use crate::stop;
use crate::store::{Reads, StoreError, TransactError};

/// The start of a message that an agent writes.
#[derive(Clone, Debug)]
pub struct NewText {
    /// Who speaks.
    pub role: Role,
    /// The tool's name, for tool calls.
    pub tool: Option<String>,
    /// The first of its text.
    pub text: String,
    /// Whether more may follow.
    pub status: MessageStatus,
}

type Transacted<T> = Result<T, TransactError<TurnError>>;

impl Service {
    /// Stops the open turn and parks what waits.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn cancel(
        &self,
        caller: Caller,
        target: Target,
        expected: Option<TurnId>,
    ) -> Transacted<Cancelled> {
        stop::pause("cancel", target.session_id).await;
        let now = now();
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let waiting = match session.turn {
                    Some(_) => reads.visible_places(session.key)?.len() as u64,
                    None => 0,
                };
                Ok(turn::cancel(&session, expected, waiting, now)?)
            })
            .await
    }

    /// Runs the prompt of an unsettled turn again, or gives it up.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn resolve(
        &self,
        caller: Caller,
        target: Target,
        turn_id: TurnId,
        resolution: Resolution,
    ) -> Transacted<()> {
        let (new_turn, now) = (TurnId::from_uuid(fresh_uuid()), now());
        let asking = self.questions.is_open(target.session_id);
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                if asking && !session.is_promptable() {
                    return Err(TurnError::NotPromptable);
                }
                let prompt = reads.prompt_of_turn(&session, turn_id)?;
                Ok(turn::resolve(&session, prompt, resolution, new_turn, now)?)
            })
            .await
    }

    /// Answers the agent's open question; the first answer wins.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn respond(
        &self,
        caller: Caller,
        target: Target,
        request_id: usher_shared::id::PermissionId,
        option_id: String,
    ) -> Result<(), TurnError> {
        self.available(caller.clone(), target).await?;
        let session_id = target.session_id;
        stop::pause("answer", session_id).await;
        let answered = self.questions.answer(session_id, request_id, option_id, caller.clone());
        if let Err(TurnError::PermissionClosed) = answered {
            // An archive or a delete in between closed it: then that is what the caller is told.
            self.available(caller, target).await?;
        }
        answered
    }

    async fn available(&self, caller: Caller, target: Target) -> Result<(), TurnError> {
        self.store
            .read(move |reads| {
                authorize(reads.session(target.session_id)?, &target, &caller)?;
                Ok(())
            })
            .await
    }

    /// Marks that the agent may have the prompt from here on. Refused if the turn may not go on.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn hand_over(&self, session_id: SessionId, turn_id: TurnId) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                let (session, _) = open(reads, session_id, turn_id)?;
                Ok(turn::hand_over(&session, turn_id)?)
            })
            .await
    }

    /// Moves the prompt of a turn into the transcript: the agent has it.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn accept(&self, session_id: SessionId, turn_id: TurnId) -> Transacted<()> {
        let message_id = MessageId::from_uuid(fresh_uuid());
        self.store
            .transact(move |reads| {
                let (session, turn) = open(reads, session_id, turn_id)?;
                let records = reads.turn_records(&session, &turn)?;
                Ok(turn::accept(&session, turn, records, message_id, now()))
            })
            .await
    }

    /// Begins a message of a turn, open or over (late words of an agent). The same name again is
    /// the same message.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn write(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        id: MessageId,
        new: NewText,
    ) -> Transacted<MessageSeq> {
        self.store
            .transact(move |reads| {
                let session = existing(reads, session_id)?;
                if let Some(known) = reads.message(&session, id)? {
                    return Ok(Decision::unchanged(known.seq));
                }
                // What comes when the turn is over stays part of it, and nothing waits for more.
                let is_open = session.turn.is_some_and(|turn| turn.id == turn_id);
                let message = Message {
                    id,
                    session_id,
                    incarnation_id: session.incarnation_id,
                    seq: session.last_seq.next(),
                    turn_id: Some(turn_id),
                    role: new.role,
                    content_bytes: new.text.len() as u64,
                    content: Arc::from(new.text.as_str()),
                    status: if is_open { new.status } else { MessageStatus::Complete },
                    details: MessageDetails { tool: new.tool.clone(), ..MessageDetails::default() },
                    created_at: now(),
                };
                let (seq, boxed) = (message.seq, Box::new(message.clone()));
                Ok(Decision {
                    changes: vec![Change::InsertMessage(
                        session.key,
                        session.incarnation_key,
                        boxed,
                    )],
                    events: vec![(session_id, Event::MessageWritten(Box::new(message)))],
                    reply: seq,
                })
            })
            .await
    }

    /// Adds text to a message at byte `at`, once. The text was shown before: nobody is told again.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn append(
        &self,
        session_id: SessionId,
        id: MessageId,
        at: u64,
        text: String,
    ) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                existing(reads, session_id)?;
                let changes = vec![Change::AppendMessage { id, at, text: text.clone() }];
                Ok(Decision { changes, events: Vec::new(), reply: () })
            })
            .await
    }

    /// Replaces the text of a message and tells its readers.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn replace(
        &self,
        session_id: SessionId,
        message_id: MessageId,
        text: String,
        status: MessageStatus,
    ) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                let session = existing(reads, session_id)?;
                let message = reads.message(&session, message_id)?;
                let message = message.ok_or(TurnError::Changed { open: None })?;
                let message = Message {
                    content_bytes: text.len() as u64,
                    content: Arc::from(text.as_str()),
                    status,
                    ..message
                };
                Ok(Decision {
                    changes: vec![
                        Change::ReplaceMessage(message_id, text.clone()),
                        Change::SetMessageStatus(message_id, status),
                    ],
                    events: vec![(session_id, Event::MessageWritten(Box::new(message)))],
                    reply: (),
                })
            })
            .await
    }

    /// Marks a message as whole and tells its readers.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn finish(&self, session_id: SessionId, message_id: MessageId) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                let session = existing(reads, session_id)?;
                let message = reads.message(&session, message_id)?;
                let message = message.ok_or(TurnError::Changed { open: None })?;
                let status = MessageStatus::Complete;
                let message = Message { status, ..message };
                Ok(Decision {
                    changes: vec![Change::SetMessageStatus(message_id, status)],
                    events: vec![(session_id, Event::MessageWritten(Box::new(message)))],
                    reply: (),
                })
            })
            .await
    }

    async fn change(&self, changes: Vec<Change>) -> Transacted<()> {
        self.store
            .transact(move |_| {
                Ok(Decision { changes: changes.clone(), events: Vec::new(), reply: () })
            })
            .await
    }

    /// Ends a turn. One that is over already stays as it ended.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn end(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        end: TurnEnd,
    ) -> Transacted<()> {
        let fresh = fresh();
        self.store
            .transact(move |reads| {
                let (session, turn) = open(reads, session_id, turn_id)?;
                let records = reads.turn_records(&session, &turn)?;
                Ok(turn_end::end(&session, turn, end.clone(), records, fresh))
            })
            .await
    }

    /// Settles every turn whose server is gone; returns how many there were.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn recover(&self) -> Result<usize, TransactError<StoreError>> {
        let left = self.store.read(|reads| reads.sessions_left()).await;
        let left: Vec<SessionId> = left.map_err(TransactError::<StoreError>::NotStored)?;
        for session in &left {
            self.recover_left(*session).await?;
        }
        Ok(left.len())
    }

    async fn recover_left(&self, session_id: SessionId) -> Result<(), TransactError<StoreError>> {
        let fresh = fresh();
        self.store
            .transact(move |reads| {
                let session = reads.session(session_id)?;
                let Some((session, turn)) = session.and_then(|s| s.turn.map(|turn| (s, turn)))
                else {
                    return Ok(Decision::unchanged(()));
                };
                // Its server may have said that it is alive, or another one was faster.
                if !reads.is_left(turn.id)? {
                    return Ok(Decision::unchanged(()));
                }
                let records = reads.turn_records(&session, &turn)?;
                Ok(turn_end::recover(&session, turn, records, fresh))
            })
            .await
    }

    /// Returns the open turn of a session.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open_turn(&self, session_id: SessionId) -> Transacted<Option<TurnId>> {
        let found = self.store.read(move |reads| reads.session(session_id)).await;
        let session = found.map_err(TransactError::NotStored)?;
        Ok(session.and_then(|session| session.turn).map(|turn| turn.id))
    }

    /// Settles a turn that nobody runs any more, as a restart would.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn settle_turn(&self, session_id: SessionId, turn_id: TurnId) -> Transacted<()> {
        let fresh = fresh();
        self.store
            .transact(move |reads| {
                let (session, turn) = open(reads, session_id, turn_id)?;
                let records = reads.turn_records(&session, &turn)?;
                Ok(turn_end::recover(&session, turn, records, fresh))
            })
            .await
    }

    /// Returns the sessions that may have a head to start.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sessions_waiting(&self) -> Result<Vec<SessionId>, StoreError> {
        self.store.read(|reads| reads.sessions_waiting()).await
    }

    /// Deletes what was removed from queues longer ago than `undo_ms`.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn purge_removed(&self, undo_ms: i64) -> Transacted<()> {
        let before = usher_shared::time::UnixMillis::new(now().get().saturating_sub(undo_ms));
        self.change(vec![Change::PurgeRemoved { before }]).await
    }
}

fn fresh() -> Fresh {
    Fresh {
        prompt_id: MessageId::from_uuid(fresh_uuid()),
        notice_id: MessageId::from_uuid(fresh_uuid()),
        now: now(),
    }
}

pub(super) fn existing(reads: &mut Reads<'_>, id: SessionId) -> Result<Session, TurnError> {
    reads.session(id)?.ok_or(TurnError::Changed { open: None })
}

pub(super) fn open(
    reads: &mut Reads<'_>,
    session_id: SessionId,
    turn_id: TurnId,
) -> Result<(Session, OpenTurn), TurnError> {
    let session = existing(reads, session_id)?;
    let turn = turn::open(&session, turn_id)?;
    Ok((session, turn))
}
