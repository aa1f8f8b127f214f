//! What waits, admissions and operations on them.

use usher_shared::counter::EventSeq;
use usher_shared::error::WireError;
use usher_shared::limits::{NAME_BYTES_MAX, STATUS_BYTES_MAX};
use usher_shared::prompt::{PromptText, PromptTextError};
use usher_shared::protocol::entry::{EntryMetadata, QueuedBy, QueuedMessage, StatusEntry};
use usher_shared::protocol::queue::{
    Admission, QueueAddParams, QueueAddReply, QueueStatus, SendNowParams, SendNowScope,
};
use usher_shared::rules::fingerprint::{FingerprintError, fingerprint};
use usher_shared::vocabulary::SenderKind;

use super::edit::shown;
use super::enclosed;
use super::size::json_bytes;
use super::{Viewer, bounded};
use crate::domain::admission::{AdmitRefusal, Admitted, Identified, Submission};
use crate::domain::enclosed::Enclosed;
use crate::domain::entry::{Entry, Sender};
use crate::domain::send_now::{Resume, Scope, SendNow};
use crate::domain::session::{AutoRun, Caller, Target};
use crate::service::QueueView;

fn sender(caller: &Caller) -> QueuedBy {
    QueuedBy { kind: SenderKind::User, id: caller.id.to_string(), name: caller.name.clone() }
}

/// Checks shape and hard bounds of an admission.
pub fn submission(
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
    let comments = enclosed::comment_refs(&params)?;
    let queued_by = sender(caller);
    let fingerprint = fingerprint(&params, &queued_by).map_err(not_encoded)?;
    let offered = enclosed::offered(params.attachments.unwrap_or_default())?;
    let enclosed = Enclosed {
        attachments: Vec::new(),
        references: enclosed::pointed_at(params.entity_references.unwrap_or_default())?,
        files: enclosed::context_files(params.context_files.unwrap_or_default())?,
        comments,
    };
    let content = PromptText::parse(params.content).map_err(prompt_error)?;
    if content.is_blank() && offered.is_empty() && !enclosed.speaks() {
        return Err(WireError::validation("content", AdmitRefusal::Blank.to_string()));
    }
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
        offered,
        enclosed,
        queued_by: Sender {
            kind: SenderKind::User,
            id: queued_by.id,
            name: queued_by.name,
            task: None,
        },
    };
    Ok((target, submission))
}

/// Refuses what has no fingerprint.
pub(super) fn not_encoded(error: FingerprintError) -> WireError {
    WireError::validation("attachments", error.to_string())
        .with("attachment_index", error.attachment_index)
}

pub(super) fn prompt_error(error: PromptTextError) -> WireError {
    let refused = WireError::validation("content", error.to_string());
    match error {
        PromptTextError::TooLong { limit } => refused.with("limit", limit),
        PromptTextError::Nul => refused,
    }
}

