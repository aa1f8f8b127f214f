//! The terminal client of usher.

pub mod app;
pub mod i18n;
pub mod theme;
pub mod view;
