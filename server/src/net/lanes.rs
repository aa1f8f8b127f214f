//! Requests of one link: those of one session in order, those of different sessions side by side.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use usher_shared::id::SessionId;

use super::actions::{Done, Watch, Work};
use super::wire::CommitUnknown;

type Lane = Option<SessionId>;
type Running = BoxFuture<'static, (Lane, Result<Done, CommitUnknown>)>;
type Waiting = BoxFuture<'static, Result<Done, CommitUnknown>>;

/// See the module.
#[derive(Default)]
pub(super) struct Lanes {
    /// A lane is here while one of its requests runs; the others wait.
    waiting: HashMap<Lane, VecDeque<Waiting>>,
    running: FuturesUnordered<Running>,
    in_flight: usize,
}

impl Lanes {
    /// Returns how many requests are not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Adds a request behind those of its lane.
    pub(super) fn push(&mut self, work: Work) {
        self.in_flight += 1;
        match self.waiting.get_mut(&work.lane) {
            Some(waiting) => waiting.push_back(work.run),
            None => {
                self.waiting.insert(work.lane, VecDeque::new());
                self.start(work.lane, work.run);
            }
        }
    }

    fn start(&mut self, lane: Lane, run: Waiting) {
        self.running.push(Box::pin(async move { (lane, run.await) }));
    }

    /// Waits for the next answer. Pending for ever while nothing is in flight.
    pub(super) async fn next(&mut self) -> Result<Done, CommitUnknown> {
        let Some((lane, done)) = self.running.next().await else {
            return std::future::pending().await;
        };
        self.in_flight -= 1;
        match self.waiting.get_mut(&lane).and_then(VecDeque::pop_front) {
            Some(run) => self.start(lane, run),
            None => {
                self.waiting.remove(&lane);
            }
        }
        done
    }

    /// Finishes everything without telling anybody: what was received whole takes effect. Returns
    /// the sessions that were still being subscribed to.
    pub(super) async fn finish(mut self) -> Vec<SessionId> {
        let mut watched = Vec::new();
        while self.in_flight > 0 {
            // An unknown commit: nobody is left to be told.
            if let Ok(Done { watch: Watch::Start(session, _), .. }) = self.next().await {
                watched.push(session);
            }
        }
        watched
    }
}
