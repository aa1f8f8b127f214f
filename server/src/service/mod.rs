//! What the server does, one function per action: read, authorize, decide, commit, answer.
//!
//! Everything goes through here, dispatch too. Speaks domain types; `net::wire` turns them into
//! the protocol's.

mod attachment;
mod edit;
mod error;
mod lifecycle;
mod plan;
mod queue;
mod reference;
mod search;
mod session;
mod settings;
mod task;
mod turn;

use std::collections::HashSet;
use std::sync::Arc;

pub use attachment::{Begun, BytesFound, LaidOut};
pub use error::{
    AddError, EditError, FindError, MakeError, PlanError, QueueError, SessionError, SettingsError,
    TextError, TurnError, UploadError,
};
pub use lifecycle::Rest;
pub use queue::{QueueView, UNDO_MS};
use search::Searches;
pub use session::SessionView;
pub use settings::SettingsView;
pub use task::{TaskMade, TaskRequest};
pub use turn::NewText;
use usher_shared::id::StoreId;

use crate::agent::Agents;
use crate::dispatch::{Questions, TurnEnds};
use crate::domain::Decision;
use crate::domain::lease::LeaseTimes;
use crate::domain::session::Caller;
use crate::domain::settings::GivenSettings;
use crate::domain::users::TokenDigest;
use crate::store::{Store, StoreError};

/// Another one after tokens were taken away.
pub type UsersMark = Option<String>;

/// The server's actions. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    store: Store,
    given: GivenSettings,
    lease_times: LeaseTimes,
    /// How long an upload stays that nothing claims, milliseconds.
    staged_ttl: i64,
    agents: Arc<Agents>,
    questions: Arc<Questions>,
    ends: Arc<TurnEnds>,
    searches: Arc<Searches>,
}

impl Service {
    /// Makes the actions over a store.
    pub fn new(
        store: Store,
        given: GivenSettings,
        lease_times: LeaseTimes,
        staged_ttl: i64,
        agents: Arc<Agents>,
        questions: Arc<Questions>,
        ends: Arc<TurnEnds>,
    ) -> Self {
        Self {
            store,
            given,
            lease_times,
            staged_ttl,
            agents,
            questions,
            ends,
            searches: Arc::default(),
        }
    }

    /// Returns the agents of this server.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Returns the open questions.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Tells whether the store reads and its writer works.
    pub async fn is_well(&self) -> bool {
        let writes = self.store.transact(|_| Ok::<_, StoreError>(Decision::unchanged(()))).await;
        writes.is_ok() && self.whoami().await.is_ok()
    }

    /// Returns the user whose token this is.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn user_by_token(&self, digest: TokenDigest) -> Result<Option<Caller>, StoreError> {
        self.store.read(move |reads| reads.user_by_token(&digest)).await
    }

    /// Returns which of these tokens are good for nothing any more, and a mark to come back with:
    /// while it stays, no token was taken away.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn revoked(
        &self,
        known: Option<UsersMark>,
        tokens: HashSet<TokenDigest>,
    ) -> Result<(UsersMark, Vec<TokenDigest>), StoreError> {
        self.store
            .read(move |reads| {
                let mark = reads.users_mark()?;
                let mut revoked = Vec::new();
                if known.as_ref() != Some(&mark) {
                    for token in tokens {
                        if reads.user_by_token(&token)?.is_none() {
                            revoked.push(token);
                        }
                    }
                }
                Ok((mark, revoked))
            })
            .await
    }

    /// Leaves the database as one file that holds everything; the server stops.
    pub async fn settle(&self) {
        self.store.settle().await;
    }

    /// Returns the name of the database and the user that its owner's connections act for.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn whoami(&self) -> Result<(StoreId, Caller), StoreError> {
        self.store.read(|reads| Ok((reads.store_id()?, reads.first_user()?))).await
    }
}
