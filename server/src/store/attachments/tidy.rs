//! Files of attachments that no row speaks of any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedMutexGuard;
use usher_shared::id::AttachmentId;

use super::super::conn::{Param, query_one};
use super::super::error::StoreError;
use super::super::reads::Reads;
use super::super::sql::attachment as sql;
use super::{AttachmentBytes, blocking};

/// The right to tidy, until it is dropped.
pub struct Tidying {
    /// Uploads whose files were on their way before the rows are looked at.
    arriving: Vec<AttachmentId>,
    _alone: OwnedMutexGuard<()>,
}

impl AttachmentBytes {
    /// Says that there may be files that no row speaks of any more.
    pub fn mark_untidy(&self) {
        self.untidy.store(true, Ordering::Relaxed);
    }

    /// Tells whether [`Reads::tidy_attachments`] may find something; asked once, answered once.
    pub fn was_untidy(&self) -> bool {
        self.files.is_some() && self.untidy.swap(false, Ordering::Relaxed)
    }

    /// Names the files on their way: to be asked for before the rows are looked at. Waits for whoever
    /// tidies already: what was held since they began is known only until the next begins.
    pub async fn begin_tidying(&self) -> Result<Tidying, StoreError> {
        let files = self.files.clone().ok_or(StoreError::Closed)?;
        let alone = Arc::clone(&self.tidying).lock_owned().await;
        let arriving = blocking(move || {
            files.begin_tidying();
            files.all_arriving()
        });
        Ok(Tidying { arriving: arriving.await?, _alone: alone })
    }
}

impl Reads<'_> {
    /// Deletes files that no row speaks of.
    pub fn tidy_attachments(
        &mut self,
        bytes: &AttachmentBytes,
        tidying: &Tidying,
    ) -> Result<(), StoreError> {
        let Some(files) = &bytes.files else { return Ok(()) };
        for id in &tidying.arriving {
            let params = [Param::Id(id.uuid())];
            if query_one(self.conn, sql::UPLOAD_ARRIVING, &params, |_| Ok(()))?.is_none() {
                files.forget_arriving(*id)?;
            }
        }
        for digest in files.all_objects()? {
            let params = [Param::Bytes(&digest.0)];
            if query_one(self.conn, sql::CONTENT_KNOWN, &params, |_| Ok(()))?.is_none() {
                files.remove_object(digest)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tidy_tests.rs"]
mod tests;
