//! What a decision wants written, as data. One file of the store turns it into statements.

use std::sync::Arc;

use usher_shared::counter::{Position, TargetRevision};
use usher_shared::id::{
    AttachmentId, EntryId, IncarnationId, MessageId, OperationId, PlanCommentId, SessionId, TaskId,
    TurnId, UndoId, UserId,
};
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{MessageStatus, TaskKind, TurnOutcome, TurnReason};

use super::admission::{Follows, Receipt};
use super::attachment::{Described, Inline};
use super::entry::{Entry, Provenance};
use super::event::Event;
use super::lease::Lease;
use super::message::{Message, MessageDetails};
use super::plan::{Comment, Plan};
use super::session::{IncarnationKey, OpenTurn, QueueHead, SessionKey, TaskKey};
use super::settings::SettingsPatch;
use super::users::TokenDigest;

/// A task to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its name.
    pub id: TaskId,
    /// Whose.
    pub owner: UserId,
    /// For people.
    pub title: String,
    /// What it is for.
    pub kind: TaskKind,
    /// Where its agents work.
    pub workspace_dir: Option<String>,
    /// The agent of its new sessions.
    pub agent: String,
    /// The same id again gives the same task.
    pub client_request_id: Option<String>,
    /// When.
    pub created_at: UnixMillis,
}

/// A session to be made, in its first life, with an empty queue and auto-run ON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Its name.
    pub id: SessionId,
    /// The task it belongs to.
    pub task_id: TaskId,
    /// Its first life.
    pub incarnation_id: IncarnationId,
    /// The agent it talks to.
    pub agent: String,
    /// The model its turns use.
    pub model: Option<String>,
    /// For people.
    pub title: String,
    /// The same id again gives the same session.
    pub client_request_id: Option<String>,
    /// When.
    pub created_at: UnixMillis,
}

