//! What was sent before, and the drafts that were left while looking at it.

use std::collections::BTreeMap;

use super::buffer::Buffer;

/// Drafts that are kept.
const ENTRIES_MAX: usize = 200;

/// Sent drafts, oldest first. Moving through them keeps every change that was made to one until
/// something is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entries: Vec<Buffer>,
    /// Changed drafts by their place; the one after the last entry is what is being written.
    left: BTreeMap<usize, Buffer>,
    /// Counted from the oldest; `entries.len()` is what is being written.
    at: usize,
}

impl History {
    /// Adds what was sent and goes back to an empty draft.
    pub(super) fn push(&mut self, draft: Buffer) {
        if !draft.is_empty() && self.entries.last() != Some(&draft) {
            self.entries.push(draft);
        }
        if self.entries.len() > ENTRIES_MAX {
            self.entries.remove(0);
        }
        self.left.clear();
        self.at = self.entries.len();
    }

    /// Leaves `draft` where it is and returns the one before it.
    pub(super) fn older(&mut self, draft: &Buffer) -> Option<Buffer> {
        let to = self.at.checked_sub(1)?;
        Some(self.go(draft, to))
    }

    /// Leaves `draft` where it is and returns the one after it.
    pub(super) fn newer(&mut self, draft: &Buffer) -> Option<Buffer> {
        let to = self.at + 1;
        (to <= self.entries.len()).then(|| self.go(draft, to))
    }

    /// Returns what was sent with this text, with its folds.
    pub(super) fn recall(&self, text: &str) -> Option<Buffer> {
        self.entries.iter().rev().find(|entry| entry.text() == text).cloned()
    }

    fn go(&mut self, draft: &Buffer, to: usize) -> Buffer {
        self.left.insert(self.at, draft.clone());
        self.at = to;
        let changed = self.left.get(&to);
        changed.or(self.entries.get(to)).cloned().unwrap_or_default()
    }
}
