//! The state of the screen and how it changes.

pub mod composer;
