//! The journal of one client's machine: rows that survive the client, unless the machine's disk does
//! not.

use usher_shared::client::{
    Input, JournalOrder, JournalRow, JournalStage, Journaled, LeftRow, Receipts, UNSENT_AGE_MAX_MS,
};
use usher_shared::id::AdmissionId;

use crate::broken::Broken;

struct Kept {
    row: JournalRow,
    /// The life of the client that the row belongs to.
    life: u64,
    added_at: u64,
    /// How much older it is than that says.
    age: u64,
}

/// See the module.
pub(crate) struct JournalFile {
    rows: Vec<Kept>,
    broken: Option<Broken>,
}

impl JournalFile {
    pub(crate) fn new(broken: Option<Broken>) -> Self {
        Self { rows: Vec::new(), broken }
    }

    /// Does what a client of this life orders; returns what it is answered.
    pub(crate) fn obey(&mut self, order: JournalOrder, life: u64, now: u64) -> Option<Input> {
        match order {
            JournalOrder::Keep(row) => Some(self.keep(*row, life, now)),
            JournalOrder::Mark(id, stage, receipts) => self.mark(id, stage, receipts, life),
            JournalOrder::Drop(id) => {
                if self.broken != Some(Broken::RowsStay) {
                    self.rows.retain(|kept| !kept.is(life, &id));
                }
                None
            }
            JournalOrder::Adopt { store_id, user_id, rows_max } => {
                let is_theirs =
                    |row: &JournalRow| (row.store_id, row.user_id) == (store_id, user_id);
                Some(Input::Adopted(self.adopt(is_theirs, rows_max, life, now)))
            }
        }
    }

    fn keep(&mut self, row: JournalRow, life: u64, now: u64) -> Input {
        let id = row.admission_id.clone();
        let outcome = match self.rows.iter().any(|kept| kept.is(life, &id)) {
            true => Journaled::Failed,
            false => Journaled::OnDisk,
        };
        if outcome == Journaled::OnDisk && self.broken != Some(Broken::SendsUnwritten) {
            self.rows.push(Kept { row, life, added_at: now, age: 0 });
        }
        Input::Journaled { id, outcome }
    }

    fn mark(
        &mut self,
        id: AdmissionId,
        stage: JournalStage,
        receipts: Receipts,
        life: u64,
    ) -> Option<Input> {
        let found = self.rows.iter_mut().find(|kept| kept.is(life, &id));
        let outcome = if found.is_some() { Journaled::OnDisk } else { Journaled::Failed };
        if let Some(kept) = found {
            (kept.row.stage, kept.row.receipts) = (stage, receipts);
        }
        match stage {
            JournalStage::Sent => Some(Input::Journaled { id, outcome }),
            JournalStage::Unsent | JournalStage::Refused(_) => None,
        }
    }

    /// Takes over what dead clients left. What has the name of a row that is here stays where it is.
    fn adopt(
        &mut self,
        is_theirs: impl Fn(&JournalRow) -> bool,
        rows_max: usize,
        life: u64,
        now: u64,
    ) -> Vec<LeftRow> {
        let mut adopted = Vec::new();
        for index in 0..self.rows.len() {
            let kept = &self.rows[index];
            let id = &kept.row.admission_id;
            let is_named = self.rows.iter().any(|other| other.is(life, id));
            if kept.life == life || !is_theirs(&kept.row) || is_named || adopted.len() == rows_max {
                continue;
            }
            let kept = &mut self.rows[index];
            kept.life = life;
            let mut row = kept.row.clone();
            if self.broken == Some(Broken::HeirResends) {
                row.stage = JournalStage::Unsent;
            }
            adopted.push(LeftRow { row, age_ms: now - kept.added_at + kept.age });
        }
        adopted
    }

    /// Tells whether a client of this life has a row of this admission.
    pub(crate) fn has(&self, life: u64, id: &AdmissionId) -> bool {
        self.rows.iter().any(|kept| kept.is(life, id))
    }

    /// Tells whether any client, dead or alive, has a row of this admission.
    pub(crate) fn knows(&self, id: &AdmissionId) -> bool {
        self.rows.iter().any(|kept| kept.row.admission_id == *id)
    }

    /// Time goes by while nobody is there.
    pub(crate) fn grow_old(&mut self) {
        self.rows.iter_mut().for_each(|kept| kept.age += 2 * UNSENT_AGE_MAX_MS);
    }

    /// The disk is lost.
    pub(crate) fn lose(&mut self) {
        self.rows.clear();
    }

    /// Returns the admissions that a client of this life has rows of.
    pub(crate) fn ids(&self, life: u64) -> Vec<AdmissionId> {
        let own = self.rows.iter().filter(|kept| kept.life == life);
        own.map(|kept| kept.row.admission_id.clone()).collect()
    }
}

impl Kept {
    fn is(&self, life: u64, id: &AdmissionId) -> bool {
        self.life == life && self.row.admission_id == *id
    }
}
