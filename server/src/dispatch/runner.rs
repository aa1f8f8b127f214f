//! Runs the turns of one session: the only place that talks to its agent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};
use usher_shared::id::{IncarnationId, PermissionId, SessionId, TurnId};
use usher_shared::vocabulary::{MessageStatus, PermissionClosed, Role, TurnOutcome, TurnReason};

use super::mailbox::{Mailbox, Order};
use super::questions::{Answer, Question, QuestionOption};
use super::scribe::{Scribe, insist};
use crate::agent::{AgentCommand, AgentEnd, AgentEvent, AgentHandle, AgentPrompt, AgentStart};
use crate::clock::fresh_uuid;
use crate::domain::Event;
use crate::domain::event::TurnStart;
use crate::domain::plan::Comment;
use crate::domain::turn_end::TurnEnd;
use crate::net::{Broadcast, Hub};
use crate::service::{LaidOut, NewText, Service, TurnError};
use crate::stop;

/// An agent that ran no turn for this long is stopped; the next turn starts it again.
const IDLE_MAX: Duration = Duration::from_secs(15 * 60);

/// See the module.
pub(super) struct Runner {
    session: SessionId,
    service: Service,
    hub: Arc<Hub>,
    mailbox: Mailbox,
    agent: Option<AgentHandle>,
    /// The life of the session that the agent was started in.
    agent_of: Option<IncarnationId>,
    last_turn: Option<TurnId>,
}

/// What happened next between turns.
enum Idle {
    Order(Order),
    Agent(Option<AgentEvent>),
    Long,
}

/// What happened next in a turn.
enum Step {
    Order(Order),
    Agent(Option<AgentEvent>),
    Answered(Option<Answer>),
    FlushDue,
    GraceOver,
}

/// The question that a turn waits for.
struct Asked {
    /// The agent's name for it.
    request: String,
    /// The server's name for it.
    id: PermissionId,
    answered: oneshot::Receiver<Answer>,
}

/// What a turn needs before its agent may have anything.
struct Prepared {
    prompt: AgentPrompt,
    /// The files of the prompt, for as long as the turn lasts.
    laid_out: LaidOut,
    agent: AgentHandle,
    /// How long a cancel may take.
    patience: Duration,
}

/// A running turn.
struct Turn {
    id: TurnId,
    accepted: bool,
    asked: Option<Asked>,
    /// How long a cancel may take.
    patience: Duration,
    grace_over: Option<Instant>,
    scribe: Scribe,
}

impl Drop for Runner {
    /// Whatever ends a runner: the next turn gets another one.
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

impl Runner {
    pub(super) fn new(
        session: SessionId,
        service: Service,
        hub: Arc<Hub>,
        mailbox: Mailbox,
    ) -> Self {
        Self { session, service, hub, mailbox, agent: None, agent_of: None, last_turn: None }
    }

    /// Runs turns until the session was idle for long.
    pub(super) async fn run(mut self) {
        loop {
            let step = tokio::select! {
                order = self.mailbox.next() => Idle::Order(order),
                event = next_event(&mut self.agent) => Idle::Agent(event),
                () = sleep(IDLE_MAX) => Idle::Long,
            };
            match step {
                Idle::Order(Order::Run(start)) => {
                    self.drain_late().await;
                    self.run_turn(*start).await;
                }
                Idle::Order(Order::Stop(_)) => {}
                Idle::Order(Order::Quit) => return,
                Idle::Agent(Some(event)) => self.late(event).await,
                Idle::Agent(None) => self.agent = None,
                Idle::Long if self.mailbox.close_if_empty() => return,
                Idle::Long => {}
            }
        }
    }

    async fn drain_late(&mut self) {
        while let Some(event) = self.agent.as_mut().and_then(|agent| agent.events.try_recv().ok()) {
            self.late(event).await;
        }
        if self.agent.as_ref().is_some_and(|agent| agent.events.is_closed()) {
            self.agent = None;
        }
    }

