//! The journal: on disk before the first frame, gone after the answer, and what a dead client left.

use std::mem;

use super::*;
use crate::client::{
    JOURNAL_WAIT_MS, JournalRow, JournalStage, Journaled, LeftRow, Receipts, UNSENT_AGE_MAX_MS,
};
use crate::error::ErrorCode;

impl Rig {
    /// Online, with a journal of its own.
    fn writing() -> Self {
        Self::online_with(Journaling::Own)
    }

    /// Online, and asked for what dead clients left.
    fn heir(rows: Vec<LeftRow>) -> Self {
        let mut rig = Self::online_with(Journaling::Adopting);
        rig.input(Input::Adopted(rows));
        rig
    }

    fn online_with(journaling: Journaling) -> Self {
        let mut rig = Self::journaling(journaling);
        rig.input(Input::Start);
        rig.come_online();
        rig.forget();
        rig
    }

    /// What was asked of the journal since, in short.
    fn orders(&mut self) -> Vec<String> {
        let orders = mem::take(&mut self.journal).into_iter();
        let in_short = orders.map(|order| match order {
            JournalOrder::Keep(row) => format!("keep {} {:?}", row.admission_id, row.stage),
            JournalOrder::Mark(id, stage, _) => format!("mark {id} {stage:?}"),
            JournalOrder::Drop(id) => format!("drop {id}"),
            JournalOrder::Adopt { rows_max, .. } => format!("adopt {rows_max}"),
        });
        in_short.collect()
    }

    fn journaled(&mut self, id: &str, outcome: Journaled) {
        self.input(Input::Journaled { id: admission_id(id), outcome });
    }

    fn on_disk(&mut self, id: &str) {
        self.journaled(id, Journaled::OnDisk);
    }

    fn unprotected(&mut self) -> usize {
        let events = mem::take(&mut self.events).into_iter();
        events.filter(|event| matches!(event, Event::Unprotected(_))).count()
    }
}

/// A row of session 1.
fn row(id: &str, stage: JournalStage) -> JournalRow {
    let mut params = submission(1, id, id).params;
    params.client_queue_id = Some(admission_id(id));
    JournalRow {
        admission_id: admission_id(id),
        id_origin: IdOrigin::Minted,
        store_id: hello_reply().server.store_id,
        user_id: user().id,
        receipts: Receipts::Announced,
        payload: serde_json::value::to_raw_value(&params).unwrap(),
        stage,
    }
}

pub(super) fn left(id: &str, stage: JournalStage, age_ms: u64) -> LeftRow {
    LeftRow { row: row(id, stage), age_ms }
}

#[test]
fn nothing_leaves_before_its_row_is_on_disk() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "hello");
    assert_eq!(rig.actions(), Vec::<&str>::new());
    assert_eq!(rig.last_state("k1"), DeliveryState::Saving);
    let orders = mem::take(&mut rig.journal);
    let [JournalOrder::Keep(kept)] = orders.as_slice() else {
        panic!("the row is kept: {orders:?}");
    };
    assert_eq!(kept.stage, JournalStage::Sent);
    assert_eq!((kept.store_id, kept.user_id), (row("k1", kept.stage).store_id, user().id));
    rig.on_disk("k1");
    let add = rig.take("message.queue.add");
    assert_eq!(add.raw, kept.payload.get(), "the row holds the bytes that leave");
    assert_eq!(rig.orders(), Vec::<String>::new());
}

#[test]
fn the_row_goes_when_the_answer_is_in() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "hello");
    rig.on_disk("k1");
    rig.orders();
    let add = rig.take("message.queue.add");
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.orders(), ["drop k1"]);
}

#[test]
fn a_refused_prompt_stays_on_disk_until_its_text_is_back_with_its_user() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "hello");
    rig.on_disk("k1");
    rig.orders();
    let add = rig.take("message.queue.add");
    rig.refuse(&add, &error(ErrorCode::QueueFull));
    assert_eq!(rig.orders(), ["mark k1 Refused(QueueFull)"]);
    rig.input(Input::Dismiss(admission_id("k1")));
    assert_eq!(rig.orders(), ["drop k1"]);
}

#[test]
fn what_cannot_leave_yet_is_kept_as_unsent_and_marked_before_it_leaves() {
    let mut rig = Rig::writing();
    rig.input(Input::LinkClosed { code: None });
    rig.submit(1, "k1", "one");
    rig.submit(1, "k2", "two");
    assert_eq!(rig.orders(), ["keep k1 Unsent", "keep k2 Unsent"]);
    rig.on_disk("k1");
    rig.on_disk("k2");
    rig.wait_for_connect();
    rig.come_online();
    assert_eq!(rig.orders(), ["mark k1 Sent"]);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.on_disk("k1");
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["content"], "one");
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.orders(), ["drop k1", "mark k2 Sent"]);
}

