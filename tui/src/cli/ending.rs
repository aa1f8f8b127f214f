//! How a followed prompt ended, and what its turn left in the transcript.

use usher_shared::counter::MessageSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{SessionId, TurnId};
use usher_shared::limits::{PAGE_MESSAGES_MAX, READ_BYTES_MAX};
use usher_shared::protocol::transcript::{
    Message, Notice, Role, TranscriptPageParams, TranscriptReadParams,
};
use usher_shared::protocol::turn::{TurnEnded, TurnOutcome, TurnReason};

use super::client::{Client, Problem};
use super::exit::Exit;
use super::output::Output;

/// How a followed prompt ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// None: answered.
    pub(super) failure: Option<Failure>,
    /// What the agent said.
    pub(super) answer: Answer,
    /// What the agent said about the end itself, such as why it failed.
    pub(super) reason_text: Option<String>,
}

impl Ending {
    /// An end without a turn to read from.
    pub(super) fn without_answer(failure: Failure) -> Self {
        Self { failure: Some(failure), answer: Answer::default(), reason_text: None }
    }

    /// Returns the text to show: the answer; of a failed turn without one, why it failed.
    pub(super) fn text(&self) -> &str {
        match &self.reason_text {
            Some(reason) if self.failure.is_some() && self.answer.text.is_empty() => reason,
            Some(_) | None => &self.answer.text,
        }
    }
}

/// The text of an answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The server has more of it and does not give it out.
    pub(super) truncated: bool,
}

/// Why a prompt was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The turn did not end well.
    Turn(Notice),
    /// Somebody removed the prompt before it ran.
    Removed,
    /// The server stayed away.
    NoServer,
    /// The server will not say how it went.
    Refused(ErrorCode),
}

impl Failure {
    /// The `code` of the JSON output.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Turn(Notice::TurnFailed) => "turn_failed",
            Self::Turn(
                Notice::StartFailed | Notice::ModelUnavailable | Notice::PlanModeUnavailable,
            ) => "start_failed",
            Self::Turn(Notice::TurnCancelled) => "turn_cancelled",
            Self::Turn(Notice::TurnInterrupted) => "turn_interrupted",
            Self::Turn(Notice::TurnUncertain) => "turn_uncertain",
            Self::Turn(Notice::TurnRefused) => "turn_refused",
            Self::Turn(Notice::TurnCutShort) => "turn_cut_short",
            Self::Turn(Notice::SessionReset) => "session_reset",
            Self::Removed => "entry_not_found",
            Self::NoServer => "no_server",
            Self::Refused(code) => code.as_str(),
        }
    }

    /// What people read about it.
    pub(super) fn text(self, output: &Output) -> String {
        let id = match self {
            Self::Turn(Notice::TurnFailed | Notice::TurnCutShort | Notice::SessionReset) => {
                "cli-turn-failed"
            }
            Self::Turn(
                Notice::StartFailed | Notice::ModelUnavailable | Notice::PlanModeUnavailable,
            ) => "cli-start-failed",
            Self::Turn(Notice::TurnCancelled) => "cli-turn-cancelled",
            Self::Turn(Notice::TurnInterrupted) => "cli-turn-interrupted",
            Self::Turn(Notice::TurnUncertain) => "cli-turn-uncertain",
            Self::Turn(Notice::TurnRefused) => "cli-turn-refused",
            Self::Removed => "cli-entry-removed",
            Self::NoServer => "cli-no-server",
            Self::Refused(code) => return output.localizer.error(&WireError::new(code, "")),
        };
        output.text(id, &[])
    }

    pub(super) const fn exit(self) -> Exit {
        match self {
            Self::Turn(_) | Self::Removed | Self::Refused(_) => Exit::TurnFailed,
            Self::NoServer => Exit::NoServer,
        }
    }
}

