//! What holds for the server's rows after every commit.

use std::collections::BTreeMap;

use usher_shared::counter::{QueueRevision, TargetRevision};
use usher_shared::id::{AdmissionId, EntryId, IncarnationId, SessionId};

use crate::store::{Row, Store};

/// An entry as it was shown, apart from who edits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) id: EntryId,
    pub(super) content: String,
    pub(super) revision: TargetRevision,
    pub(super) admission_ids: Vec<AdmissionId>,
}

/// What was visible at each revision.
#[derive(Default)]
pub(super) struct Rows {
    visible: BTreeMap<(SessionId, QueueRevision), (IncarnationId, Vec<Shown>)>,
}

impl Rows {
    pub(super) fn visible_at(
        &self,
        session: SessionId,
        revision: QueueRevision,
    ) -> Option<&(IncarnationId, Vec<Shown>)> {
        self.visible.get(&(session, revision))
    }

    pub(super) fn check(&mut self, store: &Store) -> Result<(), String> {
        for row in store.rows() {
            self.remember(row)?;
            once(row)?;
            let stored = row.entries.iter().filter(|kept| kept.removed.is_none()).count() as u64;
            if stored != row.session.queue.stored {
                let counted = row.session.queue.stored;
                return Err(format!("{stored} entries are stored and {counted} are counted"));
            }
        }
        Ok(())
    }

    /// One revision is one queue, for ever.
    fn remember(&mut self, row: &Row) -> Result<(), String> {
        let shown = |entry: usher_server::domain::entry::Entry| Shown {
            id: entry.id,
            content: entry.content.to_string(),
            revision: entry.revision,
            admission_ids: entry.provenance.admission_ids,
        };
        let visible: Vec<Shown> = row.visible().into_iter().map(shown).collect();
        let session = &row.session;
        let key = (session.id, session.queue.revision);
        let now = (session.incarnation_id, visible);
        let known = self.visible.entry(key).or_insert_with(|| now.clone());
        if *known != now {
            return Err(format!("revision {:?} was {known:?} and is {now:?}", key.1));
        }
        Ok(())
    }
}

/// Every admission that has a receipt is in exactly one place, and no text is in two.
fn once(row: &Row) -> Result<(), String> {
    let entries = row.entries.iter().map(|kept| &kept.entry.provenance);
    let messages = row.messages.iter().map(|message| &message.details.provenance);
    let mut places: BTreeMap<&AdmissionId, usize> = BTreeMap::new();
    for provenance in entries.chain(messages) {
        for id in provenance.admission_ids.iter().chain(&provenance.past) {
            *places.entry(id).or_default() += 1;
        }
    }
    for id in &row.dropped {
        *places.entry(id).or_default() += 1;
    }
    let mut receipts: BTreeMap<&AdmissionId, usize> = BTreeMap::new();
    for (_, receipt) in &row.receipts {
        *receipts.entry(&receipt.identified.id).or_default() += 1;
    }
    for (id, lives) in receipts {
        // An ID that somebody gave can be accepted once in every life; past ones are named once.
        let found = places.get(id).copied().unwrap_or(0);
        if found == 0 || found > lives {
            return Err(format!("admission {id} is in {found} places"));
        }
    }
    let texts: Vec<&str> = (row.entries.iter().map(|kept| &*kept.entry.content))
        .chain(row.messages.iter().map(|message| &*message.content))
        .collect();
    let texts = texts.concat();
    for token in texts.split('<').filter_map(|rest| rest.split_once('>')).map(|(token, _)| token) {
        if token.starts_with('c') && texts.matches(&format!("<{token}>")).count() > 1 {
            return Err(format!("the prompt <{token}> is there more than once"));
        }
    }
    Ok(())
}
