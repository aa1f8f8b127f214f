//! The lease keeper: one entry that is being edited, from asking for the lease to its end.
//!
//! ```text
//! Asking -> Editing <-> Saving -> saved
//!               |          |
//!               v          v (no answer, and no way to ask again)
//!              lost <-- Checking -> saved
//! ```
//! The edit is bound to its entry, not to a row and not to the session that is open. Its text stays
//! with the program: whatever happens, an end says whether it was saved and never that it was not.
//! Time counts from when a request was sent.

use serde_json::value::RawValue;

use super::api::Event;
use super::bounds::{
    LEASE_MARGIN_MS, LEASE_RENEWALS_PER_TTL, PROOF_READ_TIMEOUT_MS, SAVE_ATTEMPTS_MAX,
};
use super::call::written;
use super::outbox::{Answer, Outbox, Purpose};
use crate::counter::{LeaseGeneration, TargetRevision};
use crate::error::{ErrorCode, WireError};
use crate::id::{EntryId, LeaseId, OperationId};
use crate::limits::{CONTENT_BYTES_MAX, REPLY_TIMEOUT_MS, REQUEST_ID_BYTES_MAX};
use crate::prompt::PromptText;
use crate::protocol::Request;
use crate::protocol::edit::{
    EditBeginParams, EditBeginReply, EditEndParams, EditLease, EditLostNotice, EditRenewParams,
    QueueUpdateParams, QueueUpdateReply,
};
use crate::protocol::entry::{AttachmentParams, EntityReference, QueuedMessage};
use crate::protocol::queue::EntryGetParams;
use crate::protocol::session::Identity;
use crate::time::MonoMillis;
use crate::vocabulary::EditLost;

/// The entry that is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditTarget {
    /// Its session.
    pub identity: Identity,
    /// The entry.
    pub entry_id: EntryId,
}

/// What an entry is to be from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct EditSave {
    /// Names this save over all attempts; minted by the caller, a new one for every save.
    pub operation_id: OperationId,
    /// The prompt.
    pub content: String,
    /// None: as they are.
    pub attachments: Option<Vec<AttachmentParams>>,
    /// None: as they are.
    pub entity_references: Option<Vec<EntityReference>>,
}

/// An edit, as the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is edited.
    pub target: EditTarget,
    /// How far it is.
    pub state: EditState,
}

/// How far an edit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditState {
    /// The lease is asked for.
    Asking,
    /// The lease is held: what is typed can be saved.
    Editing,
    /// A save is under way.
    Saving,
    /// The answer to a save is lost: the engine looks whether it was done.
    Checking,
}

/// How an edit ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EditEnd {
    /// It was saved, at this revision.
    Saved(TargetRevision),
    /// The program left it.
    Left,
    /// The lease was not given.
    Refused(WireError),
    /// The lease is gone. What was typed is the program's to keep.
    Lost(EditLoss),
}

/// Why a lease is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditLoss {
    /// The server said so.
    Told(EditLost),
    /// The server refused a renewal or a save for it.
    Conflict(ErrorCode),
    /// The link, and the lease with it; or no answer to the first request.
    Link,
    /// It was not renewed in time.
    Expired,
    /// A save was sent, and there is no proof that it was done.
    SaveUnknown,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    open: Option<Open>,
    /// Numbers the edits, so that an answer to an earlier one is known as such.
    edits: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    target: EditTarget,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Asking,
    Editing(Lease),
    Saving(Lease, Save),
    Checking(Save, Look),
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: LeaseId,
    generation: LeaseGeneration,
    revision: TargetRevision,
    ttl_ms: u64,
    /// It may be gone from here on.
    safe_until: MonoMillis,
    renew_at: MonoMillis,
    renewal: Renewal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Idle,
    UnderWay,
}

#[derive(Debug)]
struct Save {
    operation_id: OperationId,
    content: String,
    expected: TargetRevision,
    /// Written once; every attempt sends these bytes.
    payload: Box<RawValue>,
    attempts: u32,
    /// The lease it went out under, as long as the link lives.
    lease_id: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Wanted,
    UnderWay,
}

