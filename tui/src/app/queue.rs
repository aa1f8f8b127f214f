//! The queue panel: which entry is selected, and what may be done to it.

use usher_shared::id::EntryId;
use usher_shared::protocol::entry::StatusEntry;
use usher_shared::protocol::queue::{AutoRunSetParams, QueueClearParams, QueueRemoveParams};

use super::ask::Ask;
use super::calls::Asked;
use super::state::{Focus, State};

/// The selection. It stays on its entry, wherever others move it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueuePanel {
    selected: Option<EntryId>,
    /// Where it was last seen: what takes its place is selected when it goes.
    index: usize,
}

/// Which way a selection moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the one before.
    Up,
    /// To the one after.
    Down,
}

impl Step {
    /// Moves `index` within `0..count`.
    pub(crate) fn of(self, index: usize, count: usize) -> usize {
        match self {
            Self::Up => index.saturating_sub(1),
            Self::Down => (index + 1).min(count.saturating_sub(1)),
        }
    }
}

impl QueuePanel {
    /// Returns the selected entry.
    pub(crate) fn selected(&self) -> Option<EntryId> {
        self.selected
    }

    /// Takes the entries as they are now.
    pub(crate) fn sync(&mut self, entries: &[StatusEntry]) {
        let at = |id| entries.iter().position(|entry| entry.id() == id);
        self.index =
            self.selected.and_then(at).unwrap_or(self.index.min(entries.len().saturating_sub(1)));
        self.selected = entries.get(self.index).map(StatusEntry::id);
    }

    fn step(&mut self, step: Step, entries: &[StatusEntry]) {
        self.sync(entries);
        self.index = step.of(self.index, entries.len());
        self.selected = entries.get(self.index).map(StatusEntry::id);
    }
}

impl State {
    /// Moves the focus into the queue.
    pub(crate) fn focus_queue(&mut self) {
        if let Some(mirror) = self.engine.mirror() {
            self.queue.sync(&mirror.queue().entries);
            self.focus = Focus::Queue;
        }
    }

    pub(crate) fn step_in_queue(&mut self, step: Step) {
        if let Some(mirror) = self.engine.mirror() {
            self.queue.step(step, &mirror.queue().entries);
        }
    }

    pub(crate) fn remove_selected(&mut self) {
        let Some(mirror) = self.mirror() else { return };
        let identity = mirror.session().identity();
        let selected = self.queue.selected();
        let entries = &mirror.queue().entries;
        if let Some(entry) = entries.iter().find(|entry| Some(entry.id()) == selected) {
            let request = QueueRemoveParams { identity, entry_id: entry.id() };
            let prompt = self.name_of(entry);
            self.call(Asked::Remove { identity, prompt }, &request);
        }
    }

    pub(crate) fn toggle_auto_run(&mut self) {
        if let Some(mirror) = self.mirror() {
            let request = AutoRunSetParams {
                identity: mirror.session().identity(),
                enabled: !mirror.queue().auto_run,
            };
            self.call(Asked::Change, &request);
        }
    }

    pub(crate) fn ask_to_clear(&mut self) {
        let Some(mirror) = self.mirror() else { return };
        let queue = mirror.queue();
        if queue.entries.is_empty() {
            self.say("tui-queue-empty");
        } else {
            self.ask(Ask::ClearQueue {
                revision: queue.queue_revision,
                count: queue.entries.len() as u64,
            });
        }
    }

    pub(crate) fn clear_queue(&mut self, ask: Ask) {
        let Ask::ClearQueue { revision, .. } = ask else {
            return;
        };
        if let Some(mirror) = self.mirror() {
            let identity = mirror.session().identity();
            let request = QueueClearParams { identity, expected_queue_revision: Some(revision) };
            self.call(Asked::Clear(identity), &request);
        }
    }
}

#[cfg(test)]
mod tests {
    use usher_shared::counter::Position;
    use uuid::Uuid;

    use super::*;

    fn entries(ids: &[u128]) -> Vec<StatusEntry> {
        let stub = |id: &u128| StatusEntry::Stub {
            id: entry(*id),
            position: Position::new(1),
            truncated: true,
        };
        ids.iter().map(stub).collect()
    }

    fn entry(id: u128) -> EntryId {
        EntryId::from_uuid(Uuid::from_u128(id))
    }

    #[test]
    fn the_selection_stays_on_its_entry_when_others_move_it() {
        let mut panel = QueuePanel::default();
        panel.sync(&entries(&[1, 2, 3]));
        panel.step(Step::Down, &entries(&[1, 2, 3]));
        assert_eq!(panel.selected(), Some(entry(2)));
        panel.sync(&entries(&[3, 4, 1, 2]));
        assert_eq!(panel.selected(), Some(entry(2)));
        panel.step(Step::Up, &entries(&[3, 4, 1, 2]));
        assert_eq!(panel.selected(), Some(entry(1)));
    }

    #[test]
    fn what_takes_its_place_is_selected_when_it_goes() {
        let mut panel = QueuePanel::default();
        panel.sync(&entries(&[1, 2, 3]));
        panel.step(Step::Down, &entries(&[1, 2, 3]));
        panel.sync(&entries(&[1, 3]));
        assert_eq!(panel.selected(), Some(entry(3)));
        panel.sync(&entries(&[1]));
        assert_eq!(panel.selected(), Some(entry(1)));
        panel.sync(&[]);
        assert_eq!(panel.selected(), None);
        panel.step(Step::Down, &[]);
        assert_eq!(panel.selected(), None);
    }
}
