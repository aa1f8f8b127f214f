//! Runs the recovery engine over a real connection.
//!
//! Owns the socket ([`Link`]), the clock, the server's address and the start of the user's own
//! server. It decides nothing: what the engine asks for is done, what comes is handed in. The TUI,
//! whose engine lives in its state, uses [`Link`] alone; one-shot commands use [`Driver`].

mod address;
mod clock;
mod own;
mod run;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;

pub use address::{AddressError, ServerAddress};
pub use clock::mono_now;
pub use own::{OwnServerError, Running, answers, ensure_server, log_file, running};
pub use run::{Driver, engine_config};
pub use socket::{COMMANDS_MAX, INPUTS_MAX, Link, LinkCommand, Server};
pub use tls::{Trust, TrustError};
pub use trouble::Trouble;