#[test]
fn the_next_prompt_of_a_session_does_not_overtake_one_that_is_being_written() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "one");
    rig.submit(1, "k2", "two");
    assert_eq!(rig.orders(), ["keep k1 Sent", "keep k2 Unsent"]);
    rig.on_disk("k2");
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.on_disk("k1");
    assert_eq!(rig.take("message.queue.add").payload["content"], "one");
}

#[test]
fn a_prompt_whose_turn_comes_while_its_row_is_being_written_is_marked_then() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "one");
    rig.submit(1, "k2", "two");
    rig.on_disk("k1");
    let add = rig.take("message.queue.add");
    rig.orders();
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.orders(), ["drop k1"]);
    rig.on_disk("k2");
    assert_eq!(rig.orders(), ["mark k2 Sent"]);
    rig.on_disk("k2");
    assert_eq!(rig.take("message.queue.add").payload["content"], "two");
}

#[test]
fn a_prompt_that_is_being_written_can_be_taken_back() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "hello");
    rig.input(Input::Dismiss(admission_id("k1")));
    assert_eq!(rig.orders(), ["keep k1 Sent", "drop k1"]);
    rig.on_disk("k1");
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn a_prompt_is_sent_and_its_user_told_if_it_cannot_be_written() {
    let mut failing = Rig::writing();
    failing.submit(1, "k1", "hello");
    failing.journaled("k1", Journaled::Failed);
    assert_eq!(failing.unprotected(), 1);
    let add = failing.take("message.queue.add");
    failing.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    // A disk that hangs counts as one that fails.
    let mut hanging = Rig::writing();
    hanging.submit(1, "k1", "hello");
    hanging.wait(JOURNAL_WAIT_MS - 1);
    assert_eq!((hanging.unprotected(), hanging.actions().len()), (0, 0));
    hanging.wait(1);
    assert_eq!((hanging.unprotected(), hanging.actions().len()), (1, 1));
    hanging.on_disk("k1");
    assert_eq!(hanging.actions().len(), 1);
}

#[test]
fn a_row_that_comes_after_its_prompt_has_left_does_not_say_that_it_has_not() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "first");
    rig.on_disk("k1");
    rig.submit(1, "k2", "second");
    let add = rig.take("message.queue.add");
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    rig.orders();
    rig.wait(JOURNAL_WAIT_MS);
    rig.take("message.queue.add");
    assert_eq!(rig.orders(), ["mark k2 Sent"]);
    rig.on_disk("k2");
    assert_eq!((rig.orders(), rig.actions()), (vec![], vec![]));
}

#[test]
fn what_would_be_gone_with_this_client_is_counted() {
    let counted = |journaling, outcome| {
        let mut rig = Rig::online_with(journaling);
        rig.submit(1, "k1", "hello");
        rig.journaled("k1", outcome);
        let under_way = rig.engine.unprotected_count();
        let add = rig.take("message.queue.add");
        rig.refuse(&add, &error(ErrorCode::QueueFull));
        (under_way, rig.engine.unprotected_count())
    };
    assert_eq!(counted(Journaling::Own, Journaled::OnDisk), (0, 0));
    assert_eq!(counted(Journaling::Own, Journaled::Failed), (1, 1));
    assert_eq!(counted(Journaling::Off, Journaled::OnDisk), (1, 1));
}

#[test]
fn a_link_that_goes_while_the_row_is_written_leaves_the_prompt_waiting() {
    let mut rig = Rig::writing();
    rig.submit(1, "k1", "hello");
    rig.input(Input::LinkClosed { code: None });
    rig.on_disk("k1");
    assert_eq!(rig.last_state("k1"), DeliveryState::WaitingForLink);
    rig.wait_for_connect();
    rig.come_online();
    rig.take("message.queue.add");
}

#[test]
fn rows_are_asked_for_once_per_database_and_user_and_new_prompts_wait_for_them() {
    let mut rig = Rig::online_with(Journaling::Adopting);
    assert_eq!(rig.orders(), ["adopt 256"]);
    rig.submit(1, "new", "new");
    assert_eq!(rig.last_state("new"), DeliveryState::Queued);
    rig.on_disk("new");
    rig.input(Input::Adopted(vec![left("old", JournalStage::Unsent, 0)]));
    assert_eq!(rig.orders(), ["keep new Unsent", "mark old Sent"]);
    rig.on_disk("old");
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["content"], "old", "what was left is older");
    rig.reply(&add, &add_reply("old", AdmissionOutcome::Admitted));
    rig.on_disk("new");
    assert_eq!(rig.take("message.queue.add").payload["content"], "new");
    rig.blink();
    assert!(!rig.orders().iter().any(|order| order.starts_with("adopt")));
}

