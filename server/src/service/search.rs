//! Searching transcripts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;
use usher_shared::id::{SessionId, UserId};
use usher_shared::limits::SEARCH_BYTES_MAX;

use super::session::owned;
use super::{FindError, Service};
use crate::domain::search::Needle;
use crate::domain::session::Caller;
use crate::store::{Hit, Reads, SearchPlace};

/// Pieces of one request: bounds what it passes over of other users' messages.
const PIECES_MAX: usize = 2_000;

/// Whose turn it is to search: each user has one search at a time, others of the same user wait.
#[derive(Default)]
pub(super) struct Searches(Mutex<HashMap<UserId, Arc<tokio::sync::Mutex<()>>>>);

impl Searches {
    async fn turn(&self, user: UserId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(user).or_default())
        };
        turn.lock_owned().await
    }
}

impl Service {
    /// Looks for a text in the caller's messages, or in those of one session, newest first. Without
    /// a session, archived tasks are left out. Each piece is a read of its own, so that a search
    /// keeps nobody waiting for long; the oldest messages beyond [`SEARCH_BYTES_MAX`] of text are
    /// not looked at.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn search(
        &self,
        caller: Caller,
        session: Option<SessionId>,
        needle: Needle,
        limit: usize,
    ) -> Result<Vec<Hit>, FindError> {
        let _turn = self.searches.turn(caller.id).await;
        let mut next = self.store.read(move |reads| start(reads, &caller, session)).await?;
        let (mut hits, mut looked_bytes) = (Vec::new(), 0);
        for _ in 0..PIECES_MAX {
            let Some(place) = next else { break };
            let needle = needle.clone();
            let piece = self.store.read_aside(move |reads| reads.search(place, &needle)).await?;
            hits.extend(piece.hits);
            looked_bytes += piece.looked_bytes;
            next = piece.next;
            if hits.len() >= limit || looked_bytes >= SEARCH_BYTES_MAX {
                break;
            }
        }
        hits.truncate(limit);
        Ok(hits)
    }
}

fn start(
    reads: &mut Reads<'_>,
    caller: &Caller,
    session: Option<SessionId>,
) -> Result<Option<SearchPlace>, FindError> {
    let Some(id) = session else {
        return Ok(Some(reads.search_start(caller.id)?));
    };
    let session = owned(reads, caller, id)?;
    Ok(Some(SearchPlace::in_session(id, session.key)))
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_user_searches_once_at_a_time_and_waits_for_nobody_else() {
        let user = |n| UserId::from_uuid(Uuid::from_u128(n));
        let searches = Searches::default();
        let first = searches.turn(user(1)).await;
        let mut second = Box::pin(searches.turn(user(1)));
        let looked = std::future::poll_fn(|context| Poll::Ready(second.as_mut().poll(context)));
        assert!(looked.await.is_pending());
        drop(searches.turn(user(2)).await);
        drop(first);
        drop(second.await);
    }
}
