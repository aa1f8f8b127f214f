//! What a failing link may and may not do to a prompt: one row per fault, for `usher send` and for
//! the chat, both real, before a real server.
//!
//! `cargo test -p usher-tests --test e2e faults:: -- --nocapture` prints the table.

mod chat;
mod checks;
mod flight;
mod row;
mod send;
mod table;
