//! The promises that the database has a part in, with PostgreSQL behind the servers. The modules of
//! `e2e` run again here: the harness goes by the name of the test binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../e2e/admission.rs"]
mod admission;
#[path = "../e2e/attachments.rs"]
mod attachments;
#[path = "../e2e/auto_run.rs"]
mod auto_run;
#[path = "../e2e/auto_run_switch.rs"]
mod auto_run_switch;
#[path = "../e2e/capacity.rs"]
mod capacity;
mod database;
#[path = "../e2e/deletion.rs"]
mod deletion;
#[path = "../e2e/edit_clock.rs"]
mod edit_clock;
#[path = "../e2e/edit_saves.rs"]
mod edit_saves;
#[path = "../e2e/edit_wins.rs"]
mod edit_wins;
#[path = "../e2e/events.rs"]
mod events;
#[path = "../e2e/faults/mod.rs"]
mod faults;
#[path = "../e2e/folding.rs"]
mod folding;
#[path = "../e2e/half_way.rs"]
mod half_way;
#[path = "../e2e/identity.rs"]
mod identity;
#[path = "../e2e/leases.rs"]
mod leases;
#[path = "../e2e/lifecycle.rs"]
mod lifecycle;
#[path = "../e2e/merge.rs"]
mod merge;
mod nodes;
#[path = "../e2e/parking.rs"]
mod parking;
#[path = "../e2e/plan_comments.rs"]
mod plan_comments;
#[path = "../e2e/plan_mode.rs"]
mod plan_mode;
#[path = "../e2e/plans.rs"]
mod plans;
#[path = "../e2e/races.rs"]
mod races;
#[path = "../e2e/references.rs"]
mod references;
#[path = "../e2e/reorder.rs"]
mod reorder;
#[path = "../e2e/replay.rs"]
mod replay;
#[path = "../e2e/search.rs"]
mod search;
#[path = "../e2e/send_now.rs"]
mod send_now;
#[path = "../e2e/settings.rs"]
mod settings;
#[path = "../e2e/starting.rs"]
mod starting;
#[path = "../e2e/tasks.rs"]
mod tasks;
mod tls;
#[path = "../e2e/transcript.rs"]
mod transcript;
#[path = "../e2e/transfer.rs"]
mod transfer;
#[path = "../e2e/turns.rs"]
mod turns;
#[path = "../e2e/undo.rs"]
mod undo;
#[path = "../e2e/users.rs"]
mod users;
