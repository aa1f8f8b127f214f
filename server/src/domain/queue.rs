//! Operations on waiting entries: remove, clear, and the auto-run switch.

use usher_shared::counter::QueueRevision;
use usher_shared::id::{EntryId, UndoId};
use usher_shared::limits::ENTRIES_MAX;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::AutoRunReason;

use super::change::{Change, Decision};
use super::event::Event;
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
        events: vec![(session.id, Event::QueueChanged)],
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
    Decision { changes, events: vec![(session.id, Event::QueueChanged)], reply }
}

/// There is nothing left to put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is left to restore")]
pub struct UndoExpired;

/// Puts removed entries back at their places. Accepted work is not refused for the cap a user
/// chose; only the hard bound holds.
pub fn restore(session: &Session, removed: &[EntryId]) -> Result<Decision<u64>, UndoExpired> {
    let restored = removed.len() as u64;
    let stored = session.queue.stored + restored;
    if restored == 0 || stored > ENTRIES_MAX as u64 {
        return Err(UndoExpired);
    }
    let queue = QueueHead { stored, ..session.queue.changed() };
    let mut changes: Vec<Change> = removed.iter().map(|id| Change::RestoreEntry(*id)).collect();
    changes.push(Change::SetQueue(session.key, queue));
    let mut events = vec![(session.id, Event::QueueChanged)];
    if session.is_promptable() && queue.auto_run == AutoRun::On {
        events.push((session.id, Event::MayStart));
    }
    Ok(Decision { changes, events, reply: restored })
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
