//! Which server this is, to others over the same database.
//!
//! Each open turn names the server that runs it. Over PostgreSQL each server holds a lease of its
//! own, on the database's clock; the turns of one that did not renew it are settled by the others.
//! Over SQLite the directory's lock proves that there is no other.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::error::StoreError;

/// The name of this server; another one after a lease was lost.
pub(super) struct Node {
    id: Mutex<Uuid>,
}

impl Default for Node {
    fn default() -> Self {
        Self { id: Mutex::new(Uuid::new_v4()) }
    }
}

impl Node {
    fn lock(&self) -> MutexGuard<'_, Uuid> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name.
    pub(super) fn id(&self) -> Uuid {
        *self.lock()
    }

    /// Takes another name: whatever the old one did is no longer ours.
    pub(super) fn rename(&self) {
        *self.lock() = Uuid::new_v4();
    }
}

/// Writes the name into the directory's lock file, for the next server of the directory.
pub(super) fn note(lock: &File, id: Uuid) -> Result<(), StoreError> {
    let noted = lock.write_all_at(id.to_string().as_bytes(), 0);
    noted.map_err(|error| StoreError::Io(format!("the lock file: {error}")))
}

/// Returns the name that the newest server of the directory had.
pub(super) fn noted(lock: &File) -> Result<Option<Uuid>, StoreError> {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    match lock.read_exact_at(&mut text, 0) {
        Ok(()) => Ok(Uuid::try_parse_ascii(&text).ok()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(StoreError::Io(format!("the lock file: {error}"))),
    }
}
