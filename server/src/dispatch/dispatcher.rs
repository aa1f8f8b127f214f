//! Starts what can start: at once when something was committed, and in a regular pass.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, error, info, warn};
use usher_shared::id::{SessionId, TurnId};

use super::mailbox::{Mailbox, Order};
use super::runner::Runner;
use super::scribe::insist;
use crate::domain::Event;
use crate::domain::event::TurnStart;
use crate::net::Hub;
use crate::service::{Service, TurnError, UNDO_MS};

/// The times of dispatch.
#[derive(Clone, Copy, Debug)]
pub struct DispatchSettings {
    /// Between two passes over all sessions.
    pub pass: Duration,
}

/// Takes committed events (see [`Dispatcher::take`]) and starts turns.
#[derive(Default)]
pub struct Dispatcher {
    inbox: Mutex<Inbox>,
    wake: Notify,
}

/// What is to be done; bounded by the number of sessions, since each has one open turn.
#[derive(Default)]
struct Inbox {
    starts: Vec<TurnStart>,
    stops: Vec<(SessionId, TurnId)>,
    may_start: HashSet<SessionId>,
    abandon: bool,
    gone: Vec<SessionId>,
}

impl Dispatcher {
    /// Takes an event after its commit. Never waits; called by the writer's thread.
    pub fn take(&self, session: SessionId, event: &Event) {
        match event {
            Event::TurnReserved(start) => self.inbox().starts.push(start.clone()),
            Event::StopAsked(turn) => self.inbox().stops.push((session, *turn)),
            Event::MayStart => {
                self.inbox().may_start.insert(session);
            }
            Event::Deleted => self.inbox().gone.push(session),
            Event::QueueChanged
            | Event::SessionChanged
            | Event::PlanChanged
            | Event::TaskChanged(_)
            | Event::EditLost(_)
            | Event::TaskGone(..)
            | Event::SessionGone(..)
            | Event::Hidden
            | Event::TurnStarted(_)
            | Event::TurnEnded { .. }
            | Event::MessageWritten(_) => return,
        }
        self.wake.notify_one();
    }

    /// Stops every agent at once, without a word about its turn: others settle it.
    pub fn abandon(&self) {
        self.inbox().abandon = true;
        self.wake.notify_one();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until the server drains: then every runner writes what was shown, and ends.
    pub async fn run(
        self: Arc<Self>,
        service: Service,
        hub: Arc<Hub>,
        settings: DispatchSettings,
        mut draining: watch::Receiver<bool>,
    ) {
        let mut runners: HashMap<SessionId, Mailbox> = HashMap::new();
        let mut running = JoinSet::new();
        let mut sessions: HashMap<tokio::task::Id, SessionId> = HashMap::new();
        let mut pass = interval(settings.pass);
        pass.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                _ = pass.tick() => {
                    self.look_everywhere(&service).await;
                    runners.retain(|_, runner| !runner.is_closed());
                }
                Some(ended) = running.join_next_with_id() => {
                    let task = ended.as_ref().map_or_else(JoinError::id, |(task, ())| *task);
                    let session = sessions.remove(&task);
                    if let (Err(error), Some(session)) = (ended, session) {
                        error!(%session, %error, "a runner broke; its turn is settled");
                        tokio::spawn(settle(service.clone(), session));
                    }
                }
                () = drains(&mut draining) => break,
            }
            let Inbox { starts, stops, may_start, gone, abandon } =
                std::mem::take(&mut *self.inbox());
            if abandon {
                for (_, runner) in runners.drain() {
                    drop(runner.post(Order::Quit));
                }
            }
            for start in starts {
                let session = start.session_id;
                let known = runners.get(&session).cloned();
                let Err(order) =
                    known.unwrap_or_else(Mailbox::gone).post(Order::Run(Box::new(start)))
                else {
                    continue;
                };
                let mailbox = Mailbox::default();
                let posted = mailbox.post(order);
                debug_assert!(posted.is_ok(), "a new mailbox is open");
                let runner =
                    Runner::new(session, service.clone(), Arc::clone(&hub), mailbox.clone());
                sessions.insert(running.spawn(runner.run()).id(), session);
                runners.insert(session, mailbox);
            }
            for (session, turn) in stops {
                let runner = runners.get(&session);
                if runner.is_none_or(|runner| runner.post(Order::Stop(turn)).is_err()) {
                    debug!(%session, %turn, "the turn to stop is over");
                }
            }
            if !gone.is_empty() {
                service.attachments_were_purged();
            }
            for session in gone {
                // It lets go of the agent; one that is gone has none.
                drop(runners.get(&session).map(|runner| runner.post(Order::Quit)));
            }
            for session in may_start {
                let service = service.clone();
                tokio::spawn(async move {
                    if let Err(error) = service.start_head(session).await {
                        warn!(%session, %error, "the head was not started; the next pass tries again");
                    }
                });
            }
        }
        for runner in runners.values() {
            if runner.post(Order::Quit).is_err() {
                // It is gone already.
            }
        }
        while running.join_next().await.is_some() {}
    }

    async fn look_everywhere(&self, service: &Service) {
        match service.recover().await {
            Ok(0) => {}
            Ok(turns) => info!(turns, "settled turns of servers that are gone"),
            Err(error) => warn!(%error, "turns of other servers could not be looked at"),
        }
        if let Err(error) = service.sweep_edits().await {
            warn!(%error, "edit leases that are over could not be ended");
        }
        match service.sessions_waiting().await {
            Ok(waiting) => self.inbox().may_start.extend(waiting),
            Err(error) => warn!(%error, "the regular pass could not read"),
        }
        if let Err(error) = service.purge_removed(UNDO_MS).await {
            warn!(%error, "removed entries could not be purged");
        }
        if let Err(error) = service.stop_unseen().await {
            warn!(%error, "turns of removed users could not be stopped yet");
        }
        if let Err(error) = service.finish_deletes().await {
            warn!(%error, "what was deleted could not be purged yet");
        }
        if let Err(error) = service.sweep_attachments().await {
            warn!(%error, "attachments that nothing carries could not be deleted yet");
        }
    }
}

/// Settles the turn of a runner that broke. Until then no other one is open.
async fn settle(service: Service, session: SessionId) {
    service.questions().close(session);
    let settled = async {
        if let Some(turn) = insist(|| service.open_turn(session)).await? {
            insist(|| service.settle_turn(session, turn)).await?;
        }
        Ok::<(), TurnError>(())
    };
    if let Err(error) = settled.await {
        warn!(%session, %error, "the turn was settled by others");
    }
}

async fn drains(draining: &mut watch::Receiver<bool>) {
    // An error means that the server is gone already.
    drop(draining.wait_for(|draining| *draining).await);
}