/// Reads what a turn that is over left in the transcript.
pub(super) async fn read_ending(
    client: &mut Client,
    session_id: SessionId,
    turn_id: TurnId,
    prompt_seq: MessageSeq,
    ended: Option<&TurnEnded>,
) -> Result<Ending, Problem> {
    let mut failure = ended.and_then(failure_of);
    let mut answer = Answer::default();
    let mut reason_text = ended.and_then(|ended| ended.text.clone());
    let mut after_seq = prompt_seq;
    loop {
        let page = TranscriptPageParams {
            session_id,
            before_seq: None,
            after_seq: Some(after_seq),
            limit: Some(PAGE_MESSAGES_MAX),
        };
        let page = client.ask(&page).await?;
        let ours = page.messages.iter().filter(|m| m.turn_id == Some(turn_id));
        for message in ours {
            match message.role {
                Role::Agent => {
                    let whole = whole_content(client, message).await?;
                    if !answer.text.is_empty() && !whole.text.is_empty() {
                        answer.text.push_str("\n\n");
                    }
                    answer.text.push_str(&whole.text);
                    answer.truncated |= whole.truncated;
                }
                Role::System => {
                    if ended.is_none() {
                        failure = failure.or(message.metadata.notice.and_then(failure_in));
                    }
                    let said = Some(message.content.clone()).filter(|said| !said.is_empty());
                    reason_text = said.or(reason_text);
                }
                Role::User | Role::Thought | Role::Tool | Role::Plan => {}
            }
        }
        match page.messages.last() {
            Some(last) if page.has_more && last.turn_id == Some(turn_id) => after_seq = last.seq,
            Some(_) | None => return Ok(Ending { failure, answer, reason_text }),
        }
    }
}

async fn whole_content(client: &mut Client, message: &Message) -> Result<Answer, Problem> {
    let mut whole = Answer { text: message.content.clone(), truncated: message.content_truncated };
    while whole.truncated {
        let read = TranscriptReadParams {
            session_id: message.session_id,
            message_id: message.id,
            offset: whole.text.len() as u64,
            length: READ_BYTES_MAX,
        };
        let read = match client.ask(&read).await {
            Ok(read) => read,
            // A server without this action: what there is is better than nothing.
            Err(Problem::Rejected(_)) => return Ok(whole),
            Err(problem) => return Err(problem),
        };
        whole.text.push_str(&read.text);
        whole.truncated = !read.eof && !read.text.is_empty();
    }
    Ok(whole)
}

/// Returns why a turn did not end well.
pub(super) fn failure_of(ended: &TurnEnded) -> Option<Failure> {
    let notice = match (ended.outcome, ended.reason) {
        (TurnOutcome::Completed, Some(TurnReason::Refused)) => Notice::TurnRefused,
        (TurnOutcome::Completed, _) => return None,
        (TurnOutcome::Cancelled, _) => Notice::TurnCancelled,
        (TurnOutcome::Failed, Some(TurnReason::StartFailed)) => Notice::StartFailed,
        (TurnOutcome::Failed, _) => Notice::TurnFailed,
        (TurnOutcome::Interrupted, _) => Notice::TurnInterrupted,
        (TurnOutcome::Uncertain, _) => Notice::TurnUncertain,
    };
    Some(Failure::Turn(notice))
}

const fn failure_in(notice: Notice) -> Option<Failure> {
    match notice {
        Notice::TurnCutShort | Notice::SessionReset => None,
        Notice::TurnFailed
        | Notice::StartFailed
        | Notice::ModelUnavailable
        | Notice::PlanModeUnavailable
        | Notice::TurnCancelled
        | Notice::TurnInterrupted
        | Notice::TurnUncertain
        | Notice::TurnRefused => Some(Failure::Turn(notice)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_turn_without_an_answer_shows_why_it_failed() {
        let failed = Some(Failure::Turn(Notice::TurnFailed));
        for (failure, answer, reason, expected) in [
            (failed, "", Some("no credit"), "no credit"),
            (failed, "half", Some("no credit"), "half"),
            (failed, "", None, ""),
            (None, "", Some("cut short"), ""),
        ] {
            let ending = Ending {
                failure,
                answer: Answer { text: answer.to_owned(), truncated: false },
                reason_text: reason.map(str::to_owned),
            };
            assert_eq!(ending.text(), expected);
        }
    }
}
