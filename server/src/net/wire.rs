//! The protocol's words to the domain's and back: the only file that sees both.

use serde::de::DeserializeOwned;
use usher_shared::counter::EventSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::TurnId;
use usher_shared::limits::{
    MESSAGE_CONTENT_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, STATUS_BYTES_MAX,
};
use usher_shared::prompt::{PromptText, PromptTextError, cut_at_char};
use usher_shared::protocol::Request;
use usher_shared::protocol::hello::User;
use usher_shared::protocol::queue::{
    Admission, EntryMetadata, QueueAddParams, QueueAddReply, QueueStatus, QueuedBy, QueuedMessage,
    SendNowParams, SendNowScope, StatusEntry,
};
use usher_shared::protocol::session::{self as wire_session, Identity, Permission};
use usher_shared::protocol::task::{self as wire_task, TaskCreateParams};
use usher_shared::protocol::transcript::{
    self as wire_transcript, MessageMetadata, TranscriptPageReply,
};
use usher_shared::rules::fingerprint::fingerprint;
use usher_shared::vocabulary::{SenderKind, SessionState};

use super::hub::LiveText;
use crate::dispatch::Question;
use crate::domain::admission::{AdmitRefusal, Admitted, Identified, Submission};
use crate::domain::entry::{Entry, Sender};
use crate::domain::merge::Overflow;
use crate::domain::message::Message;
use crate::domain::queue::{MergeRefusal, RestoreRefusal};
use crate::domain::send_now::{Resume, Scope, SendNow, SendNowRefusal};
use crate::domain::session::{AutoRun, Caller, Session, Target, Task};
use crate::domain::transfer::TransferRefusal;
use crate::service::{
    AddError, FindError, MakeError, QueueError, QueueView, SessionError, SettingsError,
    TaskRequest, TurnError,
};
use crate::store::{Page, StoreError, TransactError};

/// What ends a request without a reply: the link must close with 1011.
pub(super) struct CommitUnknown;

/// A refusal for the client, or nothing to say at all.
pub(super) type Refused = Result<WireError, CommitUnknown>;

/// Reads the payload of a request.
///
/// # Errors
/// `validation` with the field that is missing or wrong.
pub(super) fn parse<R: Request + DeserializeOwned>(payload: &str) -> Result<R, WireError> {
    serde_json::from_str(payload).map_err(|_| field_error::<R>(payload))
}

/// Finds the field that is wrong: read again, with a path.
fn field_error<R: DeserializeOwned>(payload: &str) -> WireError {
    let mut reader = serde_json::Deserializer::from_str(payload);
    let Err(error) = serde_path_to_error::deserialize::<_, R>(&mut reader) else {
        return WireError::validation("", "trailing characters");
    };
    let path = error.path().to_string();
    let text = error.inner().to_string();
    // serde names a missing field only in its text.
    let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let field = match (path.as_str(), missing) {
        ("." | "", Some(missing)) => missing.to_owned(),
        ("." | "", None) => identity_field(payload).unwrap_or_default(),
        (path, Some(missing)) => format!("{path}.{missing}"),
        (path, None) => path.to_owned(),
    };
    WireError::validation(&field, text)
}

/// Behind a flattened struct serde loses the path; the only one that requests have is the identity.
fn identity_field(payload: &str) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(payload);
    let error = serde_path_to_error::deserialize::<_, Identity>(&mut reader).err()?;
    Some(error.path().to_string()).filter(|path| path != ".")
}

pub(super) fn target(identity: &Identity) -> Target {
    Target {
        task_id: identity.task_id,
        session_id: identity.session_id,
        incarnation_id: Some(identity.session_incarnation_id),
    }
}

fn sender(caller: &Caller) -> QueuedBy {
    QueuedBy { kind: SenderKind::User, id: caller.id.to_string(), name: caller.name.clone() }
}