/// One write. Keys name rows that the decision was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a task.
    InsertTask(Box<NewTask>),
    /// Adds a session to a task.
    InsertSession(Box<NewSession>),
    /// Sets the counters and the switch of a queue.
    SetQueue(SessionKey, QueueHead),
    /// Adds an entry.
    InsertEntry(SessionKey, Box<Entry>),
    /// Takes an entry for a turn.
    ReserveEntry(EntryId, TurnId),
    /// Gives the entries of a turn back to their places.
    ReleaseEntries(TurnId),
    /// Deletes the entries of a turn: their prompt is in the transcript now.
    DeleteEntries(TurnId),
    /// Replaces text, provenance, time and revision of an entry.
    RewriteEntry(Box<Entry>),
    /// Deletes an entry whose prompt is in another one now.
    DeleteEntry(EntryId),
    /// Gives entries of a session new positions, all at once.
    MoveEntries(SessionKey, Vec<(EntryId, Position)>),
    /// Replaces the admissions that an entry was made from.
    SetProvenance(EntryId, Box<Provenance>),
    /// Gives an entry to another session.
    TransferEntry {
        /// Which.
        id: EntryId,
        /// Whose it is from now on.
        to: SessionKey,
        /// Its place there.
        place: Position,
        /// What it proves there.
        provenance: Box<Provenance>,
    },
    /// Hides an entry; it can be restored for a while.
    RemoveEntry(EntryId, UndoId, UnixMillis),
    /// Shows a removed entry again, at its place.
    RestoreEntry(EntryId),
    /// Deletes the entries that were removed too long ago to be restored.
    PurgeRemoved {
        /// Removed before this.
        before: UnixMillis,
    },
    /// Deletes what was removed from a queue: it cannot be restored any more.
    ForgetRemoved(SessionKey),
    /// Deletes what waits in a queue.
    ForgetWaiting(SessionKey),
    /// Begins or changes the lease of an entry.
    PutLease(Box<Lease>),
    /// Ends the lease of an entry, with the operations that were made under it.
    EndLease(EntryId),
    /// Remembers an edit for as long as its lease lives.
    RecordEdit {
        /// Which entry.
        entry: EntryId,
        /// The operation, of the entry's lease.
        operation: OperationId,
        /// What it set.
        fingerprint: Fingerprint,
        /// The revision that it made.
        revision: TargetRevision,
    },
    /// Adds an upload of which nothing is there yet.
    InsertUpload(SessionKey, AttachmentId, Box<Described>, UnixMillis),
    /// Adds bytes to an upload, where the database keeps them.
    AppendUpload {
        /// Which upload.
        id: AttachmentId,
        /// Where they belong, bytes.
        at: u64,
        /// The bytes.
        data: Arc<[u8]>,
    },
    /// All bytes of an upload are there.
    FinishUpload(AttachmentId),
    /// Deletes an upload that nothing claimed.
    DeleteUpload(AttachmentId),
    /// Gives a finished upload to an entry.
    ClaimUpload(AttachmentId, EntryId),
    /// Adds an attachment that came with its entry.
    InsertAttachment(SessionKey, EntryId, Box<Inline>),
    /// Takes an attachment from its entry; nothing carries it any more.
    ReleaseAttachment(AttachmentId),
    /// Gives all attachments of one entry to another.
    JoinAttachments {
        /// Whose they are.
        from: EntryId,
        /// Whose they become.
        to: EntryId,
    },
    /// Gives the attachments of a turn's entries to the message that they become.
    PassAttachments(TurnId, MessageId),
    /// Deletes uploads that nothing claimed in their time, and what nothing carries any more.
    PurgeAttachments {
        /// The time.
        now: UnixMillis,
    },
    /// Adds the proof of an admission, which may go on from an earlier one.
    InsertReceipt(IncarnationKey, Box<Receipt>, Option<Follows>),
    /// Adds an open turn.
    InsertTurn(SessionKey, OpenTurn),
    /// Sets stage, stop and prompt of an open turn.
    SetTurn(OpenTurn),
    /// Ends an open turn.
    EndTurn {
        /// Which.
        turn_id: TurnId,
        /// How.
        outcome: TurnOutcome,
        /// What the outcome alone does not say.
        reason: Option<TurnReason>,
        /// When.
        ended_at: UnixMillis,
    },
    /// Adds a message; its number becomes the session's newest.
    InsertMessage(SessionKey, IncarnationKey, Box<Message>),
    /// Adds text to a streaming message, once: text that is there already stays as it is.
    AppendMessage {
        /// Which message.
        id: MessageId,
        /// Where the text belongs, bytes.
        at: u64,
        /// The text.
        text: String,
    },
    /// Replaces the text of a streaming message.
    ReplaceMessage(MessageId, String),
    /// Sets how far a message has come.
    SetMessageStatus(MessageId, MessageStatus),
    /// Sets the turn that a message belongs to (a prompt that runs again).
    SetMessageTurn(MessageId, TurnId),
    /// Sets how far every streaming message of a turn has come.
    SettleMessages(TurnId, MessageStatus),
    /// Sets what a message carries beside its text.
    SetMessageDetails(MessageId, Box<MessageDetails>),
    /// Replaces the plan of a session.
    PutPlan(SessionKey, Box<Plan>),
    /// Adds a comment on the plan of a session's life.
    InsertComment(SessionKey, IncarnationKey, Box<Comment>),
    /// Replaces version and body of a comment.
    RewriteComment(Box<Comment>),
    /// Deletes a comment.
    DeleteComment(PlanCommentId),
    /// Lets the admission of an entry take a comment along.
    ConsumeComment(PlanCommentId, EntryId),
    /// Gives the comments that what is visible in a session took along to where that goes.
    TransferComments {
        /// Where they are.
        from: SessionKey,
        /// Where their entries go.
        to: SessionKey,
    },
    /// Deletes the plan of a session and the comments that wait.
    ForgetPlan(SessionKey),
    /// Adds a user.
    AddUser(UserId, String),
    /// Gives a user a token.
    AddToken(UserId, TokenDigest, UnixMillis),
    /// Takes one token away.
    RevokeToken(TokenDigest),
    /// Takes all tokens of a user away.
    RevokeTokens(UserId),
    /// Removes a user; its name is free again.
    RemoveUser(UserId, UnixMillis),
    /// Saves what a user chooses about queues: what the patch names.
    SaveSettings(UserId, SettingsPatch),
    /// Archives a task.
    ArchiveTask(TaskKey),
    /// Brings an archived task back.
    UnarchiveTask(TaskKey),
    /// Decides that a task and its sessions are deleted: nobody sees them from here on.
    HideTask(TaskKey, UnixMillis),
    /// Deletes a task, whose sessions are deleted.
    PurgeTask(TaskKey),
    /// Sets what clients can set of a session.
    SetSession {
        /// Which.
        session: SessionKey,
        /// The model its turns use.
        model: Option<String>,
        /// The mode its turns use.
        mode: Option<String>,
        /// For people.
        title: String,
    },
    /// Begins the next life of a session.
    BeginIncarnation(SessionKey, IncarnationId),
    /// Decides that a session is deleted: nobody sees it from here on.
    HideSession(SessionKey, UnixMillis),
    /// Deletes a session with everything that it ever held.
    PurgeSession(SessionKey),
}

/// What a decision comes to.
#[derive(Debug)]
pub struct Decision<T> {
    /// What to write, in this order, in one transaction; may be empty.
    pub changes: Vec<Change>,
    /// What to tell after the commit.
    pub events: Vec<(SessionId, Event)>,
    /// What to answer after the commit.
    pub reply: T,
}

impl<T> Decision<T> {
    /// Answers and changes nothing.
    pub fn unchanged(reply: T) -> Self {
        Self { changes: Vec::new(), events: Vec::new(), reply }
    }

    /// The same with another reply.
    pub fn replying<R>(self, reply: R) -> Decision<R> {
        Decision { changes: self.changes, events: self.events, reply }
    }

    /// The same with what another decision changes and tells put before it.
    #[must_use]
    pub fn after(mut self, first: Decision<()>) -> Self {
        self.changes.splice(0..0, first.changes);
        self.events.splice(0..0, first.events);
        self
    }
}
