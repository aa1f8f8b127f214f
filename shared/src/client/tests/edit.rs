//! The lease keeper: what is saved, what is lost, and what is never done twice.

use super::*;
use crate::client::{
    EditEnd, EditLoss, EditSave, EditState, EditTarget, LEASE_MARGIN_MS, SAVE_ATTEMPTS_MAX,
};
use crate::counter::LeaseGeneration;
use crate::id::{LeaseId, OperationId};
use crate::protocol::edit::{EditBeginReply, EditEndReply, EditLease, QueueUpdateReply};
use crate::protocol::session::Identity;
use crate::vocabulary::EditLost;

const TTL_MS: u64 = 60_000;
const RENEW_MS: u64 = 20_000;

pub(super) fn target(number: u128) -> EditTarget {
    EditTarget {
        identity: Identity {
            task_id: task_id(),
            session_id: session_id(1),
            session_incarnation_id: incarnation(1),
        },
        entry_id: entry_id(number),
    }
}

fn lease_id(number: u128) -> LeaseId {
    LeaseId::from_uuid(Uuid::from_u128(8_000 + number))
}

pub(super) fn lease(number: u128, generation: u64) -> EditLease {
    EditLease {
        session_id: session_id(1),
        entry_id: entry_id(1),
        lease_id: lease_id(number),
        target_revision: TargetRevision::new(1),
        lease_generation: LeaseGeneration::new(generation),
        expires_at: UnixMillis::new(0),
        ttl_ms: TTL_MS,
    }
}

pub(super) fn begun(number: u128) -> EditBeginReply {
    EditBeginReply { lease: lease(number, 1), entry: entry(1, 1, &["k1"]) }
}

pub(super) fn save(operation: &str, content: &str) -> Input {
    Input::SaveEdit(EditSave {
        operation_id: OperationId::parse(operation).unwrap(),
        content: content.to_owned(),
        attachments: None,
        entity_references: None,
    })
}

pub(super) fn saved(operation: &str) -> QueueUpdateReply {
    QueueUpdateReply {
        entry_id: entry_id(1),
        operation_id: OperationId::parse(operation).unwrap(),
        target_revision: TargetRevision::new(2),
    }
}

/// The entry as a save of `content` leaves it.
pub(super) fn entry_with(content: &str, revision: u64) -> QueuedMessage {
    QueuedMessage {
        content: content.to_owned(),
        target_revision: TargetRevision::new(revision),
        ..entry(1, 1, &["k1"])
    }
}

impl Rig {
    /// Online, and editing entry 1.
    fn editing() -> Self {
        let mut rig = Self::online();
        rig.input(Input::BeginEdit(target(1)));
        let begin = rig.take("message.queue.edit.begin");
        rig.reply(&begin, &begun(1));
        assert_eq!(rig.state(), Some(EditState::Editing));
        rig.forget();
        rig
    }

    /// The same with a save under way.
    fn saving() -> (Self, Sent) {
        let mut rig = Self::editing();
        rig.input(save("op1", "new text"));
        let update = rig.take("message.queue.update");
        (rig, update)
    }

    fn state(&self) -> Option<EditState> {
        self.engine.edit().map(|edit| edit.state)
    }

    /// How edits ended since.
    fn ends(&mut self) -> Vec<EditEnd> {
        let events = std::mem::take(&mut self.events).into_iter();
        let ends = events.filter_map(|event| match event {
            Event::EditEnded { end, .. } => Some(end),
            _ => None,
        });
        ends.collect()
    }

    /// What the end of a lease said, if one was sent.
    fn ended_with(&mut self) -> (Value, Value) {
        let end = self.take("message.queue.edit.end");
        (end.payload["lease_id"].clone(), end.payload["dispatch_if_auto_run"].clone())
    }