/// Checks shape and hard bounds of an admission.
pub(super) fn submission(
    params: QueueAddParams,
    caller: &Caller,
) -> Result<(Target, Submission), WireError> {
    let identified = params.client_queue_id.is_some();
    if identified && params.session_incarnation_id.is_none() {
        return Err(WireError::validation(
            "session_incarnation_id",
            "an identified admission names its incarnation",
        ));
    }
    bounded("model", params.model.as_deref(), NAME_BYTES_MAX)?;
    for (field, count) in [
        ("attachments", params.attachments.as_ref().map_or(0, Vec::len)),
        ("context_files", params.context_files.as_ref().map_or(0, Vec::len)),
        ("entity_references", params.entity_references.as_ref().map_or(0, Vec::len)),
        ("plan_comment_refs", params.plan_comment_refs.as_ref().map_or(0, Vec::len)),
    ] {
        if count > 0 {
            return Err(WireError::validation(field, "this server takes none").with("limit", 0));
        }
    }
    let queued_by = sender(caller);
    let fingerprint = fingerprint(&params, &queued_by)
        .map_err(|error| WireError::validation("attachments", error.to_string()))?;
    let content = PromptText::parse(params.content).map_err(|error| {
        let refused = WireError::validation("content", error.to_string());
        match error {
            PromptTextError::TooLong { limit } => refused.with("limit", limit),
            PromptTextError::Nul => refused,
        }
    })?;
    let target = Target {
        task_id: params.task_id,
        session_id: params.session_id,
        incarnation_id: params.session_incarnation_id,
    };
    let submission = Submission {
        identified: params.client_queue_id.map(|id| Identified { id, fingerprint }),
        content,
        model: params.model,
        plan_mode: params.plan_mode.unwrap_or(false),
        queued_by: Sender {
            kind: SenderKind::User,
            id: queued_by.id,
            name: queued_by.name,
            task: None,
        },
    };
    Ok((target, submission))
}

/// Checks an optional text of a request: bound and no NUL.
pub(super) fn bounded(field: &str, text: Option<&str>, max: usize) -> Result<(), WireError> {
    match text {
        Some(text) if text.len() > max => {
            Err(WireError::validation(field, "too long").with("limit", max))
        }
        Some(text) if text.contains('\0') => Err(WireError::validation(field, "holds a NUL")),
        _ => Ok(()),
    }
}

/// Checks what shall be sent now.
pub(super) fn send_now(params: &SendNowParams) -> Result<SendNow, WireError> {
    let scope = match (params.scope, params.entry_id) {
        (SendNowScope::Entry, Some(id)) => Scope::Entry(id),
        (SendNowScope::Entry, None) => {
            return Err(WireError::validation("entry_id", "which entry?"));
        }
        (SendNowScope::All, None) => Scope::All,
        (SendNowScope::All, Some(_)) => {
            return Err(WireError::validation("entry_id", "all or one entry?"));
        }
    };
    Ok(SendNow {
        scope,
        expected_turn: params.expected_turn_id,
        expected_revision: params.expected_queue_revision,
        resume: if params.resume.unwrap_or(true) { Resume::Yes } else { Resume::No },
    })
}

/// Checks what a task is asked for.
pub(super) fn task_request(params: TaskCreateParams) -> Result<TaskRequest, WireError> {
    bounded("title", Some(&params.title), NAME_BYTES_MAX)?;
    bounded("agent", params.agent.as_deref(), NAME_BYTES_MAX)?;
    bounded("client_request_id", params.client_request_id.as_deref(), NAME_BYTES_MAX)?;
    bounded("workspace_dir", params.workspace_dir.as_deref(), PATH_BYTES_MAX)?;
    if let Some(dir) = &params.workspace_dir {
        let path = std::path::Path::new(dir);
        if !path.is_absolute() || !path.is_dir() {
            let why = "not an absolute path of a directory on the server";
            return Err(WireError::validation("workspace_dir", why));
        }
    }
    Ok(TaskRequest {
        title: params.title,
        kind: params.kind.unwrap_or(usher_shared::vocabulary::TaskKind::Task),
        workspace_dir: params.workspace_dir,
        agent: params.agent,
        client_request_id: params.client_request_id,
    })
}

