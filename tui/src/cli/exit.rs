//! How a command ends.

use std::process::ExitCode;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Standard output could not be written.
    OutputFailed,
    /// The command makes no sense.
    Usage,
    /// The server refused.
    Rejected,
    /// The server may have the prompt.
    Uncertain,
    /// There is no server, or it will not have us.
    NoServer,
    /// The turn did not end well.
    TurnFailed,
    /// Interrupted from the keyboard, as a shell reports it.
    Interrupted,
    /// The reader of our output is gone, as a shell reports SIGPIPE.
    ReaderGone,
}

impl Exit {
    /// Returns the number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::OutputFailed => 1,
            Self::Usage => 2,
            Self::Rejected => 3,
            Self::Uncertain => 4,
            Self::NoServer => 5,
            Self::TurnFailed => 6,
            Self::Interrupted => 130,
            Self::ReaderGone => 141,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
