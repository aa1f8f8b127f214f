//! What must hold in every history, checked after every step.
//!
//! Knows what people submitted, what clients said became of it, what the server committed, and what
//! screens show. It takes nobody's word: a client's "accepted" is looked up in the server's rows.

mod edits;
mod rows;
mod screens;
mod sends;

use std::collections::BTreeMap;

use usher_shared::id::ClientInstance;

use crate::network::LinkNo;
use crate::server::{Fact, Server};
use edits::Edits;
use rows::Rows;
use sends::Sends;

/// See the module.
pub(crate) struct Ledger {
    /// The first thing that does not hold.
    wrong: Option<String>,
    pub(crate) sends: Sends,
    pub(crate) edits: Edits,
    rows: Rows,
    greeted: BTreeMap<ClientInstance, LinkNo>,
    commits: u64,
    /// Nothing was looked at yet.
    is_new: bool,
}

impl Ledger {
    pub(crate) fn new(has_receipts: bool) -> Self {
        Self {
            wrong: None,
            sends: Sends::new(has_receipts),
            edits: Edits::default(),
            rows: Rows::default(),
            greeted: BTreeMap::new(),
            commits: 0,
            is_new: true,
        }
    }

    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    pub(crate) fn must(&mut self, holds: bool, or: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(or());
        }
    }

    /// Looks at what the server did in one step.
    pub(crate) fn look_at(&mut self, server: &mut Server) {
        for fact in server.take_facts() {
            self.take(fact, server);
        }
        if self.commits != server.commits || self.is_new {
            (self.commits, self.is_new) = (server.commits, false);
            self.committed(server);
        }
    }

    /// Looks at the rows once more: a crash may have changed them.
    pub(crate) fn look_again(&mut self, server: &Server) {
        self.committed(server);
    }

    fn committed(&mut self, server: &Server) {
        for row in server.store.rows() {
            self.edits.look_at(row);
        }
        let Self { rows, sends, .. } = self;
        let checked = rows.check(&server.store).and_then(|()| sends.check(&server.store));
        if let Err(wrong) = checked {
            self.must(false, || wrong);
        }
    }

    fn take(&mut self, fact: Fact, server: &Server) {
        match fact {
            Fact::Greeted(instance, link) => {
                self.greeted.insert(instance, link);
            }
            Fact::Works(instance, link) => {
                let newest = self.greeted.get(&instance).copied();
                self.must(newest == Some(link), || {
                    format!("link {link} is served after the same client was greeted on {newest:?}")
                });
            }
            Fact::Added { asked, current } => self.must(asked == current, || {
                format!("an admission for {asked:?} was accepted in {current:?}")
            }),
            Fact::Granted(_)
            | Fact::Renewed(_)
            | Fact::Ended(_)
            | Fact::Taken(_)
            | Fact::Saved { .. }
            | Fact::Lost(_)
            | Fact::LinkGone(_)
            | Fact::Started => {
                if let Err(wrong) = self.edits.take(fact, server) {
                    self.must(false, || wrong);
                }
            }
        }
    }
}
