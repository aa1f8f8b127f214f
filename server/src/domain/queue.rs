//! Operations on waiting entries: remove, clear, restore, merge, reorder, and the auto-run switch.

use std::collections::HashMap;

use usher_shared::counter::{Position, QueueRevision};
use usher_shared::id::{EntryId, UndoId};
use usher_shared::limits::ENTRIES_MAX;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::AutoRunReason;

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::Event;
use super::merge::{Overflow, join, may_join};
use super::session::{AutoRun, QueueHead, Session};

/// Hides one visible entry.
pub fn remove(
    session: &Session,
    entry_id: EntryId,
    undo_id: UndoId,
    now: UnixMillis,
) -> Decision<UndoId> {
    let queue =
        QueueHead { stored: session.queue.stored.saturating_sub(1), ..session.queue.changed() };
    Decision {
        changes: vec![
            Change::RemoveEntry(entry_id, undo_id, now),
            Change::SetQueue(session.key, queue),
        ],
        events: session.queue_resized().to_vec(),
        reply: undo_id,
    }
}

/// What a clear removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// How many entries.
    pub removed: u64,
    /// For a restore.
    pub undo_id: UndoId,
}

/// The queue is another one than the caller saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue is at revision {revision}")]
pub struct QueueChanged {
    /// The revision now.
    pub revision: QueueRevision,
}

/// Checks the revision that a caller expects, if it names one.
pub fn expect_revision(
    session: &Session,
    expected: Option<QueueRevision>,
) -> Result<(), QueueChanged> {
    match expected {
        Some(expected) if expected != session.queue.revision => {
            Err(QueueChanged { revision: session.queue.revision })
        }
        _ => Ok(()),
    }
}

/// Hides every visible entry; reserved ones stay, auto-run stays as it is.
pub fn clear(
    session: &Session,
    visible: &[EntryId],
    undo_id: UndoId,
    now: UnixMillis,
) -> Decision<Cleared> {
    let removed = visible.len() as u64;
    let reply = Cleared { removed, undo_id };
    if visible.is_empty() {
        return Decision::unchanged(reply);
    }
    let queue = QueueHead {
        stored: session.queue.stored.saturating_sub(removed),
        ..session.queue.changed()
    };
    let mut changes: Vec<Change> =
        visible.iter().map(|id| Change::RemoveEntry(*id, undo_id, now)).collect();
    changes.push(Change::SetQueue(session.key, queue));
    Decision { changes, events: session.queue_resized().to_vec(), reply }
}

/// Why nothing was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreRefusal {
    /// There is nothing left to put back.
    #[error("nothing is left to restore")]
    Expired,
    /// The queue would hold more than any queue may.
    #[error("queue holds {queue_size} of {max} entries")]
    QueueFull {
        /// Stored entries.
        queue_size: u64,
        /// The hard bound.
        max: u64,
    },
}

/// Puts removed entries back at their places. Accepted work is not refused for the cap a user
/// chose; only the hard bound holds.
pub fn restore(session: &Session, removed: &[EntryId]) -> Result<Decision<u64>, RestoreRefusal> {
    let restored = removed.len() as u64;
    let stored = session.queue.stored + restored;
    if restored == 0 {
        return Err(RestoreRefusal::Expired);
    }
    let max = ENTRIES_MAX as u64;
    if stored > max {
        return Err(RestoreRefusal::QueueFull { queue_size: session.queue.stored, max });
    }
    let queue = QueueHead { stored, ..session.queue.changed() };
    let mut changes: Vec<Change> = removed.iter().map(|id| Change::RestoreEntry(*id)).collect();
    changes.push(Change::SetQueue(session.key, queue));
    let mut events = session.queue_resized().to_vec();
    if session.is_promptable() && queue.auto_run == AutoRun::On {
        events.push((session.id, Event::MayStart));
    }
    Ok(Decision { changes, events, reply: restored })
}

/// Why an entry was not merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeRefusal {
    /// Nothing above takes it.
    #[error("there is no entry above that takes it")]
    NoTarget,
    /// The result would break a bound.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

/// Merges an entry into the one directly above, whose id, place, model and plan mode stay.
pub fn merge(
    session: &Session,
    source: &Entry,
    above: Option<&Entry>,
) -> Result<Decision<EntryId>, MergeRefusal> {
    let target = above
        .filter(|above| above.reserved_for.is_none() && may_join(above, source))
        .ok_or(MergeRefusal::NoTarget)?;
    let joined = join(target, source)?;
    let queue =
        QueueHead { stored: session.queue.stored.saturating_sub(1), ..session.queue.changed() };
    Ok(Decision {
        changes: vec![
            Change::JoinAttachments { from: source.id, to: target.id },
            Change::DeleteEntry(source.id),
            Change::RewriteEntry(Box::new(joined)),
            Change::SetQueue(session.key, queue),
        ],
        events: session.queue_resized().to_vec(),
        reply: target.id,
    })
}

/// What a reorder came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// How many entries the order names.
    pub entries: u64,
    /// The queue's revision now.
    pub revision: QueueRevision,
}

/// Puts the visible entries into another order. They share out the places that they have, so a
/// reserved entry keeps its own.
pub fn reorder(
    session: &Session,
    visible: &[(EntryId, Position)],
    ordered: &[EntryId],
) -> Result<Decision<Reordered>, QueueChanged> {
    let changed = QueueChanged { revision: session.queue.revision };
    let mut unplaced: HashMap<EntryId, Position> = visible.iter().copied().collect();
    if ordered.len() != visible.len() {
        return Err(changed);
    }
    let mut moves = Vec::new();
    for (id, (_, place)) in ordered.iter().zip(visible) {
        // An id that is there twice is not there the second time.
        if unplaced.remove(id).ok_or(changed)? != *place {
            moves.push((*id, *place));
        }
    }
    let entries = ordered.len() as u64;
    if moves.is_empty() {
        return Ok(Decision::unchanged(Reordered { entries, revision: session.queue.revision }));
    }
    let queue = session.queue.changed();
    Ok(Decision {
        changes: vec![
            Change::MoveEntries(session.key, moves),
            Change::SetQueue(session.key, queue),
        ],
        events: vec![(session.id, Event::QueueChanged)],
        reply: Reordered { entries, revision: queue.revision },
    })
}

/// Switches auto-run; the same position again changes nothing, not even the reason.
pub fn set_auto_run(session: &Session, enabled: bool) -> Option<QueueHead> {
    let auto_run = match (enabled, session.queue.auto_run) {
        (true, AutoRun::Off(_)) => AutoRun::On,
        (false, AutoRun::On) => AutoRun::Off(AutoRunReason::User),
        (true, AutoRun::On) | (false, AutoRun::Off(_)) => return None,
    };
    Some(QueueHead { auto_run, ..session.queue.changed() })
}

/// Turns ON to OFF with a reason; OFF keeps the reason it has.
pub(super) fn off(queue: QueueHead, reason: AutoRunReason) -> QueueHead {
    match queue.auto_run {
        AutoRun::On => QueueHead { auto_run: AutoRun::Off(reason), ..queue },
        AutoRun::Off(_) => queue,
    }
}
