//! Requests that read transcripts.

use usher_shared::counter::COUNTER_MAX;
use usher_shared::error::WireError;
use usher_shared::limits::{
    NAME_BYTES_MAX, PAGE_MESSAGES_DEFAULT, PAGE_MESSAGES_MAX, READ_BYTES_MAX, SEARCH_HITS_DEFAULT,
    SEARCH_HITS_MAX,
};
use usher_shared::protocol::Request;
use usher_shared::protocol::transcript::{
    SearchHit, TranscriptPageParams, TranscriptReadParams, TranscriptReadReply,
    TranscriptSearchParams, TranscriptSearchReply,
};

use super::{Routed, Router};
use crate::domain::search::Needle;
use crate::net::lanes::Lane;
use crate::net::wire::{self, PageEnd};
use crate::store::PageBounds;

impl Router {
    pub(super) fn page(self, params: TranscriptPageParams) -> Routed {
        let limit = params.limit.unwrap_or(PAGE_MESSAGES_DEFAULT);
        if !(1..=PAGE_MESSAGES_MAX).contains(&limit) {
            let error = WireError::validation("limit", "out of bounds");
            return Err(error.with("limit", PAGE_MESSAGES_MAX));
        }
        let bounds = match (params.before_seq, params.after_seq) {
            (None, None) => PageBounds::Newest,
            (Some(seq), None) => PageBounds::Before(seq),
            (None, Some(seq)) => PageBounds::After(seq),
            (Some(_), Some(_)) => {
                return Err(WireError::validation("after_seq", "one bound at most"));
            }
        };
        let id = params.session_id;
        self.work([Lane::Session(id)], TranscriptPageParams::ACTION, move |context| async move {
            let found = context.service.page(context.caller, id, bounds, limit).await;
            let page = found.map_err(|error| Ok(wire::find_error(error)))?;
            let from = match bounds {
                PageBounds::Newest | PageBounds::Before(_) => PageEnd::Newest,
                PageBounds::After(_) => PageEnd::Oldest,
            };
            Ok(wire::page(&page, from, None))
        })
    }

    pub(super) fn read(self, params: TranscriptReadParams) -> Routed {
        let TranscriptReadParams { session_id, message_id, offset, length } = params;
        if offset > COUNTER_MAX {
            return Err(WireError::validation("offset", "out of bounds"));
        }
        if !(1..=READ_BYTES_MAX).contains(&length) {
            let error = WireError::validation("length", "out of bounds");
            return Err(error.with("limit", READ_BYTES_MAX));
        }
        let lane = [Lane::Session(session_id)];
        self.work(lane, TranscriptReadParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let found = service.read_text(caller, session_id, message_id, offset, length).await;
            let range = found.map_err(|error| Ok(wire::text_error(error)))?;
            Ok(TranscriptReadReply { text: range.text, eof: range.eof })
        })
    }

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
        let lanes: Vec<_> =
            session_id.map(Lane::Session).into_iter().chain([Lane::Search]).collect();
        // Nothing but the answer waits for what is found.
        self.resting(lanes, TranscriptSearchParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            Ok(async move {
                let found = service.search(caller, session_id, needle, limit as usize).await;
                let hits = found.map_err(|error| Ok(wire::find_error(error)))?;
                let shown = hits.into_iter().map(|hit| SearchHit {
                    session_id: hit.session_id,
                    seq: hit.seq,
                    snippet: hit.snippet,
                });
                Ok(TranscriptSearchReply { hits: shown.collect() })
            })
        })
    }
}