    pub(super) fn tell_lost(&mut self, number: u128, reason: EditLost) {
        let notice = json!({
            "task_id": task_id(), "session_id": session_id(1), "entry_id": entry_id(1),
            "lease_id": lease_id(number), "reason": reason,
        });
        self.notify("message.queue.edit.lost", &notice);
    }
}

#[test]
fn a_save_ends_its_lease_and_lets_the_head_go() {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    assert_eq!(rig.state(), Some(EditState::Asking));
    let begin = rig.take("message.queue.edit.begin");
    rig.reply(&begin, &begun(1));
    assert_eq!(rig.event_names(), ["EditBegan"]);
    rig.input(save("op1", "new text"));
    assert_eq!(rig.state(), Some(EditState::Saving));
    let update = rig.take("message.queue.update");
    let expected = json!({
        "task_id": task_id(), "session_id": session_id(1),
        "session_incarnation_id": incarnation(1), "entry_id": entry_id(1),
        "lease_id": lease_id(1), "operation_id": "op1", "expected_target_revision": 1,
        "content": "new text",
    });
    assert_eq!(update.payload, expected);
    rig.reply(&update, &saved("op1"));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
    assert_eq!(rig.ended_with(), (json!(lease_id(1)), json!(true)));
    assert_eq!(rig.state(), None);
}

#[test]
fn leaving_ends_the_lease_and_starts_nothing() {
    let mut rig = Rig::editing();
    rig.input(Input::LeaveEdit);
    assert_eq!(rig.ends(), [EditEnd::Left]);
    assert_eq!(rig.ended_with(), (json!(lease_id(1)), json!(false)));
}

#[test]
fn an_answer_that_comes_after_the_editor_was_closed_is_answered_with_an_end() {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    let begin = rig.take("message.queue.edit.begin");
    rig.input(Input::LeaveEdit);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.reply(&begin, &begun(1));
    assert_eq!(rig.ended_with(), (json!(lease_id(1)), json!(false)));
    assert_eq!(rig.event_names(), ["EditEnded"], "nothing began");
}

#[test]
fn an_answer_that_comes_too_late_is_answered_with_an_end() {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    let begin = rig.take("message.queue.edit.begin");
    rig.wait_alive(10_000);
    assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Link)]);
    rig.reply(&begin, &begun(1));
    assert_eq!(rig.ended_with(), (json!(lease_id(1)), json!(false)));
}

#[test]
fn another_entry_is_edited_instead_and_the_first_answer_does_not_open_it() {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    let first = rig.take("message.queue.edit.begin");
    rig.input(Input::BeginEdit(target(2)));
    let second = rig.take("message.queue.edit.begin");
    rig.reply(&first, &begun(1));
    assert_eq!(rig.ended_with().0, json!(lease_id(1)));
    assert_eq!(rig.state(), Some(EditState::Asking));
    rig.reply(&second, &begun(2));
    assert_eq!(rig.engine.edit().unwrap().target, target(2));
    assert_eq!(rig.state(), Some(EditState::Editing));
}

#[test]
fn a_refused_lease_is_told_with_its_reason() {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    let begin = rig.take("message.queue.edit.begin");
    let held = error(ErrorCode::EditConflict).with("holder_is_you", true);
    rig.refuse(&begin, &held);
    assert_eq!(rig.ends(), [EditEnd::Refused(held)]);
}

#[test]
fn without_a_link_nothing_is_asked_for() {
    let mut rig = Rig::online();
    rig.input(Input::LinkClosed { code: None });
    rig.input(Input::BeginEdit(target(1)));
    assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Link)]);
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn a_lease_is_renewed_every_twenty_seconds_and_lives_as_long_as_that_works() {
    let mut rig = Rig::editing();
    for generation in 2..30 {
        rig.wait_alive(RENEW_MS);
        let renew = rig.take("message.queue.edit.renew");
        assert_eq!(renew.payload["lease_id"], json!(lease_id(1)));
        rig.reply(&renew, &lease(1, generation));
    }
    assert_eq!(rig.state(), Some(EditState::Editing));
}

