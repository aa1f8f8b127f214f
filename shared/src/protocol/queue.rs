//! The prompt queue: admission, operations, and its state.

use serde::{Deserialize, Deserializer, Serialize};

use super::actions;
use super::entry::{
    AttachmentParams, ContextFile, EntityReference, PlanCommentRef, QueuedMessage, StatusEntry,
};
use super::session::Identity;
use crate::counter::{EventSeq, QueueRevision};
use crate::id::{AdmissionId, EntryId, IncarnationId, SessionId, TaskId, TurnId, UndoId};
use crate::vocabulary::{AdmissionOutcome, AutoRunReason, Blocked};

/// The state of one queue. Among equal revisions the higher `event_seq` is the newer one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its task.
    pub task_id: TaskId,
    /// Its session.
    pub session_id: SessionId,
    /// The life of the session it belongs to.
    pub session_incarnation_id: IncarnationId,
    /// Grows by every durable change of the queue.
    pub queue_revision: QueueRevision,
    /// The newest event this status includes.
    pub event_seq: EventSeq,
    /// What waits, in order; reserved entries are not shown.
    pub entries: Vec<StatusEntry>,
    /// Stored entries, reserved ones included.
    pub count: u64,
    /// The cap; 0: none was set.
    pub max: u64,
    /// Whether the next turn starts by itself.
    pub auto_run: bool,
    /// Why not.
    pub auto_run_reason: Option<AutoRunReason>,
    /// Why ON does not start the head.
    pub blocked: Option<Blocked>,
    /// Whether entries may be merged by hand.
    pub merge_enabled: bool,
    /// Whether new admissions may fold into the tail.
    pub auto_merge_enabled: bool,
}

/// `message.queue.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueGetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
}

/// `message.queue.add`: asks for one admission.
///
/// `client_queue_id: null` is refused; omitting the field takes the path without a receipt. The
/// incarnation may be left out on that path only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueAddParams {
    /// The session's task.
    pub task_id: TaskId,
    /// The session.
    pub session_id: SessionId,
    /// Its current life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_incarnation_id: Option<IncarnationId>,
    /// The admission ID.
    #[serde(default, deserialize_with = "never_null", skip_serializing_if = "Option::is_none")]
    pub client_queue_id: Option<AdmissionId>,
    /// The prompt.
    pub content: String,
    /// Omitted: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Omitted: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_mode: Option<bool>,
    /// Omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentParams>>,
    /// Omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_files: Option<Vec<ContextFile>>,
    /// Omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_references: Option<Vec<EntityReference>>,
    /// Omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_comment_refs: Option<Vec<PlanCommentRef>>,
}

fn never_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AdmissionId>, D::Error> {
    AdmissionId::deserialize(deserializer).map(Some)
}

/// The proof of an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// How it was accepted.
    pub outcome: AdmissionOutcome,
    /// The entry it became or joined.
    pub accepted_queue_id: EntryId,
    /// The queue's revision as of acceptance.
    pub queue_revision: QueueRevision,
    /// Whether sending it again is answered from a receipt.
    pub replay_safe: bool,
}

/// The answer to `message.queue.add`: the entry as of acceptance, and the proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueAddReply {
    /// The entry as of acceptance.
    #[serde(flatten)]
    pub entry: QueuedMessage,
    /// The proof.
    pub admission: Admission,
}

/// `message.queue.remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRemoveParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
}

/// The answer to `message.queue.remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRemoveReply {
    /// Which entry.
    pub entry_id: EntryId,
    /// For `message.queue.restore`.
    pub undo_id: UndoId,
}

/// `message.queue.cancel`: clears the queue; the running turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueClearParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Refuse (`queue_changed`) if the queue is another one by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_queue_revision: Option<QueueRevision>,
}

/// The answer to `message.queue.cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueClearReply {
    /// Which session.
    pub session_id: SessionId,
    /// How many entries were removed.
    pub removed: u64,
    /// For `message.queue.restore`.
    pub undo_id: UndoId,
}

