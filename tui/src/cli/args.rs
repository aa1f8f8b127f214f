//! The command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::i18n::Localizer;
use crate::paths::Paths;

/// `usher`: without a command, the terminal client.
#[derive(Debug, Parser)]
#[command(name = "usher", version)]
pub(super) struct Cli {
    /// See [`HELP`] for the texts of every flag.
    #[arg(long, global = true, value_name = "ADDRESS", env = "USHER_SERVER")]
    pub(super) server: Option<String>,
    #[arg(long, global = true, value_name = "FILE", env = "USHER_CA")]
    pub(super) ca: Option<PathBuf>,
    #[arg(long, global = true, value_name = "TAG")]
    pub(super) lang: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Serve(ServeCommand),
    Stop,
    Status(StatusArgs),
    Send(SendArgs),
    #[command(subcommand)]
    Queue(QueueCommand),
}

#[derive(Debug, Args)]
pub(super) struct ServeCommand {
    #[command(flatten)]
    pub(super) serve: usher_server::ServeArgs,
    /// Leaves the terminal: a client starts its own server so.
    #[arg(long, hide = true)]
    pub(super) detached: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    #[arg(long, value_name = "SESSION")]
    pub(super) session: Option<String>,
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    #[arg(long)]
    pub(super) wait: bool,
    #[arg(long)]
    pub(super) json: bool,
    #[arg(long, value_name = "FILE")]
    pub(super) attach: Vec<PathBuf>,
    #[arg(value_name = "TEXT")]
    pub(super) text: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum QueueCommand {
    List(QueueArgs),
    Clear(QueueArgs),
    AutoRun(AutoRunArgs),
}

#[derive(Debug, Args)]
pub(super) struct AutoRunArgs {
    #[arg(value_name = "on|off", hide_possible_values = true)]
    pub(super) state: AutoRunState,
    #[command(flatten)]
    pub(super) queue: QueueArgs,
}

/// Whether the next turn is to start by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AutoRunState {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(super) struct QueueArgs {
    #[arg(long, value_name = "SESSION")]
    pub(super) session: Option<String>,
    #[arg(long)]
    pub(super) json: bool,
}

/// The text of every command and flag: the command's path, the flag, the text's name.
const HELP: &[(&[&str], Option<&str>, &str)] = &[
    (&[], None, "cli-help"),
    (&[], Some("server"), "cli-help-server"),
    (&[], Some("ca"), "cli-help-ca"),
    (&[], Some("lang"), "cli-help-lang"),
    (&["serve"], None, "cli-help-serve"),
    (&["stop"], None, "cli-help-stop"),
    (&["status"], None, "cli-help-status"),
    (&["status"], Some("json"), "cli-help-json"),
    (&["send"], None, "cli-help-send"),
    (&["send"], Some("session"), "cli-help-session"),
    (&["send"], Some("id"), "cli-help-send-id"),
    (&["send"], Some("wait"), "cli-help-send-wait"),
    (&["send"], Some("json"), "cli-help-json"),
    (&["send"], Some("attach"), "cli-help-send-attach"),
    (&["send"], Some("text"), "cli-help-send-text"),
    (&["queue"], None, "cli-help-queue"),
    (&["queue", "list"], None, "cli-help-queue-list"),
    (&["queue", "list"], Some("session"), "cli-help-session"),
    (&["queue", "list"], Some("json"), "cli-help-json"),
    (&["queue", "clear"], None, "cli-help-queue-clear"),
    (&["queue", "clear"], Some("session"), "cli-help-session"),
    (&["queue", "clear"], Some("json"), "cli-help-json"),
    (&["queue", "auto-run"], None, "cli-help-queue-auto-run"),
    (&["queue", "auto-run"], Some("state"), "cli-help-queue-auto-run-state"),
    (&["queue", "auto-run"], Some("session"), "cli-help-session"),
    (&["queue", "auto-run"], Some("json"), "cli-help-json"),
];

