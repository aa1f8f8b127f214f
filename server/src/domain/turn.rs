//! Turns: reserving a head, handing it over, accepting, cancelling, ending, recovering.
//!
//! A turn's prompt is in exactly one place at any commit: in the queue (reserved) or in the
//! transcript. Each function here moves it at most once.

use std::sync::Arc;

use usher_shared::id::{MessageId, SessionId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{
    AutoRunReason, MessageStatus, Resolution, Role, TurnOutcome, TurnReason,
};

use super::change::{Change, Decision};
use super::enclosed::Enclosed;
use super::entry::Entry;
use super::event::{Event, TurnStart};
use super::merge::join_all;
use super::message::{Message, MessageDetails, RunOptions};
use super::queue::off;
use super::session::{OpenTurn, QueueHead, Session, Stop, TurnPrompt, TurnStage};
use super::turn_end::TurnRecords;

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
    let turn = reserved(turn_id, TurnPrompt::Entries, now);
    Decision {
        changes: vec![
            Change::InsertTurn(session.key, turn),
            Change::ReserveEntry(head.id, turn_id),
            Change::SetQueue(session.key, queue.changed()),
        ],
        events: started(session, turn_id, head, QueueMoved::Yes),
        reply: (),
    }
}

/// Returns a turn of which the agent has nothing yet.
pub(super) const fn reserved(id: TurnId, prompt: TurnPrompt, now: UnixMillis) -> OpenTurn {
    OpenTurn { id, stage: TurnStage::Reserved, stop: Stop::NotAsked, prompt, started_at: now }
}

fn run_options(session: &Session, entry: &Entry) -> RunOptions {
    // An empty name is the agent's own choice, whatever the session's is.
    let model = entry.model.as_ref().or(session.model.as_ref());
    RunOptions {
        model: model.filter(|model| !model.is_empty()).cloned(),
        plan_mode: entry.plan_mode,
    }
}

/// Whether a decision changed the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueMoved {
    Yes,
    No,
}

/// What is told of a turn that begins with what waited in the queue.
pub(super) fn started(
    session: &Session,
    turn_id: TurnId,
    prompt: &Entry,
    queue: QueueMoved,
) -> Vec<(SessionId, Event)> {
    let run = run_options(session, prompt);
    let text = Arc::clone(&prompt.content);
    starting(session, turn_id, text, prompt.enclosed.clone(), run, queue)
}

fn starting(
    session: &Session,
    turn_id: TurnId,
    text: Arc<str>,
    enclosed: Enclosed,
    run: RunOptions,
    queue: QueueMoved,
) -> Vec<(SessionId, Event)> {
    let start = TurnStart {
        session_id: session.id,
        incarnation_id: session.incarnation_id,
        turn_id,
        agent: session.agent.clone(),
        workspace_dir: session.workspace_dir.clone(),
        text,
        enclosed,
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
    if turn.stop != Stop::NotAsked {
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
    let prompt = match (turn.prompt, joined(&records.entries)) {
        (TurnPrompt::Entries, Some(entry)) => {
            let message =
                user_message(session, turn.id, &entry, message_id, MessageStatus::Complete, now);
            changes.push(Change::InsertMessage(
                session.key,
                session.incarnation_key,
                Box::new(message.clone()),
            ));
            changes.extend(passing(turn.id, &message));
            changes.push(Change::DeleteEntries(turn.id));
            let queue = QueueHead {
                stored: session.queue.stored.saturating_sub(records.entries.len() as u64),
                ..session.queue.changed()
            };
            changes.push(Change::SetQueue(session.key, queue));
            events.push((session.id, Event::MessageWritten(Box::new(message))));
            events.extend(session.queue_resized());
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

/// Returns the prompt that a turn's entries make. That they fit together was checked when they were
/// reserved, and reserved entries do not change.
pub(super) fn joined(entries: &[Entry]) -> Option<Entry> {
    join_all(entries).ok().flatten()
}

/// Gives the attachments of a turn's entries to the message that they become; to be done while they
/// are there.
pub(super) fn passing(turn_id: TurnId, message: &Message) -> Option<Change> {
    let carries = !message.details.enclosed.attachments.is_empty();
    carries.then_some(Change::PassAttachments(turn_id, message.id))
}

pub(super) fn user_message(
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
            enclosed: entry.enclosed.clone(),
            sender: Some(entry.queued_by.name.clone()),
            run: run_options(session, entry),
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
    if turn.stop != Stop::NotAsked {
        return Err(CancelRefusal::Conflict);
    }
    let goes_back = turn.stage == TurnStage::Reserved && turn.prompt == TurnPrompt::Entries;
    let parks = waiting > 0 || goes_back;
    let queue = if parks { off(session.queue, AutoRunReason::Cancelled) } else { session.queue };
    let mut changes = Vec::new();
    let mut events = vec![(session.id, Event::StopAsked(turn.id))];
    if turn.stage == TurnStage::Reserved {
        let (gone, told) = never_ran(session, turn, None, now);
        changes.extend(gone);
        events.push(told);
    } else {
        changes.push(Change::SetTurn(OpenTurn { stop: Stop::Asked, ..turn }));
    }
    if goes_back || queue != session.queue {
        changes.push(Change::SetQueue(session.key, queue.changed()));
        events.push((session.id, Event::QueueChanged));
    }
    events.push((session.id, Event::SessionChanged));
    Ok(Decision { changes, events, reply: Cancelled::Yes })
}

/// Ends a turn of which the agent got nothing: what it was to run waits again, at its place.
pub(super) fn never_ran(
    session: &Session,
    turn: OpenTurn,
    reason: Option<TurnReason>,
    now: UnixMillis,
) -> (Vec<Change>, (SessionId, Event)) {
    let (turn_id, outcome) = (turn.id, TurnOutcome::Cancelled);
    let mut changes = Vec::new();
    if turn.prompt == TurnPrompt::Entries {
        changes.push(Change::ReleaseEntries(turn_id));
    }
    changes.push(Change::EndTurn { turn_id, outcome, reason, ended_at: now });
    (changes, (session.id, Event::TurnEnded { turn_id, outcome, reason, text: None }))
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
            let turn = reserved(new_turn_id, TurnPrompt::Message(prompt.id), now);
            // Until an agent has it again, the message says how its last run ended.
            let changes = vec![
                Change::InsertTurn(session.key, turn),
                Change::SetMessageTurn(prompt.id, new_turn_id),
            ];
            let (text, details) = (Arc::clone(&prompt.content), prompt.details.clone());
            let (enclosed, run) = (details.enclosed, details.run);
            let mut events = starting(session, new_turn_id, text, enclosed, run, QueueMoved::No);
            let message = Message { turn_id: Some(new_turn_id), ..prompt };
            events.push((session.id, Event::MessageWritten(Box::new(message))));
            Ok(Decision { changes, events, reply: () })
        }
    }
}
