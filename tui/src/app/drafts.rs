//! Drafts on disk: what is written but not sent survives the program.
//!
//! The open draft is written down shortly after it changed, and at once where it goes away: when it
//! is sent, in one transaction with its row among the sends, and when another session is opened.

use std::collections::BTreeMap;

use usher_shared::client::JournalOrder;
use usher_shared::id::SessionId;
use usher_shared::time::MonoMillis;

use super::state::State;
use crate::journal::{Draft, JournalJob};

/// How long a draft may be on the screen alone, milliseconds: typing is not written key by key.
const WRITE_AFTER_MS: u64 = 300;

/// What is on disk of the drafts.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    /// The texts as they were handed over, none of them empty.
    written: BTreeMap<SessionId, String>,
    write_at: Option<MonoMillis>,
}

impl Drafts {
    /// When the open draft is written down.
    pub(crate) const fn deadline(&self) -> Option<MonoMillis> {
        self.write_at
    }

    fn is_written(&self, session_id: SessionId, text: &str) -> bool {
        self.written.get(&session_id).map_or("", String::as_str) == text
    }
}

impl State {
    /// Passes an order of the engine on. Drafts are taken over together with prompts.
    pub(crate) fn journal_order(&mut self, order: JournalOrder) {
        if let JournalOrder::Adopt { store_id, user_id, .. } = order {
            self.journal_jobs.push(JournalJob::TakeDrafts { store_id, user_id });
        }
        self.journal_jobs.push(JournalJob::Order(order));
    }

    /// Looks whether the open draft is to be written down, now or soon.
    pub(crate) fn watch_draft(&mut self) {
        let Some(open) = self.composer_of.filter(|_| self.journals()) else {
            return;
        };
        let text = self.composer.buffer().text();
        let left_behind = self.put_away.keys().any(|id| !self.is_draft_written(*id));
        if self.drafts.is_written(open, text) && !left_behind {
            self.drafts.write_at = None;
        } else if text.is_empty() || left_behind {
            self.write_drafts();
        } else {
            let at = *self.drafts.write_at.get_or_insert(self.now.plus(WRITE_AFTER_MS));
            if at <= self.now {
                self.write_drafts();
            }
        }
    }

    fn is_draft_written(&self, id: SessionId) -> bool {
        let draft = self.put_away.get(&id);
        draft.is_none_or(|draft| self.drafts.is_written(id, draft.buffer().text()))
    }

    /// Writes down every draft that is not on disk as it is.
    pub fn write_drafts(&mut self) {
        self.drafts.write_at = None;
        let Some(hello) = self.engine.hello().filter(|_| self.journals()) else {
            return;
        };
        let (store_id, user_id) = (hello.server.store_id, hello.user.id);
        let open = self.composer_of.map(|id| (id, &self.composer));
        let all = self.put_away.iter().map(|(id, composer)| (*id, composer)).chain(open);
        for (session_id, composer) in all {
            let text = composer.buffer().text();
            if self.drafts.is_written(session_id, text) {
                continue;
            }
            let text = text.to_owned();
            if text.is_empty() {
                self.drafts.written.remove(&session_id);
            } else {
                self.drafts.written.insert(session_id, text.clone());
            }
            let draft = Draft { store_id, user_id, session_id, text };
            self.journal_jobs.push(JournalJob::PutDraft(draft));
        }
    }

    /// Takes the drafts that an earlier run left: each to its session, before what was typed since.
    pub(crate) fn take_drafts(&mut self, drafts: Vec<Draft>) {
        for Draft { session_id, text, .. } in drafts {
            let composer = if self.composer_of == Some(session_id) {
                &mut self.composer
            } else {
                self.put_away.entry(session_id).or_default()
            };
            composer.put_before(&text);
            self.drafts.written.insert(session_id, text);
        }
    }
}