pub(super) fn user(caller: &Caller) -> User {
    User { id: caller.id, name: caller.name.clone() }
}

pub(super) fn task(task: Task) -> wire_task::Task {
    wire_task::Task {
        id: task.id,
        title: task.title,
        kind: task.kind,
        workspace_dir: task.workspace_dir,
        agent: task.agent,
        owner: user(&task.owner),
        archived: task.archived,
        queued_prompt_count: task.queued_count,
        created_at: task.created_at,
    }
}

/// `question` is the session's open one.
pub(super) fn session(session: &Session, question: Option<Question>) -> wire_session::Session {
    let state = match (session.state(), &question) {
        (SessionState::Running, Some(_)) => SessionState::AwaitingPermission,
        (state, _) => state,
    };
    wire_session::Session {
        id: session.id,
        task_id: session.task_id,
        incarnation_id: session.incarnation_id,
        agent: session.agent.clone(),
        model: session.model.clone(),
        mode: session.mode.clone(),
        state,
        turn: session
            .turn
            .map(|turn| wire_session::OpenTurn { id: turn.id, started_at: turn.started_at }),
        permission: question.map(permission),
        title: session.title.clone(),
        created_at: session.created_at,
        last_seq: session.last_seq,
    }
}

pub(super) fn permission(question: Question) -> Permission {
    Permission {
        request_id: question.id,
        turn_id: question.turn_id,
        title: question.title,
        tool: question.tool,
        options: question
            .options
            .into_iter()
            .map(|option| wire_session::PermissionOption {
                option_id: option.id,
                name: option.name,
                kind: option.kind,
            })
            .collect(),
    }
}

pub(super) fn queued(session: &Target, entry: Entry, content_truncated: bool) -> QueuedMessage {
    QueuedMessage {
        id: entry.id,
        task_id: session.task_id,
        session_id: session.session_id,
        position: entry.position,
        content: entry.content.to_string(),
        model: entry.model,
        plan_mode: entry.plan_mode,
        attachments: Vec::new(),
        metadata: EntryMetadata {
            queue_admission_ids: entry.provenance.admission_ids,
            queue_admission_ids_past: entry.provenance.past,
            sender_task_id: entry.queued_by.task,
            ..EntryMetadata::default()
        },
        queued_at: entry.queued_at,
        queued_by: QueuedBy {
            kind: entry.queued_by.kind,
            id: entry.queued_by.id,
            name: entry.queued_by.name,
        },
        target_revision: entry.revision,
        editing: None,
        content_truncated,
    }
}

pub(super) fn admitted(target: &Target, admitted: Admitted) -> QueueAddReply {
    let admission = Admission {
        outcome: admitted.outcome,
        accepted_queue_id: admitted.entry.id,
        queue_revision: admitted.queue_revision,
        replay_safe: admitted.replay_safe,
    };
    QueueAddReply { entry: queued(target, admitted.entry, admitted.content_truncated), admission }
}

pub(super) fn status(view: QueueView, event_seq: EventSeq) -> QueueStatus {
    let QueueView { session, entries, policy } = view;
    let target = Target {
        task_id: session.task_id,
        session_id: session.id,
        incarnation_id: Some(session.incarnation_id),
    };
    let mut bytes = 0;
    let entries = entries
        .into_iter()
        .map(|entry| {
            bytes += json_bytes(&entry.content) + OVERHEAD_BYTES;
            if bytes > STATUS_BYTES_MAX {
                StatusEntry::Stub { id: entry.id, position: entry.position, truncated: true }
            } else {
                StatusEntry::Whole(Box::new(queued(&target, entry, false)))
            }
        })
        .collect();
    QueueStatus {
        task_id: session.task_id,
        session_id: session.id,
        session_incarnation_id: session.incarnation_id,
        queue_revision: session.queue.revision,
        event_seq,
        entries,
        count: session.queue.stored,
        max: u64::from(policy.max_per_session),
        auto_run: session.queue.auto_run == AutoRun::On,
        auto_run_reason: match session.queue.auto_run {
            AutoRun::On => None,
            AutoRun::Off(reason) => Some(reason),
        },
        blocked: None,
        merge_enabled: policy.merge.is_on(),
        auto_merge_enabled: policy.auto_merge.is_on(),
    }
}

