//! What links are told whatever they watch: tasks of their user that changed, and leases of theirs
//! that are over.
//!
//! Tasks change with every prompt that is accepted, so news are collected for a moment: a task is
//! read and rendered once for all links, and a link that does not read keeps the newest only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use usher_shared::id::{LeaseId, SessionId, TaskId};
use usher_shared::protocol::edit::EditLostNotice;
use usher_shared::protocol::turn::{TaskChanged, notification};

use super::links::Links;
use super::{frames, wire};
use crate::domain::lease::LostLease;
use crate::service::Service;

/// How long news are collected: what changes more often is told once.
const COLLECT: Duration = Duration::from_millis(50);
/// After a failed read the next one is tried this much later.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// News that wait for one link; one that does not read for longer is cut off.
const WAITING_MAX: usize = 1_024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happened and nobody was told yet.
#[derive(Default)]
pub struct News {
    tasks: Mutex<BTreeSet<TaskId>>,
    lost: Mutex<Vec<(SessionId, LostLease)>>,
    wake: Notify,
}

impl News {
    /// Notes that a task is another one. Never waits; called by the writer's thread.
    pub fn note(&self, task: TaskId) {
        if lock(&self.tasks).insert(task) {
            self.wake.notify_one();
        }
    }

    /// Notes that a connection no longer holds its lease; it may be one of another server. Never
    /// waits; called by the writer's thread.
    pub fn note_lost(&self, session: SessionId, lease: LostLease) {
        lock(&self.lost).push((session, lease));
        self.wake.notify_one();
    }

    /// Tells the links, for as long as the server runs.
    pub(super) async fn tell(&self, service: &Service, links: &Links) {
        loop {
            self.wake.notified().await;
            for (session, lost) in std::mem::take(&mut *lock(&self.lost)) {
                links.tell_lost(session, &lost);
            }
            tokio::time::sleep(COLLECT).await;
            let changed = std::mem::take(&mut *lock(&self.tasks));
            for id in changed {
                let task = match service.any_task(id).await {
                    Ok(Some(task)) => task,
                    Ok(None) => continue,
                    Err(_) => {
                        self.note(id);
                        tokio::time::sleep(READ_AGAIN).await;
                        continue;
                    }
                };
                let owner = task.owner.id;
                let frame = Arc::from(frames::notify(
                    notification::TASK_CHANGED,
                    TaskChanged { task: wire::task(task) },
                ));
                links.tell(owner, id, &frame);
            }
        }
    }
}

/// What a frame is about: a newer one about the same takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// A lease that is over.
    Lease(LeaseId),
    /// A task that is another one.
    Task(TaskId),
}

/// Writes what the holder of a lease is told.
pub(super) fn lost_frame(session_id: SessionId, lost: &LostLease) -> Arc<str> {
    let LostLease { task_id, entry_id, lease_id, reason, link: _ } = *lost;
    let notice = EditLostNotice { task_id, session_id, entry_id, lease_id, reason };
    Arc::from(frames::notify(notification::EDIT_LOST, notice))
}

/// The news that wait for one link.
pub(super) struct Inbox {
    waiting: Mutex<BTreeMap<About, Arc<str>>>,
    wake: Arc<Notify>,
}

/// The link did not read for too long.
pub(super) struct TooFarBehind;

impl Inbox {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self { waiting: Mutex::default(), wake }
    }

    /// Leaves a frame in the place of an older one about the same.
    pub(super) fn put(&self, about: About, frame: &Arc<str>) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() <= WAITING_MAX {
            waiting.insert(about, Arc::clone(frame));
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Takes what waits.
    pub(super) fn take(&self) -> Result<Vec<Arc<str>>, TooFarBehind> {
        let mut waiting = lock(&self.waiting);
        if waiting.len() > WAITING_MAX {
            return Err(TooFarBehind);
        }
        Ok(std::mem::take(&mut *waiting).into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_link_keeps_the_newest_of_each_task_and_is_cut_off_when_there_is_too_much() {
        let inbox = Inbox::new(Arc::new(Notify::new()));
        let task = |n: usize| About::Task(TaskId::from_uuid(Uuid::from_u128(n as u128)));
        let frame = |text: &str| -> Arc<str> { Arc::from(text) };
        for text in ["old", "new"] {
            inbox.put(task(0), &frame(text));
        }
        assert_eq!(inbox.take().ok(), Some(vec![frame("new")]));
        assert_eq!(inbox.take().ok(), Some(vec![]));
        for n in 0..WAITING_MAX {
            inbox.put(task(n), &frame("x"));
        }
        assert_eq!(inbox.take().map(|news| news.len()).ok(), Some(WAITING_MAX));
        for n in 0..=2 * WAITING_MAX {
            inbox.put(task(n), &frame("x"));
        }
        assert!(inbox.take().is_err());
    }
}
