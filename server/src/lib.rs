//! The server of usher: a durable prompt queue in front of coding agents.

pub mod agent;
pub mod domain;
mod stop;
pub mod store;

use std::path::PathBuf;
use std::process::ExitCode;

/// The flags of `usherd`, and of `usher serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Where the database, the token and the lock live
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Where to listen: unix:PATH or ADDRESS:PORT; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// The agent of new tasks
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

/// Runs a server until it is told to stop; returns the process's exit code.
pub fn serve(args: ServeArgs) -> ExitCode {
    drop(args);
    ExitCode::FAILURE
}
