//! Which rows the decisions of this process own, from their first look until their events are
//! out. PostgreSQL frees a row at the commit; the next decision about it could then tell its events
//! first.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::store::StoreError;

/// Longer than any decision takes; only two that wait for each other reach it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The rows in use in this process.
#[derive(Default)]
pub(super) struct Owned {
    rows: Mutex<HashSet<Uuid>>,
    freed: Condvar,
}

impl Owned {
    fn rows(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one decision owns; free again when dropped.
pub(super) struct Ownership {
    owned: Arc<Owned>,
    mine: Vec<Uuid>,
}

impl Ownership {
    pub(super) fn new(owned: &Arc<Owned>) -> Self {
        Self { owned: Arc::clone(owned), mine: Vec::new() }
    }

    /// Tells whether a row is owned by this decision.
    pub(super) fn has(&self, row: Uuid) -> bool {
        self.mine.contains(&row)
    }

    /// Waits until no other decision of this process owns a row, and takes it.
    pub(super) fn take(&mut self, row: Uuid) -> Result<(), StoreError> {
        if self.has(row) {
            return Ok(());
        }
        let deadline = Instant::now() + WAIT_MAX;
        let mut rows = self.owned.rows();
        while !rows.insert(row) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Conflict);
            }
            let woken = self.owned.freed.wait_timeout(rows, left);
            rows = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.mine.push(row);
        Ok(())
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if self.mine.is_empty() {
            return;
        }
        let mut rows = self.owned.rows();
        for row in &self.mine {
            rows.remove(row);
        }
        drop(rows);
        self.owned.freed.notify_all();
    }
}