impl Keeper {
    pub(super) fn edit(&self) -> Option<Edit> {
        self.open.as_ref().map(|open| Edit {
            target: open.target,
            state: match open.phase {
                Phase::Asking => EditState::Asking,
                Phase::Editing(_) => EditState::Editing,
                Phase::Saving(..) => EditState::Saving,
                Phase::Checking(..) => EditState::Checking,
            },
        })
    }

    /// Asks for the lease of an entry. An edit that is open is left.
    pub(super) fn begin(
        &mut self,
        target: EditTarget,
        online: bool,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        self.leave(online, now, out);
        if !online || !out.has_room() {
            let end = EditEnd::Lost(EditLoss::Link);
            return out.event(Event::EditEnded { target, end });
        }
        self.edits += 1;
        let EditTarget { identity, entry_id } = target;
        let request = EditBeginParams { identity, entry_id };
        let purpose = Purpose::EditBegin { number: self.edits, target };
        out.request(purpose, &request, now.plus(REPLY_TIMEOUT_MS), now);
        self.open = Some(Open { number: self.edits, target, phase: Phase::Asking });
    }

    /// Saves, if a lease is held; else it does nothing.
    pub(super) fn save(&mut self, save: EditSave, now: MonoMillis, out: &mut Outbox) {
        let Some(open) = &mut self.open else { return };
        // A machine that slept may find the lease gone here, before the pump does.
        let Phase::Editing(lease) = open.phase else { return };
        if now >= lease.safe_until {
            return;
        }
        let EditTarget { identity, entry_id } = open.target;
        let EditSave { operation_id, content, attachments, entity_references } = save;
        let request = QueueUpdateParams {
            identity,
            entry_id,
            lease_id: lease.id,
            operation_id: operation_id.clone(),
            expected_target_revision: lease.revision,
            content,
            attachments,
            entity_references,
        };
        let payload = written(&request);
        if let Some(error) = refusal(&request, &payload, out) {
            return out.event(Event::SaveRefused(error));
        }
        let mut save = Save {
            operation_id,
            content: request.content,
            expected: lease.revision,
            payload,
            attempts: 0,
            lease_id: Some(lease.id),
        };
        save.transmit(open.number, now, out);
        open.phase = Phase::Saving(lease, save);
        out.event(Event::EditChanged);
    }

    /// The program leaves the editor.
    pub(super) fn leave(&mut self, online: bool, now: MonoMillis, out: &mut Outbox) {
        let Some(open) = self.open.take() else { return };
        match open.phase {
            // Its answer will find nobody, and be answered with an end.
            Phase::Asking | Phase::Checking(..) => {}
            Phase::Editing(lease) | Phase::Saving(lease, _) => {
                end(open.target, lease.id, Dispatch::No, online, now, out);
            }
        }
        out.event(Event::EditEnded { target: open.target, end: EditEnd::Left });
    }

    /// The link is gone, and every lease with it.
    pub(super) fn link_lost(&mut self, out: &mut Outbox) {
        let Some(mut open) = self.open.take() else { return };
        open.phase = match open.phase {
            Phase::Asking | Phase::Editing(_) => {
                return out.event(Event::EditEnded {
                    target: open.target,
                    end: EditEnd::Lost(EditLoss::Link),
                });
            }
            Phase::Saving(_, save) | Phase::Checking(save, _) => {
                Phase::Checking(Save { lease_id: None, ..save }, Look::Wanted)
            }
        };
        self.open = Some(open);
        out.event(Event::EditChanged);
    }

