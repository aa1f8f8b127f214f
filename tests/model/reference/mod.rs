//! The reference: the rules of the queue over plain lists, written from the design alone.
//!
//! It decides one request at a time ([`Model::call`]) and lets the server's own part, the
//! dispatcher and the agent, go on by single steps ([`Model::go_on`]). It never looks at the
//! server's code or answers: a rule that both got wrong alike would never show.

mod agent;
mod ask;
mod attached;
mod calls;
mod edits;
mod lifecycle;
mod session;
mod shown;
mod turn;

pub(crate) use ask::{Ask, Call, Prompt};
pub(crate) use attached::{ATTACHMENTS_MAX, File, Offered, Whose, attachment_name};
pub(crate) use session::{Edit, Entry, Session, Standing};
pub(crate) use shown::Look;

use serde_json::Value;
use usher_tests::client::{Answer, Refusal};

/// What is set for every queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Entries a queue may hold; 0: no cap.
    pub(crate) cap: u64,
    /// Whether admissions fold into the tail.
    pub(crate) folding: Folding,
}

/// Whether admissions fold into the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folding {
    On,
    Off,
}

/// Everything that the server is to know, or to be found out to know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    /// By number.
    pub(crate) sessions: Vec<Session>,
    /// What is set.
    pub(crate) settings: Settings,
}

impl Model {
    /// Fresh sessions, named by the number of their task.
    pub(crate) fn new(tasks_of_sessions: &[usize], settings: Settings) -> Self {
        let sessions =
            tasks_of_sessions.iter().enumerate().map(|(name, task)| Session::new(name, *task));
        Self { sessions: sessions.collect(), settings }
    }

    /// Returns how many turns began and ended since the last look.
    pub(crate) fn told_count(&self) -> usize {
        self.sessions.iter().map(|session| session.told.len()).sum()
    }

    /// Returns what may be next when the dispatcher, the runner and the agent of a session go on;
    /// nothing: they wait.
    pub(crate) fn successors(&self, session: usize) -> Vec<Self> {
        let after = |next: Session| {
            let mut model = self.clone();
            model.sessions[session] = next;
            model
        };
        self.sessions[session].successors().into_iter().map(after).collect()
    }
}

/// An error without details.
fn refused(code: &str) -> Answer {
    refused_with(code, serde_json::json!({}))
}

fn refused_with(code: &str, details: Value) -> Answer {
    Err(Refusal::new(code, details))
}