    /// Text after the end belongs to the turn that is over, once, never to the next.
    async fn late(&mut self, event: AgentEvent) {
        let (AgentEvent::Text(text), Some(turn)) = (event, self.last_turn) else {
            return;
        };
        let id = usher_shared::id::MessageId::from_uuid(fresh_uuid());
        let written = insist(|| {
            let status = MessageStatus::Complete;
            let new = NewText { role: Role::Agent, tool: None, text: text.clone(), status };
            self.service.write(self.session, turn, id, new)
        });
        drop(written.await);
    }

    async fn run_turn(&mut self, start: TurnStart) {
        stop::point("after_reservation");
        stop::pause("reservation", self.session).await;
        let id = start.turn_id;
        let Prepared { prompt, laid_out, agent, patience } = match self.prepare(&start).await {
            Ok(prepared) => prepared,
            Err(end) => return self.end(id, end).await,
        };
        let handed = insist(|| self.service.hand_over(self.session, id)).await;
        match handed {
            Ok(()) => {}
            Err(error @ TurnError::Store(_)) => return self.end(id, not_started(&error)).await,
            // Cancelled or replaced before anything was sent.
            Err(_) => {
                self.agent = Some(agent);
                return;
            }
        }
        stop::point("after_hand_over");
        stop::pause("hand_over", self.session).await;
        // An agent that is gone by now shows in its events.
        drop(agent.commands.send(AgentCommand::Prompt(prompt)).await);
        let scribe = Scribe::new(self.service.clone(), Arc::clone(&self.hub), self.session, id);
        let turn = Turn { id, accepted: false, asked: None, patience, grace_over: None, scribe };
        self.follow(turn, agent).await;
        drop(laid_out);
        self.last_turn = Some(id);
    }

    /// Gets everything that a turn needs before its agent may have anything: without all that it
    /// carries a prompt is not sent. Returns how the turn ends if something is missing.
    async fn prepare(&mut self, start: &TurnStart) -> Result<Prepared, TurnEnd> {
        if let Some(end) = self.lacking(start) {
            return Err(end);
        }
        let comments = self.comments(start).await.map_err(|error| not_started(&error))?;
        let laid_out = self.service.lay_out(start.turn_id, &start.enclosed.attachments).await;
        let laid_out = laid_out.map_err(|error| not_started(&format!("attachments: {error}")))?;
        let (agent, patience) = self.take_agent(start).map_err(|text| not_started(&text))?;
        let prompt = AgentPrompt {
            text: start.text.to_string(),
            enclosed: start.enclosed.clone(),
            paths: laid_out.paths.clone(),
            model: start.run.model.clone(),
            plan_mode: start.run.plan_mode,
            comments,
        };
        Ok(Prepared { prompt, laid_out, agent, patience })
    }

    /// Returns the plan comments that a prompt answers.
    async fn comments(&self, start: &TurnStart) -> Result<Vec<Comment>, TurnError> {
        let refs = &start.enclosed.comments;
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        insist(|| self.service.consumed_comments(self.session, refs.clone())).await
    }

    /// Returns how a turn ends whose agent cannot run it as the prompt says.
    fn lacking(&self, start: &TurnStart) -> Option<TurnEnd> {
        let lack = self.service.agents().get(&start.agent)?.abilities().lack(&start.run)?;
        let (reason, text) = (Some(lack.reason()), Some(lack.text(&start.agent)));
        Some(TurnEnd { outcome: TurnOutcome::Failed, reason, text })
    }

