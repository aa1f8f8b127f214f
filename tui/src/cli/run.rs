//! From the command line to the command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{Cli, Command, QueueCommand, definition, read};
use super::exit::Exit;
use super::output::{Format, Output};
use super::{queue, send, server};
use crate::driver::{AddressError, Server, ServerAddress, Trust, TrustError};
use crate::i18n::{Localizer, Value};
use crate::paths::{Paths, PathsError};
use crate::runtime::{self, Ended, RunError, RunOptions};
use crate::view::clean::Clean;

/// Runs `usher` with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    let paths = Paths::of_user();
    let definition = definition(&Localizer::choose(None, environment), paths.as_ref().ok());
    let cli = match read(definition, arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output; a reader that is gone changes nothing.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let output = Output {
        localizer: Localizer::choose(cli.lang.as_deref(), environment),
        format: format(&cli),
    };
    let token = environment("USHER_TOKEN").filter(|token| !token.is_empty());
    dispatch(cli, paths, token, output)
}

fn dispatch(
    cli: Cli,
    paths: Result<Paths, PathsError>,
    token: Option<String>,
    output: Output,
) -> ExitCode {
    let command = match cli.command {
        Some(Command::Serve(command)) => {
            return server::serve(command, paths.as_ref().ok(), &output);
        }
        Some(Command::Stop) => {
            let is_named = named(cli.server.as_deref()).is_some();
            return ExitCode::from(match &paths {
                _ if is_named => {
                    output.problem(&output.text("cli-stop-named", &[]));
                    Exit::Usage
                }
                Ok(paths) => server::stop(paths, &output),
                Err(_) => no_home(&output),
            });
        }
        other => other,
    };
    let journal_dir = paths.as_ref().ok().map(|paths| paths.journal_dir.clone());
    let server = match choose_server(cli.server.as_deref(), cli.ca.as_deref(), paths, &output) {
        Ok(server) => server,
        Err(exit) => return ExitCode::from(exit),
    };
    // A token is for the server that somebody named: one's own asks for none.
    let token = token.filter(|_| matches!(server, Server::Named { .. }));
    match command {
        Some(command) => ExitCode::from(one_shot(command, server, token, journal_dir, &output)),
        None => screen(server, token, journal_dir, output),
    }
}

/// Shows the terminal client until its person leaves.
fn screen(
    server: Server,
    token: Option<String>,
    journal_dir: Option<PathBuf>,
    output: Output,
) -> ExitCode {
    let localizer = output.localizer.clone();
    let options = RunOptions { server, token, journal_dir, session: None, localizer };
    match block_on(runtime::run(options)) {
        Ok(Ended::Left) => ExitCode::SUCCESS,
        // A shell reports a signal so.
        Ok(Ended::Signal(number)) => ExitCode::from(u8::try_from(128 + number).unwrap_or(255)),
        Err(RunError::NotATerminal) => {
            output.problem(&output.text("cli-no-terminal", &[]));
            ExitCode::from(Exit::Usage)
        }
        Err(RunError::Terminal(error)) => {
            let reason = Clean::line(&error.to_string());
            let reason = [("reason", Value::from(reason.as_str()))];
            output.problem(&output.text("cli-terminal-failed", &reason));
            ExitCode::from(Exit::OutputFailed)
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a machine that runs this can give it a timer and a poll");
    let result = runtime.block_on(future);
    // A name that is still being looked up must not hold the program up.
    runtime.shutdown_background();
    result
}

fn one_shot(
    command: Command,
    server: Server,
    token: Option<String>,
    journal_dir: Option<PathBuf>,
    output: &Output,
) -> Exit {
    block_on(async {
        match command {
            Command::Send(args) => send::send(&args, server, token, journal_dir, output).await,
            Command::Queue(QueueCommand::List(args)) => {
                queue::list(&args, server, token, output).await
            }
            Command::Queue(QueueCommand::Clear(args)) => {
                queue::clear(&args, server, token, output).await
            }
            Command::Queue(QueueCommand::AutoRun(args)) => {
                queue::auto_run(&args, server, token, output).await
            }
            Command::Status(_) => server::status(server, token, output).await,
            Command::Serve(_) | Command::Stop => Exit::Usage,
        }
    })
}

/// The server that is named by flag or environment, else the user's own.
fn choose_server(
    address: Option<&str>,
    authorities: Option<&Path>,
    paths: Result<Paths, PathsError>,
    output: &Output,
) -> Result<Server, Exit> {
    let Some(address) = named(address) else {
        return paths.map(Server::Own).map_err(|_| no_home(output));
    };
    let parsed = address.parse::<ServerAddress>().map_err(|error| {
        let address = Clean::line(address);
        let address = [("address", Value::from(address.as_str()))];
        match error {
            AddressError::Malformed => {
                output.problem(&output.text("cli-address-malformed", &address));
            }
        }
        Exit::Usage
    })?;
    let trust = match (&parsed, authorities.filter(|file| !file.as_os_str().is_empty())) {
        (ServerAddress::Tls { .. }, Some(file)) => Trust::only(file).map_err(|error| {
            output.problem(&trust_text(&error, output));
            Exit::Usage
        })?,
        // Nobody vouches for a server without a certificate.
        (ServerAddress::Unix(_) | ServerAddress::Tcp { .. }, _)
        | (ServerAddress::Tls { .. }, None) => Trust::System,
    };
    Ok(Server::Named { address: parsed, trust })
}

fn trust_text(error: &TrustError, output: &Output) -> String {
    let file = match error {
        TrustError::Read(file, _) | TrustError::NoCertificate(file) => file,
    };
    let file = Clean::line(&file.display().to_string());
    let file = ("file", Value::from(file.as_str()));
    match error {
        TrustError::Read(_, error) => {
            let reason = Clean::line(&error.to_string());
            output.text("cli-ca-unreadable", &[file, ("reason", Value::from(reason.as_str()))])
        }
        TrustError::NoCertificate(_) => output.text("cli-ca-no-certificate", &[file]),
    }
}

/// Returns the address that flag or environment name: an empty one names none.
fn named(address: Option<&str>) -> Option<&str> {
    address.filter(|address| !address.is_empty())
}

fn no_home(output: &Output) -> Exit {
    output.problem(&output.text("cli-no-home", &[]));
    Exit::NoServer
}

const fn format(cli: &Cli) -> Format {
    let json = match &cli.command {
        Some(Command::Send(args)) => args.json,
        Some(Command::Status(args)) => args.json,
        Some(Command::Queue(QueueCommand::List(args) | QueueCommand::Clear(args))) => args.json,
        Some(Command::Queue(QueueCommand::AutoRun(args))) => args.queue.json,
        Some(Command::Serve(_) | Command::Stop) | None => false,
    };
    if json { Format::Json } else { Format::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_with_a_named_server_is_a_usage_error() {
        // A folder of its own: no server of anybody's may hear of it.
        let folder = tempfile::tempdir().unwrap();
        for line in ["usher --server ws://other:4317 stop", "usher stop --server unix:/run/other"] {
            let paths = Paths {
                socket: folder.path().join("socket"),
                data_dir: folder.path().to_owned(),
                log_dir: folder.path().to_owned(),
                journal_dir: "/state/journal".into(),
                config_file: folder.path().join("config.toml"),
            };
            let definition = definition(&Localizer::english(), Some(&paths));
            let cli = read(definition, line.split(' ').map(OsString::from)).unwrap();
            let output = Output { localizer: Localizer::english(), format: Format::Text };
            let ended = dispatch(cli, Ok(paths), None, output);
            assert_eq!(ended, ExitCode::from(Exit::Usage), "{line}");
        }
    }
}
