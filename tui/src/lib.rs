//! The terminal client of usher.

pub mod app;
pub mod cli;
pub mod driver;
pub mod hangup;
pub mod i18n;
pub mod journal;
mod keyboard;
pub mod keymap;
pub mod paths;
pub mod runtime;
pub mod start;
pub mod terminal;
pub mod theme;
pub mod unaccepted;
pub mod view;
