//! The client's journal: what is about to be sent, and the drafts, on disk.
//!
//! One SQLite file per user of the machine, in which every running client has rows of its own. A
//! client owns its rows through a lock that ends with its process, so that what a killed one left
//! can be taken over by exactly one other. The file is private to its user, versioned and bounded.
//!
//! [`Journal`] is a thread with two channels: a slow disk never holds a key up. What is handed over
//! together is written together, in one transaction: a prompt leaves the draft and enters the sends
//! at one moment.

mod file;
#[cfg(test)]
mod file_tests;
mod owner;
mod thread;

pub use file::{Draft, JournalAnswer, JournalError, JournalJob};
pub use thread::Journal;
