//! Requests of one link: those of one lane in order, those of different lanes side by side. One
//! that is about two sessions is in the lanes of both, and waits for its turn in each.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use usher_shared::id::{AttachmentId, SessionId, TaskId};

use super::actions::{Done, Step, Watch, Work};
use super::wire::CommitUnknown;

/// Where a request waits for those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// What is about one session.
    Session(SessionId),
    /// What stops all sessions of a task: nothing else waits for that.
    Task(TaskId),
    /// What is about one upload.
    Upload(AttachmentId),
    /// Searches, which take long.
    Search,
    /// Everything else.
    Free,
}

/// The number of a request on its link. Whoever waits, waits for smaller ones only.
type Ticket = u64;

/// See the module.
#[derive(Default)]
pub(super) struct Lanes {
    /// Who is in a lane. A request runs when it is the first in all its lanes.
    queues: HashMap<Lane, VecDeque<Ticket>>,
    /// Those that have not begun.
    waiting: HashMap<Ticket, Work>,
    /// The lanes of those that have.
    begun: HashMap<Ticket, Vec<Lane>>,
    running: FuturesUnordered<Running<Step>>,
    /// Those whose effect is there and whose answer waits for something more.
    resting: FuturesUnordered<Running<Done>>,
    next_ticket: Ticket,
}

impl Lanes {
    /// Returns how many requests are not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len() + self.begun.len()
    }

    /// Adds a request behind those of its lanes.
    pub(super) fn push(&mut self, work: Work) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for lane in &work.lanes {
            let queue = self.queues.entry(*lane).or_default();
            // A lane that is named twice is one.
            if queue.back() != Some(&ticket) {
                queue.push_back(ticket);
            }
        }
        self.waiting.insert(ticket, work);
        self.begin(ticket);
    }

    /// Lets a request run if its turn has come in all its lanes.
    fn begin(&mut self, ticket: Ticket) {
        let is_first = |lane: &Lane| {
            self.queues.get(lane).and_then(VecDeque::front).is_some_and(|first| *first == ticket)
        };
        if self.waiting.get(&ticket).is_some_and(|work| work.lanes.iter().all(is_first))
            && let Some(Work { lanes, run }) = self.waiting.remove(&ticket)
        {
            self.begun.insert(ticket, lanes);
            self.running.push(Running { ticket, run });
        }
    }

    /// Takes a request out of its lanes and lets those run whose turn has come.
    fn leave(&mut self, ticket: Ticket) {
        for lane in self.begun.remove(&ticket).into_iter().flatten() {
            let Some(queue) = self.queues.get_mut(&lane) else {
                continue;
            };
            if queue.front() == Some(&ticket) {
                queue.pop_front();
            }
            match queue.front().copied() {
                Some(next) => self.begin(next),
                None => drop(self.queues.remove(&lane)),
            }
        }
    }

    /// Waits for the next answer. Pending for ever while nothing is in flight. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Done, CommitUnknown> {
        loop {
            let (ticket, ended) = tokio::select! {
                Some((ticket, step)) = self.running.next() => match step {
                    Ok(Step::Rest(run)) => {
                        self.resting.push(Running { ticket, run });
                        continue;
                    }
                    Ok(Step::Done(done)) => (ticket, Ok(done)),
                    Err(unknown) => (ticket, Err(unknown)),
                },
                Some(rested) = self.resting.next() => rested,
                else => std::future::pending().await,
            };
            self.leave(ticket);
            return ended;
        }
    }

    /// Waits for the next effect and forgets its answer; returns what it changed about what the link
    /// watches. None if nothing is left that has an effect. Cancel safe.
    ///
    /// For a link that is gone: what only waits for something after its effect is not waited for.
    pub(super) async fn next_effect(&mut self) -> Option<Watch> {
        for ticket in self.resting.iter().map(|resting| resting.ticket).collect::<Vec<_>>() {
            self.leave(ticket);
        }
        self.resting.clear();
        let (ticket, step) = self.running.next().await?;
        self.leave(ticket);
        Some(match step {
            Ok(Step::Done(done)) => done.watch,
            // An unknown commit: nobody is left to be told.
            Ok(Step::Rest(_)) | Err(CommitUnknown) => Watch::Same,
        })
    }
}

/// A request that runs.
struct Running<T> {
    ticket: Ticket,
    run: BoxFuture<'static, Result<T, CommitUnknown>>,
}

