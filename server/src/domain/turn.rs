//! Turns: reserving a head, handing it over, accepting, cancelling, ending, recovering.
//!
//! A turn's prompt is in exactly one place at any commit: in the queue (reserved) or in the
//! transcript. Each function here moves it at most once.

use std::sync::Arc;

use usher_shared::id::{MessageId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{
    AutoRunReason, MessageStatus, Notice, Resolution, Role, TurnOutcome, TurnReason,
};

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::{Event, TurnStart};
use super::message::{Message, MessageDetails, RunOptions};
use super::session::{AutoRun, OpenTurn, QueueHead, Session, Stop, TurnPrompt, TurnStage};

/// The turn that a request or an agent speaks of is not the open one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("that turn is not open")]
pub struct NotOpen;

/// Returns the open turn if it is `turn_id`.
pub fn open(session: &Session, turn_id: TurnId) -> Result<OpenTurn, NotOpen> {
    session.turn.filter(|turn| turn.id == turn_id).ok_or(NotOpen)
}

/// Takes the head for a new turn of a promptable session. `queue` is the session's queue with
/// whatever the cause of the turn changed about auto-run.
pub fn reserve(
    session: &Session,
    queue: QueueHead,
    head: &Entry,
    turn_id: TurnId,
    now: UnixMillis,
) -> Decision<()> {
    let turn = OpenTurn {
        id: turn_id,
        stage: TurnStage::Reserved,
        stop: Stop::NotAsked,
        prompt: TurnPrompt::Entry(head.id),
        started_at: now,
    };
    let run = RunOptions {
        model: head.model.clone().or_else(|| session.model.clone()),
        plan_mode: head.plan_mode,
    };
    Decision {
        changes: vec![
            Change::InsertTurn(session.key, turn),
            Change::ReserveEntry(head.id, turn_id),
            Change::SetQueue(session.key, queue.changed()),
        ],
        events: started(session, turn_id, Arc::clone(&head.content), run, QueueMoved::Yes),
        reply: (),
    }
}

/// Whether a decision changed the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueMoved {
    Yes,
    No,
}

fn started(
    session: &Session,
    turn_id: TurnId,
    text: Arc<str>,
    run: RunOptions,
    queue: QueueMoved,
) -> Vec<(usher_shared::id::SessionId, Event)> {
    let start = TurnStart {
        session_id: session.id,
        turn_id,
        agent: session.agent.clone(),
        workspace_dir: session.workspace_dir.clone(),
        text,
        run,
    };
    let mut events = vec![
        (session.id, Event::TurnStarted(turn_id)),
        (session.id, Event::SessionChanged),
        (session.id, Event::TurnReserved(start)),
    ];
    if queue == QueueMoved::Yes {
        events.push((session.id, Event::QueueChanged));
    }
    events
}

/// Marks that the agent may have the prompt from here on. Refused if the turn is over or shall
/// stop: then nothing may be sent.
pub fn hand_over(session: &Session, turn_id: TurnId) -> Result<Decision<()>, NotOpen> {
    let turn = open(session, turn_id)?;
    if turn.stop == Stop::Asked {
        return Err(NotOpen);
    }
    Ok(Decision {
        changes: vec![Change::SetTurn(OpenTurn { stage: TurnStage::HandedOver, ..turn })],
        events: Vec::new(),
        reply: (),
    })
}