    /// When [`Keeper::pump`] has something to do without anything else happening.
    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        match &self.open.as_ref()?.phase {
            Phase::Editing(lease) | Phase::Saving(lease, _) => Some(match lease.renewal {
                Renewal::Idle => lease.safe_until.min(lease.renew_at),
                Renewal::UnderWay => lease.safe_until,
            }),
            Phase::Asking | Phase::Checking(..) => None,
        }
    }

    /// Does what is due. Called while the link is up.
    pub(super) fn pump(&mut self, now: MonoMillis, out: &mut Outbox) {
        let Some(open) = &mut self.open else { return };
        let EditTarget { identity, entry_id } = open.target;
        match &mut open.phase {
            Phase::Editing(lease) if now >= lease.safe_until => {
                end(open.target, lease.id, Dispatch::No, /*online*/ true, now, out);
                self.finish(EditEnd::Lost(EditLoss::Expired), out);
            }
            Phase::Saving(lease, _) if now >= lease.safe_until => self.check(out),
            Phase::Editing(lease) | Phase::Saving(lease, _) => {
                if now >= lease.renew_at && lease.renewal == Renewal::Idle && out.has_room() {
                    lease.renewal = Renewal::UnderWay;
                    lease.renew_at = now.plus(lease.ttl_ms / LEASE_RENEWALS_PER_TTL);
                    let request = EditRenewParams { identity, entry_id, lease_id: lease.id };
                    let purpose = Purpose::EditRenew { number: open.number };
                    out.request(purpose, &request, now.plus(REPLY_TIMEOUT_MS), now);
                }
            }
            Phase::Checking(_, look @ Look::Wanted) if out.has_room() => {
                *look = Look::UnderWay;
                let request = EntryGetParams { identity, entry_id };
                let purpose = Purpose::EditLook { number: open.number };
                out.request(purpose, &request, now.plus(PROOF_READ_TIMEOUT_MS), now);
            }
            Phase::Asking | Phase::Checking(..) => {}
        }
    }

    pub(super) fn began(
        &mut self,
        number: u64,
        target: EditTarget,
        answer: Answer,
        (sent_at, now): (MonoMillis, MonoMillis),
        out: &mut Outbox,
    ) {
        let is_awaited = self.open.as_ref().is_some_and(|open| open.number == number);
        match answer {
            Answer::Reply(payload) => {
                let Ok(reply) = serde_json::from_str::<EditBeginReply>(payload.get()) else {
                    return self.finish_if(is_awaited, EditEnd::Lost(EditLoss::Link), out);
                };
                let lease = Lease::new(&reply.lease, sent_at);
                let open = self.open.as_mut().filter(|_| is_awaited && now < lease.safe_until);
                match open {
                    Some(open) => {
                        open.phase = Phase::Editing(lease);
                        out.event(Event::EditBegan(Box::new(reply.entry)));
                    }
                    // Nobody edits it any more, or the answer was under way for too long.
                    None => {
                        end(target, lease.id, Dispatch::No, /*online*/ true, now, out);
                        self.finish_if(is_awaited, EditEnd::Lost(EditLoss::Expired), out);
                    }
                }
            }
            Answer::Refused(error) => self.finish_if(is_awaited, EditEnd::Refused(error), out),
            Answer::Lost => self.finish_if(is_awaited, EditEnd::Lost(EditLoss::Link), out),
        }
    }

    pub(super) fn renewed(
        &mut self,
        number: u64,
        answer: Answer,
        sent_at: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(open) = self.numbered(number) else { return };
        let (Phase::Editing(lease) | Phase::Saving(lease, _)) = &mut open.phase else {
            return;
        };
        lease.renewal = Renewal::Idle;
        match answer {
            Answer::Reply(payload) => {
                if let Ok(renewed) = serde_json::from_str::<EditLease>(payload.get()) {
                    lease.adopt(&renewed, sent_at);
                }
            }
            // A save that is under way is decided by its own answer.
            Answer::Refused(error) if ends_lease(error.code) => {
                if let Phase::Editing(_) = open.phase {
                    self.finish(EditEnd::Lost(EditLoss::Conflict(error.code)), out);
                }
            }
            // One missing renewal is no loss.
            Answer::Refused(_) | Answer::Lost => {}
        }
    }

    pub(super) fn saved(
        &mut self,
        number: u64,
        answer: Answer,
        online: bool,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(open) = self.numbered(number) else { return };
        let Phase::Saving(lease, save) = &mut open.phase else {
            return;
        };
        match answer {
            Answer::Reply(payload) => match serde_json::from_str::<QueueUpdateReply>(payload.get())
            {
                Ok(reply) if reply.operation_id == save.operation_id => {
                    end(open.target, lease.id, Dispatch::IfAutoRun, online, now, out);
                    self.finish(EditEnd::Saved(reply.target_revision), out);
                }
                Ok(_) | Err(_) => self.check(out),
            },
            Answer::Refused(error) if ends_lease(error.code) && save.attempts == 1 => {
                self.finish(EditEnd::Lost(EditLoss::Conflict(error.code)), out);
            }
            // An earlier attempt may have been done, and have ended the lease.
            Answer::Refused(error) if ends_lease(error.code) => self.check(out),
            // So may it have been if this one was refused before the server looked.
            Answer::Refused(error) if save.attempts > 1 && !proves_unsaved(error.code) => {
                self.check(out);
            }
            Answer::Refused(error) => {
                open.phase = Phase::Editing(*lease);
                out.event(Event::SaveRefused(error));
            }
            Answer::Lost if online && save.attempts < SAVE_ATTEMPTS_MAX => {
                save.transmit(number, now, out);
            }
            Answer::Lost => self.check(out),
        }
    }

    /// The entry was read, to see whether a save was done.
    pub(super) fn looked(
        &mut self,
        number: u64,
        answer: Answer,
        online: bool,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(open) = self.numbered(number) else { return };
        let Phase::Checking(save, look) = &mut open.phase else {
            return;
        };
        let found = match answer {
            Answer::Reply(payload) => serde_json::from_str::<QueuedMessage>(payload.get()).ok(),
            Answer::Refused(_) => None,
            Answer::Lost => {
                *look = Look::Wanted;
                return;
            }
        };
        let revision = save.expected.next();
        let is_saved = found.is_some_and(|entry| {
            entry.target_revision == revision && entry.content == save.content
        });
        let dispatch = if is_saved { Dispatch::IfAutoRun } else { Dispatch::No };
        if let Some(lease_id) = save.lease_id {
            end(open.target, lease_id, dispatch, online, now, out);
        }
        self.finish(
            if is_saved { EditEnd::Saved(revision) } else { EditEnd::Lost(EditLoss::SaveUnknown) },
            out,
        );
    }

    /// The server says that a lease is over.
    pub(super) fn told_lost(&mut self, notice: &EditLostNotice, out: &mut Outbox) {
        // A save that is under way is decided by its own answer.
        let is_ours = self.open.as_ref().is_some_and(
            |open| matches!(&open.phase, Phase::Editing(lease) if lease.id == notice.lease_id),
        );
        self.finish_if(is_ours, EditEnd::Lost(EditLoss::Told(notice.reason)), out);
    }

    /// Returns the edit of this number, if it is the open one.
    fn numbered(&mut self, number: u64) -> Option<&mut Open> {
        self.open.as_mut().filter(|open| open.number == number)
    }

    /// Looks whether the save that is under way was done.
    fn check(&mut self, out: &mut Outbox) {
        let Some(open) = self.open.take() else { return };
        let phase = match open.phase {
            Phase::Saving(_, save) => Phase::Checking(save, Look::Wanted),
            other => other,
        };
        self.open = Some(Open { phase, ..open });
        out.event(Event::EditChanged);
    }

    fn finish_if(&mut self, condition: bool, end: EditEnd, out: &mut Outbox) {
        if condition {
            self.finish(end, out);
        }
    }

    fn finish(&mut self, end: EditEnd, out: &mut Outbox) {
        if let Some(open) = self.open.take() {
            out.event(Event::EditEnded { target: open.target, end });
        }
    }
}