impl<T> Future for Running<T> {
    type Output = (Ticket, Result<T, CommitUnknown>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket;
        self.run.as_mut().poll(context).map(|ended| (ticket, ended))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn session(number: u128) -> Lane {
        Lane::Session(SessionId::from_uuid(uuid::Uuid::from_u128(number)))
    }

    /// Lanes and what happened in them, in order.
    #[derive(Default)]
    struct Scene {
        lanes: Lanes,
        happened: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Scene {
        /// Pushes a request that runs until it is told to end.
        fn push(&mut self, lanes: &[Lane], name: &'static str) -> oneshot::Sender<()> {
            let (end, ended) = oneshot::channel::<()>();
            let happened = Arc::clone(&self.happened);
            let run = async move {
                happened.lock().unwrap().push(name);
                drop(ended.await);
                Ok(Step::Done(Done { frame: name.to_owned(), watch: Watch::Same }))
            };
            self.lanes.push(Work { lanes: lanes.to_vec(), run: Box::pin(run) });
            end
        }

        /// Pushes a request whose effect is there at once and that is never answered.
        fn push_resting(&mut self, lanes: &[Lane], name: &'static str) {
            let happened = Arc::clone(&self.happened);
            let run = async move {
                happened.lock().unwrap().push(name);
                Ok(Step::Rest(Box::pin(std::future::pending())))
            };
            self.lanes.push(Work { lanes: lanes.to_vec(), run: Box::pin(run) });
        }

        /// Returns the next answer, if there is one already.
        fn answer(&mut self) -> Option<String> {
            let next = self.lanes.next().now_or_never();
            next.map(|done| done.map_err(|CommitUnknown| "unknown").unwrap().frame)
        }

        fn happened(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.happened.lock().unwrap())
        }
    }

    #[test]
    fn what_is_about_two_sessions_waits_in_both_and_holds_both_up() {
        let (a, b, c) = (session(1), session(2), session(3));
        let mut scene = Scene::default();
        let end_first = scene.push(&[b], "first in b");
        let end_both = scene.push(&[a, b], "a and b");
        let end_a = scene.push(&[a], "behind in a");
        let end_b = scene.push(&[b], "behind in b");
        let end_c = scene.push(&[c], "c");
        assert_eq!(scene.answer(), None);
        assert_eq!(scene.happened(), ["first in b", "c"]);
        for (end, name) in [(end_c, "c"), (end_first, "first in b")] {
            end.send(()).unwrap();
            assert_eq!(scene.answer().as_deref(), Some(name));
        }
        assert_eq!(scene.answer(), None);
        assert_eq!(scene.happened(), ["a and b"]);
        end_both.send(()).unwrap();
        assert_eq!(scene.answer().as_deref(), Some("a and b"));
        assert_eq!(scene.answer(), None);
        let mut both = scene.happened();
        both.sort_unstable();
        assert_eq!(both, ["behind in a", "behind in b"]);
        for (end, name) in [(end_b, "behind in b"), (end_a, "behind in a")] {
            end.send(()).unwrap();
            assert_eq!(scene.answer().as_deref(), Some(name));
        }
        assert_eq!((scene.lanes.in_flight(), scene.lanes.queues.len()), (0, 0));
    }

    #[test]
    fn a_lane_that_is_named_twice_is_one() {
        let a = session(1);
        let mut scene = Scene::default();
        let end = scene.push(&[a, a], "twice");
        let _later = scene.push(&[a], "later");
        end.send(()).unwrap();
        assert_eq!(scene.answer().as_deref(), Some("twice"));
        assert_eq!(scene.answer(), None);
        assert_eq!(scene.happened(), ["twice", "later"]);
    }

    #[test]
    fn what_rests_keeps_its_lane_until_nobody_is_left_to_be_answered() {
        let (a, b) = (session(1), session(2));
        let mut scene = Scene::default();
        scene.push_resting(&[a], "rests");
        scene.push_resting(&[a], "rests, too");
        drop(scene.push(&[a], "behind"));
        drop(scene.push(&[b], "elsewhere"));
        assert_eq!(scene.answer().as_deref(), Some("elsewhere"));
        assert_eq!(scene.answer(), None);
        let mut begun = scene.happened();
        begun.sort_unstable();
        assert_eq!(begun, ["elsewhere", "rests"]);
        assert_eq!(scene.lanes.in_flight(), 3);
        while scene.lanes.next_effect().now_or_never().expect("nothing waits").is_some() {}
        assert_eq!(scene.happened(), ["rests, too", "behind"]);
        assert_eq!((scene.lanes.in_flight(), scene.lanes.queues.len()), (0, 0));
    }
}
