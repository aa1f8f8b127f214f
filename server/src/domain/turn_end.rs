//! The end of a turn: where its prompt, its messages and the queue are left.
//!
//! A turn ends once: whoever comes second finds it not open.

use std::sync::Arc;

use usher_shared::id::{MessageId, SessionId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{
    AutoRunReason, MessageStatus, Notice, Role, TurnOutcome, TurnReason,
};

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::Event;
use super::message::{Message, MessageDetails};
use super::queue::off;
use super::session::{OpenTurn, QueueHead, Session, Standing, Stop, TurnPrompt, TurnStage};
use super::turn::{QueueMoved, joined, passing, reserved, started, user_message};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// What the outcome alone does not say.
    pub reason: Option<TurnReason>,
    /// What the agent said about it.
    pub text: Option<String>,
}

/// What is stored of a turn when it ends.
#[derive(Clone, Debug, Default)]
pub struct TurnRecords {
    /// Its prompt, if that is still in the queue: one entry, or several in order.
    pub entries: Vec<Entry>,
    /// Its prompt, if that is in the transcript.
    pub prompt: Option<Message>,
    /// Its messages that may still grow.
    pub streaming: Vec<Message>,
    /// What is reserved for the turn that replaces it, in order.
    pub next: Vec<Entry>,
}

/// Fresh names and the time for ending a turn.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// For the prompt, if it enters the transcript now.
    pub prompt_id: MessageId,
    /// For the report of what happened.
    pub notice_id: MessageId,
    /// The time.
    pub now: UnixMillis,
}

/// Ends the open turn: settles its messages, puts its prompt where it belongs, parks the queue if
/// the end asks for it, and reports what happened. A turn that ends twice changes nothing the
/// second time: the caller finds it not open.
pub fn end(
    session: &Session,
    turn: OpenTurn,
    end: TurnEnd,
    records: TurnRecords,
    fresh: Fresh,
) -> Decision<()> {
    let never_left =
        turn.stage == TurnStage::Reserved || end.reason == Some(TurnReason::StartFailed);
    let end = as_asked(turn.stop, end);
    let mut writer = EndWriter::new(session);
    writer.settle(turn.id, records.streaming, streaming_becomes(end.outcome));
    if !records.entries.is_empty() {
        match never_left {
            true => writer.put_back(turn.id, &end),
            false => writer.keep_prompt(turn.id, &records.entries, &end, fresh),
        }
    } else if let (Some(prompt), Some(status)) = (records.prompt, prompt_becomes(end.outcome)) {
        writer.mark_prompt(prompt, status);
    }
    if let Some(reason) = parks(&end) {
        writer.queue = off(writer.queue, reason);
    }
    if let Some(notice) = notice(&end) {
        writer.report(turn.id, notice, end.text.as_deref().unwrap_or(""), fresh);
    }
    writer.finish(turn, end, &records.next, fresh.now)
}

/// Whatever the agent answers to a stop: the turn ends as the one who stopped it asked.
fn as_asked(stop: Stop, end: TurnEnd) -> TurnEnd {
    let cancelled = |reason| TurnEnd { outcome: TurnOutcome::Cancelled, reason, text: None };
    match (stop, end.outcome) {
        (Stop::NotAsked, _) | (_, TurnOutcome::Interrupted | TurnOutcome::Uncertain) => end,
        (Stop::Replaced(_), _) => cancelled(Some(TurnReason::Replaced)),
        (Stop::Asked, TurnOutcome::Completed | TurnOutcome::Failed) => cancelled(None),
        (Stop::Asked, TurnOutcome::Cancelled) => end,
    }
}

struct EndWriter {
    session: Session,
    queue: QueueHead,
    changes: Vec<Change>,
    events: Vec<(SessionId, Event)>,
}

