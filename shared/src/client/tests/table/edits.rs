//! The lease keeper.

use super::super::edit::{begun, entry_with, lease, save, saved, target};
use super::*;
use crate::vocabulary::EditLost;

const BEGIN: &str = "message.queue.edit.begin";
const RENEW: &str = "message.queue.edit.renew";
const UPDATE: &str = "message.queue.update";
const LOOK: &str = "message.queue.entry.get";

fn none() -> Rig {
    Rig::online()
}

fn asking() -> Rig {
    let mut rig = Rig::online();
    rig.input(Input::BeginEdit(target(1)));
    rig
}

fn editing() -> Rig {
    let mut rig = asking();
    let begin = rig.take(BEGIN);
    rig.reply(&begin, &begun(1));
    rig
}

fn renewing() -> Rig {
    let mut rig = editing();
    rig.wait_alive(20_000);
    rig
}

fn saving() -> Rig {
    let mut rig = editing();
    rig.input(save("op1", "new text"));
    rig
}

fn saving_again() -> Rig {
    let mut rig = saving();
    rig.wait_alive(10_000);
    rig
}

fn checking_offline() -> Rig {
    let mut rig = saving();
    rig.input(Input::LinkClosed { code: None });
    rig
}

fn looking() -> Rig {
    let mut rig = saving();
    rig.blink();
    rig
}

fn state_of(case: &Case) -> String {
    let edit = case.rig.engine.edit();
    edit.map_or("none".to_owned(), |edit| {
        let other = if edit.target == target(1) { "" } else { " the other" };
        format!("{:?}{other}", edit.state)
    })
}

#[test]
fn every_state_of_an_edit_meets_every_input() {
    let states: &[State] = &[
        ("no edit", none),
        ("asking", asking),
        ("editing", editing),
        ("editing, renewal under way", renewing),
        ("saving", saving),
        ("saving, second attempt", saving_again),
        ("checking without a link", checking_offline),
        ("looking", looking),
    ];
    let inputs: &[Step] = &[
        ("begin the same", |case| case.rig.input(Input::BeginEdit(target(1)))),
        ("begin another", |case| case.rig.input(Input::BeginEdit(target(2)))),
        ("save", |case| case.rig.input(save("op2", "newer text"))),
        ("leave", |case| case.rig.input(Input::LeaveEdit)),
        ("lease given", |case| case.reply(BEGIN, &begun(1))),
        ("lease refused", |case| case.refuse(BEGIN, ErrorCode::EditConflict)),
        ("renewed", |case| case.reply(RENEW, &lease(1, 2))),
        ("renewed as older", |case| case.reply(RENEW, &lease(1, 1))),
        ("renewed another lease", |case| case.reply(RENEW, &lease(2, 9))),
        ("renewal: edit_conflict", |case| case.refuse(RENEW, ErrorCode::EditConflict)),
        ("renewal: internal", |case| case.refuse(RENEW, ErrorCode::Internal)),
        ("saved", |case| case.reply(UPDATE, &saved("op1"))),
        ("saved another operation", |case| case.reply(UPDATE, &saved("op0"))),
        ("save: edit_conflict", |case| case.refuse(UPDATE, ErrorCode::EditConflict)),
        ("save: reference_invalid", |case| case.refuse(UPDATE, ErrorCode::ReferenceInvalid)),
        ("entry as saved", |case| case.reply(LOOK, &entry_with("new text", 2))),
        ("entry as before", |case| case.reply(LOOK, &entry_with("old text", 1))),
        ("entry gone", |case| case.refuse(LOOK, ErrorCode::EntryNotFound)),
        ("told: lease lost", |case| case.rig.tell_lost(1, EditLost::Removed)),
        ("told: another lease lost", |case| case.rig.tell_lost(2, EditLost::Removed)),
        ("link closes", |case| case.rig.input(Input::LinkClosed { code: None })),
        ("link comes (again)", Case::link_comes),
        ("next deadline", Case::next_deadline),
        ("58 s pass", |case| case.rig.wait_alive(58_000)),
    ];
    check("edits", states, inputs, state_of);
}
