//! Follows a prompt until its turn is over, and reads the answer from the transcript.
//!
//! Events only say when to look: what happened is read from the mirror, and the end from the
//! server's own record, so that a reconnect in between or a turn that was over long ago make no
//! difference.

use tokio::time::Instant;
use usher_shared::client::{Event, Freshness, Input, LinkState, Mirror};
use usher_shared::counter::MessageSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{AdmissionId, SessionId, TurnId};
use usher_shared::limits::{PAGE_MESSAGES_MAX, READ_BYTES_MAX};
use usher_shared::protocol::queue::{QueueGetParams, QueueStatus, StatusEntry};
use usher_shared::protocol::session::{Session, SessionGetParams};
use usher_shared::protocol::transcript::{
    Message, Notice, Role, TranscriptPageParams, TranscriptReadParams,
};
use usher_shared::protocol::turn::{TurnEnded, TurnOutcome, TurnReason};

use super::client::{Client, OFFLINE_PATIENCE, Problem};
use super::exit::Exit;
use super::output::Output;
use super::send::interrupted;

/// How a followed prompt ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// None: answered.
    pub(super) failure: Option<Failure>,
    /// What the agent said.
    pub(super) answer: Answer,
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
            Self::Turn(Notice::StartFailed) => "start_failed",
            Self::Turn(Notice::TurnCancelled) => "turn_cancelled",
            Self::Turn(Notice::TurnInterrupted) => "turn_interrupted",
            Self::Turn(Notice::TurnUncertain) => "turn_uncertain",
            Self::Turn(Notice::TurnRefused) => "turn_refused",
            Self::Turn(Notice::TurnCutShort) => "turn_cut_short",
            Self::Removed => "entry_not_found",
            Self::NoServer => "no_server",
            Self::Refused(code) => code.as_str(),
        }
    }

    /// What people read about it.
    pub(super) fn text(self, output: &Output) -> String {
        let id = match self {
            Self::Turn(Notice::TurnFailed | Notice::TurnCutShort) => "cli-turn-failed",
            Self::Turn(Notice::StartFailed) => "cli-start-failed",
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

/// Where a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// It waits.
    Queued { at_head: bool },
    /// Its turn is open or over.
    Run { turn_id: TurnId, seq: MessageSeq },
    /// Older messages may tell.
    FurtherBack,
    /// Between the two (an entry taken for a turn is in neither), or gone.
    OutOfSight,
}

/// What to do after a look.
enum Next {
    /// Look again when something happens.
    Wait,
    /// The same; but nothing will happen by itself, which somebody should know.
    WaitParked,
    /// It is over.
    Over(Ending),
}

/// Follows the prompt with this ID in the open session. None: interrupted from outside.
pub(super) async fn follow(
    client: &mut Client,
    session_id: SessionId,
    id: &AdmissionId,
    output: &Output,
) -> Option<Ending> {
    let mut offline_since: Option<Instant> = None;
    let mut told = false;
    loop {
        let away = offline_since.is_some_and(|since| since.elapsed() >= OFFLINE_PATIENCE);
        let looked = tokio::select! {
            looked = look(client, session_id, id) => looked,
            () = interrupted() => return None,
        };
        match looked {
            Ok(Next::Over(ending)) => return Some(ending),
            Ok(Next::WaitParked) if !told => {
                told = true;
                output.problem(&output.text("cli-wait-parked", &[]));
            }
            Ok(Next::Wait | Next::WaitParked) | Err(Problem::Lost) if !away => {}
            Err(Problem::Rejected(error)) => {
                return Some(without_answer(Failure::Refused(error.code)));
            }
            Ok(Next::Wait | Next::WaitParked) | Err(_) => {
                return Some(without_answer(Failure::NoServer));
            }
        }
        let event = tokio::select! {
            event = client.next_event() => Some(event),
            () = tokio::time::sleep(OFFLINE_PATIENCE), if offline_since.is_some() => None,
            () = interrupted() => return None,
        };
        if let Some(Event::SessionRefused(_)) = event {
            return Some(without_answer(Failure::Removed));
        }
        match client.driver.engine().link() {
            LinkState::Online { .. } => offline_since = None,
            LinkState::Connecting | LinkState::Greeting | LinkState::Waiting { .. } => {
                offline_since = offline_since.or_else(|| Some(Instant::now()));
            }
            LinkState::Refused(_) => return Some(without_answer(Failure::NoServer)),
        }
    }
}

fn without_answer(failure: Failure) -> Ending {
    Ending { failure: Some(failure), answer: Answer::default() }
}

async fn look(
    client: &mut Client,
    session_id: SessionId,
    id: &AdmissionId,
) -> Result<Next, Problem> {
    let Some(mirror) = client.driver.engine().mirror() else {
        return Ok(Next::Wait);
    };
    if mirror.freshness() == Freshness::Stale {
        return Ok(Next::Wait);
    }
    match whereabouts(mirror, id) {
        Whereabouts::Queued { at_head } => {
            if mirror.queue().auto_run {
                return Ok(Next::Wait);
            }
            let start_failed = |turn: &TurnEnded| turn.reason == Some(TurnReason::StartFailed);
            if at_head && client.turns_ended.iter().any(start_failed) {
                let failure = Failure::Turn(Notice::StartFailed);
                return Ok(Next::Over(without_answer(failure)));
            }
            Ok(Next::WaitParked)
        }
        Whereabouts::FurtherBack => {
            client.driver.handle(Input::LoadOlder);
            Ok(Next::Wait)
        }
        Whereabouts::OutOfSight => find_out_of_sight(client, session_id, id).await,
        Whereabouts::Run { turn_id, seq } => {
            let open = mirror.session().turn.is_some_and(|turn| turn.id == turn_id);
            let ended = client.turns_ended.iter().find(|t| t.turn_id == turn_id);
            let ended = ended.cloned();
            if ended.is_none() && open {
                return Ok(Next::Wait);
            }
            if ended.is_none() {
                // The message may be here before the news that its turn is open.
                let found = client.ask(&SessionGetParams { session_id }).await?;
                if found.session.turn.is_some_and(|turn| turn.id == turn_id) {
                    return Ok(Next::Wait);
                }
            }
            let ending = read_ending(client, session_id, turn_id, seq, ended.as_ref()).await?;
            Ok(Next::Over(ending))
        }
    }
}

fn whereabouts(mirror: &Mirror, id: &AdmissionId) -> Whereabouts {
    let carries = |message: &&Message| {
        message.role == Role::User && message.metadata.queue_admission_ids.contains(id)
    };
    let message = mirror.messages().iter().rev().find(carries);
    if let Some((turn_id, message)) = message.and_then(|m| Some((m.turn_id?, m))) {
        let seq = message.seq;
        return Whereabouts::Run { turn_id, seq };
    }
    if let Some(index) = place_in(mirror.queue(), id) {
        let at_head = index == 0;
        return Whereabouts::Queued { at_head };
    }
    if mirror.has_more() { Whereabouts::FurtherBack } else { Whereabouts::OutOfSight }
}

fn place_in(queue: &QueueStatus, id: &AdmissionId) -> Option<usize> {
    queue.entries.iter().position(|entry| match entry {
        StatusEntry::Whole(entry) => entry.metadata.queue_admission_ids.contains(id),
        StatusEntry::Stub { .. } => false,
    })
}

/// Tells a prompt that is being handed to the agent from one that was removed: asks for the queue
/// and then for the newest messages, so that it cannot slip from one to the other in between.
async fn find_out_of_sight(
    client: &mut Client,
    session_id: SessionId,
    id: &AdmissionId,
) -> Result<Next, Problem> {
    let session: Session = client.ask(&SessionGetParams { session_id }).await?.session;
    let identity = session.identity();
    let queue = client.ask(&QueueGetParams { identity }).await?;
    let page = TranscriptPageParams { session_id, before_seq: None, after_seq: None, limit: None };
    let page = client.ask(&page).await?;
    let visible = u64::try_from(queue.entries.len()).unwrap_or(u64::MAX);
    let has_reserved = queue.count > visible;
    let has_stubs = queue.entries.iter().any(|entry| matches!(entry, StatusEntry::Stub { .. }));
    let in_page =
        page.messages.iter().any(|message| message.metadata.queue_admission_ids.contains(id));
    if has_reserved || has_stubs || in_page || place_in(&queue, id).is_some() {
        return Ok(Next::Wait);
    }
    Ok(Next::Over(without_answer(Failure::Removed)))
}

/// Reads what a turn that is over left in the transcript.
async fn read_ending(
    client: &mut Client,
    session_id: SessionId,
    turn_id: TurnId,
    prompt_seq: MessageSeq,
    ended: Option<&TurnEnded>,
) -> Result<Ending, Problem> {
    let mut failure = ended.and_then(failure_of);
    let mut answer = Answer::default();
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
                Role::System if ended.is_none() => {
                    failure = failure.or(message.metadata.notice.and_then(failure_in));
                }
                Role::System | Role::User | Role::Thought | Role::Tool | Role::Plan => {}
            }
        }
        match page.messages.last() {
            Some(last) if page.has_more && last.turn_id == Some(turn_id) => after_seq = last.seq,
            Some(_) | None => return Ok(Ending { failure, answer }),
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

fn failure_of(ended: &TurnEnded) -> Option<Failure> {
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
        Notice::TurnCutShort => None,
        Notice::TurnFailed
        | Notice::StartFailed
        | Notice::TurnCancelled
        | Notice::TurnInterrupted
        | Notice::TurnUncertain
        | Notice::TurnRefused => Some(Failure::Turn(notice)),
    }
}
