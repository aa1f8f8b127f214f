//! Writes what an agent says into the transcript, in batches, and shows it at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;
use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, PlanId, SessionId, TurnId};
use usher_shared::limits::MESSAGE_CONTENT_BYTES_MAX;
use usher_shared::prompt::cut_at_char;
use usher_shared::vocabulary::{MessageStatus, Role};

use crate::clock::fresh_uuid;
use crate::domain::plan::{self, Plan, PlanEntry};
use crate::net::Hub;
use crate::service::{NewText, Service, TurnError};
use crate::store::TransactError;

/// Streamed text is written at least this often: a crash loses no more of it.
pub(super) const FLUSH_AFTER: Duration = Duration::from_millis(100);
/// Streamed text beyond this many bytes is written at once.
const FLUSH_BYTES: usize = 16 * 1024;
/// Waits between attempts to write while the store fails.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// Repeats a write until it is stored or refused: what an agent did cannot be taken back.
pub(super) async fn insist<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, TurnError>
where
    F: Future<Output = Result<T, TransactError<TurnError>>>,
{
    let mut wait = RETRY_FIRST;
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(TransactError::Refused(TurnError::Store(error))) => {
                warn!(%error, "a turn's record does not fit; it is left as it is");
                return Err(TurnError::Store(error));
            }
            Err(TransactError::Refused(refusal)) => return Err(refusal),
            Err(TransactError::NotStored(error)) => warn!(%error, "a turn's record must wait"),
            Err(TransactError::Unknown(error)) => warn!(%error, "a turn's record must wait"),
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY_LONGEST);
    }
}

/// The message that text is being added to.
struct OpenText {
    id: MessageId,
    seq: MessageSeq,
    role: Role,
    /// Bytes shown so far; no room for more once one piece did not fit.
    shown_bytes: u64,
    /// Bytes written so far.
    written_bytes: u64,
    /// Shown, but not written yet.
    pending: String,
}

/// A message that is replaced as a whole: a tool call or the plan.
struct Whole {
    id: MessageId,
    written: String,
    pending: Option<(String, MessageStatus)>,
}

/// The record of one turn.
pub(super) struct Scribe {
    service: Service,
    hub: Arc<Hub>,
    session: SessionId,
    turn: TurnId,
    open: Option<OpenText>,
    tools: HashMap<String, Whole>,
    plan: Option<Whole>,
    /// Names the plan of this turn, however often the agent changes it.
    plan_id: PlanId,
    /// Published by the agent, but not written yet.
    published: Option<Vec<PlanEntry>>,
    flush_at: Option<Instant>,
}

impl Scribe {
    pub(super) fn new(service: Service, hub: Arc<Hub>, session: SessionId, turn: TurnId) -> Self {
        Self {
            service,
            hub,
            session,
            turn,
            open: None,
            tools: HashMap::new(),
            plan: None,
            plan_id: PlanId::from_uuid(fresh_uuid()),
            published: None,
            flush_at: None,
        }
    }

