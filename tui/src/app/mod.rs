//! The state of the screen and how it changes. Pure: [`update`] takes a message and the time and
//! says what to do; it reads no clock and touches no socket or terminal.
//!
//! ```text
//! Message -> update(&mut State) -> Effect -> runtime
//!                     |
//!                     v
//!               view::draw(&State)
//! ```

mod ask;
mod calls;
pub mod composer;
mod deliveries;
mod drafts;
mod events;
mod help;
mod keys;
mod markdown;
mod message;
mod message_rows;
mod notices;
mod permission;
mod queue;
mod screen;
mod sessions;
mod state;
mod transcript;
mod undo;
mod update;

#[cfg(test)]
pub(crate) mod tests;

pub use message::{Attention, Effect, Message};
pub use state::{Clock, Options, State};
pub use update::update;

pub(crate) use help::{HelpRow, KEY_COLUMNS};
pub(crate) use message_rows::{Row, RowKind};
pub(crate) use permission::CardFocus;
pub(crate) use screen::{Areas, Shape, inset, last_rows};
pub(crate) use state::Focus;
