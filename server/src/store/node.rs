//! Which server this is, to others over the same database.
//!
//! Each open turn names the server that runs it. Over PostgreSQL each server holds a lease of its
//! own, on the database's clock; the turns of one that did not renew it are settled by the others.
//! Over SQLite the directory's lock proves that there is no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

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
