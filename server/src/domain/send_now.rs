//! Send now: chosen entries run next, in the place of the turn that is open.
//!
//! The claim reserves the entries at once. Where a turn is open that the agent may know of, the new
//! turn is written when that one has ended; whatever goes wrong before gives the entries back.

use usher_shared::counter::QueueRevision;
use usher_shared::id::{EntryId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::TurnReason;

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::Event;
use super::merge::{Overflow, join_all};
use super::queue::{QueueChanged, expect_revision, set_auto_run};
use super::session::{OpenTurn, Session, Stop, TurnPrompt, TurnStage};
use super::turn::{QueueMoved, never_ran, reserved, started};

/// Which entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This one.
    Entry(EntryId),
    /// All that are visible, joined in their order.
    All,
}

/// What the claim does to auto-run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Switches it ON.
    Yes,
    /// Leaves it as it is.
    No,
}

/// What somebody wants sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendNow {
    /// Which entries.
    pub scope: Scope,
    /// The turn that the caller saw running.
    pub expected_turn: Option<TurnId>,
    /// The queue that the caller saw.
    pub expected_revision: Option<QueueRevision>,
    /// What becomes of auto-run.
    pub resume: Resume,
}

/// Why nothing was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendNowRefusal {
    /// Another turn runs than the one named.
    #[error("another turn is open")]
    TurnChanged {
        /// The open one, if any.
        open: Option<TurnId>,
    },
    /// The queue is another one than the caller saw.
    #[error(transparent)]
    QueueChanged(#[from] QueueChanged),
    /// The entry is not visible (any more).
    #[error("no such entry")]
    EntryNotFound,
    /// Nothing waits.
    #[error("nothing waits")]
    QueueEmpty,
    /// Together the entries break a bound.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// The open turn is being stopped or replaced already.
    #[error("the turn is being stopped already")]
    Conflict,
}

/// Claims `chosen`, the visible entries that `ask` names, in order, for a turn of the name `turn_id`.
/// Returns how many they are.
pub fn claim(
    session: &Session,
    ask: &SendNow,
    chosen: &[Entry],
    turn_id: TurnId,
    now: UnixMillis,
) -> Result<Decision<u64>, SendNowRefusal> {
    let open = session.turn.map(|turn| turn.id);
    if ask.expected_turn.is_some() && ask.expected_turn != open {
        return Err(SendNowRefusal::TurnChanged { open });
    }
    expect_revision(session, ask.expected_revision)?;
    let prompt = join_all(chosen)?.ok_or(match ask.scope {
        Scope::Entry(_) => SendNowRefusal::EntryNotFound,
        Scope::All => SendNowRefusal::QueueEmpty,
    })?;
    let switched = match ask.resume {
        Resume::Yes => set_auto_run(session, true),
        Resume::No => None,
    };
    let queue = switched.unwrap_or(session.queue.changed());
    let mut changes: Vec<Change> =
        chosen.iter().map(|entry| Change::ReserveEntry(entry.id, turn_id)).collect();
    changes.push(Change::SetQueue(session.key, queue));
    let mut events = Vec::new();
    match session.turn {
        Some(turn) if turn.stop != Stop::NotAsked => return Err(SendNowRefusal::Conflict),
        Some(turn) if turn.stage != TurnStage::Reserved => {
            let replaced = OpenTurn { stop: Stop::Replaced(turn_id), ..turn };
            changes.push(Change::SetTurn(replaced));
            events.push((session.id, Event::StopAsked(turn.id)));
            events.push((session.id, Event::QueueChanged));
            events.push((session.id, Event::SessionChanged));
        }
        not_handed_over => {
            if let Some(turn) = not_handed_over {
                let reason = Some(TurnReason::Replaced);
                let (gone, told) = never_ran(session, turn, reason, now);
                changes.extend(gone);
                events.push((session.id, Event::StopAsked(turn.id)));
                events.push(told);
            }
            let turn = reserved(turn_id, TurnPrompt::Entries, now);
            changes.push(Change::InsertTurn(session.key, turn));
            events.extend(started(session, turn_id, &prompt, QueueMoved::Yes));
        }
    }
    Ok(Decision { changes, events, reply: chosen.len() as u64 })
}

#[cfg(test)]
#[path = "send_now_tests.rs"]
mod tests;
