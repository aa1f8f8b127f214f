//! The terminal client of usher.

pub mod app;
pub mod cli;
pub mod driver;
pub mod i18n;
pub mod paths;
pub mod theme;
pub mod view;
