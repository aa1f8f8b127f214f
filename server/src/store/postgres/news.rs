//! What a commit tells other servers: who and what, never content. Sent by `pg_notify` in the
//! same transaction, so that only what was committed is told.

use usher_shared::id::{EntryId, LeaseId, MessageId, SessionId, TaskId, TurnId, UserId};
use usher_shared::vocabulary::{EditLost, TurnOutcome, TurnReason};
use uuid::Uuid;

use crate::domain::lease::{LinkId, LostLease};
use crate::domain::{Change, Decision, Event};

/// PostgreSQL refuses a payload of 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_000;

/// One thing that another server committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// As it is.
    Event(SessionId, Event),
    /// A turn is over: whoever runs it stops.
    Ended(SessionId, TurnId, Event),
    /// A message is new, or final; it is read.
    Message(SessionId, MessageId),
    /// A message grew from this byte on; what was added is read.
    Grew(MessageId, u64),
}

/// Returns the payloads that tell of a decision; none if nobody needs to know.
pub(super) fn payloads<T>(origin: Uuid, decision: &Decision<T>) -> Vec<String> {
    let told = decision.events.iter().filter_map(|(session, event)| line(*session, event));
    let grown = decision.changes.iter().filter_map(|change| match change {
        Change::AppendMessage { id, at, .. } => Some(format!("grew {id} {at}")),
        _ => None,
    });
    let mut payloads: Vec<String> = Vec::new();
    for line in told.chain(grown) {
        match payloads.last_mut() {
            Some(payload) if payload.len() + line.len() < PAYLOAD_BYTES_MAX => {
                payload.push('\n');
                payload.push_str(&line);
            }
            _ => payloads.push(format!("{origin}\n{line}")),
        }
    }
    payloads
}

fn line(session: SessionId, event: &Event) -> Option<String> {
    Some(match event {
        Event::QueueChanged => format!("queue {session}"),
        Event::SessionChanged => format!("session {session}"),
        Event::PlanChanged => format!("plan {session}"),
        Event::TaskChanged(task) => format!("task {session} {task}"),
        Event::EditLost(lost) => {
            let LostLease { link, task_id, entry_id, lease_id, reason } = lost;
            format!("lost {session} {task_id} {entry_id} {lease_id} {} {reason}", link.0)
        }
        Event::TaskGone(task, owner) => format!("task_gone {session} {task} {owner}"),
        Event::SessionGone(task, owner) => format!("session_gone {session} {task} {owner}"),
        Event::MayStart => format!("may_start {session}"),
        // It runs where it was reserved.
        Event::TurnReserved(_) => return None,
        Event::StopAsked(turn) => format!("stop {session} {turn}"),
        Event::TurnStarted(turn) => format!("began {session} {turn}"),
        Event::TurnEnded { turn_id, outcome, reason, .. } => {
            let reason = reason.map_or("-", TurnReason::as_str);
            format!("ended {session} {turn_id} {} {reason}", outcome.as_str())
        }
        Event::Hidden => format!("hidden {session}"),
        Event::Deleted => format!("deleted {session}"),
        Event::MessageWritten(message) => format!("message {session} {}", message.id),
    })
}

/// Reads a payload; nothing of one that this server sent itself, and of lines of a newer version.
pub(super) fn read(own: Uuid, payload: &str) -> Vec<News> {
    let mut lines = payload.lines();
    if lines.next().is_none_or(|origin| origin == own.to_string()) {
        return Vec::new();
    }
    lines.filter_map(read_line).collect()
}

