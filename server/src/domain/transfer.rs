//! Moving what waits in one session behind what waits in another.

use usher_shared::counter::Position;
use usher_shared::id::EntryId;
use usher_shared::limits::ENTRIES_MAX;

use super::change::{Change, Decision};
use super::entry::Provenance;
use super::event::Event;
use super::session::{AutoRun, QueueHead, Session};

/// Why nothing was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferRefusal {
    /// An agent is about to get an entry of one of the two.
    #[error("an entry is reserved for a turn")]
    Busy,
    /// The destination would hold more than any queue may. A cap of the user's own choosing does
    /// not matter: the work was accepted.
    #[error("queue holds {queue_size} of {max} entries")]
    Full {
        /// Stored entries of the destination.
        queue_size: u64,
        /// The hard bound.
        max: u64,
    },
}

/// What waits in one of the two sessions.
#[derive(Clone, Debug)]
pub struct Side {
    /// The session.
    pub session: Session,
    /// How many of its entries are reserved.
    pub reserved: u64,
}

/// Moves what is visible in `from`, in order. A receipt stays with the session it was given in, and
/// so does all history; the moved entries prove no admission any more.
pub fn transfer(
    from: &Side,
    visible: Vec<(EntryId, Provenance)>,
    to: &Side,
) -> Result<Decision<u64>, TransferRefusal> {
    if from.session.key == to.session.key {
        return Ok(Decision::unchanged(0));
    }
    if from.reserved > 0 || to.reserved > 0 {
        return Err(TransferRefusal::Busy);
    }
    let moved = visible.len() as u64;
    if moved == 0 {
        return Ok(Decision::unchanged(0));
    }
    let (source, destination) = (&from.session, &to.session);
    let max = ENTRIES_MAX as u64;
    if destination.queue.stored + moved > max {
        return Err(TransferRefusal::Full { queue_size: destination.queue.stored, max });
    }
    let mut place = destination.queue.next_position.max(Position::new(1));
    let mut changes = Vec::with_capacity(visible.len() + 3);
    for (id, provenance) in visible {
        let provenance = Box::new(provenance.retired());
        changes.push(Change::TransferEntry { id, to: destination.key, place, provenance });
        place = place.next();
    }
    let left =
        QueueHead { stored: source.queue.stored.saturating_sub(moved), ..source.queue.changed() };
    let joined = QueueHead {
        stored: destination.queue.stored + moved,
        next_position: place,
        auto_run: both_on(destination.queue.auto_run, source.queue.auto_run),
        ..destination.queue.changed()
    };
    changes.push(Change::ForgetRemoved(source.key));
    changes.push(Change::SetQueue(source.key, left));
    changes.push(Change::SetQueue(destination.key, joined));
    let mut events = [source.queue_resized(), destination.queue_resized()].concat();
    if joined.auto_run == AutoRun::On && destination.is_promptable() {
        events.push((destination.id, Event::MayStart));
    }
    Ok(Decision { changes, events, reply: moved })
}

/// ON only if both are; else why the first that is OFF is.
fn both_on(destination: AutoRun, source: AutoRun) -> AutoRun {
    match destination {
        AutoRun::Off(_) => destination,
        AutoRun::On => source,
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
