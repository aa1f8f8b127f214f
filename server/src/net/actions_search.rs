//! Requests that look for something.

use usher_shared::error::WireError;
use usher_shared::limits::{NAME_BYTES_MAX, SEARCH_HITS_DEFAULT, SEARCH_HITS_MAX};
use usher_shared::protocol::Request;
use usher_shared::protocol::transcript::{
    SearchHit, TranscriptSearchParams, TranscriptSearchReply,
};

use super::actions::{Routed, Router};
use super::wire;
use crate::domain::search::Needle;

impl Router {
    pub(super) fn search(self, params: TranscriptSearchParams) -> Routed {
        let TranscriptSearchParams { query, session_id, limit } = params;
        wire::bounded("query", Some(&query), NAME_BYTES_MAX)?;
        let needle = Needle::parse(&query)
            .ok_or_else(|| WireError::validation("query", "nothing to look for"))?;
        let limit = limit.unwrap_or(SEARCH_HITS_DEFAULT);
        if !(1..=SEARCH_HITS_MAX).contains(&limit) {
            let error = WireError::validation("limit", "out of bounds");
            return Err(error.with("limit", SEARCH_HITS_MAX));
        }
        self.work(None, TranscriptSearchParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let found = service.search(caller, session_id, needle, limit as usize).await;
            let hits = found.map_err(|error| Ok(wire::find_error(error)))?;
            let shown = hits.into_iter().map(|hit| SearchHit {
                session_id: hit.session_id,
                seq: hit.seq,
                snippet: hit.snippet,
            });
            Ok(TranscriptSearchReply { hits: shown.collect() })
        })
    }
}
