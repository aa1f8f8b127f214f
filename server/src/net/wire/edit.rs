//! Edits and their leases.

use usher_shared::error::WireError;
use usher_shared::prompt::PromptText;
use usher_shared::protocol::edit::{EditLease, QueueUpdateParams};
use usher_shared::protocol::entry::{Editing, QueuedMessage};
use usher_shared::rules::fingerprint::edit_fingerprint;
use usher_shared::time::UnixMillis;

use super::queue::{not_encoded, prompt_error, queued};
use super::{Viewer, enclosed, user};
use crate::domain::edit::Edit;
use crate::domain::entry::Entry;
use crate::domain::lease::{Granted, Lease, Leases, LinkId};
use crate::domain::session::Target;

/// Checks shape and hard bounds of an edit.
pub fn edit(params: QueueUpdateParams, link: LinkId) -> Result<Edit, WireError> {
    let fingerprint = edit_fingerprint(&params).map_err(not_encoded)?;
    Ok(Edit {
        lease_id: params.lease_id,
        link,
        operation: params.operation_id,
        fingerprint,
        expected: params.expected_target_revision,
        content: PromptText::parse(params.content).map_err(prompt_error)?,
        attachments: params.attachments.map(enclosed::offered).transpose()?,
        references: params.entity_references.map(enclosed::pointed_at).transpose()?,
    })
}

/// A lease as its holder is told.
pub fn edit_lease(target: &Target, granted: &Granted, now: UnixMillis) -> EditLease {
    EditLease {
        session_id: target.session_id,
        entry_id: granted.lease.entry_id,
        lease_id: granted.lease.id,
        target_revision: granted.revision,
        lease_generation: granted.lease.generation,
        expires_at: later(now, granted.lasts),
        ttl_ms: granted.lasts.max(0).unsigned_abs(),
    }
}

/// An entry as whoever has begun to edit it is told.
pub fn edited(
    target: &Target,
    entry: Entry,
    granted: &Granted,
    viewer: &Viewer<'_>,
) -> QueuedMessage {
    let editing = editing(&granted.lease, granted.lasts, viewer);
    QueuedMessage { editing: Some(editing), ..queued(target, entry, false) }
}

/// An entry with who edits it.
pub fn shown(target: &Target, entry: Entry, leases: &Leases, viewer: &Viewer<'_>) -> QueuedMessage {
    let live = leases.live(entry.id);
    let editing = live.map(|lease| editing(lease, leases.lasts(lease), viewer));
    QueuedMessage { editing, ..queued(target, entry, false) }
}

/// Only the owner of a session sees it, and only the owner edits.
fn editing(lease: &Lease, lasts: i64, viewer: &Viewer<'_>) -> Editing {
    Editing {
        by: user(viewer.caller),
        is_you: lease.link == Some(viewer.link),
        expires_at: later(viewer.now, lasts),
    }
}

/// Returns the time on the wall clock after so many milliseconds.
pub(super) fn later(now: UnixMillis, millis: i64) -> UnixMillis {
    UnixMillis::new(now.get().saturating_add(millis))
}