/// What an entry or a message has on the wire beside its text, about.
const OVERHEAD_BYTES: usize = 1_024;
/// Messages of one answer, bytes on the wire: with a status beside them they fit into a frame.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns the size of a text as JSON, without its quotes.
fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// A page as far as it fits into an answer: the messages next to where it was asked for.
pub(super) fn page(page: &Page, from: PageEnd, live: Option<&LiveText>) -> TranscriptPageReply {
    let mut bytes = 0;
    let mut fits = |message: &&Message| {
        bytes += json_bytes(&message.content) + OVERHEAD_BYTES;
        bytes <= PAGE_BYTES_MAX
    };
    let fitting = match from {
        PageEnd::Oldest => page.messages.iter().take_while(&mut fits).count(),
        PageEnd::Newest => page.messages.iter().rev().take_while(&mut fits).count(),
    };
    let messages = match from {
        PageEnd::Oldest => &page.messages[..fitting],
        PageEnd::Newest => &page.messages[page.messages.len() - fitting..],
    };
    TranscriptPageReply {
        messages: messages.iter().map(|message| message_live(message, live)).collect(),
        has_more: page.has_more || fitting < page.messages.len(),
    }
}

/// From which end a page is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageEnd {
    Oldest,
    Newest,
}

pub(super) fn message(message: &Message) -> wire_transcript::Message {
    let content = cut_at_char(&message.content, MESSAGE_CONTENT_BYTES_MAX);
    wire_transcript::Message {
        id: message.id,
        session_id: message.session_id,
        session_incarnation_id: message.incarnation_id,
        seq: message.seq,
        turn_id: message.turn_id,
        role: message.role,
        content_truncated: (content.len() as u64) < message.content_bytes,
        content: content.to_owned(),
        status: message.status,
        metadata: MessageMetadata {
            queue_admission_ids: message.details.provenance.admission_ids.clone(),
            queue_admission_ids_past: message.details.provenance.past.clone(),
            attachments: Vec::new(),
            notice: message.details.notice,
            resolution: message.details.resolution,
            tool: message.details.tool.clone(),
            sender: message.details.sender.clone(),
        },
        created_at: message.created_at,
    }
}

/// A message with what was shown of it ahead of the database.
fn message_live(stored: &Message, live: Option<&LiveText>) -> wire_transcript::Message {
    let mut message = message(stored);
    if let Some(live) = live
        && live.message_id == message.id
        && live.bytes > stored.content_bytes
    {
        message.content_truncated = (live.text.len() as u64) < live.bytes;
        message.content.clone_from(&live.text);
    }
    message
}

/// How long a client waits before it tries a failed store again.
const STORE_RETRY_MS: u64 = 1_000;

fn store_failed(error: &StoreError) -> WireError {
    WireError::new(ErrorCode::QueueAdmissionUnavailable, error.to_string())
        .with("retry_after_ms", STORE_RETRY_MS)
}

fn store_broken(error: &StoreError) -> WireError {
    match error {
        StoreError::Full
        | StoreError::ReadOnly
        | StoreError::Io(_)
        | StoreError::Away(_)
        | StoreError::Conflict
        | StoreError::Closed => store_failed(error),
        StoreError::Damaged(_)
        | StoreError::Database(_)
        | StoreError::Locked(_)
        | StoreError::Newer { .. } => WireError::new(ErrorCode::Internal, error.to_string()),
    }
}

fn unavailable() -> WireError {
    WireError::new(ErrorCode::QueueSessionUnavailable, "no such session for this caller")
}

