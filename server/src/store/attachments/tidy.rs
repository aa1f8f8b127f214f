//! Files of attachments that no row speaks of any more.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use usher_shared::id::AttachmentId;

use super::super::conn::{Param, query_one};
use super::super::error::StoreError;
use super::super::reads::Reads;
use super::super::sql::attachment as sql;
use super::{AttachmentBytes, Held, Pin, blocking};
use crate::domain::attachment::ContentDigest;

/// Which files have to be looked at.
#[derive(Debug)]
pub enum Suspects {
    /// These objects.
    Some(HashSet<ContentDigest>),
    /// All that there are.
    All,
}

/// The right to tidy, until it is dropped.
pub struct Tidying {
    /// Uploads whose files were on their way before the rows are looked at.
    arriving: Vec<AttachmentId>,
    _alone: OwnedMutexGuard<()>,
}

impl AttachmentBytes {
    /// Says that any file may be one that no row speaks of any more.
    pub fn suspect_all(&self) {
        *self.suspects() = Suspects::All;
    }

    /// Says it of what was held.
    pub fn suspect(&self, held: &Held) {
        if let Suspects::Some(digests) = &mut *self.suspects() {
            digests.extend(held.0.iter().map(Pin::digest));
        }
    }

    /// Returns what [`Reads::tidy_attachments`] has to look at, once.
    pub fn take_suspects(&self) -> Option<Suspects> {
        let taken = mem::replace(&mut *self.suspects(), Suspects::Some(HashSet::new()));
        match &taken {
            Suspects::Some(digests) if digests.is_empty() => None,
            _ => self.files.is_some().then_some(taken),
        }
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Deletes the files among `suspects` that no row speaks of.
    pub fn tidy_attachments(
        &mut self,
        bytes: &AttachmentBytes,
        suspects: Suspects,
        tidying: &Tidying,
    ) -> Result<(), StoreError> {
        let Some(files) = &bytes.files else { return Ok(()) };
        for id in &tidying.arriving {
            let params = [Param::Id(id.uuid())];
            if query_one(self.conn, sql::UPLOAD_ARRIVING, &params, |_| Ok(()))?.is_none() {
                files.forget_arriving(*id)?;
            }
        }
        let objects = match suspects {
            Suspects::Some(digests) => digests.into_iter().collect(),
            Suspects::All => files.all_objects()?,
        };
        for digest in objects {
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
