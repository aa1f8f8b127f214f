//! One send.

use super::super::journal::left;
use super::*;
use crate::client::{JournalStage, Journaled, Journaling};

const ADD: &str = "message.queue.add";
const FIRST_ADD: &str = "message.queue.add 1";
const QUEUE: &str = "message.queue.get";
const PAGE: &str = "transcript.page";

/// Session 1 is open, and there is a journal.
fn open() -> Rig {
    let mut rig = Rig::journaling(Journaling::Own);
    rig.input(Input::Start);
    rig.come_online();
    rig.input(Input::Open(session_id(1)));
    let subscribe = rig.take("session.subscribe");
    rig.reply(&subscribe, &snapshot(1, 10, vec![]));
    rig.forget();
    rig
}

fn offline() -> Rig {
    let mut rig = open();
    rig.input(Input::LinkClosed { code: None });
    rig.submit(1, "k1", "hello");
    on_disk(&mut rig);
    rig
}

fn behind() -> Rig {
    let mut rig = open();
    rig.submit(1, "k0", "before");
    rig.input(Input::Journaled { id: admission_id("k0"), outcome: Journaled::OnDisk });
    rig.submit(1, "k1", "hello");
    on_disk(&mut rig);
    rig.sent.clear();
    rig
}

fn saving() -> Rig {
    let mut rig = open();
    rig.submit(1, "k1", "hello");
    rig
}

fn on_disk(rig: &mut Rig) {
    rig.input(Input::Journaled { id: admission_id("k1"), outcome: Journaled::OnDisk });
}

fn awaiting() -> Rig {
    let mut rig = saving();
    on_disk(&mut rig);
    rig
}

fn link_wait() -> Rig {
    let mut rig = awaiting();
    rig.input(Input::LinkClosed { code: None });
    rig
}

fn first_pass() -> Rig {
    let mut rig = awaiting();
    rig.wait_alive(10_000);
    rig
}

fn first_pass_half() -> Rig {
    let mut rig = first_pass();
    let queue = rig.take(QUEUE);
    rig.reply(&queue, &status(1, 1, 10, &[]));
    rig
}

fn retry_wait() -> Rig {
    let mut rig = first_pass_half();
    rig.input(Input::LinkClosed { code: None });
    rig
}

fn awaiting_retry() -> Rig {
    let mut rig = first_pass_half();
    let messages = rig.take(PAGE);
    rig.reply(&messages, &page(vec![]));
    rig
}

fn final_wait() -> Rig {
    let mut rig = awaiting_retry();
    rig.input(Input::LinkClosed { code: None });
    rig
}

fn final_pass() -> Rig {
    let mut rig = awaiting_retry();
    rig.wait_alive(10_000);
    rig
}

fn rejected() -> Rig {
    let mut rig = awaiting();
    let add = rig.sent.iter().find(|sent| sent.action == ADD).cloned().unwrap();
    rig.refuse(&add, &error(ErrorCode::QueueFull));
    rig
}

fn uncertain() -> Rig {
    let mut rig = final_pass();
    rig.wait_alive(5_000);
    rig
}

fn uncertain_for_good() -> Rig {
    let mut rig = uncertain();
    let reset = Session { incarnation_id: incarnation(9), ..session(1) };
    rig.notify("session.changed", &stamped(1, 11, serde_json::to_value(reset).unwrap()));
    rig
}

fn returned() -> Rig {
    let mut rig = Rig::journaling(Journaling::Adopting);
    rig.input(Input::Start);
    rig.come_online();
    rig.input(Input::Adopted(vec![left("k1", JournalStage::Unsent, u64::MAX)]));
    rig.sent.clear();
    rig
}

fn nothing() -> Rig {
    open()
}

fn state_of(case: &Case) -> String {
    let mut deliveries = case.rig.engine.deliveries();
    let ours = deliveries.find(|delivery| delivery.admission_id.as_str() == "k1");
    ours.map_or("gone".to_owned(), |delivery| match &delivery.state {
        DeliveryState::AwaitingReply { attempt, .. } => format!("AwaitingReply {attempt}"),
        DeliveryState::Reconciling { attempt } => format!("Reconciling {attempt}"),
        DeliveryState::Rejected(error) => format!("Rejected {}", error.code),
        other => format!("{other:?}"),
    })
}

#[test]
fn every_state_of_a_send_meets_every_input() {
    let states: &[State] = &[
        ("unknown", nothing),
        ("waiting for a link", offline),
        ("waiting behind another", behind),
        ("saving", saving),
        ("awaiting the first reply", awaiting),
        ("waiting for a link to look", link_wait),
        ("first pass", first_pass),
        ("first pass, queue read", first_pass_half),
        ("waiting for a link to retry", retry_wait),
        ("awaiting the retry's reply", awaiting_retry),
        ("waiting for a last look", final_wait),
        ("last pass", final_pass),
        ("rejected", rejected),
        ("uncertain", uncertain),
        ("uncertain, another life", uncertain_for_good),
        ("returned", returned),
    ];
    let inputs: &[Step] = &[
        ("submit the same id", |case| case.rig.submit(1, "k1", "hello")),
        ("reply to the first", |case| {
            case.reply(FIRST_ADD, &add_reply("k1", AdmissionOutcome::Admitted));
        }),
        ("reply to the latest", |case| {
            case.reply(ADD, &add_reply("k1", AdmissionOutcome::Replayed));
        }),
        ("garbage for the latest", |case| case.reply(ADD, &json!([]))),
        ("latest: queue_full", |case| case.refuse(ADD, ErrorCode::QueueFull)),
        ("latest: shutting_down", |case| case.refuse(ADD, ErrorCode::ShuttingDown)),
        ("latest: queue_id_conflict", |case| case.refuse(ADD, ErrorCode::QueueIdConflict)),
        ("first: queue_full", |case| case.refuse(FIRST_ADD, ErrorCode::QueueFull)),
        ("queue has it", |case| case.reply(QUEUE, &status(1, 2, 12, &["k1"]))),
        ("queue does not", |case| case.reply(QUEUE, &status(1, 1, 10, &[]))),
        ("queue read refused", |case| case.refuse(QUEUE, ErrorCode::Internal)),
        ("transcript has it", |case| case.reply(PAGE, &page(vec![message_from(3, "k1")]))),
        ("transcript does not", |case| case.reply(PAGE, &page(vec![]))),
        ("event with its id", |case| {
            let status = serde_json::to_value(status(1, 3, 11, &["k1"])).unwrap();
            case.rig.notify("message.queue.status_changed", &stamped(1, 11, status));
        }),
        ("link closes", |case| case.rig.input(Input::LinkClosed { code: None })),
        ("link comes (again)", Case::link_comes),
        ("next deadline", Case::next_deadline),
        ("row on disk", |case| on_disk(&mut case.rig)),
        ("row not written", |case| {
            let id = admission_id("k1");
            case.rig.input(Input::Journaled { id, outcome: Journaled::Failed });
        }),
        ("check and resend", |case| case.rig.input(Input::CheckAndResend(admission_id("k1")))),
        ("dismiss", |case| case.rig.input(Input::Dismiss(admission_id("k1")))),
        ("its row is adopted", |case| {
            case.rig.input(Input::Adopted(vec![left("k1", JournalStage::Sent, 0)]));
        }),
    ];
    check("sends", states, inputs, state_of);
}