/// Returns the command line's definition in the user's language, with the user's paths as
/// defaults.
pub(super) fn definition(localizer: &Localizer, paths: Option<&Paths>) -> clap::Command {
    let mut command = Cli::command().mut_subcommand("serve", |serve| {
        serve.mut_arg("data_dir", |arg| match paths {
            Some(paths) => {
                arg.required(false).default_value(paths.data_dir.clone().into_os_string())
            }
            None => arg,
        })
    });
    for (path, flag, text) in HELP {
        command = explain(command, path, *flag, &localizer.text(text));
    }
    command
}

fn explain(command: clap::Command, path: &[&str], flag: Option<&str>, text: &str) -> clap::Command {
    let text = text.to_owned();
    match (path, flag) {
        ([], None) => command.about(text),
        ([], Some(flag)) => command.mut_arg(flag, |arg| arg.help(text)),
        ([first, rest @ ..], flag) => {
            command.mut_subcommand(first, |command| explain(command, rest, flag, &text))
        }
    }
}

/// Reads the command line.
pub(super) fn read(
    definition: clap::Command,
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    let mut definition = definition;
    let matches = definition.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let paths = Paths {
            socket: "/run/usher.sock".into(),
            data_dir: "/data".into(),
            log_dir: "/log".into(),
            journal_dir: "/state/journal".into(),
            config_file: "/config.toml".into(),
        };
        let definition = definition(&Localizer::english(), Some(&paths));
        read(definition, line.split(' ').map(Into::into))
    }

    #[test]
    fn the_definition_is_sound_and_every_command_and_flag_of_ours_is_explained() {
        let definition = definition(&Localizer::english(), None);
        definition.clone().debug_assert();
        let mut open = vec![definition];
        while let Some(command) = open.pop() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            let ours = command.get_name() != "serve";
            for arg in command.get_arguments().filter(|arg| ours && !arg.is_hide_set()) {
                let name = format!("{} {}", command.get_name(), arg.get_id());
                assert!(arg.get_help().is_some(), "{name}");
            }
            open.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn serve_uses_the_users_data_directory_unless_told_otherwise() {
        for (line, expected) in
            [("usher serve", "/data"), ("usher serve --data-dir /other", "/other")]
        {
            let Some(Command::Serve(serve)) = parse(line).unwrap().command else {
                panic!("{line} is serve");
            };
            assert_eq!(serve.serve.data_dir.as_deref(), Some(std::path::Path::new(expected)));
        }
    }

    #[test]
    fn a_prompt_may_be_standard_input_or_look_like_a_flag_after_two_dashes() {
        for (line, expected) in [
            ("usher send -", "-"),
            ("usher send --wait --json hi", "hi"),
            ("usher send -- -x", "-x"),
            ("usher send -- --wait", "--wait"),
        ] {
            let Some(Command::Send(send)) = parse(line).unwrap().command else {
                panic!("{line} is send");
            };
            assert_eq!(send.text, expected);
        }
    }

    #[test]
    fn an_unknown_flag_is_never_a_prompt_and_is_named() {
        for (line, flag) in [
            ("usher send --bogus", "--bogus"),
            ("usher send -x", "-x"),
            ("usher send hi --wiat", "--wiat"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(flag), "{error}");
        }
    }

    #[test]
    fn auto_run_is_switched_to_what_is_said() {
        for (line, expected) in [
            ("usher queue auto-run on --json", AutoRunState::On),
            ("usher queue auto-run off", AutoRunState::Off),
        ] {
            let Some(Command::Queue(QueueCommand::AutoRun(args))) = parse(line).unwrap().command
            else {
                panic!("{line} is auto-run");
            };
            assert_eq!(args.state, expected);
        }
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for line in [
            "usher send",
            "usher nope",
            "usher queue",
            "usher send a b",
            "usher queue auto-run",
            "usher queue auto-run maybe",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