#[test]
fn renewals_that_are_not_answered_are_no_loss_until_the_lease_would_expire() {
    let mut rig = Rig::editing();
    rig.wait_alive(TTL_MS - LEASE_MARGIN_MS - 1);
    assert_eq!(rig.state(), Some(EditState::Editing));
    let renewals = rig.actions().iter().filter(|a| **a == "message.queue.edit.renew").count();
    assert_eq!(renewals, 2, "one at a time");
    rig.wait(1);
    assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Expired)]);
    assert_eq!(rig.ended_with().1, json!(false));
}

#[test]
fn a_renewal_that_fails_for_another_reason_is_no_loss() {
    for code in [ErrorCode::RateLimited, ErrorCode::Internal, ErrorCode::QueueAdmissionUnavailable]
    {
        let mut rig = Rig::editing();
        rig.wait_alive(RENEW_MS);
        let renew = rig.take("message.queue.edit.renew");
        rig.refuse(&renew, &error(code));
        assert_eq!(rig.state(), Some(EditState::Editing), "{code}");
        rig.wait_alive(RENEW_MS);
        let renew = rig.take("message.queue.edit.renew");
        rig.reply(&renew, &lease(1, 2));
        rig.wait_alive(RENEW_MS);
        assert_eq!(rig.state(), Some(EditState::Editing), "{code}");
    }
}

#[test]
fn a_renewal_of_another_lease_or_an_older_one_is_not_adopted() {
    for wrong in [lease(2, 9), lease(1, 1)] {
        let mut rig = Rig::editing();
        for _ in 0..2 {
            rig.wait_alive(RENEW_MS);
            let renew = rig.take("message.queue.edit.renew");
            rig.reply(&renew, &wrong);
        }
        rig.wait_alive(RENEW_MS);
        assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Expired)]);
    }
}

#[test]
fn time_counts_from_when_the_renewal_was_sent() {
    let mut rig = Rig::editing();
    rig.wait_alive(RENEW_MS);
    let renew = rig.take("message.queue.edit.renew");
    rig.wait_alive(9_000);
    rig.reply(&renew, &lease(1, 2));
    // The renewal lasts from second 20 on, not from second 29.
    let until = TTL_MS - LEASE_MARGIN_MS - 9_000;
    rig.wait_alive(until - 1);
    assert_eq!(rig.state(), Some(EditState::Editing));
    rig.wait(1);
    assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Expired)]);
}

#[test]
fn a_machine_that_slept_past_the_expiry_has_lost_the_lease() {
    let mut rig = Rig::editing();
    rig.now += TTL_MS;
    rig.input(save("op1", "new text"));
    assert!(!rig.actions().contains(&"message.queue.update"), "{:?}", rig.actions());
    // So has the link.
    assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Link)]);
}

#[test]
fn a_typed_conflict_a_notice_and_a_lost_link_are_losses_told_once() {
    let mut conflict = Rig::editing();
    conflict.wait_alive(RENEW_MS);
    let renew = conflict.take("message.queue.edit.renew");
    conflict.refuse(&renew, &error(ErrorCode::EditConflict));
    let mut told = Rig::editing();
    told.tell_lost(2, EditLost::Removed);
    assert_eq!(told.state(), Some(EditState::Editing), "that is another lease");
    told.tell_lost(1, EditLost::Removed);
    told.tell_lost(1, EditLost::Removed);
    let mut cut = Rig::editing();
    cut.input(Input::LinkClosed { code: None });
    for (mut rig, loss) in [
        (conflict, EditLoss::Conflict(ErrorCode::EditConflict)),
        (told, EditLoss::Told(EditLost::Removed)),
        (cut, EditLoss::Link),
    ] {
        assert_eq!(rig.ends(), [EditEnd::Lost(loss)]);
        rig.forget();
        rig.input(save("op1", "new text"));
        assert_eq!(rig.actions(), Vec::<&str>::new(), "nothing can be saved any more");
    }
}

