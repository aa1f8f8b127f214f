//! Saving an edit under a lease, exactly once per operation.

use std::sync::Arc;

use usher_shared::counter::TargetRevision;
use usher_shared::id::{LeaseId, OperationId};
use usher_shared::limits::{EDIT_OPERATIONS_MAX, METADATA_BYTES_MAX};
use usher_shared::prompt::PromptText;
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;

use super::attachment::{self, Offered, TakeRefusal, Taken, Upload};
use super::change::{Change, Decision};
use super::enclosed::{Enclosed, Reference};
use super::entry::Entry;
use super::event::Event;
use super::lease::{Lease, Leases, LinkId, NotHeld, Saved};
use super::merge::{Bound, Overflow};
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
    /// Its attachments from now on; None: as they are.
    pub attachments: Option<Vec<Offered>>,
    /// What it points at from now on; None: as it is.
    pub references: Option<Vec<Reference>>,
}

/// What is known of the operations of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// The one of this name: what it set, and the revision that it made.
    pub same: Option<(Fingerprint, TargetRevision)>,
    /// How many there are.
    pub count: u64,
}

/// What is there of what an edit names.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The uploads.
    pub uploads: &'a [Upload],
    /// The references.
    pub references: Pointing,
}

/// Where references point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointing {
    /// At what is there for the caller.
    There,
    /// At something missing, foreign, or outside the task's directory.
    Nowhere,
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
    /// It does not get its attachments.
    #[error(transparent)]
    NotTaken(#[from] TakeRefusal),
    /// More beside the text than an entry may have.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// What it points at is not there for this caller.
    #[error("a reference names nothing that is there for this caller")]
    ReferenceInvalid,
}

/// Replaces what an entry says. The same operation again is answered and changes nothing, whatever
/// revision it expects.
pub fn save(
    session: &Session,
    entry: &Entry,
    leases: &Leases,
    edit: &Edit,
    operations: Operations,
    found: Found<'_>,
    now: UnixMillis,
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
    if operations.count >= EDIT_OPERATIONS_MAX as u64 {
        return Err(EditRefusal::TooMany);
    }
    if found.references == Pointing::Nowhere {
        return Err(EditRefusal::ReferenceInvalid);
    }
    let before = &entry.enclosed;
    let taken = match &edit.attachments {
        Some(offered) => {
            attachment::take(session, offered, found.uploads, &before.attachments, now)?
        }
        None => Taken::keeping(&before.attachments),
    };
    let attachments = taken.attachments.clone();
    let references = edit.references.clone().unwrap_or_else(|| before.references.clone());
    let edited = Entry {
        content: Arc::from(edit.content.as_str()),
        enclosed: Enclosed { attachments, references, ..before.clone() },
        revision: entry.revision.next(),
        ..entry.clone()
    };
    if edit.content.is_blank() && !edited.enclosed.speaks() {
        return Err(EditRefusal::Blank);
    }
    if edited.metadata_bytes() > METADATA_BYTES_MAX {
        return Err(Overflow(Bound::Metadata).into());
    }
    let revision = edited.revision;
    let mut changes = taken.by(session.key, entry.id);
    // What it carried goes only together with what replaces it.
    changes.extend(attachment::released(&before.attachments, &edited.enclosed.attachments));
    changes.extend([
        Change::RewriteEntry(Box::new(edited)),
        Change::PutLease(Box::new(Lease { saved: Saved::Yes, ..lease })),
        Change::RecordEdit {
            entry: entry.id,
            operation: edit.operation.clone(),
            fingerprint: edit.fingerprint,
            revision,
        },
        Change::SetQueue(session.key, session.queue.changed()),
    ]);
    Ok(Decision { changes, events: vec![(session.id, Event::QueueChanged)], reply: revision })
}