impl EndWriter {
    fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            queue: session.queue,
            changes: Vec::new(),
            events: Vec::new(),
        }
    }

    fn write(&mut self, message: Message) {
        self.session.last_seq = message.seq;
        self.changes.push(Change::InsertMessage(
            self.session.key,
            self.session.incarnation_key,
            Box::new(message.clone()),
        ));
        self.tell(message);
    }

    fn tell(&mut self, message: Message) {
        self.events.push((self.session.id, Event::MessageWritten(Box::new(message))));
    }

    fn settle(&mut self, turn_id: TurnId, streaming: Vec<Message>, status: MessageStatus) {
        if streaming.is_empty() {
            return;
        }
        self.changes.push(Change::SettleMessages(turn_id, status));
        for message in streaming {
            self.tell(Message { status, ..message });
        }
    }

    /// A prompt that no agent can have goes back to its place in the queue.
    fn put_back(&mut self, turn_id: TurnId, end: &TurnEnd) {
        self.queue = self.queue.changed();
        self.changes.push(Change::ReleaseEntries(turn_id));
        if end.outcome == TurnOutcome::Cancelled && end.reason != Some(TurnReason::Replaced) {
            // It waits again, and whoever stopped it does not want it started again.
            self.queue = off(self.queue, AutoRunReason::Cancelled);
        }
    }

    /// A prompt that an agent may have goes into the transcript.
    fn keep_prompt(&mut self, turn_id: TurnId, entries: &[Entry], end: &TurnEnd, fresh: Fresh) {
        let Some(entry) = joined(entries) else { return };
        let status = prompt_becomes(end.outcome).unwrap_or(MessageStatus::Complete);
        let message =
            user_message(&self.session, turn_id, &entry, fresh.prompt_id, status, fresh.now);
        self.queue = self.queue.changed();
        self.queue.stored = self.queue.stored.saturating_sub(entries.len() as u64);
        let passing = passing(turn_id, &message);
        self.write(message);
        self.changes.extend(passing);
        self.changes.push(Change::DeleteEntries(turn_id));
    }

    fn mark_prompt(&mut self, prompt: Message, status: MessageStatus) {
        self.changes.push(Change::SetMessageStatus(prompt.id, status));
        self.tell(Message { status, ..prompt });
    }

    fn report(&mut self, turn_id: TurnId, notice: Notice, text: &str, fresh: Fresh) {
        self.write(Message {
            id: fresh.notice_id,
            session_id: self.session.id,
            incarnation_id: self.session.incarnation_id,
            seq: self.session.last_seq.next(),
            turn_id: Some(turn_id),
            role: Role::System,
            content: Arc::from(text),
            content_bytes: text.len() as u64,
            status: MessageStatus::Complete,
            details: MessageDetails { notice: Some(notice), ..MessageDetails::default() },
            created_at: fresh.now,
        });
    }

    /// Ends the turn, and begins the one that replaces it or lets the queue go on. What a turn was to
    /// be replaced with waits again if it did not end for that.
    fn finish(
        mut self,
        turn: OpenTurn,
        end: TurnEnd,
        next: &[Entry],
        now: UnixMillis,
    ) -> Decision<()> {
        let id = self.session.id;
        let TurnEnd { outcome, reason, text } = end;
        self.changes.push(Change::EndTurn { turn_id: turn.id, outcome, reason, ended_at: now });
        self.events.push((id, Event::TurnEnded { turn_id: turn.id, outcome, reason, text }));
        let begins = match (turn.stop, joined(next)) {
            (Stop::Replaced(by), Some(prompt))
                if reason == Some(TurnReason::Replaced)
                    && self.session.standing == Standing::Open =>
            {
                Some((by, prompt))
            }
            (Stop::Replaced(by), Some(_)) => {
                self.queue = self.queue.changed();
                self.changes.push(Change::ReleaseEntries(by));
                None
            }
            _ => None,
        };
        if self.queue.auto_run != self.session.queue.auto_run {
            self.queue = self.queue.changed();
        }
        if self.queue != self.session.queue {
            self.changes.push(Change::SetQueue(self.session.key, self.queue));
            self.events.extend(self.session.queue_resized());
        }
        match begins {
            Some((by, prompt)) => {
                let open = reserved(by, TurnPrompt::Entries, now);
                self.changes.push(Change::InsertTurn(self.session.key, open));
                self.events.extend(started(&self.session, by, &prompt, QueueMoved::No));
            }
            None => self.events.extend([(id, Event::SessionChanged), (id, Event::MayStart)]),
        }
        Decision { changes: self.changes, events: self.events, reply: () }
    }
}