#[test]
fn a_save_without_an_answer_is_sent_again_with_the_same_bytes() {
    let (mut rig, first) = Rig::saving();
    rig.wait_alive(10_000);
    let second = rig.take("message.queue.update");
    assert_eq!((second.raw.as_str(), second.id == first.id), (first.raw.as_str(), false));
    rig.reply(&second, &saved("op1"));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
}

#[test]
fn a_save_that_is_never_answered_is_looked_for() {
    let (mut rig, _) = Rig::saving();
    for _ in 1..SAVE_ATTEMPTS_MAX {
        rig.wait_alive(10_000);
        rig.take("message.queue.update");
    }
    rig.wait_alive(10_000);
    assert_eq!(rig.state(), Some(EditState::Checking));
    let look = rig.take("message.queue.entry.get");
    rig.reply(&look, &entry_with("new text", 2));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
    assert_eq!(rig.ended_with(), (json!(lease_id(1)), json!(true)));
}

#[test]
fn a_save_whose_link_went_is_looked_for_and_never_sent_again() {
    for (found, end) in [
        (Some(entry_with("new text", 2)), EditEnd::Saved(TargetRevision::new(2))),
        (Some(entry_with("old text", 1)), EditEnd::Lost(EditLoss::SaveUnknown)),
        (Some(entry_with("other text", 2)), EditEnd::Lost(EditLoss::SaveUnknown)),
        (Some(entry_with("new text", 3)), EditEnd::Lost(EditLoss::SaveUnknown)),
        (None, EditEnd::Lost(EditLoss::SaveUnknown)),
    ] {
        let (mut rig, _) = Rig::saving();
        rig.blink();
        assert_eq!(rig.state(), Some(EditState::Checking));
        let look = rig.take("message.queue.entry.get");
        match &found {
            Some(entry) => rig.reply(&look, entry),
            None => rig.refuse(&look, &error(ErrorCode::EntryNotFound)),
        }
        assert_eq!(rig.ends(), [end], "{found:?}");
        assert!(!rig.actions().contains(&"message.queue.update"));
    }
}

#[test]
fn a_look_without_an_answer_is_taken_again() {
    let (mut rig, _) = Rig::saving();
    rig.blink();
    rig.take("message.queue.entry.get");
    rig.blink();
    let look = rig.take("message.queue.entry.get");
    rig.wait_alive(5_000);
    assert_eq!(rig.state(), Some(EditState::Checking));
    let again = rig.take("message.queue.entry.get");
    rig.reply(&look, &entry_with("new text", 2));
    rig.reply(&again, &entry_with("new text", 2));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
}

#[test]
fn a_refused_save_leaves_the_lease_or_ends_it_as_its_code_says() {
    for &code in ErrorCode::ALL {
        let (mut rig, update) = Rig::saving();
        rig.refuse(&update, &error(code));
        let held = rig.state() == Some(EditState::Editing);
        let over = [
            ErrorCode::EditConflict,
            ErrorCode::RevisionConflict,
            ErrorCode::OperationConflict,
            ErrorCode::EntryNotFound,
            ErrorCode::QueueSessionUnavailable,
            ErrorCode::NotFound,
            ErrorCode::Forbidden,
            ErrorCode::Unauthorized,
        ];
        assert_eq!(held, !over.contains(&code), "{code}");
        if held {
            assert_eq!(rig.event_names(), ["EditChanged", "SaveRefused"], "{code}");
        } else {
            assert_eq!(rig.ends(), [EditEnd::Lost(EditLoss::Conflict(code))]);
        }
    }
}