/// Moves the prompt of a turn into the transcript, once; one that runs again is there already.
pub fn accept(
    session: &Session,
    turn: OpenTurn,
    records: TurnRecords,
    message_id: MessageId,
    now: UnixMillis,
) -> Decision<()> {
    let mut changes = Vec::new();
    let mut events = Vec::new();
    let prompt = match (turn.prompt, &records.entry) {
        (TurnPrompt::Entry(entry_id), Some(entry)) => {
            let message =
                user_message(session, turn.id, entry, message_id, MessageStatus::Complete, now);
            changes.push(Change::DeleteEntry(entry_id));
            changes.push(Change::InsertMessage(
                session.key,
                session.incarnation_key,
                Box::new(message.clone()),
            ));
            let queue = QueueHead {
                stored: session.queue.stored.saturating_sub(1),
                ..session.queue.changed()
            };
            changes.push(Change::SetQueue(session.key, queue));
            events.push((session.id, Event::MessageWritten(Box::new(message))));
            events.push((session.id, Event::QueueChanged));
            TurnPrompt::Message(message_id)
        }
        (prompt, _) => {
            if let Some(message) = records.prompt {
                let status = MessageStatus::Complete;
                changes.push(Change::SetMessageStatus(message.id, status));
                let message = Message { status, ..message };
                events.push((session.id, Event::MessageWritten(Box::new(message))));
            }
            prompt
        }
    };
    changes.push(Change::SetTurn(OpenTurn { stage: TurnStage::Running, prompt, ..turn }));
    events.push((session.id, Event::SessionChanged));
    Decision { changes, events, reply: () }
}

fn user_message(
    session: &Session,
    turn_id: TurnId,
    entry: &Entry,
    id: MessageId,
    status: MessageStatus,
    now: UnixMillis,
) -> Message {
    Message {
        id,
        session_id: session.id,
        incarnation_id: session.incarnation_id,
        seq: session.last_seq.next(),
        turn_id: Some(turn_id),
        role: Role::User,
        content: Arc::clone(&entry.content),
        content_bytes: entry.content.len() as u64,
        status,
        details: MessageDetails {
            provenance: entry.provenance.clone(),
            sender: Some(entry.queued_by.name.clone()),
            run: RunOptions {
                model: entry.model.clone().or_else(|| session.model.clone()),
                plan_mode: entry.plan_mode,
            },
            ..MessageDetails::default()
        },
        created_at: now,
    }
}

/// What a cancel came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Nothing ran.
    NothingRan,
    /// The turn stops, or never began.
    Yes,
}

/// Why a cancel was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelRefusal {
    /// Another turn runs than the one named.
    #[error("another turn is open")]
    TurnChanged {
        /// The open one, if any.
        open: Option<TurnId>,
    },
    /// A cancel is under way.
    #[error("the turn is being cancelled already")]
    Conflict,
}

/// Stops the open turn and parks what waits. `waiting` counts the visible entries.
pub fn cancel(
    session: &Session,
    expected: Option<TurnId>,
    waiting: u64,
    now: UnixMillis,
) -> Result<Decision<Cancelled>, CancelRefusal> {
    let open = session.turn.map(|turn| turn.id);
    if expected.is_some() && expected != open {
        return Err(CancelRefusal::TurnChanged { open });
    }
    let Some(turn) = session.turn else {
        return Ok(Decision::unchanged(Cancelled::NothingRan));
    };
    if turn.stop == Stop::Asked {
        return Err(CancelRefusal::Conflict);
    }
    let entry_back = match (turn.stage, turn.prompt) {
        (TurnStage::Reserved, TurnPrompt::Entry(entry)) => Some(entry),
        _ => None,
    };
    let parks = waiting > 0 || entry_back.is_some();
    let queue = if parks { off(session.queue, AutoRunReason::Cancelled) } else { session.queue };
    let mut changes = Vec::new();
    let mut events = vec![(session.id, Event::StopAsked(turn.id))];
    if turn.stage == TurnStage::Reserved {
        changes.extend(entry_back.map(Change::ReleaseEntry));
        changes.push(Change::EndTurn {
            turn_id: turn.id,
            outcome: TurnOutcome::Cancelled,
            reason: None,
            ended_at: now,
        });
        events.push((
            session.id,
            Event::TurnEnded {
                turn_id: turn.id,
                outcome: TurnOutcome::Cancelled,
                reason: None,
                text: None,
            },
        ));
    } else {
        changes.push(Change::SetTurn(OpenTurn { stop: Stop::Asked, ..turn }));
    }
    if parks {
        changes.push(Change::SetQueue(session.key, queue.changed()));
        events.push((session.id, Event::QueueChanged));
    }
    events.push((session.id, Event::SessionChanged));
    Ok(Decision { changes, events, reply: Cancelled::Yes })
}