/// `message.queue.restore`: puts back what a remove or clear took, within ten minutes, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRestoreParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// What to undo.
    pub undo_id: UndoId,
}

/// The answer to `message.queue.restore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRestoreReply {
    /// How many entries are back at their places.
    pub restored: u64,
}

/// `message.queue.entry.get`: one entry, whole, where a status shows a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryGetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entry.
    pub entry_id: EntryId,
}

/// `message.queue.merge`: joins an entry with the one directly above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMergeParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// The lower of the two.
    pub entry_id: EntryId,
}

/// The answer to `message.queue.merge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMergeReply {
    /// The entry that both are now.
    pub entry_id: EntryId,
}

/// `message.queue.reorder`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReorderParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Every visible entry, once, in the new order.
    pub ordered_ids: Vec<EntryId>,
    /// Refuse (`queue_changed`) if the queue is another one by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_queue_revision: Option<QueueRevision>,
}

/// The answer to `message.queue.reorder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReorderReply {
    /// Which session.
    pub session_id: SessionId,
    /// How many entries the order names.
    pub reordered: u64,
    /// The queue's revision now.
    pub queue_revision: QueueRevision,
}

/// Which entries are sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendNowScope {
    /// The one that is named.
    Entry,
    /// All that are visible, as one turn.
    All,
}

/// `message.queue.send_now`: runs entries next, in the place of the turn that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendNowParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which entries.
    pub scope: SendNowScope,
    /// The entry, for [`SendNowScope::Entry`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
    /// Refuse (`turn_changed`) if another turn runs by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
    /// Refuse (`queue_changed`) if the queue is another one by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_queue_revision: Option<QueueRevision>,
    /// Whether auto-run goes ON; omitted: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// The answer to `message.queue.send_now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendNowReply {
    /// Which session.
    pub session_id: SessionId,
    /// The claim is committed: these entries run next.
    pub dispatched: bool,
    /// How many entries.
    pub sent_count: u64,
}

/// `message.queue.drain`: starts the head and switches auto-run ON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDrainParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
}

/// The answer to `message.queue.drain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDrainReply {
    /// Which session.
    pub session_id: SessionId,
    /// False: nothing waited.
    pub drained: bool,
}

/// `message.queue.auto_run.set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoRunSetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// May the server start the next entry by itself?
    pub enabled: bool,
}

/// The answer to `message.queue.auto_run.set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoRunSetReply {
    /// Which session.
    pub session_id: SessionId,
    /// What is in force now.
    pub auto_run: bool,
    /// Whether the head was started at once.
    pub dispatched: bool,
}

actions! {
    QueueGetParams => "message.queue.get" => QueueStatus;
    QueueAddParams => "message.queue.add" => QueueAddReply;
    QueueRemoveParams => "message.queue.remove" => QueueRemoveReply;
    QueueClearParams => "message.queue.cancel" => QueueClearReply;
    QueueRestoreParams => "message.queue.restore" => QueueRestoreReply;
    EntryGetParams => "message.queue.entry.get" => QueuedMessage;
    QueueMergeParams => "message.queue.merge" => QueueMergeReply;
    QueueReorderParams => "message.queue.reorder" => QueueReorderReply;
    SendNowParams => "message.queue.send_now" => SendNowReply;
    QueueDrainParams => "message.queue.drain" => QueueDrainReply;
    AutoRunSetParams => "message.queue.auto_run.set" => AutoRunSetReply;
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: &str = r#""task_id":"t","session_id":"s""#;

    #[test]
    fn a_null_admission_id_is_refused_and_an_omitted_one_is_not() {
        let read = |extra: &str| {
            serde_json::from_str::<QueueAddParams>(&format!(
                "{{{IDENTITY},\"content\":\"x\"{extra}}}"
            ))
        };
        assert_eq!(read("").unwrap().client_queue_id, None);
        assert!(read(r#","client_queue_id":null"#).is_err());
        assert!(read(r#","client_queue_id":"""#).is_err());
        assert!(read(r#","client_queue_id":7"#).is_err());
        assert!(read(r#","client_queue_id":"k1""#).unwrap().client_queue_id.is_some());
    }
}
