//! Saving an edit under a lease, exactly once per operation.

use std::sync::Arc;

use usher_shared::counter::TargetRevision;
use usher_shared::id::{LeaseId, OperationId};
use usher_shared::limits::EDIT_OPERATIONS_MAX;
use usher_shared::prompt::PromptText;
use usher_shared::rules::fingerprint::Fingerprint;

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::Event;
use super::lease::{Lease, Leases, LinkId, NotHeld, Saved};
use super::session::Session;

/// An edit whose shape and hard bounds are checked.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The lease it is made under.
    pub lease_id: LeaseId,
    /// The connection it came from.
    pub link: LinkId,
    /// Its name within the lease.
    pub operation: OperationId,
    /// Of everything it sets.
    pub fingerprint: Fingerprint,
    /// The revision that the editor saw.
    pub expected: TargetRevision,
    /// The prompt from now on.
    pub content: PromptText,
}

/// What is known of the operations of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// The one of this name: what it set, and the revision that it made.
    pub same: Option<(Fingerprint, TargetRevision)>,
    /// How many there are.
    pub count: u64,
}

/// Why an edit was not saved. Nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    /// The lease is not one of this connection, or not any more.
    #[error(transparent)]
    NotHeld(#[from] NotHeld),
    /// The operation was used for another edit.
    #[error("operation id was used with another edit")]
    OperationConflict,
    /// The entry is another one than the editor saw.
    #[error("entry is at revision {revision}")]
    RevisionConflict {
        /// The revision now.
        revision: TargetRevision,
    },
    /// More operations than a lease remembers.
    #[error("lease holds too many operations")]
    TooMany,
    /// Nothing a reader could see.
    #[error("content is blank")]
    Blank,
}

/// Replaces what an entry says. The same operation again is answered and changes nothing, whatever
/// revision it expects.
pub fn save(
    session: &Session,
    entry: &Entry,
    leases: &Leases,
    edit: &Edit,
    operations: Operations,
) -> Result<Decision<TargetRevision>, EditRefusal> {
    let lease = *leases.held(entry.id, edit.lease_id, edit.link)?;
    if let Some((fingerprint, revision)) = operations.same {
        return match fingerprint == edit.fingerprint {
            true => Ok(Decision::unchanged(revision)),
            false => Err(EditRefusal::OperationConflict),
        };
    }
    if edit.expected != entry.revision {
        return Err(EditRefusal::RevisionConflict { revision: entry.revision });
    }
    if edit.content.is_blank() && !entry.enclosed.speaks() {
        return Err(EditRefusal::Blank);
    }
    if operations.count >= EDIT_OPERATIONS_MAX as u64 {
        return Err(EditRefusal::TooMany);
    }
    let edited = Entry {
        content: Arc::from(edit.content.as_str()),
        revision: entry.revision.next(),
        ..entry.clone()
    };
    let revision = edited.revision;
    Ok(Decision {
        changes: vec![
            Change::RewriteEntry(Box::new(edited)),
            Change::PutLease(Box::new(Lease { saved: Saved::Yes, ..lease })),
            Change::RecordEdit {
                entry: entry.id,
                operation: edit.operation.clone(),
                fingerprint: edit.fingerprint,
                revision,
            },
            Change::SetQueue(session.key, session.queue.changed()),
        ],
        events: vec![(session.id, Event::QueueChanged)],
        reply: revision,
    })
}
