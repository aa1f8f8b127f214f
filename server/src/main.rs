//! `usherd`: the server alone.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use usher_server::{BackupArgs, CheckArgs, ServeArgs, UserArgs};

/// Where a server listens when nothing else is said.
const DEFAULT_LISTEN: &str = "127.0.0.1:4317";

/// A durable prompt queue in front of coding agents
#[derive(Parser)]
#[command(name = "usherd", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// What it does instead of serving.
#[derive(clap::Subcommand)]
enum Command {
    /// Verify that a database keeps what is promised about it; changes nothing
    Check(CheckArgs),
    /// Copy a database into one file, also while a server uses it
    Backup(BackupArgs),
    /// Add, list, revoke and remove users, also while a server runs
    User(UserArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => serve(cli.serve),
        Some(Command::Check(args)) => usher_server::check(&args),
        Some(Command::Backup(args)) => usher_server::backup(&args),
        Some(Command::User(args)) => usher_server::user(&args),
    }
}

fn serve(mut args: ServeArgs) -> ExitCode {
    if args.data_dir.is_none() {
        let error = "--data-dir DIR is needed: where the database lives";
        Cli::command().error(ErrorKind::MissingRequiredArgument, error).exit();
    }
    if args.listen.is_empty() {
        args.listen.push(DEFAULT_LISTEN.to_owned());
    }
    usher_server::serve(args)
}