/// Sorts a failed transaction: refusals by `refused`, the rest alike for all actions.
pub(super) fn transact_error<E>(
    error: TransactError<E>,
    refused: impl FnOnce(E) -> WireError,
) -> Refused {
    match error {
        TransactError::Refused(error) => Ok(refused(error)),
        TransactError::NotStored(error) => Ok(store_failed(&error)),
        TransactError::Unknown(_) => Err(CommitUnknown),
    }
}

pub(super) fn add_error(error: AddError) -> WireError {
    match error {
        AddError::Unavailable(_) => unavailable(),
        AddError::Store(error) => store_failed(&error),
        AddError::Refused(refusal) => {
            let text = refusal.to_string();
            match refusal {
                AdmitRefusal::Conflict => WireError::new(ErrorCode::QueueIdConflict, text),
                AdmitRefusal::QueueFull { queue_size, max } => queue_full(queue_size, max),
                AdmitRefusal::Blank => WireError::validation("content", text),
            }
        }
    }
}

fn queue_full(queue_size: u64, max: u64) -> WireError {
    WireError::new(ErrorCode::QueueFull, "the queue is full")
        .with("queue_size", queue_size)
        .with("max", max)
}

pub(super) fn queue_error(error: QueueError) -> WireError {
    let text = error.to_string();
    match error {
        QueueError::Unavailable(_) => unavailable(),
        QueueError::EntryNotFound => WireError::new(ErrorCode::EntryNotFound, text),
        QueueError::Changed { revision } => {
            WireError::new(ErrorCode::QueueChanged, text).with("queue_revision", revision.get())
        }
        QueueError::MergeDisabled => WireError::new(ErrorCode::MergeDisabled, text),
        QueueError::NotMerged(refusal) => match refusal {
            MergeRefusal::NoTarget => WireError::new(ErrorCode::NoMergeTarget, text),
            MergeRefusal::Overflow(Overflow(bound)) => {
                WireError::new(ErrorCode::MergeOverflow, text).with("limit", bound.name())
            }
        },
        QueueError::NotSent(refusal) => match refusal {
            SendNowRefusal::TurnChanged { open } => turn_changed(open),
            SendNowRefusal::QueueChanged(changed) => queue_error(changed.into()),
            SendNowRefusal::EntryNotFound => WireError::new(ErrorCode::EntryNotFound, text),
            SendNowRefusal::QueueEmpty => WireError::new(ErrorCode::QueueEmpty, text),
            SendNowRefusal::Overflow(Overflow(bound)) => {
                WireError::new(ErrorCode::SendNowOverflow, text).with("limit", bound.name())
            }
            SendNowRefusal::Conflict => WireError::new(ErrorCode::SendNowConflict, text),
        },
        QueueError::NotRestored(refusal) => match refusal {
            RestoreRefusal::Expired => WireError::new(ErrorCode::UndoExpired, text),
            RestoreRefusal::QueueFull { queue_size, max } => queue_full(queue_size, max),
        },
        QueueError::Busy => WireError::new(ErrorCode::SessionBusy, text),
        QueueError::NotPromptable => WireError::new(ErrorCode::SessionNotPromptable, text),
        QueueError::Store(error) => store_broken(&error),
    }
}

fn turn_changed(open: Option<TurnId>) -> WireError {
    WireError::new(ErrorCode::TurnChanged, "another turn is open")
        .with("turn_id", open.map(|turn| turn.to_string()))
}

pub(super) fn turn_error(error: TurnError) -> WireError {
    let text = error.to_string();
    match error {
        TurnError::Unavailable(_) => unavailable(),
        TurnError::Changed { open } => turn_changed(open),
        TurnError::NotPromptable => WireError::new(ErrorCode::SessionNotPromptable, text),
        TurnError::Busy => WireError::new(ErrorCode::SessionBusy, text),
        TurnError::Conflict => WireError::new(ErrorCode::SendNowConflict, text),
        TurnError::PermissionClosed => WireError::new(ErrorCode::PermissionClosed, text),
        TurnError::UnknownOption => WireError::validation("option_id", text),
        TurnError::Store(error) => store_broken(&error),
    }
}

