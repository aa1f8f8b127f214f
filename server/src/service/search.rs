//! Searching transcripts.

use usher_shared::id::SessionId;
use usher_shared::limits::SEARCH_BYTES_MAX;

use super::session::owned;
use super::{FindError, Service};
use crate::domain::search::Needle;
use crate::domain::session::Caller;
use crate::store::{Hit, Reads, SearchPlace};

/// Pieces of one request: bounds what it passes over of other users' messages.
const PIECES_MAX: usize = 2_000;

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
        let mut next = self.store.read(move |reads| start(reads, &caller, session)).await?;
        let (mut hits, mut looked_bytes) = (Vec::new(), 0);
        for _ in 0..PIECES_MAX {
            let Some(place) = next else { break };
            let needle = needle.clone();
            let piece = self.store.read(move |reads| reads.search(place, &needle)).await?;
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
    Ok(Some(SearchPlace::Session(id, session.key, i64::MAX)))
}
