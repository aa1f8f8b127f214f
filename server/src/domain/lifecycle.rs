//! What happens to whole sessions and tasks: set, reset, archive, delete.
//!
//! Archive and delete first stop the turns that are open. From the first commit on nothing starts
//! and nothing is admitted, so a step that finds a turn open is simply taken again when that turn
//! has ended.

use std::sync::Arc;

use usher_shared::id::{EntryId, IncarnationId, MessageId, SessionId, TaskId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{MessageStatus, Notice, Role};

use super::change::{Change, Decision};
use super::entry::Provenance;
use super::event::{Event, no_session};
use super::message::{Message, MessageDetails};
use super::session::{AutoRun, QueueHead, Session, Standing, Task, TaskKey, TurnStage};
use super::turn;

/// A turn that was told to stop and has not ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// Its session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
}

/// Stops the open turn of a session as a cancel does, but parks nothing: what waits stays as it is.
/// Adds to `decision`.
fn stop(session: &Session, now: UnixMillis, decision: &mut Decision<Vec<Stopping>>) {
    let Some(open) = session.turn else { return };
    // A refusal: it is stopping already.
    if let Ok(stopped) = turn::cancel(session, None, 0, now) {
        let kept = stopped.changes.into_iter().map(|change| match change {
            Change::SetQueue(key, queue) => {
                Change::SetQueue(key, QueueHead { auto_run: session.queue.auto_run, ..queue })
            }
            other => other,
        });
        decision.changes.extend(kept);
        decision.events.extend(stopped.events);
    }
    if open.stage != TurnStage::Reserved {
        decision.reply.push(Stopping { session_id: session.id, turn_id: open.id });
    }
}

/// Stops the open turn of a session that nobody sees any more.
pub fn stop_unseen(session: &Session, now: UnixMillis) -> Decision<()> {
    let mut decision = Decision::unchanged(Vec::new());
    if session.standing == Standing::Gone {
        stop(session, now, &mut decision);
    }
    let Decision { changes, events, reply: _ } = decision;
    Decision { changes, events, reply: () }
}

/// Archives a task. Done once no turn is left that has to stop.
pub fn archive(task: &Task, sessions: &[Session], now: UnixMillis) -> Decision<Vec<Stopping>> {
    let mut decision = Decision::unchanged(Vec::new());
    if !task.archived {
        decision.changes.push(Change::ArchiveTask(task.key));
        decision.events.extend(told(task.id, sessions));
    }
    sessions.iter().for_each(|session| stop(session, now, &mut decision));
    decision
}

/// Brings an archived task back; its queues go on as they were.
pub fn unarchive(task: &Task, sessions: &[Session]) -> Decision<()> {
    if !task.archived {
        return Decision::unchanged(());
    }
    let mut events = told(task.id, sessions);
    let on = sessions.iter().filter(|session| session.queue.auto_run == AutoRun::On);
    events.extend(on.map(|session| (session.id, Event::MayStart)));
    Decision { changes: vec![Change::UnarchiveTask(task.key)], events, reply: () }
}

fn told(task: TaskId, sessions: &[Session]) -> Vec<(SessionId, Event)> {
    let changed = sessions.iter().map(|session| (session.id, Event::SessionChanged));
    changed.chain([(no_session(), Event::TaskChanged(task))]).collect()
}

/// Deletes a session, or hides it and stops its turn. Done once no turn is left that has to stop.
pub fn delete_session(session: &Session, now: UnixMillis) -> Decision<Vec<Stopping>> {
    let mut decision = Decision::unchanged(Vec::new());
    stop(session, now, &mut decision);
    if decision.reply.is_empty() {
        decision.changes = vec![Change::PurgeSession(session.key)];
        decision.events.push((session.id, Event::Deleted));
        decision.events.push((session.id, Event::TaskChanged(session.task_id)));
    } else if session.standing != Standing::Gone {
        decision.changes.push(Change::HideSession(session.key, now));
        decision.events.push((session.id, Event::Hidden));
    }
    if session.standing != Standing::Gone {
        decision.events.push((session.id, Event::SessionGone(session.task_id, session.owner)));
    }
    decision
}

/// Deletes a task with its sessions, or hides all and stops their turns: see
/// [`go_on_deleting_task`].
pub fn delete_task(task: &Task, sessions: &[Session], now: UnixMillis) -> Decision<Vec<Stopping>> {
    let mut decision = go_on_deleting_task(task.key, sessions, now);
    if !decision.reply.is_empty() {
        let seen = sessions.iter().filter(|session| session.standing != Standing::Gone);
        decision.changes.push(Change::HideTask(task.key, now));
        decision.events.extend(seen.map(|session| (session.id, Event::Hidden)));
    }
    decision.events.push((no_session(), Event::TaskGone(task.id, task.owner.id)));
    decision
}

