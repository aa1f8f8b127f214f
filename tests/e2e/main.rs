//! One test per promise, against the real programs over real sockets and a real terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod agents;
mod cli;
mod folding;
mod frames;
mod hello;
mod identity;
mod merge;
mod replay;
mod storage;
mod terminal;
mod transcript;
mod turns;
mod undo;
