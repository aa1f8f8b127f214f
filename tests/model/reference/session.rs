//! A session of the reference.

use serde_json::{Value, json};

use super::attached::{Attachment, File, Offered};
use super::turn::Turn;
use crate::operation::Link;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the queue, visible.
    Waiting,
    /// Stored, and hidden: the open turn has it.
    Reserved,
    /// Stored, and hidden: it was sent now and runs when the open turn has ended.
    Claimed,
    /// Taken out by the remove or clear of this undo.
    Removed(u32),
}

/// A prompt in the queue. It keeps its slot in the list until a turn has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) place: Place,
    pub(crate) content: String,
    pub(crate) model: Option<String>,
    pub(crate) plan_mode: bool,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) admission_ids: Vec<String>,
    /// Admission IDs of another session or of an earlier life: they prove nothing.
    pub(crate) past: Vec<String>,
    pub(crate) target_revision: u64,
    /// Who edits it, or did when the link was lost.
    pub(crate) lease: Option<Lease>,
    /// Of its last lease.
    pub(super) generation: u64,
}

/// The right of one link to edit an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: u32,
    /// None: the link is gone, and nothing automatic takes the entry.
    pub(crate) link: Option<Link>,
    /// What was saved under it, and the revision that it made.
    pub(super) operations: Vec<(Edit, u64)>,
}

/// What a save sets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edit {
    pub(crate) operation: u32,
    pub(crate) content: String,
    /// None: as they are.
    pub(crate) attachments: Option<Vec<Offered>>,
}

impl Entry {
    /// It is in another session now, or in another life: its IDs prove nothing any more.
    pub(super) fn retire(&mut self) {
        unite(&mut self.past, std::mem::take(&mut self.admission_ids));
        self.lease = None;
    }
}

/// Adds what is not there yet.
pub(super) fn unite(ids: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for id in more {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
}

/// The proof of an admission: what was sent, and what was answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Receipt {
    pub(super) admission_id: String,
    pub(super) sent: super::Prompt,
    pub(super) answer: Value,
}

/// A line of the transcript.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) life: u32,
    /// None: it is about the session itself.
    pub(super) turn: Option<u32>,
    pub(super) role: &'static str,
    pub(super) content: String,
    pub(super) status: &'static str,
    pub(super) attachments: Vec<Attachment>,
    pub(super) admission_ids: Vec<String>,
    pub(super) past: Vec<String>,
    pub(super) notice: Option<&'static str>,
    pub(super) resolution: Option<&'static str>,
}

/// Who still sees a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its owner works with it.
    Open,
    /// It can be read; nothing is admitted, nothing starts.
    Archived,
    /// It was deleted.
    Gone,
}

/// A conversation with its queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    pub(crate) name: usize,
    pub(crate) task: usize,
    pub(crate) life: u32,
    /// Who still sees it.
    pub(crate) standing: Standing,
    /// Grows by one with every durable change of the queue.
    pub(crate) revision: u64,
    pub(crate) entries: Vec<Entry>,
    /// None while ON; else why it is OFF.
    pub(super) off: Option<&'static str>,
    pub(super) turn: Option<Turn>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) transcript: Vec<Message>,
    /// Every `turn.started` and `turn.ended` since the last look.
    pub(crate) told: Vec<(&'static str, Value)>,
    /// Every identified admission that was asked for, accepted or not.
    pub(crate) admission_ids: Vec<(String, super::Prompt)>,
    /// Attachments that were uploaded for it or came in its requests, and their files.
    pub(crate) made: Vec<(u32, File)>,
    /// Uploads that nothing claimed.
    pub(crate) staged: Vec<u32>,
    /// Leases that were given out, those that are over, too.
    pub(crate) leases: Vec<u32>,
    /// Undos that were given out, used ones too.
    pub(crate) undos: Vec<u32>,
    /// Undos that can still be used.
    pub(super) undoable: Vec<u32>,
    /// Turns that began.
    pub(super) begun: u32,
    /// Turns that ended.
    pub(crate) ended: Vec<u32>,
    /// Questions that were asked.
    pub(crate) questions: Vec<u32>,
}

impl Session {
    pub(super) fn new(name: usize, task: usize) -> Self {
        Self {
            name,
            task,
            life: 0,
            standing: Standing::Open,
            revision: 0,
            entries: Vec::new(),
            off: None,
            turn: None,
            receipts: Vec::new(),
            transcript: Vec::new(),
            told: Vec::new(),
            admission_ids: Vec::new(),
            made: Vec::new(),
            staged: Vec::new(),
            leases: Vec::new(),
            undos: Vec::new(),
            undoable: Vec::new(),
            begun: 0,
            ended: Vec::new(),
            questions: Vec::new(),
        }
    }

    /// Returns the entries that are shown, in order.
    pub(crate) fn waiting(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.place == Place::Waiting)
    }

    /// Returns the open turn.
    pub(crate) fn turn(&self) -> Option<u32> {
        self.turn.as_ref().map(|turn| turn.id)
    }

    /// Returns the open question.
    pub(crate) fn question(&self) -> Option<u32> {
        self.turn.as_ref().and_then(|turn| turn.question)
    }

    /// Returns how many entries are stored, reserved ones included.
    pub(super) fn count(&self) -> u64 {
        let stored = |entry: &&Entry| !matches!(entry.place, Place::Removed(_));
        self.entries.iter().filter(stored).count() as u64
    }

    pub(super) fn switch_off(&mut self, reason: &'static str) {
        if self.off.is_none() {
            self.off = Some(reason);
        }
    }

    /// Returns what a session is named by in requests and answers.
    pub(crate) fn identity(&self) -> Value {
        self.identity_in(self.life)
    }

    /// Returns what it was named by in an earlier life.
    pub(crate) fn identity_in(&self, life: u32) -> Value {
        json!({
            "task_id": self.task_name(),
            "session_id": self.session_name(),
            "session_incarnation_id": self.life_name(life),
        })
    }

    /// Returns whether somebody who names it like this may act on it.
    pub(super) fn is_available_as(&self, identity: &Value) -> bool {
        self.standing == Standing::Open && *identity == self.identity()
    }

    pub(crate) fn task_name(&self) -> String {
        format!("$task:{}", self.task)
    }

    pub(crate) fn session_name(&self) -> String {
        format!("$session:{}", self.name)
    }

    pub(crate) fn life_name(&self, life: u32) -> String {
        format!("$incarnation:{}.{life}", self.name)
    }
}
