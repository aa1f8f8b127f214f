//! A row of the table: a fault, and all that it may lead to.

use std::fmt;

use usher_tests::faulty::Rule;
use usher_tests::server::Launch;
use usher_tests::stage::Stage;

/// What the prompt says.
pub(super) const PROMPT: &str = "look at the tests";

/// How a prompt is told to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// With this code.
    Rejected(&'static str),
    /// And whether it can be checked and sent again safely.
    Uncertain(Check),
}

/// Whether "check and resend safely" is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Offered,
    NotOffered,
}

impl Outcome {
    /// What a sender says: a word, and from `usher send --json` the code of a rejection.
    fn as_said_by(self, sender: Sender) -> String {
        match (self, sender) {
            (Self::Accepted, _) => "accepted".to_owned(),
            (Self::Rejected(_), Sender::Chat) => "rejected".to_owned(),
            (
                Self::Rejected(code),
                Sender::Command | Sender::CommandWithId | Sender::CommandWithFile,
            ) => format!("rejected {code}"),
            (Self::Uncertain(_), _) => "uncertain".to_owned(),
        }
    }

    /// The exit code of `usher send`.
    pub(super) const fn exit_code(self) -> i32 {
        match self {
            Self::Accepted => 0,
            Self::Rejected(_) => 3,
            Self::Uncertain(_) => 4,
        }
    }
}

/// Who sends the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// `usher send --json`
    Command,
    /// The same with an ID that the caller chose: only an answer is proof.
    CommandWithId,
    /// The chat in a terminal.
    Chat,
    /// `usher send --json` with a file inside the prompt. (The chat attaches nothing yet.)
    CommandWithFile,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Row {
    /// What happens.
    pub(super) name: &'static str,
    /// Who it happens to.
    pub(super) senders: &'static [Sender],
    /// How the server is started.
    pub(super) launch: fn(Launch) -> Launch,
    /// What holds from the first connection on.
    pub(super) always: fn() -> Vec<Rule>,
    /// What holds from before the prompt is sent.
    pub(super) fault: fn() -> Vec<Rule>,
    /// What else happens while it is on its way.
    pub(super) meanwhile: fn(&mut Stage),
    /// What must come of it.
    pub(super) expected: Expected,
}

/// What must come of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) outcome: Outcome,
    /// Frames with the prompt that its client sent.
    pub(super) sent: usize,
    /// Those of them that the server got.
    pub(super) served: usize,
    /// How often the prompt is in the queue and the transcript at the end.
    pub(super) entries: usize,
    /// What the chat shows.
    pub(super) shows: &'static str,
}

/// What came of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) outcome: String,
    /// None of what goes on.
    pub(super) exit_code: Option<i32>,
    pub(super) sent: usize,
    pub(super) served: usize,
    pub(super) entries: usize,
    /// The line of the chat that says so; None of all others.
    pub(super) shows: Option<String>,
}

impl Expected {
    /// What this looks like for a sender.
    pub(super) fn as_seen_by(self, sender: Sender) -> Observed {
        let (exit_code, shows) = match sender {
            Sender::Command | Sender::CommandWithId | Sender::CommandWithFile => {
                (Some(self.outcome.exit_code()), None)
            }
            Sender::Chat => (None, Some(self.shows.to_owned())),
        };
        Observed {
            outcome: self.outcome.as_said_by(sender),
            exit_code,
            sent: self.sent,
            served: self.served,
            entries: self.entries,
            shows,
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exit_code = self.exit_code.map_or_else(String::new, |code| code.to_string());
        write!(
            f,
            "{:<20} {:>4} {:>4} {:>6} {:>7}  {}",
            self.outcome,
            exit_code,
            self.sent,
            self.served,
            self.entries,
            self.shows.as_deref().unwrap_or_default()
        )
    }
}
