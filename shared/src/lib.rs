//! What usher's client and server must agree on, and nothing else.
//!
//! Owns the words of the wire ([`protocol`]), the bounds ([`limits`]), the error codes ([`error`]),
//! the rules that both sides compute alike ([`rules`]), and the client's recovery engine
//! ([`client`]). It promises to be pure: no sockets, SQL, terminal, clock or randomness; callers
//! pass time and ids in. Used by `usher-server`, `usher-tui` and the simulation.

pub mod client;
pub mod counter;
pub mod error;
pub mod id;
pub mod limits;
pub mod prompt;
pub mod protocol;
pub mod rules;
pub mod time;
pub mod vocabulary;