/// Deletes a task that nobody sees any more, or stops its turns. Done once no turn is left that has
/// to stop.
pub fn go_on_deleting_task(
    task: TaskKey,
    sessions: &[Session],
    now: UnixMillis,
) -> Decision<Vec<Stopping>> {
    let mut decision = Decision::unchanged(Vec::new());
    sessions.iter().for_each(|session| stop(session, now, &mut decision));
    if decision.reply.is_empty() {
        decision.changes = sessions.iter().map(|s| Change::PurgeSession(s.key)).collect();
        decision.changes.push(Change::PurgeTask(task));
        decision.events.extend(sessions.iter().map(|s| (s.id, Event::Deleted)));
    }
    decision
}

/// What a client wants to be different about a session; None leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPatch {
    /// The model its turns use; empty: the agent's own choice.
    pub model: Option<String>,
    /// The mode its turns use; empty: the agent's own choice.
    pub mode: Option<String>,
    /// For people.
    pub title: Option<String>,
}

/// Sets what a patch names.
pub fn set(session: &Session, patch: SessionPatch) -> Decision<()> {
    let choice = |wanted: Option<String>, now: &Option<String>| match wanted {
        Some(wanted) => Some(wanted).filter(|text| !text.is_empty()),
        None => now.clone(),
    };
    let model = choice(patch.model, &session.model);
    let mode = choice(patch.mode, &session.mode);
    let title = patch.title.unwrap_or_else(|| session.title.clone());
    if (&model, &mode, &title) == (&session.model, &session.mode, &session.title) {
        return Decision::unchanged(());
    }
    Decision {
        changes: vec![Change::SetSession { session: session.key, model, mode, title }],
        events: vec![(session.id, Event::SessionChanged)],
        reply: (),
    }
}

/// What becomes of what waits when a session is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReset {
    /// It goes on waiting, in the new life.
    KeepQueue,
    /// It is dropped.
    ClearQueue,
}

/// Fresh names and the time for a reset.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// The new life.
    pub incarnation_id: IncarnationId,
    /// For the divider in the transcript.
    pub notice_id: MessageId,
    /// The time.
    pub now: UnixMillis,
}

/// A turn is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a turn is open")]
pub struct Busy;

/// Begins a new life of a session: older names of it are stale, its transcript goes on behind a
/// divider, and what was removed from its queue cannot come back. `visible` is what waits. Its plan is not looked at:
/// see [`super::plan::forget`].
pub fn reset(
    session: &Session,
    visible: Vec<(EntryId, Provenance)>,
    queue: OnReset,
    fresh: Fresh,
) -> Result<Decision<()>, Busy> {
    if session.turn.is_some() {
        return Err(Busy);
    }
    let divider = divider(session, fresh);
    let mut changes = vec![
        Change::InsertMessage(session.key, session.incarnation_key, Box::new(divider.clone())),
        Change::ForgetRemoved(session.key),
    ];
    let mut head = session.queue.changed();
    match queue {
        OnReset::KeepQueue => changes.extend(
            visible
                .into_iter()
                .filter(|(_, provenance)| !provenance.admission_ids.is_empty())
                .map(|(id, provenance)| Change::SetProvenance(id, Box::new(provenance.retired()))),
        ),
        OnReset::ClearQueue => {
            changes.push(Change::ForgetWaiting(session.key));
            head.stored = head.stored.saturating_sub(visible.len() as u64);
        }
    }
    changes.push(Change::SetQueue(session.key, head));
    changes.push(Change::BeginIncarnation(session.key, fresh.incarnation_id));
    let mut events = vec![
        (session.id, Event::MessageWritten(Box::new(divider))),
        (session.id, Event::SessionChanged),
    ];
    events.extend(session.queue_resized());
    if head.auto_run == AutoRun::On && head.stored > 0 {
        events.push((session.id, Event::MayStart));
    }
    Ok(Decision { changes, events, reply: () })
}

/// The last message of the life that ends.
fn divider(session: &Session, fresh: Fresh) -> Message {
    Message {
        id: fresh.notice_id,
        session_id: session.id,
        incarnation_id: session.incarnation_id,
        seq: session.last_seq.next(),
        turn_id: None,
        role: Role::System,
        content: Arc::from(""),
        content_bytes: 0,
        status: MessageStatus::Complete,
        details: MessageDetails { notice: Some(Notice::SessionReset), ..MessageDetails::default() },
        created_at: fresh.now,
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
