//! What people read about a prompt that was not simply accepted: one presentation for every place
//! that submits.
//!
//! Owns the way from outcome and code to a message. Places differ in what can be done next, which is
//! a key in the chat and a command line in a shell; what happened is said in the same words. A
//! server's own text is never shown.

use usher_shared::error::{ErrorCode, WireError};
use usher_shared::protocol::queue::QueueStatus;

use crate::i18n::{Localizer, Value};

/// What became of a prompt.
#[derive(Clone, Copy, Debug)]
pub enum Unaccepted<'a> {
    /// The server proved that it does not have it.
    Rejected {
        /// Why.
        error: &'a WireError,
        /// The queue it was for, if that is known.
        queue: Option<&'a QueueStatus>,
    },
    /// Nobody knows whether the server has it.
    Uncertain,
    /// A client died before it was sent, and that is long ago.
    Returned,
    /// It was sent without having been written to disk first.
    Unprotected,
}

/// Where it was submitted.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In the chat.
    Chat {
        /// The key that leads to the queue.
        queue_key: &'a str,
        /// The key that resumes it there.
        resume_key: &'a str,
    },
    /// By a command.
    Command {
        /// The session that it was for.
        session: &'a str,
        /// The admission ID.
        id: &'a str,
    },
}

impl Unaccepted<'_> {
    /// Returns what people read about it.
    pub fn text(&self, place: Place<'_>, localizer: &Localizer) -> String {
        let Some(id) = self.message_id(place) else {
            let Self::Rejected { error, .. } = self else {
                return String::new();
            };
            return localizer.error(error);
        };
        let count = match self {
            Self::Rejected { queue: Some(queue), .. } => queue.count,
            Self::Rejected { queue: None, .. }
            | Self::Uncertain
            | Self::Returned
            | Self::Unprotected => 0,
        };
        let [first, second] = match place {
            Place::Chat { queue_key, resume_key } => [("key", queue_key), ("resume", resume_key)],
            Place::Command { session, id } => [("session", session), ("id", id)],
        };
        let arguments: [(&str, Value<'_>); 3] =
            [("count", count.into()), (first.0, first.1.into()), (second.0, second.1.into())];
        localizer.text_with(id, &arguments)
    }

    /// Returns the name of the message; None: that of the error's code.
    fn message_id(&self, place: Place<'_>) -> Option<&'static str> {
        Some(match (self, place) {
            (Self::Rejected { error, queue: Some(queue) }, place)
                if error.code == ErrorCode::QueueFull && !queue.auto_run =>
            {
                match place {
                    Place::Chat { .. } => "tui-queue-full-paused",
                    Place::Command { .. } => "cli-queue-full-paused",
                }
            }
            (Self::Rejected { .. }, _) => return None,
            (Self::Uncertain, Place::Chat { .. }) => "tui-delivery-uncertain",
            (Self::Uncertain, Place::Command { .. }) => "cli-uncertain",
            (Self::Returned, _) => "tui-delivery-returned",
            (Self::Unprotected, Place::Chat { .. }) => "tui-unprotected",
            (Self::Unprotected, Place::Command { .. }) => "cli-unprotected",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tests::peer::Peer;

    const CHAT: Place<'_> = Place::Chat { queue_key: "Alt+Q", resume_key: "p" };
    const COMMAND: Place<'_> = Place::Command { session: "s-1", id: "k-1" };

    fn queue(auto_run: bool) -> QueueStatus {
        QueueStatus { auto_run, count: 10, ..Peer::new(80, 24).queue }
    }

    #[test]
    fn every_outcome_has_words_in_both_places_and_never_the_servers() {
        let localizer = Localizer::english();
        let (paused, running) = (queue(false), queue(true));
        for &code in ErrorCode::ALL {
            let error = WireError::new(code, "for developers");
            for queue in [None, Some(&paused), Some(&running)] {
                let unaccepted = Unaccepted::Rejected { error: &error, queue };
                let [chat, command] =
                    [CHAT, COMMAND].map(|place| unaccepted.text(place, &localizer));
                for text in [&chat, &command] {
                    assert!(!text.is_empty() && !text.contains("error-"), "{code}: {text}");
                    assert!(!text.contains("for developers"), "{code}: {text}");
                }
                let is_paused = queue.is_some_and(|queue| !queue.auto_run);
                let differs = code == ErrorCode::QueueFull && is_paused;
                assert_eq!(chat != command, differs, "{code}: {chat} / {command}");
            }
        }
    }

    #[test]
    fn a_full_queue_that_does_not_run_says_how_it_is_resumed() {
        let localizer = Localizer::english();
        let error = WireError::new(ErrorCode::QueueFull, "");
        let paused = queue(false);
        let unaccepted = Unaccepted::Rejected { error: &error, queue: Some(&paused) };
        let chat = unaccepted.text(CHAT, &localizer);
        assert!(chat.contains("Alt+Q, then p resumes"), "{chat}");
        let command = unaccepted.text(COMMAND, &localizer);
        assert!(command.contains("s-1") && command.contains("(10)"), "{command}");
    }

    #[test]
    fn an_uncertain_prompt_is_never_called_not_sent() {
        let localizer = Localizer::english();
        let command = Unaccepted::Uncertain.text(COMMAND, &localizer);
        assert!(command.contains("--session s-1 --id k-1"), "{command}");
        for text in [command, Unaccepted::Uncertain.text(CHAT, &localizer)] {
            assert!(text.contains("uncertain") && !text.contains("not sent"), "{text}");
        }
    }
}