const fn streaming_becomes(outcome: TurnOutcome) -> MessageStatus {
    match outcome {
        TurnOutcome::Completed => MessageStatus::Complete,
        TurnOutcome::Failed => MessageStatus::Failed,
        TurnOutcome::Cancelled | TurnOutcome::Interrupted | TurnOutcome::Uncertain => {
            MessageStatus::Interrupted
        }
    }
}

/// What the prompt's message becomes; None: it stays whole.
const fn prompt_becomes(outcome: TurnOutcome) -> Option<MessageStatus> {
    match outcome {
        TurnOutcome::Completed | TurnOutcome::Cancelled => None,
        TurnOutcome::Failed => Some(MessageStatus::Failed),
        TurnOutcome::Interrupted => Some(MessageStatus::Interrupted),
        TurnOutcome::Uncertain => Some(MessageStatus::Uncertain),
    }
}

const fn parks(end: &TurnEnd) -> Option<AutoRunReason> {
    match (end.outcome, end.reason) {
        (TurnOutcome::Completed, Some(TurnReason::Refused)) => Some(AutoRunReason::Refused),
        (TurnOutcome::Completed | TurnOutcome::Cancelled, _) => None,
        (TurnOutcome::Failed, _) => Some(AutoRunReason::Failed),
        (TurnOutcome::Interrupted, _) => Some(AutoRunReason::Interrupted),
        (TurnOutcome::Uncertain, _) => Some(AutoRunReason::UncertainTurn),
    }
}

const fn notice(end: &TurnEnd) -> Option<Notice> {
    match (end.outcome, end.reason) {
        (TurnOutcome::Completed, Some(TurnReason::Refused)) => Some(Notice::TurnRefused),
        (TurnOutcome::Completed, Some(TurnReason::CutShort)) => Some(Notice::TurnCutShort),
        (TurnOutcome::Completed, _) | (TurnOutcome::Cancelled, Some(TurnReason::Replaced)) => None,
        (TurnOutcome::Cancelled, _) => Some(Notice::TurnCancelled),
        (TurnOutcome::Failed, Some(TurnReason::StartFailed)) => Some(Notice::StartFailed),
        (TurnOutcome::Failed, Some(TurnReason::ModelUnavailable)) => Some(Notice::ModelUnavailable),
        (TurnOutcome::Failed, Some(TurnReason::PlanModeUnavailable)) => {
            Some(Notice::PlanModeUnavailable)
        }
        (TurnOutcome::Failed, _) => Some(Notice::TurnFailed),
        (TurnOutcome::Interrupted, _) => Some(Notice::TurnInterrupted),
        (TurnOutcome::Uncertain, _) => Some(Notice::TurnUncertain),
    }
}

/// Settles a turn that a stopped server left open.
///
/// Never handed over: its prompt goes back to its place and the queue goes on. Handed over without
/// proof: uncertain. Accepted: interrupted. The last two park the queue; nothing is sent again.
pub fn recover(
    session: &Session,
    turn: OpenTurn,
    records: TurnRecords,
    fresh: Fresh,
) -> Decision<()> {
    let how = |outcome| TurnEnd { outcome, reason: None, text: None };
    match turn.stage {
        TurnStage::Reserved => {
            let mut writer = EndWriter::new(session);
            let interrupted = how(TurnOutcome::Interrupted);
            if !records.entries.is_empty() {
                writer.put_back(turn.id, &interrupted);
            }
            writer.finish(turn, interrupted, &records.next, fresh.now)
        }
        TurnStage::HandedOver => end(session, turn, how(TurnOutcome::Uncertain), records, fresh),
        TurnStage::Running => end(session, turn, how(TurnOutcome::Interrupted), records, fresh),
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
