//! What keys, frames and time do to the state.

pub(crate) mod peer;

mod delivery;
mod fuzz;
mod journal;
mod keys;
mod start;
mod transcript;
mod undo;