    /// Returns the session's agent, started if need be, and how long a cancel of it may take.
    fn take_agent(&mut self, start: &TurnStart) -> Result<(AgentHandle, Duration), String> {
        let spec = self.service.agents().get(&start.agent);
        let spec = spec.ok_or_else(|| format!("no agent named {} is configured", start.agent))?;
        let patience = spec.cancel_patience();
        if let Some(agent) = self.agent.take()
            && self.agent_of == Some(start.incarnation_id)
        {
            return Ok((agent, patience));
        }
        self.agent_of = Some(start.incarnation_id);
        let workspace_dir = start.workspace_dir.as_ref().map(PathBuf::from);
        let owner = self.service.agents().owner().cloned();
        let started = spec.start(AgentStart { workspace_dir, owner });
        Ok((started.map_err(|error| error.to_string())?, patience))
    }

    /// Follows a turn to its end.
    async fn follow(&mut self, mut turn: Turn, mut agent: AgentHandle) {
        loop {
            let step = tokio::select! {
                order = self.mailbox.next() => Step::Order(order),
                answer = answered(&mut turn.asked) => Step::Answered(answer),
                event = agent.events.recv() => Step::Agent(event),
                () = at(turn.scribe.flush_at()) => Step::FlushDue,
                () = at(turn.grace_over) => Step::GraceOver,
            };
            match step {
                Step::Order(Order::Stop(id)) if id == turn.id => {
                    stop::pause("stop", self.session).await;
                    self.close_question(&mut turn, &agent, PermissionClosed::Cancelled).await;
                    turn.grace_over = Some(Instant::now() + turn.patience);
                    drop(agent.commands.send(AgentCommand::Cancel).await);
                }
                Step::Order(Order::Stop(_)) => {}
                Step::Order(Order::Quit) => {
                    // First of all the agent: its turn may be somebody else's by now.
                    drop(agent);
                    return turn.scribe.flush().await;
                }
                // Somebody else settled this turn; what the agent still says is of no turn.
                Step::Order(order @ Order::Run(_)) => {
                    warn!(session = %self.session, turn = %turn.id, "the turn is over already");
                    drop(agent);
                    turn.scribe.flush().await;
                    drop(self.mailbox.post(order));
                    return;
                }
                Step::Answered(answer) => self.answer(&mut turn, &agent, answer).await,
                Step::FlushDue => turn.scribe.flush().await,
                Step::GraceOver => {
                    drop(agent);
                    let reason = Some(TurnReason::Forced);
                    let outcome = TurnOutcome::Cancelled;
                    return self.finish(turn, TurnEnd { outcome, reason, text: None }).await;
                }
                Step::Agent(None) => {
                    let end = TurnEnd {
                        outcome: TurnOutcome::Failed,
                        reason: Some(TurnReason::AgentExit),
                        text: None,
                    };
                    return self.finish(turn, end).await;
                }
                Step::Agent(Some(AgentEvent::Ended(end))) => {
                    self.agent = Some(agent);
                    let end = turn_end(end);
                    // An end is a proof of acceptance, unless the agent never began.
                    if end.reason != Some(TurnReason::StartFailed) {
                        self.accept(&mut turn).await;
                    }
                    return self.finish(turn, end).await;
                }
                Step::Agent(Some(event)) => {
                    self.accept(&mut turn).await;
                    self.record(&mut turn, event).await;
                }
            }
        }
    }

    async fn accept(&self, turn: &mut Turn) {
        if !turn.accepted {
            turn.accepted = true;
            stop::pause("acceptance", self.session).await;
            drop(insist(|| self.service.accept(self.session, turn.id)).await);
            stop::point("after_acceptance");
        }
    }

