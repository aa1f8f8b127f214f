//! Drafts on disk: what is written but not sent survives the program.
//!
//! The open draft is written down shortly after it changed, and at once where it goes away: when it
//! is sent, in one transaction with its row among the sends, and when another session is opened.

use std::collections::BTreeMap;

use usher_shared::client::JournalOrder;
use usher_shared::id::{SessionId, StoreId, UserId};
use usher_shared::time::MonoMillis;
use uuid::Uuid;

use super::state::State;
use crate::journal::{Draft, JournalJob};

/// How long a draft may be on the screen alone, milliseconds: typing is not written key by key.
const WRITE_AFTER_MS: u64 = 300;

/// Stands for the session of a draft that was written before any was open.
const HOMELESS: SessionId = SessionId::from_uuid(Uuid::nil());

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

    /// The program starts: what was written while no session was open yet belongs to none, and to no
    /// server.
    pub(crate) fn ask_for_homeless_draft(&mut self) {
        if self.journals() {
            let (store_id, user_id) = (StoreId::default(), UserId::default());
            self.journal_jobs.push(JournalJob::TakeDrafts { store_id, user_id });
        }
    }

    /// Looks whether the open draft is to be written down, now or soon.
    pub(crate) fn watch_draft(&mut self) {
        if !self.journals() {
            return;
        }
        let open = self.composer_of.unwrap_or_default();
        let text = self.composer.buffer().text();
        let left_behind = self.put_away.keys().any(|id| !self.is_draft_written(*id));
        let came_home = self.composer_of.is_some() && !self.drafts.is_written(HOMELESS, "");
        if self.drafts.is_written(open, text) && !left_behind && !came_home {
            self.drafts.write_at = None;
        } else if text.is_empty() || left_behind || came_home {
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
        if !self.journals() {
            return;
        }
        let put_away = self.put_away.iter();
        let texts = put_away.map(|(id, composer)| (*id, composer.buffer().text().to_owned()));
        let open = (self.composer_of.unwrap_or_default(), self.composer.buffer().text().to_owned());
        // What had no session yet has one now.
        let came_home = self.composer_of.map(|_| (HOMELESS, String::new()));
        let texts: Vec<_> = texts.chain([open]).chain(came_home).collect();
        for (session_id, text) in texts {
            self.write_draft(session_id, text);
        }
    }

    fn write_draft(&mut self, session_id: SessionId, text: String) {
        let hello = self.engine.hello();
        let (store_id, user_id) = match hello {
            _ if session_id == HOMELESS => (StoreId::default(), UserId::default()),
            Some(hello) => (hello.server.store_id, hello.user.id),
            None => return,
        };
        if self.drafts.is_written(session_id, &text) {
            return;
        }
        if text.is_empty() {
            self.drafts.written.remove(&session_id);
        } else {
            self.drafts.written.insert(session_id, text.clone());
        }
        let draft = Draft { store_id, user_id, session_id, text };
        self.journal_jobs.push(JournalJob::PutDraft(draft));
    }

    /// Takes the drafts that an earlier run left: each to its session, before what was typed since.
    pub(crate) fn take_drafts(&mut self, drafts: Vec<Draft>) {
        for Draft { session_id, text, .. } in drafts {
            let composer = if session_id == HOMELESS || self.composer_of == Some(session_id) {
                &mut self.composer
            } else {
                self.put_away.entry(session_id).or_default()
            };
            composer.put_before(&text);
            self.drafts.written.insert(session_id, text);
        }
    }
}