/// Turns ON to OFF with a reason; OFF keeps the reason it has.
fn off(queue: QueueHead, reason: AutoRunReason) -> QueueHead {
    match queue.auto_run {
        AutoRun::On => QueueHead { auto_run: AutoRun::Off(reason), ..queue },
        AutoRun::Off(_) => queue,
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// What the outcome alone does not say.
    pub reason: Option<TurnReason>,
    /// What the agent said about it.
    pub text: Option<String>,
}

/// What is stored of a turn when it ends.
#[derive(Clone, Debug, Default)]
pub struct TurnRecords {
    /// Its prompt, if that is still in the queue.
    pub entry: Option<Entry>,
    /// Its prompt, if that is in the transcript.
    pub prompt: Option<Message>,
    /// Its messages that may still grow.
    pub streaming: Vec<Message>,
}

/// Fresh names and the time for ending a turn.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// For the prompt, if it enters the transcript now.
    pub prompt_id: MessageId,
    /// For the report of what happened.
    pub notice_id: MessageId,
    /// The time.
    pub now: UnixMillis,
}

/// Ends the open turn: settles its messages, puts its prompt where it belongs, parks the queue if
/// the end asks for it, and reports what happened. A turn that ends twice changes nothing the
/// second time: the caller finds it not open.
pub fn end(
    session: &Session,
    turn: OpenTurn,
    end: TurnEnd,
    records: TurnRecords,
    fresh: Fresh,
) -> Decision<()> {
    let end = match turn.stop {
        // Whatever the agent answers to a stop: the user cancelled.
        Stop::Asked if end.outcome == TurnOutcome::Completed => {
            TurnEnd { outcome: TurnOutcome::Cancelled, reason: None, text: None }
        }
        Stop::Asked if end.outcome == TurnOutcome::Failed => {
            TurnEnd { outcome: TurnOutcome::Cancelled, reason: end.reason, text: None }
        }
        Stop::Asked | Stop::NotAsked => end,
    };
    let mut writer = EndWriter::new(session);
    writer.settle(turn.id, records.streaming, streaming_becomes(end.outcome));
    if let Some(entry) = &records.entry {
        writer.place_prompt(turn, entry, &end, fresh);
    } else if let (Some(prompt), Some(status)) = (records.prompt, prompt_becomes(end.outcome)) {
        writer.mark_prompt(prompt, status);
    }
    if let Some(reason) = parks(&end) {
        writer.queue = off(writer.queue, reason);
    }
    if let Some(notice) = notice(&end) {
        writer.report(turn.id, notice, end.text.as_deref().unwrap_or(""), fresh);
    }
    writer.finish(turn.id, end, fresh.now)
}

struct EndWriter {
    session: Session,
    queue: QueueHead,
    changes: Vec<Change>,
    events: Vec<(usher_shared::id::SessionId, Event)>,
}