#[test]
fn a_conflict_after_an_attempt_without_an_answer_proves_nothing() {
    let (mut rig, _) = Rig::saving();
    rig.wait_alive(10_000);
    let second = rig.take("message.queue.update");
    rig.refuse(&second, &error(ErrorCode::EditConflict));
    let look = rig.take("message.queue.entry.get");
    rig.reply(&look, &entry_with("new text", 2));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
}

#[test]
fn a_refusal_after_an_attempt_without_an_answer_proves_only_what_was_looked_at() {
    for (code, is_proof) in [
        (ErrorCode::AttachmentUnavailable, true),
        (ErrorCode::ReferenceInvalid, true),
        (ErrorCode::QueueAdmissionUnavailable, false),
        (ErrorCode::RateLimited, false),
        (ErrorCode::ShuttingDown, false),
        (ErrorCode::Internal, false),
    ] {
        let (mut rig, _) = Rig::saving();
        rig.wait_alive(10_000);
        let second = rig.take("message.queue.update");
        rig.refuse(&second, &error(code));
        if is_proof {
            assert_eq!(rig.state(), Some(EditState::Editing), "{code}");
            continue;
        }
        let look = rig.take("message.queue.entry.get");
        rig.reply(&look, &entry_with("new text", 2));
        assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))], "{code}");
    }
}

#[test]
fn a_save_that_is_under_way_is_decided_by_its_own_answer() {
    let (mut rig, update) = Rig::saving();
    rig.tell_lost(1, EditLost::Sent);
    assert_eq!(rig.state(), Some(EditState::Saving));
    rig.reply(&update, &saved("op1"));
    assert_eq!(rig.ends(), [EditEnd::Saved(TargetRevision::new(2))]);
}

#[test]
fn a_lease_is_renewed_while_a_save_waits_and_what_expires_meanwhile_is_looked_for() {
    let (mut rig, update) = Rig::saving();
    rig.refuse(&update, &error(ErrorCode::Internal));
    rig.wait_alive(TTL_MS - LEASE_MARGIN_MS - 3_000);
    rig.forget();
    rig.input(save("op2", "new text"));
    rig.take("message.queue.update");
    rig.wait_alive(3_000);
    assert_eq!(rig.state(), Some(EditState::Checking));
    rig.take("message.queue.entry.get");
}

#[test]
fn what_can_never_be_saved_is_refused_at_once_and_keeps_the_lease() {
    for text in ["a\0b".to_owned(), "x".repeat(262_145)] {
        let mut rig = Rig::editing();
        rig.input(save("op1", &text));
        assert_eq!(rig.event_names(), ["SaveRefused"]);
        assert_eq!((rig.state(), rig.actions()), (Some(EditState::Editing), Vec::new()));
    }
}

#[test]
fn an_end_without_an_answer_is_asked_for_again_a_few_times() {
    let mut rig = Rig::editing();
    rig.input(Input::LeaveEdit);
    let mut asked = 0;
    for _ in 0..10 {
        asked += rig.actions().iter().filter(|a| **a == "message.queue.edit.end").count();
        rig.forget();
        rig.wait_alive(10_000);
    }
    assert_eq!(asked, 3);
    let mut answered = Rig::editing();
    answered.input(Input::LeaveEdit);
    let end = answered.take("message.queue.edit.end");
    answered.reply(&end, &EditEndReply { session_id: session_id(1), entry_id: entry_id(1) });
    answered.wait_alive(30_000);
    assert_eq!(answered.actions(), Vec::<&str>::new());
}

#[test]
fn opening_another_session_leaves_the_edit_as_it_is() {
    let mut rig = Rig::editing();
    rig.input(Input::Open(session_id(2)));
    let subscribe = rig.take("session.subscribe");
    rig.reply(&subscribe, &snapshot(2, 10, vec![]));
    assert_eq!(rig.state(), Some(EditState::Editing));
    rig.input(save("op1", "new text"));
    let update = rig.take("message.queue.update");
    assert_eq!(update.payload["session_id"], json!(session_id(1)));
}
