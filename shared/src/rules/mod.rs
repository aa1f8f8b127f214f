//! Rules that client and server must compute alike. Pure functions with golden vectors.

pub mod backoff;
pub mod file_name;
pub mod fingerprint;