impl EndWriter {
    fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            queue: session.queue,
            changes: Vec::new(),
            events: Vec::new(),
        }
    }

    fn write(&mut self, message: Message) {
        self.session.last_seq = message.seq;
        self.changes.push(Change::InsertMessage(
            self.session.key,
            self.session.incarnation_key,
            Box::new(message.clone()),
        ));
        self.tell(message);
    }

    fn tell(&mut self, message: Message) {
        self.events.push((self.session.id, Event::MessageWritten(Box::new(message))));
    }

    fn settle(&mut self, turn_id: TurnId, streaming: Vec<Message>, status: MessageStatus) {
        if streaming.is_empty() {
            return;
        }
        self.changes.push(Change::SettleMessages(turn_id, status));
        for message in streaming {
            self.tell(Message { status, ..message });
        }
    }

    /// A prompt that is still in the queue goes back to its place if no agent can have it, and
    /// into the transcript otherwise.
    fn place_prompt(&mut self, turn: OpenTurn, entry: &Entry, end: &TurnEnd, fresh: Fresh) {
        let never_left =
            turn.stage == TurnStage::Reserved || end.reason == Some(TurnReason::StartFailed);
        self.queue = self.queue.changed();
        if never_left {
            self.changes.push(Change::ReleaseEntry(entry.id));
            if end.outcome == TurnOutcome::Cancelled {
                // It waits again, and whoever stopped it does not want it started again.
                self.queue = off(self.queue, AutoRunReason::Cancelled);
            }
            return;
        }
        let status = prompt_becomes(end.outcome).unwrap_or(MessageStatus::Complete);
        let message =
            user_message(&self.session, turn.id, entry, fresh.prompt_id, status, fresh.now);
        self.changes.push(Change::DeleteEntry(entry.id));
        self.queue.stored = self.queue.stored.saturating_sub(1);
        self.write(message);
    }

    fn mark_prompt(&mut self, prompt: Message, status: MessageStatus) {
        self.changes.push(Change::SetMessageStatus(prompt.id, status));
        self.tell(Message { status, ..prompt });
    }

    fn report(&mut self, turn_id: TurnId, notice: Notice, text: &str, fresh: Fresh) {
        self.write(Message {
            id: fresh.notice_id,
            session_id: self.session.id,
            incarnation_id: self.session.incarnation_id,
            seq: self.session.last_seq.next(),
            turn_id: Some(turn_id),
            role: Role::System,
            content: Arc::from(text),
            content_bytes: text.len() as u64,
            status: MessageStatus::Complete,
            details: MessageDetails { notice: Some(notice), ..MessageDetails::default() },
            created_at: fresh.now,
        });
    }

    fn finish(mut self, turn_id: TurnId, end: TurnEnd, ended_at: UnixMillis) -> Decision<()> {
        let TurnEnd { outcome, reason, text } = end;
        self.changes.push(Change::EndTurn { turn_id, outcome, reason, ended_at });
        let id = self.session.id;
        if self.queue.auto_run != self.session.queue.auto_run {
            self.queue = self.queue.changed();
        }
        if self.queue != self.session.queue {
            self.changes.push(Change::SetQueue(self.session.key, self.queue));
            self.events.push((id, Event::QueueChanged));
        }
        self.events.push((id, Event::TurnEnded { turn_id, outcome, reason, text }));
        self.events.push((id, Event::SessionChanged));
        self.events.push((id, Event::MayStart));
        Decision { changes: self.changes, events: self.events, reply: () }
    }
}

const fn streaming_becomes(outcome: TurnOutcome) -> MessageStatus {
    match outcome {
        TurnOutcome::Completed => MessageStatus::Complete,
        TurnOutcome::Failed => MessageStatus::Failed,
        TurnOutcome::Cancelled | TurnOutcome::Interrupted | TurnOutcome::Uncertain => {
            MessageStatus::Interrupted
        }
    }
}

/// What the prompt's message becomes; None: it stays whole.
const fn prompt_becomes(outcome: TurnOutcome) -> Option<MessageStatus> {
    match outcome {
        TurnOutcome::Completed | TurnOutcome::Cancelled => None,
        TurnOutcome::Failed => Some(MessageStatus::Failed),
        TurnOutcome::Interrupted => Some(MessageStatus::Interrupted),
        TurnOutcome::Uncertain => Some(MessageStatus::Uncertain),
    }
}

const fn parks(end: &TurnEnd) -> Option<AutoRunReason> {
    match (end.outcome, end.reason) {
        (TurnOutcome::Completed, Some(TurnReason::Refused)) => Some(AutoRunReason::Refused),
        (TurnOutcome::Completed | TurnOutcome::Cancelled, _) => None,
        (TurnOutcome::Failed, _) => Some(AutoRunReason::Failed),
        (TurnOutcome::Interrupted, _) => Some(AutoRunReason::Interrupted),
        (TurnOutcome::Uncertain, _) => Some(AutoRunReason::UncertainTurn),
    }
}