impl Lease {
    fn new(given: &EditLease, asked_at: MonoMillis) -> Self {
        Self {
            id: given.lease_id,
            generation: given.lease_generation,
            revision: given.target_revision,
            ttl_ms: given.ttl_ms,
            safe_until: safe_until(given, asked_at),
            renew_at: asked_at.plus(given.ttl_ms / LEASE_RENEWALS_PER_TTL),
            renewal: Renewal::Idle,
        }
    }

    /// Takes a renewal over, if it is one of this lease and newer than what is known.
    fn adopt(&mut self, renewed: &EditLease, asked_at: MonoMillis) {
        if renewed.lease_id == self.id && renewed.lease_generation > self.generation {
            self.generation = renewed.lease_generation;
            self.ttl_ms = renewed.ttl_ms;
            self.safe_until = safe_until(renewed, asked_at);
        }
    }
}

impl Save {
    fn transmit(&mut self, number: u64, now: MonoMillis, out: &mut Outbox) {
        self.attempts += 1;
        let purpose = Purpose::EditSave { number };
        let deadline = now.plus(REPLY_TIMEOUT_MS);
        out.request_raw(purpose, QueueUpdateParams::ACTION, &self.payload, deadline, now);
    }
}

fn safe_until(lease: &EditLease, asked_at: MonoMillis) -> MonoMillis {
    asked_at.plus(lease.ttl_ms.saturating_sub(LEASE_MARGIN_MS))
}

