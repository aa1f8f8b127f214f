//! The terminal client of usher.

pub mod i18n;
