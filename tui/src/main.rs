//! `usher`: the terminal client, and the one-shot commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    usher_tui::cli::run(std::env::args_os())
}
