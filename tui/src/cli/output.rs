//! The one place that writes to standard output and standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::exit::Exit;
use crate::i18n::{Localizer, Value};
use crate::view::clean::Clean;

/// Who reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// People: localized text.
    Text,
    /// Programs: one JSON object per line.
    Json,
}

/// Why nothing more can be written.
#[derive(Debug)]
pub(super) enum OutputError {
    /// The reader is gone.
    Closed,
    /// Something else, such as a full disk.
    Failed(io::Error),
}

/// Writes what a command has to say.
pub(super) struct Output {
    pub(super) localizer: Localizer,
    pub(super) format: Format,
}

impl Output {
    /// Writes one line of our own text.
    pub(super) fn line(&self, text: &str) -> Result<(), OutputError> {
        self.write(text.as_bytes())
    }

    /// Writes text from outside: as it is into a file or pipe, and so that it cannot drive a
    /// terminal onto one.
    pub(super) fn outside(&self, text: &str) -> Result<(), OutputError> {
        if !io::stdout().is_terminal() {
            return self.write(text.as_bytes());
        }
        let lines: Vec<Clean> = Clean::lines(text).collect();
        let lines: Vec<&str> = lines.iter().map(Clean::as_str).collect();
        self.write(lines.join("\n").as_bytes())
    }

    /// Writes one JSON object. Control characters are escaped, also those that JSON lets through.
    pub(super) fn json(&self, value: &impl Serialize) -> Result<(), OutputError> {
        let json = serde_json::to_string(value).expect("our own types can be written as JSON");
        self.write(escape_controls(&json).as_bytes())
    }

    /// Tells people on standard error what went wrong.
    pub(super) fn problem(&self, text: &str) {
        // Nobody is left to tell if this fails.
        let _ = writeln!(io::stderr(), "usher: {text}");
    }

    /// The text of `id` with `arguments`.
    pub(super) fn text(&self, id: &str, arguments: &[(&str, Value<'_>)]) -> String {
        self.localizer.text_with(id, arguments)
    }

    /// Ends a command whose output failed.
    pub(super) fn failed(&self, error: &OutputError) -> Exit {
        match error {
            OutputError::Closed => Exit::ReaderGone,
            OutputError::Failed(error) => {
                let reason = Clean::line(&error.to_string());
                let reason = [("reason", Value::from(reason.as_str()))];
                self.problem(&self.text("cli-output-failed", &reason));
                Exit::OutputFailed
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(bytes)
            .and_then(|()| stdout.write_all(b"\n"))
            .and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => OutputError::Closed,
            _ => OutputError::Failed(error),
        })
    }
}

/// Escapes what some terminals obey and JSON need not escape: DEL and the C1 controls. They can
/// only stand inside strings.
fn escape_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_character_and_reads_back_the_same() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m\n\u{e9}";
        let json = escape_controls(&serde_json::to_string(text).unwrap());
        assert!(!json.chars().any(char::is_control), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