const fn notice(end: &TurnEnd) -> Option<Notice> {
    match (end.outcome, end.reason) {
        (TurnOutcome::Completed, Some(TurnReason::Refused)) => Some(Notice::TurnRefused),
        (TurnOutcome::Completed, Some(TurnReason::CutShort)) => Some(Notice::TurnCutShort),
        (TurnOutcome::Completed, _) | (TurnOutcome::Cancelled, Some(TurnReason::Replaced)) => None,
        (TurnOutcome::Cancelled, _) => Some(Notice::TurnCancelled),
        (TurnOutcome::Failed, Some(TurnReason::StartFailed)) => Some(Notice::StartFailed),
        (TurnOutcome::Failed, _) => Some(Notice::TurnFailed),
        (TurnOutcome::Interrupted, _) => Some(Notice::TurnInterrupted),
        (TurnOutcome::Uncertain, _) => Some(Notice::TurnUncertain),
    }
}

/// Settles a turn that a stopped server left open.
///
/// Never handed over: its prompt goes back to its place and the queue goes on. Handed over without
/// proof: uncertain. Accepted: interrupted. The last two park the queue; nothing is sent again.
pub fn recover(
    session: &Session,
    turn: OpenTurn,
    records: TurnRecords,
    fresh: Fresh,
) -> Decision<()> {
    let how = |outcome| TurnEnd { outcome, reason: None, text: None };
    match turn.stage {
        TurnStage::Reserved => {
            let mut writer = EndWriter::new(session);
            if let Some(entry) = &records.entry {
                writer.place_prompt(turn, entry, &how(TurnOutcome::Interrupted), fresh);
            }
            writer.finish(turn.id, how(TurnOutcome::Interrupted), fresh.now)
        }
        TurnStage::HandedOver => end(session, turn, how(TurnOutcome::Uncertain), records, fresh),
        TurnStage::Running => end(session, turn, how(TurnOutcome::Interrupted), records, fresh),
    }
}

/// Why a turn cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveRefusal {
    /// There is no such turn to resolve, or somebody resolved it.
    #[error("that turn has nothing to resolve")]
    TurnChanged {
        /// The open turn, if any.
        open: Option<TurnId>,
    },
    /// A turn is open.
    #[error("a turn is open")]
    Busy,
}

/// Runs the prompt of a failed, interrupted or uncertain turn again, on the same message, or
/// gives it up. Auto-run stays as it is.
pub fn resolve(
    session: &Session,
    prompt: Option<Message>,
    resolution: Resolution,
    new_turn_id: TurnId,
    now: UnixMillis,
) -> Result<Decision<()>, ResolveRefusal> {
    let open = session.turn.map(|turn| turn.id);
    let unsettled = prompt.filter(|message| {
        message.role == Role::User
            && message.details.resolution.is_none()
            && match message.status {
                MessageStatus::Failed | MessageStatus::Interrupted | MessageStatus::Uncertain => {
                    true
                }
                MessageStatus::Streaming | MessageStatus::Complete => false,
            }
    });
    let Some(mut prompt) = unsettled else {
        return Err(ResolveRefusal::TurnChanged { open });
    };
    if !session.is_promptable() {
        return Err(ResolveRefusal::Busy);
    }
    match resolution {
        Resolution::Drop => {
            prompt.details.resolution = Some(resolution);
            Ok(Decision {
                changes: vec![Change::SetMessageDetails(
                    prompt.id,
                    Box::new(prompt.details.clone()),
                )],
                events: vec![(session.id, Event::MessageWritten(Box::new(prompt)))],
                reply: (),
            })
        }
        Resolution::Resend => {
            let turn = OpenTurn {
                id: new_turn_id,
                stage: TurnStage::Reserved,
                stop: Stop::NotAsked,
                prompt: TurnPrompt::Message(prompt.id),
                started_at: now,
            };
            // Until an agent has it again, the message says how its last run ended.
            let changes = vec![
                Change::InsertTurn(session.key, turn),
                Change::SetMessageTurn(prompt.id, new_turn_id),
            ];
            let (text, run) = (Arc::clone(&prompt.content), prompt.details.run.clone());
            let mut events = started(session, new_turn_id, text, run, QueueMoved::No);
            let message = Message { turn_id: Some(new_turn_id), ..prompt };
            events.push((session.id, Event::MessageWritten(Box::new(message))));
            Ok(Decision { changes, events, reply: () })
        }
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
