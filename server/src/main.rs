//! `usherd`: the server alone.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use usher_server::ServeArgs;

/// Where a server listens when nothing else is said.
const DEFAULT_LISTEN: &str = "127.0.0.1:4317";

/// A durable prompt queue in front of coding agents
#[derive(Parser)]
#[command(name = "usherd", version)]
struct Cli {
    #[command(flatten)]
    serve: ServeArgs,
}

fn main() -> ExitCode {
    let mut args = Cli::parse().serve;
    if args.data_dir.is_none() {
        let error = "--data-dir DIR is needed: where the database lives";
        Cli::command().error(ErrorKind::MissingRequiredArgument, error).exit();
    }
    if args.listen.is_empty() {
        args.listen.push(DEFAULT_LISTEN.to_owned());
    }
    usher_server::serve(args)
}
