//! Editing what waits, under a lease.

use serde::{Deserialize, Serialize};

use super::actions;
use super::entry::{AttachmentParams, EntityReference, QueuedMessage};
use super::session::Identity;
use crate::counter::{LeaseGeneration, TargetRevision};
use crate::id::{EntryId, LeaseId, OperationId, SessionId, TaskId};
use crate::time::UnixMillis;
use crate::vocabulary::EditLost;

/// `message.queue.edit.begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditBeginParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
}

/// What a lease is, as its holder is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditLease {
    /// Which session.
    pub session_id: SessionId,
    /// Which entry.
    pub entry_id: EntryId,
    /// Names the lease in what follows.
    pub lease_id: LeaseId,
    /// The revision of the entry.
    pub target_revision: TargetRevision,
    /// Grows by every begin and renewal.
    pub lease_generation: LeaseGeneration,
    /// When it ends unless it is renewed before.
    pub expires_at: UnixMillis,
    /// How long it lasts from here unless it is renewed, milliseconds: less than usual when nobody may
    /// hold it for longer.
    pub ttl_ms: u64,
}

/// The answer to `message.queue.edit.begin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EditBeginReply {
    /// The lease.
    #[serde(flatten)]
    pub lease: EditLease,
    /// The entry as it is now, whole.
    pub entry: QueuedMessage,
}

/// `message.queue.edit.renew`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditRenewParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
    /// The lease.
    pub lease_id: LeaseId,
}

/// `message.queue.edit.end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditEndParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
    /// The lease.
    pub lease_id: LeaseId,
    /// After a save: whether the head may start at once, if auto-run is ON. Omitted: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_if_auto_run: Option<bool>,
}

/// The answer to `message.queue.edit.end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditEndReply {
    /// Which session.
    pub session_id: SessionId,
    /// Which entry.
    pub entry_id: EntryId,
}

/// `message.queue.update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueUpdateParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
    /// The lease it is edited under.
    pub lease_id: LeaseId,
    /// The same operation again is answered, not done again.
    pub operation_id: OperationId,
    /// The revision that the editor saw.
    pub expected_target_revision: TargetRevision,
    /// The prompt from now on.
    pub content: String,
    /// The attachments from now on. Omitted: as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentParams>>,
    /// What it points at from now on. Omitted: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_references: Option<Vec<EntityReference>>,
}

/// The answer to `message.queue.update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueUpdateReply {
    /// Which entry.
    pub entry_id: EntryId,
    /// Which operation.
    pub operation_id: OperationId,
    /// The revision that the operation made.
    pub target_revision: TargetRevision,
}

/// `message.queue.edit.lost`, to the connection that held the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditLostNotice {
    /// The session's task.
    pub task_id: TaskId,
    /// Which session.
    pub session_id: SessionId,
    /// Which entry.
    pub entry_id: EntryId,
    /// The lease that is over.
    pub lease_id: LeaseId,
    /// Why.
    pub reason: EditLost,
}

actions! {
    EditBeginParams => "message.queue.edit.begin" => EditBeginReply;
    EditRenewParams => "message.queue.edit.renew" => EditLease;
    EditEndParams => "message.queue.edit.end" => EditEndReply;
    QueueUpdateParams => "message.queue.update" => QueueUpdateReply;
}
