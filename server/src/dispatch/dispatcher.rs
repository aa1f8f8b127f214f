//! Starts what can start: at once when something was committed, and in a regular pass.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, warn};
use usher_shared::id::{SessionId, TurnId};

use super::runner::{Order, Runner};
use crate::domain::Event;
use crate::domain::event::TurnStart;
use crate::net::hub::Hub;
use crate::service::Service;

/// Orders waiting for one runner. A session has one open turn, which is started once and stopped
/// once, so that more never wait.
const ORDERS_MAX: usize = 8;
/// Removed entries can be restored for ten minutes.
const UNDO_MS: i64 = 600_000;

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
            Event::QueueChanged
            | Event::SessionChanged
            | Event::TurnStarted(_)
            | Event::TurnEnded { .. }
            | Event::MessageWritten(_) => return,
        }
        self.wake.notify_one();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until its task is dropped.
    pub async fn run(self: Arc<Self>, service: Service, hub: Arc<Hub>, settings: DispatchSettings) {
        let mut runners: HashMap<SessionId, mpsc::Sender<Order>> = HashMap::new();
        let mut pass = interval(settings.pass);
        pass.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                _ = pass.tick() => {
                    self.look_everywhere(&service).await;
                    runners.retain(|_, runner| !runner.is_closed());
                }
            }
            let Inbox { starts, stops, may_start } = std::mem::take(&mut *self.inbox());
            for start in starts {
                let session = start.session_id;
                let spawn = |order| {
                    let (orders, mailbox) = mpsc::channel(ORDERS_MAX);
                    let sent = orders.try_send(order);
                    debug_assert!(sent.is_ok(), "a new mailbox is empty");
                    let runner = Runner::new(session, service.clone(), Arc::clone(&hub), mailbox);
                    tokio::spawn(runner.run());
                    orders
                };
                let order = Order::Run(start);
                let refused = match runners.get(&session) {
                    Some(runner) => runner.try_send(order).err(),
                    None => Some(mpsc::error::TrySendError::Closed(order)),
                };
                match refused {
                    None => {}
                    Some(mpsc::error::TrySendError::Closed(order)) => {
                        runners.insert(session, spawn(order));
                    }
                    Some(mpsc::error::TrySendError::Full(_)) => {
                        error!(%session, "a runner does not take its turn");
                    }
                }
            }
            for (session, turn) in stops {
                if let Some(runner) = runners.get(&session)
                    && runner.try_send(Order::Stop(turn)).is_err()
                {
                    warn!(%session, "the turn to stop is over");
                }
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
    }

    async fn look_everywhere(&self, service: &Service) {
        match service.sweep().await {
            Ok(waiting) => self.inbox().may_start.extend(waiting),
            Err(error) => warn!(%error, "the regular pass could not read"),
        }
        if let Err(error) = service.purge_removed(UNDO_MS).await {
            warn!(%error, "removed entries could not be purged");
        }
    }
}
