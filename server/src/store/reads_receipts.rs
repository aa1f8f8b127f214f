//! The proofs of admissions, put together from what each of them adds to the one before.

use std::sync::Arc;

use usher_shared::counter::TargetRevision;
use usher_shared::id::{AdmissionId, EntryId};

use super::conn::{Param, query_one};
use super::enclosed::enclosed;
use super::error::StoreError;
use super::reads::Reads;
use super::{row, sql};
use crate::domain::admission::{Receipt, ReceiptEnd, ReceiptKey};
use crate::domain::enclosed::Enclosed;
use crate::domain::entry::Provenance;
use crate::domain::session::IncarnationKey;

impl Reads<'_> {
    /// Returns the proof of an admission.
    pub fn receipt(
        &mut self,
        incarnation: IncarnationKey,
        id: &AdmissionId,
    ) -> Result<Option<Receipt>, StoreError> {
        let params = [Param::Int(incarnation.0), Param::Text(id.as_str())];
        let found = query_one(self.conn, sql::RECEIPT_GET, &params, |row| {
            Ok((row::receipt(row, id)?, row.int(15)?, row.int(16)?))
        })?;
        let Some((mut receipt, base, base_bytes)) = found else { return Ok(None) };
        if base != 0 {
            let mut whole = self.snapshot(base)?;
            let carried = std::mem::take(&mut receipt.entry.enclosed);
            whole.add(id.clone(), base_bytes, &receipt.entry.content, carried)?;
            receipt.entry.content = Arc::from(whole.content);
            receipt.entry.enclosed = whole.enclosed;
            receipt.entry.provenance = whole.provenance;
        }
        Ok(Some(receipt))
    }

    /// Returns what the next receipt may go on from.
    pub fn receipt_end(
        &mut self,
        incarnation: IncarnationKey,
        id: &AdmissionId,
    ) -> Result<Option<ReceiptEnd>, StoreError> {
        let params = [Param::Int(incarnation.0), Param::Text(id.as_str())];
        query_one(self.conn, sql::RECEIPT_END, &params, |row| {
            let counter = |value: i64| {
                u64::try_from(value).map_err(|_| StoreError::Damaged("a negative counter"))
            };
            Ok(ReceiptEnd {
                key: ReceiptKey(row.int(0)?),
                entry_id: EntryId::from_uuid(row.uuid(1)?),
                revision: TargetRevision::new(counter(row.int(2)?)?),
                content_bytes: usize::try_from(row.int(3)?)
                    .map_err(|_| StoreError::Damaged("a negative size"))?,
            })
        })
    }

    /// Returns what the receipt with this key says.
    pub(super) fn snapshot(&mut self, key: i64) -> Result<Snapshot, StoreError> {
        let mut whole: Option<Snapshot> = None;
        self.conn.query(sql::RECEIPT_CHAIN, &[Param::Int(key)], &mut |row| {
            let id = AdmissionId::parse(row.text(0)?);
            let id = id.map_err(|_| StoreError::Damaged("an admission ID"))?;
            match &mut whole {
                Some(whole) => {
                    whole.add(id, row.int(1)?, row.text(2)?, enclosed(row.opt_text(4)?)?)?;
                }
                None => {
                    whole = Some(Snapshot {
                        content: row.text(2)?.to_owned(),
                        provenance: row::receipt_provenance(row.opt_text(3)?, &id)?,
                        enclosed: enclosed(row.opt_text(4)?)?,
                    });
                }
            }
            Ok(())
        })?;
        whole.ok_or(StoreError::Damaged("a receipt goes on from none"))
    }
}

/// What a receipt says of its entry.
pub(super) struct Snapshot {
    pub(super) content: String,
    pub(super) enclosed: Enclosed,
    pub(super) provenance: Provenance,
}

impl Snapshot {
    /// Becomes what the next receipt says: `bytes` of the content and then `rest`, and one admission
    /// more. Nothing `carried`: the same as before, since a fold takes nothing away.
    fn add(
        &mut self,
        id: AdmissionId,
        bytes: i64,
        rest: &str,
        carried: Enclosed,
    ) -> Result<(), StoreError> {
        let kept = usize::try_from(bytes).ok().filter(|at| self.content.is_char_boundary(*at));
        let kept = kept.ok_or(StoreError::Damaged("a receipt does not go on from another"))?;
        self.content.truncate(kept);
        self.content.push_str(rest);
        self.provenance.admission_ids.push(id);
        if carried != Enclosed::default() {
            self.enclosed = carried;
        }
        Ok(())
    }
}
