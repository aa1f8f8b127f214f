//! The recovery engine: everything a client must get right about links, sends and state, as one
//! pure state machine.
//!
//! Owns the link's life (`link`: hello, backoff, silence), the sends and their recovery
//! (`send`), the lease of the entry that is edited (`edit`), uploads (`upload`), and the picture of the open session
//! (`mirror`). It promises that a send keeps its
//! ID and its payload bytes over every attempt, that one session has one open send at a time, and
//! that nothing is reported as accepted without proof. It never reads a clock, opens a socket or
//! rolls a die: [`Engine::handle`] takes inputs and the time, [`Engine::poll_output`] says what to
//! do, [`Engine::next_deadline`] says when to come back with [`Input::DeadlineReached`]. The TUI,
//! `usher send` and the simulation run the same engine.
//!
//! ```text
//! key, command, frame, deadline -> Input -> Engine -> Output -> socket, screen
//! ```

mod api;
mod bounds;
mod call;
mod delivery;
mod edit;
mod engine;
mod journal;
mod link;
mod mirror;
mod outbox;
mod proof;
mod send;
mod track;
mod upload;
mod watch;

#[cfg(test)]
mod tests;

pub use api::{EngineConfig, Event, Input, Output};
pub use bounds::{
    DELIVERIES_MAX, FINAL_PASS_MS, JOURNAL_WAIT_MS, LEASE_MARGIN_MS, LINK_WAIT_MS,
    MIRROR_CONTENT_BYTES_MAX, PROOF_READ_TIMEOUT_MS, SAVE_ATTEMPTS_MAX, UNSENT_AGE_MAX_MS,
};
pub use call::{Call, CallId, CallOutcome, reply};
pub use delivery::{Acceptance, Delivery, DeliveryState, IdOrigin, Submission};
pub use edit::{Edit, EditEnd, EditLoss, EditSave, EditState, EditTarget};
pub use engine::Engine;
pub use journal::{
    JournalOrder, JournalRow, JournalStage, Journaled, Journaling, LeftRow, Receipts,
};
pub use link::LinkState;
pub use mirror::{Freshness, Mirror};
pub use upload::{UploadEnd, UploadId};