pub(super) fn session_error(error: SessionError) -> WireError {
    let text = error.to_string();
    match error {
        SessionError::Unavailable(_) => unavailable(),
        SessionError::Busy(_) | SessionError::Transfer(TransferRefusal::Busy) => {
            WireError::new(ErrorCode::SessionBusy, text)
        }
        SessionError::Transfer(TransferRefusal::Full { queue_size, max }) => {
            WireError::new(ErrorCode::QueueFull, text)
                .with("queue_size", queue_size)
                .with("max", max)
        }
        SessionError::Store(error) => store_broken(&error),
    }
}

pub(super) fn settings_error(error: SettingsError) -> WireError {
    let text = error.to_string();
    match error {
        SettingsError::Locked(_) => WireError::new(ErrorCode::Forbidden, text),
        SettingsError::NoUser => WireError::new(ErrorCode::Unauthorized, text),
        SettingsError::Store(error) => store_broken(&error),
    }
}

pub(super) fn find_error(error: FindError) -> WireError {
    match error {
        FindError::NotFound => WireError::new(ErrorCode::NotFound, "not found"),
        FindError::Store(error) => store_broken(&error),
    }
}

pub(super) fn make_error(error: MakeError) -> WireError {
    match error {
        MakeError::NotFound => WireError::new(ErrorCode::NotFound, "not found"),
        MakeError::NoUser => WireError::new(ErrorCode::Unauthorized, "no such user any more"),
        MakeError::UnknownAgent => WireError::validation("agent", "no such agent"),
        MakeError::Store(error) => store_broken(&error),
    }
}

#[cfg(test)]
mod tests {
    use usher_shared::protocol::queue::QueueRemoveParams;
    use usher_shared::protocol::turn::TurnCancelParams;

    use super::*;

    fn field<R: Request>(payload: &str) -> String {
        let error = parse::<R>(payload).map(drop).unwrap_err();
        assert_eq!(error.code, ErrorCode::Validation);
        error.details["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn texts_are_measured_as_they_are_sent() {
        for text in ["", "plain é", "\"\\\n\r\t\u{8}\u{c}", "\u{1}\u{1f}\u{7f}\u{85}\u{2028}"] {
            let sent = serde_json::to_string(text).unwrap();
            assert_eq!(json_bytes(text), sent.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named_wherever_it_is() {
        let identity = r#""task_id":"t","session_id":"s","session_incarnation_id":"i""#;
        let remove = |rest: &str| field::<QueueRemoveParams>(&format!("{{{rest}}}"));
        assert_eq!(remove(identity), "entry_id");
        assert_eq!(remove(&format!("{identity},\"entry_id\":7")), "entry_id");
        assert_eq!(remove(r#""entry_id":"e","session_id":"s""#), "task_id");
        let wrong = r#""task_id":5,"session_id":"s","session_incarnation_id":"i","entry_id":"e""#;
        assert_eq!(remove(wrong), "task_id");
        let cancel = format!("{{{identity},\"expected_turn_id\":[]}}");
        assert_eq!(field::<TurnCancelParams>(&cancel), "expected_turn_id");
        let add = |rest: &str| field::<QueueAddParams>(&format!("{{{identity}{rest}}}"));
        assert_eq!(add(""), "content");
        assert_eq!(add(r#","content":"x","client_queue_id":null"#), "client_queue_id");
        let nested = r#","content":"x","context_files":[{"path":"p","name":5}]"#;
        assert_eq!(add(nested), "context_files[0].name");
    }

    /// Each field is looked at a bounded number of times, however many there are.
    #[test]
    fn many_unknown_fields_are_read_in_one_go() {
        let unknown: String = (0..200_000).map(|n| format!("\"a{n}\":0,")).collect();
        let payload = format!("{{{unknown}\"entry_id\":\"e\",\"task_id\":5}}");
        assert_eq!(field::<QueueRemoveParams>(&payload), "task_id");
    }
}