/// Checks what shall be sent now.
pub(in crate::net) fn send_now(params: &SendNowParams) -> Result<SendNow, WireError> {
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

pub(in crate::net) fn queued(
    session: &Target,
    entry: Entry,
    content_truncated: bool,
) -> QueuedMessage {
    QueuedMessage {
        id: entry.id,
        task_id: session.task_id,
        session_id: session.session_id,
        position: entry.position,
        content: entry.content.to_string(),
        model: entry.model,
        plan_mode: entry.plan_mode,
        attachments: enclosed::attachments(&entry.enclosed),
        metadata: EntryMetadata {
            entity_references: enclosed::references(&entry.enclosed),
            context_files: enclosed::files(&entry.enclosed),
            plan_comment_refs: enclosed::comments(&entry.enclosed),
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

/// Answers an admission.
pub fn admitted(target: &Target, admitted: Admitted) -> QueueAddReply {
    let admission = Admission {
        outcome: admitted.outcome,
        accepted_queue_id: admitted.entry.id,
        queue_revision: admitted.queue_revision,
        replay_safe: admitted.replay_safe,
    };
    QueueAddReply { entry: queued(target, admitted.entry, admitted.content_truncated), admission }
}

/// What a frame has around a status: its envelope and the place of an event.
const ENVELOPE_BYTES: usize = 1_024;

/// A status frame has at most [`STATUS_BYTES_MAX`]: what does not fit whole is a stub, and so is
/// everything behind it.
pub fn status(view: QueueView, event_seq: EventSeq, viewer: &Viewer<'_>) -> QueueStatus {
    let QueueView { session, entries, policy, leases } = view;
    let blocked = match session.queue.auto_run {
        AutoRun::On => entries.first().and_then(|head| leases.blocks(head.id)),
        AutoRun::Off(_) => None,
    };
    let target = Target {
        task_id: session.task_id,
        session_id: session.id,
        incarnation_id: Some(session.incarnation_id),
    };
    let mut status = QueueStatus {
        task_id: session.task_id,
        session_id: session.id,
        session_incarnation_id: session.incarnation_id,
        queue_revision: session.queue.revision,
        event_seq,
        entries: entries.iter().map(stub).collect(),
        count: session.queue.stored,
        max: u64::from(policy.max_per_session),
        auto_run: session.queue.auto_run == AutoRun::On,
        auto_run_reason: match session.queue.auto_run {
            AutoRun::On => None,
            AutoRun::Off(reason) => Some(reason),
        },
        blocked,
        merge_enabled: policy.merge.is_on(),
        auto_merge_enabled: policy.auto_merge.is_on(),
    };
    let mut room = STATUS_BYTES_MAX.saturating_sub(ENVELOPE_BYTES + json_bytes(&status));
    for (place, entry) in status.entries.iter_mut().zip(entries) {
        let whole = StatusEntry::Whole(Box::new(shown(&target, entry, &leases, viewer)));
        match room.checked_sub(json_bytes(&whole).saturating_sub(json_bytes(place))) {
            Some(left) => (room, *place) = (left, whole),
            None => break,
        }
    }
    status
}

fn stub(entry: &Entry) -> StatusEntry {
    StatusEntry::Stub { id: entry.id, position: entry.position, truncated: true }
}

#[cfg(test)]
mod tests {
    use usher_shared::id::{AdmissionId, UserId};
    use usher_shared::limits::{ADMISSION_IDS_MAX, ENTRIES_MAX};
    use usher_shared::protocol::frame::{FrameKind, write_frame};
    use usher_shared::time::UnixMillis;
    use uuid::Uuid;

    use super::*;
    use crate::domain::entry::Provenance;
    use crate::domain::fixtures;
    use crate::domain::lease::{LeaseInstant, Leases, LinkId};
    use crate::domain::settings::{QueuePolicy, Switch};

    /// The size of the largest frame with a status of these entries, and how many are whole in it.
    fn shown(entries: Vec<Entry>) -> (usize, usize) {
        let policy = QueuePolicy { max_per_session: 0, merge: Switch::On, auto_merge: Switch::On };
        let leases = Leases { now: LeaseInstant(0), stored: Vec::new() };
        let view = QueueView { session: fixtures::session(None), entries, policy, leases };
        let caller = Caller { id: UserId::from_uuid(Uuid::nil()), name: String::new() };
        let link = LinkId(Uuid::nil());
        let viewer = Viewer { caller: &caller, link, now: UnixMillis::new(0) };
        let status = status(view, EventSeq::new(u64::MAX >> 11), &viewer);
        let whole = |entry: &&StatusEntry| matches!(entry, StatusEntry::Whole(_));
        let whole = status.entries.iter().take_while(whole).count();
        let stubs = &status.entries[whole..];
        assert!(stubs.iter().all(|entry| matches!(entry, StatusEntry::Stub { .. })));
        let id = "\u{85}".repeat(32);
        let frame = write_frame(FrameKind::Response, Some(&id), Some("message.queue.get"), status);
        (frame.unwrap().len(), whole)
    }

    #[test]
    fn a_status_is_as_large_as_it_may_be_whatever_its_entries_are_made_of() {
        let longest = |n: usize| AdmissionId::parse(&format!("{n:\"<128}")).unwrap();
        let ids: Vec<_> = (0..ADMISSION_IDS_MAX).map(longest).collect();
        let many = Entry {
            content: "x".into(),
            provenance: Provenance { admission_ids: ids.clone(), past: ids },
            ..fixtures::entry()
        };
        let model = Some("\u{1}".repeat(NAME_BYTES_MAX));
        let named = Entry { model, ..fixtures::entry() };
        let long = Entry { content: "\u{1}".repeat(262_144).into(), ..fixtures::entry() };
        for (entry, count) in [(many, 70), (named, ENTRIES_MAX), (long, 20)] {
            let one = json_bytes(&queued(
                &Target {
                    task_id: fixtures::session(None).task_id,
                    session_id: fixtures::session(None).id,
                    incarnation_id: None,
                },
                entry.clone(),
                false,
            ));
            let (bytes, whole) = shown(vec![entry.clone(); count]);
            assert!(bytes <= STATUS_BYTES_MAX, "{bytes}");
            assert!(bytes + one + ENVELOPE_BYTES > STATUS_BYTES_MAX, "{bytes}, {whole} whole");
            assert!((1..count).contains(&whole), "{whole}");
        }
    }
}
