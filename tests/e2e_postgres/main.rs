//! The promises that the database has a part in, with PostgreSQL behind the servers. The modules of
//! `e2e` run again here: the harness goes by the name of the test binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../e2e/admission.rs"]
mod admission;
mod database;
#[path = "../e2e/identity.rs"]
mod identity;
#[path = "../e2e/lifecycle.rs"]
mod lifecycle;
#[path = "../e2e/replay.rs"]
mod replay;
#[path = "../e2e/search.rs"]
mod search;
#[path = "../e2e/settings.rs"]
mod settings;
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
