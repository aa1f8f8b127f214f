//! Follows a prompt until its turn is over.
//!
//! Events only say when to look: what happened is read from the mirror, and the end from the
//! server's own record, so that a reconnect in between or a turn that was over long ago make no
//! difference.

use tokio::time::Instant;
use usher_shared::client::{Freshness, Input, LinkState, Mirror};
use usher_shared::counter::MessageSeq;
use usher_shared::id::{AdmissionId, SessionId, TurnId};
use usher_shared::limits::PAGE_MESSAGES_MAX;
use usher_shared::protocol::entry::StatusEntry;
use usher_shared::protocol::queue::{QueueGetParams, QueueStatus};
use usher_shared::protocol::session::{Identity, SessionGetParams};
use usher_shared::protocol::transcript::{Message, Role, TranscriptPageParams};
use usher_shared::protocol::turn::{TurnEnded, TurnReason};

use super::client::{Client, OFFLINE_PATIENCE, Problem};
use super::ending::{Ending, Failure, failure_of, read_ending};
use super::interrupt::Interrupt;
use super::output::Output;
use crate::i18n::Value;

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
    interrupt: &mut Interrupt,
    output: &Output,
) -> Option<Ending> {
    let mut offline_since: Option<Instant> = None;
    let mut told = false;
    loop {
        if let Some(failure) = out_of_reach(client, &mut offline_since) {
            return Some(Ending::without_answer(failure));
        }
        let news = client.news;
        let looked = tokio::select! {
            looked = look(client, session_id, id) => looked,
            () = interrupt.heard() => return None,
        };
        match looked {
            Ok(Next::Over(ending)) => return Some(ending),
            Ok(Next::WaitParked) if !told => {
                told = true;
                let session = [("session", Value::from(session_id.to_string()))];
                output.problem(&output.text("cli-wait-parked", &session));
            }
            Ok(Next::Wait | Next::WaitParked) | Err(Problem::Lost) => {}
            Err(Problem::Rejected(error)) => {
                return Some(Ending::without_answer(Failure::Refused(error.code)));
            }
            Err(
                Problem::Own(_)
                | Problem::NoServer
                | Problem::Unreachable(_)
                | Problem::Unwelcome(_)
                | Problem::UnknownSession(_),
            ) => {
                return Some(Ending::without_answer(Failure::NoServer));
            }
        }
        if client.news != news {
            // Something happened while the look was under way, perhaps what it looked for.
            continue;
        }
        tokio::select! {
            _ = client.next_event() => {}
            () = tokio::time::sleep(OFFLINE_PATIENCE), if offline_since.is_some() => {}
            () = interrupt.heard() => return None,
        }
    }
}

/// Tells whether there is no point in waiting any more.
fn out_of_reach(client: &Client, offline_since: &mut Option<Instant>) -> Option<Failure> {
    if client.session_refused.is_some() {
        return Some(Failure::Removed);
    }
    match client.driver.engine().link() {
        LinkState::Online { .. } => {
            *offline_since = None;
            None
        }
        LinkState::Connecting | LinkState::Greeting | LinkState::Waiting { .. } => {
            let since = *offline_since.get_or_insert_with(Instant::now);
            (since.elapsed() >= OFFLINE_PATIENCE).then_some(Failure::NoServer)
        }
        LinkState::Refused(_) => Some(Failure::NoServer),
    }
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
            // The agent got nothing of it: its prompt is at its place again.
            let start_failed = |turn: &TurnEnded| turn.reason == Some(TurnReason::StartFailed);
            let failed = client.turns_ended.iter().rfind(|turn| start_failed(turn));
            if let Some(turn) = failed.filter(|_| at_head)
                && let Some(failure) = failure_of(turn)
            {
                let reason_text = turn.text.clone();
                let ending = Ending { reason_text, ..Ending::without_answer(failure) };
                return Ok(Next::Over(ending));
            }
            Ok(Next::WaitParked)
        }
        Whereabouts::FurtherBack => {
            client.driver.handle(Input::LoadOlder);
            Ok(Next::Wait)
        }
        Whereabouts::OutOfSight => {
            let identity = mirror.session().identity();
            let last_seen = mirror.messages().last().map(|message| message.seq);
            find_out_of_sight(client, identity, last_seen, id).await
        }
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
/// and then for newer messages, so that it cannot slip from one to the other in between.
async fn find_out_of_sight(
    client: &mut Client,
    identity: Identity,
    last_seen: Option<MessageSeq>,
    id: &AdmissionId,
) -> Result<Next, Problem> {
    let queue = client.ask(&QueueGetParams { identity }).await?;
    let visible = u64::try_from(queue.entries.len()).unwrap_or(u64::MAX);
    let has_reserved = queue.count > visible;
    let is_stub = |entry: &StatusEntry| matches!(entry, StatusEntry::Stub { .. });
    if has_reserved || queue.entries.iter().any(is_stub) || place_in(&queue, id).is_some() {
        return Ok(Next::Wait);
    }
    let page = TranscriptPageParams {
        session_id: identity.session_id,
        before_seq: None,
        after_seq: last_seen,
        limit: Some(PAGE_MESSAGES_MAX),
    };
    let page = client.ask(&page).await?;
    let carries = |message: &Message| message.metadata.queue_admission_ids.contains(id);
    if page.has_more || page.messages.iter().any(carries) {
        return Ok(Next::Wait);
    }
    Ok(Next::Over(Ending::without_answer(Failure::Removed)))
}
