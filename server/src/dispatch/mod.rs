//! Dispatch: idle session + auto-run + head -> turn, and the turn's run.
//!
//! The dispatcher reacts to what was committed; it decides nothing. One runner per session owns
//! the session's agent and runs its turns one after the other.

mod dispatcher;
mod ends;
mod mailbox;
mod questions;
mod runner;
mod scribe;

pub use dispatcher::{DispatchSettings, Dispatcher};
pub use ends::TurnEnds;
pub use questions::{Answer, Question, QuestionOption, Questions};
