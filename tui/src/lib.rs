//! The terminal client of usher.
