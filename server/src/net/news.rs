//! Tells every link of a user when one of the user's tasks is another one, or a task or session is
//! gone; and a link when a lease of its own is over.
//!
//! Tasks change with every prompt that is accepted, so news are collected for a moment: a task is
//! read and rendered once for all links, and a link that does not read keeps the newest only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use usher_shared::id::{LeaseId, SessionId, TaskId, UserId};
use usher_shared::protocol::edit::EditLostNotice;
use usher_shared::protocol::turn::{SessionDeleted, TaskChanged, TaskDeleted, notification};

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

/// What is unknown to everybody from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A task with its sessions.
    Task(TaskId),
    /// A session of a task.
    Session(TaskId, SessionId),
}

/// What news are about: of each only the newest waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    Task(TaskId),
    Session(SessionId),
    Lease(LeaseId),
}

impl Gone {
    fn frame(self) -> (About, Arc<str>) {
        let (about, frame) = match self {
            Self::Task(task_id) => {
                let deleted = TaskDeleted { task_id };
                (About::Task(task_id), frames::notify(notification::TASK_DELETED, deleted))
            }
            Self::Session(task_id, session_id) => {
                let deleted = SessionDeleted { task_id, session_id };
                (About::Session(session_id), frames::notify(notification::SESSION_DELETED, deleted))
            }
        };
        (about, Arc::from(frame))
    }
}

fn lost_frame(session_id: SessionId, lost: &LostLease) -> Arc<str> {
    let LostLease { task_id, entry_id, lease_id, reason, link: _ } = *lost;
    let notice = EditLostNotice { task_id, session_id, entry_id, lease_id, reason };
    Arc::from(frames::notify(notification::EDIT_LOST, notice))
}

/// What happened and of which nobody was told yet.
#[derive(Default)]
pub struct News {
    untold: Mutex<Untold>,
    wake: Notify,
}

#[derive(Default)]
struct Untold {
    changed: BTreeSet<TaskId>,
    gone: Vec<(UserId, Gone)>,
    lost: Vec<(SessionId, LostLease)>,
}

impl News {
    /// Notes that a task is another one. Never waits; called by the writer's thread.
    pub fn note(&self, task: TaskId) {
        if lock(&self.untold).changed.insert(task) {
            self.wake.notify_one();
        }
    }

    /// Notes that something of a user is gone. Never waits; called by the writer's thread.
    pub fn note_gone(&self, owner: UserId, gone: Gone) {
        lock(&self.untold).gone.push((owner, gone));
        self.wake.notify_one();
    }

    /// Notes that a connection no longer holds its lease; it may be one of another server. Never
    /// waits; called by the writer's thread.
    pub fn note_lost(&self, session: SessionId, lease: LostLease) {
        lock(&self.untold).lost.push((session, lease));
        self.wake.notify_one();
    }

    /// Tells the links, for as long as the server runs.
    pub(super) async fn tell(&self, service: &Service, links: &Links) {
        loop {
            self.wake.notified().await;
            tokio::time::sleep(COLLECT).await;
            let Untold { changed, gone, lost } = std::mem::take(&mut *lock(&self.untold));
            for (session, lost) in lost {
                links.tell_link(
                    lost.link,
                    About::Lease(lost.lease_id),
                    &lost_frame(session, &lost),
                );
            }
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
                links.tell(owner, About::Task(id), &frame);
            }
            // Behind what they were at last.
            for (owner, gone) in gone {
                let (about, frame) = gone.frame();
                links.tell(owner, about, &frame);
            }
        }
    }
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