fn read_line(line: &str) -> Option<News> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let first = Uuid::try_parse(words.next()?).ok()?;
    let session = SessionId::from_uuid(first);
    let turn = |word: Option<&str>| Uuid::try_parse(word?).ok().map(TurnId::from_uuid);
    let task = |word: Option<&str>| Uuid::try_parse(word?).ok().map(TaskId::from_uuid);
    let user = |word: Option<&str>| Uuid::try_parse(word?).ok().map(UserId::from_uuid);
    let event = match word {
        "queue" => Event::QueueChanged,
        "session" => Event::SessionChanged,
        "plan" => Event::PlanChanged,
        "task" => Event::TaskChanged(task(words.next())?),
        "task_gone" => Event::TaskGone(task(words.next())?, user(words.next())?),
        "session_gone" => Event::SessionGone(task(words.next())?, user(words.next())?),
        "lost" => {
            let mut id = || Uuid::try_parse(words.next()?).ok();
            Event::EditLost(LostLease {
                task_id: TaskId::from_uuid(id()?),
                entry_id: EntryId::from_uuid(id()?),
                lease_id: LeaseId::from_uuid(id()?),
                link: LinkId(id()?),
                reason: EditLost::parse(words.next()?)?,
            })
        }
        "may_start" => Event::MayStart,
        "stop" => Event::StopAsked(turn(words.next())?),
        "began" => Event::TurnStarted(turn(words.next())?),
        "ended" => {
            let turn_id = turn(words.next())?;
            let outcome = TurnOutcome::parse(words.next()?)?;
            let reason = TurnReason::parse(words.next()?);
            let event = Event::TurnEnded { turn_id, outcome, reason, text: None };
            return Some(News::Ended(session, turn_id, event));
        }
        "hidden" => Event::Hidden,
        "deleted" => Event::Deleted,
        "message" => {
            let id = Uuid::try_parse(words.next()?).ok()?;
            return Some(News::Message(session, MessageId::from_uuid(id)));
        }
        "grew" => {
            return Some(News::Grew(MessageId::from_uuid(first), words.next()?.parse().ok()?));
        }
        _ => return None,
    };
    Some(News::Event(session, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(1))
    }

    fn decision(events: Vec<Event>, changes: Vec<Change>) -> Decision<()> {
        let events = events.into_iter().map(|event| (session(), event)).collect();
        Decision { changes, events, reply: () }
    }

    #[test]
    fn what_is_told_is_read_as_it_was_and_by_others_only() {
        let (own, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let turn_id = TurnId::from_uuid(Uuid::from_u128(2));
        let message = MessageId::from_uuid(Uuid::from_u128(3));
        let ended =
            |reason| Event::TurnEnded { turn_id, outcome: TurnOutcome::Failed, reason, text: None };
        let (task, user) =
            (TaskId::from_uuid(Uuid::from_u128(4)), UserId::from_uuid(Uuid::from_u128(5)));
        let events = vec![
            Event::TaskGone(task, user),
            Event::SessionGone(task, user),
            Event::QueueChanged,
            Event::SessionChanged,
            Event::PlanChanged,
            Event::TaskChanged(task),
            Event::EditLost(LostLease {
                link: LinkId(Uuid::from_u128(5)),
                task_id: TaskId::from_uuid(Uuid::from_u128(4)),
                entry_id: EntryId::from_uuid(Uuid::from_u128(6)),
                lease_id: LeaseId::from_uuid(Uuid::from_u128(9)),
                reason: EditLost::HeldTooLong,
            }),
            Event::MayStart,
            Event::StopAsked(turn_id),
            Event::TurnStarted(turn_id),
            Event::Hidden,
            Event::Deleted,
        ];
        let mut all = events.clone();
        all.extend([ended(None), ended(Some(TurnReason::AgentExit))]);
        let grows = Change::AppendMessage { id: message, at: 12, text: "x".to_owned() };
        let payloads = payloads(own, &decision(all, vec![grows]));
        let mut expected: Vec<News> =
            events.into_iter().map(|event| News::Event(session(), event)).collect();
        expected.push(News::Ended(session(), turn_id, ended(None)));
        expected.push(News::Ended(session(), turn_id, ended(Some(TurnReason::AgentExit))));
        expected.push(News::Grew(message, 12));
        assert_eq!(payloads.len(), 1);
        assert_eq!(read(other, &payloads[0]), expected);
        assert_eq!(read(own, &payloads[0]), []);
        assert_eq!(read(other, "garbage\nnews of the future 1\n"), []);
    }

    #[test]
    fn much_news_is_told_in_several_payloads() {
        let payloads =
            payloads(Uuid::from_u128(7), &decision(vec![Event::QueueChanged; 500], Vec::new()));
        assert!(payloads.iter().all(|payload| payload.len() < 8_000));
        let read: Vec<News> =
            payloads.iter().flat_map(|payload| read(Uuid::from_u128(8), payload)).collect();
        assert_eq!(read.len(), 500);
    }
}