#[test]
fn a_journal_that_does_not_answer_holds_new_prompts_back_for_a_while_only() {
    let mut rig = Rig::online_with(Journaling::Adopting);
    rig.submit(1, "new", "new");
    rig.on_disk("new");
    rig.wait(JOURNAL_WAIT_MS);
    rig.on_disk("new");
    rig.take("message.queue.add");
}

#[test]
fn a_young_prompt_that_was_never_sent_is_sent_and_an_old_one_comes_back() {
    let mut rig = Rig::heir(vec![
        left("old", JournalStage::Unsent, UNSENT_AGE_MAX_MS + 1),
        left("young", JournalStage::Unsent, UNSENT_AGE_MAX_MS),
    ]);
    rig.on_disk("young");
    assert_eq!(rig.last_state("old"), DeliveryState::Returned);
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["content"], "young");
    rig.reply(&add, &add_reply("young", AdmissionOutcome::Admitted));
    rig.wait_alive(120_000);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.orders();
    rig.input(Input::Dismiss(admission_id("old")));
    assert_eq!(rig.orders(), ["drop old"]);
}

#[test]
fn what_a_dead_client_sent_is_looked_for_and_never_sent_again_by_itself() {
    let mut rig = Rig::heir(vec![left("k1", JournalStage::Sent, 0)]);
    assert_eq!(rig.actions(), ["message.queue.get", "transcript.page"]);
    let queue = rig.take("message.queue.get");
    let transcript = rig.take("transcript.page");
    rig.reply(&queue, &status(1, 1, 1, &[]));
    rig.reply(&transcript, &page(vec![]));
    assert_eq!(rig.last_state("k1"), DeliveryState::Uncertain { can_check: true });
    rig.wait_alive(120_000);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.input(Input::CheckAndResend(admission_id("k1")));
    let add = rig.take("message.queue.add");
    assert_eq!(add.raw, row("k1", JournalStage::Sent).payload.get());
    rig.orders();
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Replayed));
    assert_eq!(rig.orders(), ["drop k1"]);
}

#[test]
fn what_a_dead_client_sent_is_confirmed_by_what_carries_its_id() {
    let mut rig = Rig::heir(vec![left("k1", JournalStage::Sent, 0)]);
    let queue = rig.take("message.queue.get");
    rig.orders();
    rig.reply(&queue, &status(1, 1, 1, &["k1"]));
    assert!(matches!(rig.last_state("k1"), DeliveryState::Accepted(_)));
    assert_eq!(rig.orders(), ["drop k1"]);
}

#[test]
fn an_id_of_the_caller_is_not_confirmed_by_what_carries_it() {
    let mut given = left("k1", JournalStage::Sent, 0);
    given.row.id_origin = IdOrigin::Given;
    let mut rig = Rig::heir(vec![given]);
    assert_eq!(rig.last_state("k1"), DeliveryState::Uncertain { can_check: true });
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn checking_is_not_offered_if_the_first_server_had_no_receipts() {
    let mut without = left("k1", JournalStage::Sent, 0);
    without.row.receipts = Receipts::Missing;
    without.row.id_origin = IdOrigin::Given;
    let mut rig = Rig::heir(vec![without]);
    assert_eq!(rig.last_state("k1"), DeliveryState::Uncertain { can_check: false });
}

#[test]
fn a_refused_prompt_of_a_dead_client_comes_back_as_refused() {
    let stage = JournalStage::Refused(ErrorCode::QueueFull);
    let mut rig = Rig::heir(vec![left("k1", stage, UNSENT_AGE_MAX_MS * 9)]);
    let DeliveryState::Rejected(error) = rig.last_state("k1") else {
        panic!("it was refused");
    };
    assert_eq!(error.code, ErrorCode::QueueFull);
}

#[test]
fn a_row_that_cannot_be_read_is_dropped_and_harms_no_other() {
    let mut broken = left("broken", JournalStage::Unsent, 0);
    broken.row.payload = serde_json::value::RawValue::from_string("[1]".to_owned()).unwrap();
    let mut rig = Rig::heir(vec![broken, left("k1", JournalStage::Unsent, 0)]);
    assert_eq!(rig.orders(), ["adopt 256", "drop broken", "mark k1 Sent"]);
}
