//! `usherd`: the server alone.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "usherd", version, about)]
struct Cli {
    #[command(flatten)]
    serve: usher_server::ServeArgs,
}

fn main() -> ExitCode {
    usher_server::serve(Cli::parse().serve)
}
