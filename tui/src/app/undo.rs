//! What this client removed from queues, and how it comes back.
//!
//! The server keeps what was taken for a while under an undo id; this holds the last of those ids.

use usher_shared::error::{Advice, WireError};
use usher_shared::id::UndoId;
use usher_shared::protocol::entry::StatusEntry;
use usher_shared::protocol::queue::QueueRestoreParams;
use usher_shared::protocol::session::Identity;

use super::ask::Toast;
use super::calls::Asked;
use super::state::State;
use crate::i18n::Value;
use crate::keymap::{Command, Context, key_for};
use crate::view::clean::Clean;

/// How many removals can be undone, over all sessions.
const UNDOS_MAX: usize = 32;
/// How much of a removed prompt is named, columns.
const PROMPT_COLUMNS: usize = 40;

/// One removal that can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    pub(crate) identity: Identity,
    pub(crate) undo_id: UndoId,
}

/// The removals that can be undone, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Undos(Vec<Undo>);

impl Undos {
    fn push(&mut self, undo: Undo) {
        if self.0.len() == UNDOS_MAX {
            self.0.remove(0);
        }
        self.0.push(undo);
    }

    fn newest(&self, identity: Identity) -> Option<usize> {
        self.0.iter().rposition(|undo| undo.identity == identity)
    }

    fn take(&mut self, identity: Identity) -> Option<Undo> {
        self.newest(identity).map(|index| self.0.remove(index))
    }
}

impl State {
    /// Tells whether something can be brought back in the open session.
    pub(crate) fn can_restore(&self) -> bool {
        let identity = self.mirror().map(|mirror| mirror.session().identity());
        identity.is_some_and(|identity| self.undos.newest(identity).is_some())
    }

    /// Brings back what was removed last here.
    pub(crate) fn restore(&mut self) {
        let Some(mirror) = self.engine.mirror() else { return };
        let Some(undo) = self.undos.take(mirror.session().identity()) else {
            return self.say("tui-nothing-to-restore");
        };
        let Undo { identity, undo_id } = undo;
        self.call(Asked::Restore(undo), &QueueRestoreParams { identity, undo_id });
    }

    /// An entry was removed.
    pub(crate) fn removed(&mut self, undo: Undo, prompt: &str) {
        self.undos.push(undo);
        self.tell_restorable("tui-removed", ("prompt", prompt.into()));
    }

    /// The queue was cleared.
    pub(crate) fn cleared(&mut self, undo: Undo, count: u64) {
        if count == 0 {
            return self.say("tui-queue-empty");
        }
        self.undos.push(undo);
        self.tell_restorable("tui-cleared", ("count", count.into()));
    }

    fn tell_restorable(&mut self, id: &str, what: (&str, Value<'_>)) {
        let key = key_for(Context::Queue, Command::Restore).map(|key| key.to_string());
        let key = ("key", key.unwrap_or_default().into());
        let text = self.localizer.text_with(id, &[what, key]);
        self.toast = Some(Toast::passing(text, self.now));
    }

    /// Entries are back.
    pub(crate) fn restored(&mut self, count: u64) {
        let text = self.localizer.text_with("tui-restored", &[("count", count.into())]);
        self.toast = Some(Toast::passing(text, self.now));
    }

    /// The server refused to bring something back: perhaps it works later.
    pub(crate) fn restore_refused(&mut self, undo: Undo, error: &WireError) {
        match error.code.advice() {
            Advice::RetrySame | Advice::ReconcileFirst => self.undos.push(undo),
            Advice::FixInput | Advice::GiveUp => {}
        }
    }

    /// Nobody knows whether something came back: asking again does no harm.
    pub(crate) fn restore_unanswered(&mut self, undo: Undo) {
        self.undos.push(undo);
    }

    /// Returns how a prompt is named once it is gone.
    pub(crate) fn name_of(&self, entry: &StatusEntry) -> String {
        let text = match entry {
            StatusEntry::Whole(entry) => Clean::line(entry.content.trim()),
            StatusEntry::Stub { .. } => Clean::line(self.theme.signs.cut),
        };
        text.cut(PROMPT_COLUMNS, self.theme.signs.cut).as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use usher_shared::id::{IncarnationId, SessionId, TaskId};
    use uuid::Uuid;

    use super::*;

    fn undo(session: u128, number: u128) -> Undo {
        Undo {
            identity: Identity {
                task_id: TaskId::from_uuid(Uuid::from_u128(1)),
                session_id: SessionId::from_uuid(Uuid::from_u128(session)),
                session_incarnation_id: IncarnationId::from_uuid(Uuid::from_u128(3)),
            },
            undo_id: UndoId::from_uuid(Uuid::from_u128(number)),
        }
    }

    #[test]
    fn the_newest_of_the_session_is_undone_and_the_oldest_is_forgotten() {
        let mut undos = Undos::default();
        undos.push(undo(2, 0));
        for number in 1..=UNDOS_MAX as u128 - 1 {
            undos.push(undo(1, number));
        }
        undos.push(undo(2, 100));
        assert_eq!(undos.0.len(), UNDOS_MAX);
        let identity = |session| undo(session, 0).identity;
        assert_eq!(undos.take(identity(1)), Some(undo(1, UNDOS_MAX as u128 - 1)));
        assert_eq!(undos.take(identity(2)), Some(undo(2, 100)));
        assert_eq!(undos.take(identity(2)), None);
    }
}
