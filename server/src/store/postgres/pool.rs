//! A bounded number of connections, made when they are first needed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Process, Purpose};
use super::url::Endpoint;
use crate::store::StoreError;

/// Connections for one purpose.
pub(super) struct Pool {
    endpoint: Endpoint,
    purpose: Purpose,
    process: Process,
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn new(
        endpoint: Endpoint,
        purpose: Purpose,
        process: &Process,
        size: usize,
    ) -> Self {
        Self {
            endpoint,
            purpose,
            process: process.clone(),
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(size)),
        }
    }

    /// Waits until one more connection may be used.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)
    }

    /// Returns an idle connection, or a new one. Waits for the network.
    pub(super) fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    /// Returns a new connection. Waits for the network.
    pub(super) fn connect(&self) -> Result<Connection, StoreError> {
        Connection::open(&self.endpoint, self.purpose, &self.process)
    }

    /// Takes a connection back, if it is still good.
    pub(super) fn give_back(&self, connection: Connection) {
        if connection.is_usable() {
            self.idle().push(connection);
        }
    }

    /// Forgets the idle connections: one was lost, so the others probably are.
    pub(super) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
