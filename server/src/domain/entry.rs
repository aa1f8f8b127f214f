//! A queue entry as decisions see it.

use std::sync::Arc;

use usher_shared::counter::{Position, TargetRevision};
use usher_shared::id::{AdmissionId, EntryId, TaskId, TurnId};
use usher_shared::limits::ADMISSION_IDS_MAX;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::SenderKind;

use super::enclosed::Enclosed;

/// Who put an entry into the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// What the sender is.
    pub kind: SenderKind,
    /// Its id among its kind.
    pub id: String,
    /// For people.
    pub name: String,
    /// Agents: the task that the agent works for.
    pub task: Option<TaskId>,
}

/// The admissions that an entry was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Of the session's current life: they prove acceptance.
    pub admission_ids: Vec<AdmissionId>,
    /// From before a reset or transfer: they prove nothing.
    pub past: Vec<AdmissionId>,
}

impl Provenance {
    /// Returns the size of all admission IDs together.
    pub fn bytes(&self) -> usize {
        self.admission_ids.iter().chain(&self.past).map(|id| id.as_str().len()).sum()
    }

    /// Returns the same in another life of the session, where nothing of it proves acceptance. The
    /// newest are kept if they are many.
    #[must_use]
    pub fn retired(self) -> Self {
        let Self { admission_ids, mut past } = self;
        // One that was used in two lives is named once.
        past.extend(admission_ids.into_iter().filter(|id| !past.contains(id)).collect::<Vec<_>>());
        past.drain(..past.len().saturating_sub(ADMISSION_IDS_MAX));
        Self { admission_ids: Vec::new(), past }
    }
}

/// A prompt waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// Its order key.
    pub position: Position,
    /// The prompt.
    pub content: Arc<str>,
    /// The model it asks for.
    pub model: Option<String>,
    /// Whether it runs in the agent's plan mode.
    pub plan_mode: bool,
    /// What it carries beside its text.
    pub enclosed: Enclosed,
    /// What it was made from.
    pub provenance: Provenance,
    /// When it was accepted.
    pub queued_at: UnixMillis,
    /// Who sent it.
    pub queued_by: Sender,
    /// Grows by update, fold and merge.
    pub revision: TargetRevision,
    /// The turn it is reserved for; such an entry is not visible.
    pub reserved_for: Option<TurnId>,
}

impl Entry {
    /// Returns the size of what a receipt repeats of it beside its text, bytes.
    pub fn metadata_bytes(&self) -> usize {
        self.provenance.bytes() + self.enclosed.bytes()
    }
}
