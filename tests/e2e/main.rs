//! One test per promise, against the real programs over real sockets and a real terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod agents;
mod attach;
mod attachments;
mod auto_run;
mod auto_run_switch;
mod backup;
mod capacity;
mod cli;
mod deletion;
mod edit_clock;
mod edit_saves;
mod edit_wins;
mod events;
mod folding;
mod frames;
mod full_disk;
mod gibibyte;
mod half_way;
mod hello;
mod identity;
mod journal;
mod large;
mod leases;
mod lifecycle;
mod lost_bytes;
mod merge;
mod migration;
mod parking;
mod plan_comments;
mod plan_mode;
mod plans;
mod races;
mod read_only;
mod references;
mod reorder;
mod replay;
mod search;
mod send_now;
mod settings;
mod soundness;
mod starting;
mod storage;
mod tampered;
mod tasks;
mod terminal;
mod tls;
mod tls_client;

mod transcript;
mod transfer;
mod turns;
mod undo;
mod users;