    async fn record(&self, turn: &mut Turn, event: AgentEvent) {
        match event {
            AgentEvent::Accepted | AgentEvent::Ended(_) => {}
            AgentEvent::Text(text) => turn.scribe.text(Role::Agent, &text).await,
            AgentEvent::Thought(text) => turn.scribe.text(Role::Thought, &text).await,
            AgentEvent::Tool { call, name, output, done } => {
                turn.scribe.tool(call, &name, output, done).await;
            }
            AgentEvent::Plan(steps) => turn.scribe.plan(steps).await,
            AgentEvent::Permission { request, title, tool, options } => {
                let id = PermissionId::from_uuid(fresh_uuid());
                let options = options
                    .into_iter()
                    .map(|(id, name, kind)| QuestionOption { id, name, kind })
                    .collect();
                let question = Question { id, turn_id: turn.id, title, tool, options };
                let answered = self.service.questions().ask(self.session, question.clone());
                turn.asked = Some(Asked { request, id, answered });
                self.hub.tell(self.session, Broadcast::PermissionRequested(question));
                self.hub.event(self.session, Event::SessionChanged);
            }
        }
    }

    async fn answer(&self, turn: &mut Turn, agent: &AgentHandle, answer: Option<Answer>) {
        let (Some(asked), Some(answer)) = (turn.asked.take(), answer) else {
            return;
        };
        let option_id = Some(answer.option_id.clone());
        let command = AgentCommand::Answer { request: asked.request, option_id };
        drop(agent.commands.send(command).await);
        self.resolved(asked.id, Some(answer), PermissionClosed::Answered);
    }

    async fn close_question(&self, turn: &mut Turn, agent: &AgentHandle, why: PermissionClosed) {
        let Some(asked) = turn.asked.take() else {
            return;
        };
        self.service.questions().close(self.session);
        let command = AgentCommand::Answer { request: asked.request, option_id: None };
        drop(agent.commands.send(command).await);
        self.resolved(asked.id, None, why);
    }

    fn resolved(&self, id: PermissionId, answer: Option<Answer>, reason: PermissionClosed) {
        self.hub.tell(self.session, Broadcast::PermissionResolved { id, answer, reason });
        self.hub.event(self.session, Event::SessionChanged);
    }

    async fn finish(&self, mut turn: Turn, end: TurnEnd) {
        if let Some(asked) = turn.asked.take() {
            self.service.questions().close(self.session);
            self.resolved(asked.id, None, PermissionClosed::Expired);
        }
        turn.scribe.flush().await;
        self.end(turn.id, end).await;
    }

    async fn end(&self, turn: TurnId, end: TurnEnd) {
        let (outcome, reason) = (end.outcome, end.reason);
        stop::pause("turn_end", self.session).await;
        info!(session = %self.session, %turn, %outcome, ?reason, "turn ended");
        let ended = insist(|| self.service.end(self.session, turn, end.clone()));
        drop(ended.await);
    }
}

async fn next_event(agent: &mut Option<AgentHandle>) -> Option<AgentEvent> {
    match agent {
        Some(agent) => agent.events.recv().await,
        None => std::future::pending().await,
    }
}

async fn answered(asked: &mut Option<Asked>) -> Option<Answer> {
    match asked {
        Some(asked) => (&mut asked.answered).await.ok(),
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// How a turn ends for which something is missing.
fn not_started(error: &impl std::fmt::Display) -> TurnEnd {
    let (outcome, reason) = (TurnOutcome::Failed, Some(TurnReason::StartFailed));
    TurnEnd { outcome, reason, text: Some(error.to_string()) }
}

fn turn_end(end: AgentEnd) -> TurnEnd {
    let with = |outcome, reason| TurnEnd { outcome, reason, text: None };
    match end {
        AgentEnd::Completed => with(TurnOutcome::Completed, None),
        AgentEnd::CutShort => with(TurnOutcome::Completed, Some(TurnReason::CutShort)),
        AgentEnd::Refused => with(TurnOutcome::Completed, Some(TurnReason::Refused)),
        AgentEnd::Cancelled => with(TurnOutcome::Cancelled, None),
        AgentEnd::Killed => with(TurnOutcome::Cancelled, Some(TurnReason::Forced)),
        AgentEnd::Failed { reason, text } => TurnEnd {
            outcome: TurnOutcome::Failed,
            reason: Some(reason),
            text: (!text.is_empty()).then_some(text),
        },
    }
}