    /// Returns when [`Scribe::flush`] is due.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        self.flush_at
    }

    fn due(&mut self) {
        self.flush_at.get_or_insert_with(|| Instant::now() + FLUSH_AFTER);
    }

    /// Adds text of a role: to the open message, or to a new one.
    pub(super) async fn text(&mut self, role: Role, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let piece = cut_at_char(rest, FLUSH_BYTES);
            rest = &rest[piece.len()..];
            self.piece(role, piece).await;
        }
    }

    async fn piece(&mut self, role: Role, text: &str) {
        match &mut self.open {
            Some(open) if open.role == role => {
                // Lists show no more of a message; the rest is for those who read it.
                let shown = usize::try_from(open.shown_bytes).unwrap_or(usize::MAX);
                let room = MESSAGE_CONTENT_BYTES_MAX.saturating_sub(shown);
                let shows = cut_at_char(text, room);
                if !shows.is_empty() {
                    self.hub.delta(self.session, open.id, open.seq, open.shown_bytes, shows);
                }
                open.shown_bytes = if shows.len() == text.len() {
                    open.shown_bytes + text.len() as u64
                } else {
                    u64::MAX
                };
                open.pending.push_str(text);
                if open.pending.len() >= FLUSH_BYTES {
                    self.flush().await;
                } else {
                    self.due();
                }
            }
            _ => {
                self.close_text().await;
                let id = MessageId::from_uuid(fresh_uuid());
                let status = MessageStatus::Streaming;
                if let Some(seq) = self.write(id, role, None, text, status).await {
                    let bytes = text.len() as u64;
                    self.open = Some(OpenText {
                        id,
                        seq,
                        role,
                        shown_bytes: bytes,
                        written_bytes: bytes,
                        pending: String::new(),
                    });
                }
            }
        }
    }

    async fn write(
        &self,
        id: MessageId,
        role: Role,
        tool: Option<&str>,
        text: &str,
        status: MessageStatus,
    ) -> Option<MessageSeq> {
        insist(|| {
            let new =
                NewText { role, tool: tool.map(str::to_owned), text: text.to_owned(), status };
            self.service.write(self.session, self.turn, id, new)
        })
        .await
        .ok()
    }

    /// Ends the open message: what comes next belongs to another one.
    async fn close_text(&mut self) {
        self.flush().await;
        if let Some(open) = self.open.take() {
            drop(insist(|| self.service.finish(self.session, open.id)).await);
        }
    }

    /// Shows a tool call, new or changed.
    pub(super) async fn tool(&mut self, call: String, name: &str, output: String, done: bool) {
        let status = if done { MessageStatus::Complete } else { MessageStatus::Streaming };
        if let Some(known) = self.tools.get_mut(&call) {
            known.pending = Some((output, status));
            if done {
                self.flush().await;
            } else {
                self.due();
            }
            return;
        }
        self.close_text().await;
        let id = MessageId::from_uuid(fresh_uuid());
        if self.write(id, Role::Tool, Some(name), &output, status).await.is_some() {
            self.tools.insert(call, Whole { id, written: output, pending: None });
        }
    }

    /// Makes the plan that of the session, and shows it in the transcript, one step a line.
    pub(super) async fn plan(&mut self, steps: Vec<PlanEntry>) {
        let lines: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        let text = lines.join("\n");
        self.published = Some(plan::bounded(steps));
        let status = MessageStatus::Complete;
        if let Some(plan) = &mut self.plan {
            plan.pending = Some((text, status));
            self.due();
            return;
        }
        self.close_text().await;
        let id = MessageId::from_uuid(fresh_uuid());
        if self.write(id, Role::Plan, None, &text, status).await.is_some() {
            self.plan = Some(Whole { id, written: text, pending: None });
        }
    }

    /// Writes everything that was shown but not written.
    pub(super) async fn flush(&mut self) {
        self.flush_at = None;
        if let Some(open) = &mut self.open
            && !open.pending.is_empty()
        {
            let text = std::mem::take(&mut open.pending);
            let (session, id, at) = (self.session, open.id, open.written_bytes);
            let written = insist(|| self.service.append(session, id, at, text.clone())).await;
            match written {
                Ok(()) => open.written_bytes += text.len() as u64,
                // What follows would leave a gap: it begins another message.
                Err(_) => self.open = None,
            }
        }
        for whole in self.tools.values_mut().chain(&mut self.plan) {
            let Some((text, status)) = whole.pending.take() else {
                continue;
            };
            if text == whole.written && status == MessageStatus::Streaming {
                continue;
            }
            let (session, id) = (self.session, whole.id);
            let service = &self.service;
            drop(insist(|| service.replace(session, id, text.clone(), status)).await);
            whole.written = text;
        }
        if let Some(entries) = self.published.take() {
            let plan = Plan { id: self.plan_id, entries };
            let publish = || self.service.publish_plan(self.session, self.turn, plan.clone());
            drop(insist(publish).await);
        }
    }
}