/// Whether the head may start when a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// After a save.
    IfAutoRun,
    /// Otherwise.
    No,
}

/// Ends a lease: nobody waits for the answer, but it is asked again if none comes.
fn end(
    target: EditTarget,
    lease_id: LeaseId,
    dispatch: Dispatch,
    online: bool,
    now: MonoMillis,
    out: &mut Outbox,
) {
    // Without a link there is no lease.
    if online && out.has_room() {
        ask_to_end(Purpose::EditEnd { target, lease_id, dispatch, attempt: 1 }, now, out);
    }
}

/// Sends the request that this purpose is about.
pub(super) fn ask_to_end(purpose: Purpose, now: MonoMillis, out: &mut Outbox) {
    let Purpose::EditEnd { target: EditTarget { identity, entry_id }, lease_id, dispatch, .. } =
        purpose
    else {
        return;
    };
    let dispatch_if_auto_run = Some(dispatch == Dispatch::IfAutoRun);
    let request = EditEndParams { identity, entry_id, lease_id, dispatch_if_auto_run };
    out.request(purpose, &request, now.plus(REPLY_TIMEOUT_MS), now);
}

/// Returns why a save cannot be sent, if it cannot: the same codes as the server's.
fn refusal(request: &QueueUpdateParams, payload: &RawValue, out: &Outbox) -> Option<WireError> {
    let bound = |limit: usize| {
        Some(WireError::validation("content", "over the bound").with("limit", limit))
    };
    if request.content.len() > CONTENT_BYTES_MAX {
        return bound(CONTENT_BYTES_MAX);
    }
    if let Err(error) = PromptText::parse(request.content.as_str()) {
        return Some(WireError::validation("content", error.to_string()));
    }
    if payload.get().len() + 128 + REQUEST_ID_BYTES_MAX > out.frame_bytes_max() {
        return bound(out.frame_bytes_max());
    }
    None
}

/// Tells whether this answer to a renewal or a save means that the lease is gone; every other one
/// leaves it as it is.
const fn ends_lease(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EditConflict
            | ErrorCode::RevisionConflict
            | ErrorCode::OperationConflict
            | ErrorCode::EntryNotFound
            | ErrorCode::QueueSessionUnavailable
            | ErrorCode::NotFound
            | ErrorCode::Forbidden
            | ErrorCode::Unauthorized
    )
}

/// Tells whether this answer to a save proves that no earlier attempt was done: the server decides it
/// only after it looked for the operation.
const fn proves_unsaved(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Validation | ErrorCode::AttachmentUnavailable | ErrorCode::ReferenceInvalid
    )
}
