//! Draws the state. Pure: the same state gives the same screen.

pub mod clean;
pub mod wrap;
