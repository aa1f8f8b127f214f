//! Whole sessions and tasks: set, reset, transfer, archive, delete.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use usher_shared::id::{IncarnationId, MessageId, SessionId, TaskId};
use usher_shared::vocabulary::{EditLost, TurnOutcome, TurnReason};

use super::{FindError, Service, SessionError};
use crate::clock::{fresh_uuid, now};
use crate::domain::Decision;
use crate::domain::lease;
use crate::domain::lifecycle::{self, Fresh, OnReset, SessionPatch, Stopping};
use crate::domain::plan;
use crate::domain::session::{Caller, Session, Target, Task, authorize};
use crate::domain::transfer::{self, Side};
use crate::domain::turn_end::TurnEnd;
use crate::store::{Reads, StoreError, TransactError};

/// How long after its own bound a cancelled turn is ended for its runner.
const PATIENCE_MARGIN: Duration = Duration::from_secs(5);
/// Turns that another server runs are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What is left of an operation whose effect is committed. It goes on whether or not anybody waits
/// for it.
pub struct Rest<E>(Option<JoinHandle<Result<(), TransactError<E>>>>);

impl<E> Rest<E> {
    /// Waits until nothing is left.
    ///
    /// # Errors
    /// Why something is, until a regular pass or the next start finishes it.
    pub async fn done(self) -> Result<(), TransactError<E>> {
        match self.0 {
            Some(going_on) => match going_on.await {
                Ok(ended) => ended,
                Err(error) => Err(TransactError::Unknown(error.to_string())),
            },
            None => Ok(()),
        }
    }
}

type Transacted<T> = Result<T, TransactError<SessionError>>;

impl Service {
    /// Sets what a patch names; returns the session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn set_session(
        &self,
        caller: Caller,
        target: Target,
        patch: SessionPatch,
    ) -> Transacted<Session> {
        let by = caller.clone();
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &by)?;
                Ok::<_, SessionError>(lifecycle::set(&session, patch.clone()))
            })
            .await?;
        self.shown(caller, target.session_id).await
    }

    /// Begins a new life of a session; returns the session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn reset(
        &self,
        caller: Caller,
        target: Target,
        queue: OnReset,
    ) -> Transacted<Session> {
        let fresh = Fresh {
            incarnation_id: IncarnationId::from_uuid(fresh_uuid()),
            notice_id: MessageId::from_uuid(fresh_uuid()),
            now: now(),
        };
        let by = caller.clone();
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &by)?;
                let visible = reads.visible_provenances(session.key)?;
                let mut reset = lifecycle::reset(&session, visible, queue, fresh)?;
                if reads.plan(session.key)?.is_some() {
                    reset = reset.after(plan::forget(&session));
                }
                Ok::<_, SessionError>(reset.after(unedited(reads, &session, EditLost::Reset)?))
            })
            .await?;
        self.shown(caller, target.session_id).await
    }

    async fn shown(&self, caller: Caller, id: SessionId) -> Transacted<Session> {
        self.session(caller, id).await.map_err(|error| match error {
            // Deleted in between.
            FindError::NotFound => TransactError::Refused(SessionError::unavailable()),
            // It is stored; what it is cannot be told.
            FindError::Store(error) => TransactError::Unknown(error.to_string()),
        })
    }

    /// Moves what waits in one session behind what waits in another; returns how many entries.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn transfer(&self, caller: Caller, from: Target, to: Target) -> Transacted<u64> {
        self.store
            .transact(move |reads| {
                let (source, destination) = reads.session_pair(from.session_id, to.session_id)?;
                let source = authorize(source, &from, &caller)?;
                let destination = authorize(destination, &to, &caller)?;
                let visible = reads.visible_provenances(source.key)?;
                let unedited = unedited(reads, &source, EditLost::Transferred)?.after(unedited(
                    reads,
                    &destination,
                    EditLost::Transferred,
                )?);
                let take_comments = reads.comments_taken(source.key)?;
                let from = side(reads, source)?;
                let to = side(reads, destination)?;
                let mut moved = transfer::transfer(&from, visible, &to)?;
                if moved.reply > 0 {
                    moved = moved.after(unedited);
                    if take_comments {
                        moved = moved.after(plan::transfer(&from.session, &to.session));
                    }
                }
                Ok(moved)
            })
            .await
    }

    /// Archives a task. What is left: its turns end.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn archive(
        &self,
        caller: Caller,
        task_id: TaskId,
    ) -> Result<Rest<FindError>, TransactError<FindError>> {
        let stopping = self
            .store
            .transact(move |reads| {
                let (task, sessions) = owned_task(reads, &caller, task_id)?;
                let unedited = all_unedited(reads, &sessions)?;
                Ok::<_, FindError>(lifecycle::archive(&task, &sessions, now()).after(unedited))
            })
            .await?;
        Ok(self.rest(&stopping, move |reads| Ok(go_on_archiving(reads, task_id)?)))
    }

    /// Brings an archived task back.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn unarchive(
        &self,
        caller: Caller,
        task_id: TaskId,
    ) -> Result<(), TransactError<FindError>> {
        self.store
            .transact(move |reads| {
                let (task, sessions) = owned_task(reads, &caller, task_id)?;
                Ok(lifecycle::unarchive(&task, &sessions))
            })
            .await
    }

    /// Deletes a session: nobody sees it any more. What is left: its turn ends, and then what is
    /// stored of it goes.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn delete_session(
        &self,
        caller: Caller,
        target: Target,
    ) -> Transacted<Rest<SessionError>> {
        let id = target.session_id;
        let stopping = self
            .store
            .transact(move |reads| {
                let session = authorize(reads.session(id)?, &target, &caller)?;
                let unedited = unedited(reads, &session, EditLost::Deleted)?;
                let deleted = lifecycle::delete_session(&session, now());
                Ok::<_, SessionError>(deleted.after(unedited))
            })
            .await?;
        Ok(self.rest(&stopping, move |reads| Ok(go_on_deleting_session(reads, id)?)))
    }

    /// Deletes a task with its sessions, as [`Service::delete_session`] does.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn delete_task(
        &self,
        caller: Caller,
        task_id: TaskId,
    ) -> Result<Rest<FindError>, TransactError<FindError>> {
        let stopping = self
            .store
            .transact(move |reads| {
                let (task, sessions) = owned_task(reads, &caller, task_id)?;
                let unedited = all_unedited(reads, &sessions)?;
                let deleted = lifecycle::delete_task(&task, &sessions, now());
                Ok::<_, FindError>(deleted.after(unedited))
            })
            .await?;
        Ok(self.rest(&stopping, move |reads| Ok(go_on_deleting_task(reads, task_id)?)))
    }

    /// Purges what was decided to be deleted and has no open turn (any more): what a stopped server
    /// or a failing disk left behind.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn finish_deletes(&self) -> Result<(), TransactError<StoreError>> {
        let hidden = self
            .store
            .read(|reads| Ok::<_, StoreError>((reads.hidden_tasks()?, reads.hidden_sessions()?)));
        let (tasks, sessions) = hidden.await.map_err(TransactError::NotStored)?;
        for id in tasks {
            self.store.transact(move |reads| go_on_deleting_task(reads, id)).await?;
        }
        for id in sessions {
            self.store.transact(move |reads| go_on_deleting_session(reads, id)).await?;
        }
        Ok(())
    }

    /// Stops the turns of users who were removed.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn stop_unseen(&self) -> Result<(), TransactError<StoreError>> {
        let unseen = self.store.read(|reads| reads.unseen_running()).await;
        for id in unseen.map_err(TransactError::<StoreError>::NotStored)? {
            self.store
                .transact(move |reads| {
                    let session = reads.session(id)?;
                    let stopped = session.map(|session| lifecycle::stop_unseen(&session, now()));
                    Ok::<_, StoreError>(stopped.unwrap_or_else(|| Decision::unchanged(())))
                })
                .await?;
        }
        Ok(())
    }

    /// Begins what is left when turns have to stop: see [`Service::until_quiet`].
    fn rest<E>(
        &self,
        stopping: &[Stopping],
        step: impl Fn(&mut Reads<'_>) -> Result<Decision<Vec<Stopping>>, E> + Send + Sync + 'static,
    ) -> Rest<E>
    where
        E: From<StoreError> + Send + 'static,
    {
        if stopping.is_empty() {
            return Rest(None);
        }
        let service = self.clone();
        Rest(Some(tokio::spawn(async move { service.until_quiet(step).await })))
    }

    /// Takes a step again and again until no turn is left that has to stop. A turn that does not end
    /// in its time is ended for its runner.
    async fn until_quiet<E>(
        &self,
        step: impl Fn(&mut Reads<'_>) -> Result<Decision<Vec<Stopping>>, E> + Send + Sync + 'static,
    ) -> Result<(), TransactError<E>>
    where
        E: From<StoreError> + Send + 'static,
    {
        let step = Arc::new(step);
        let mut ends = self.ends.watch();
        let give_up_at = Instant::now() + self.agents.longest_patience() + PATIENCE_MARGIN;
        loop {
            let step = Arc::clone(&step);
            let stopping = self.store.transact(move |reads| step(reads)).await?;
            if stopping.is_empty() {
                return Ok(());
            }
            if Instant::now() >= give_up_at {
                self.end_forced(&stopping).await;
                continue;
            }
            tokio::select! {
                // An error: this server has no runners any more.
                _ = ends.changed() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    async fn end_forced(&self, stopping: &[Stopping]) {
        for Stopping { session_id, turn_id } in stopping {
            warn!(session = %session_id, turn = %turn_id, "nobody ended a cancelled turn");
            let forced = TurnEnd {
                outcome: TurnOutcome::Cancelled,
                reason: Some(TurnReason::Forced),
                text: None,
            };
            if let Err(error) = self.end(*session_id, *turn_id, forced).await {
                info!(session = %session_id, %error, "the turn is over, or must wait");
                sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Ends every lease of a session.
fn unedited(
    reads: &mut Reads<'_>,
    session: &Session,
    reason: EditLost,
) -> Result<Decision<()>, StoreError> {
    Ok(lease::all_ended(session, &reads.leases(session.key)?, reason))
}

fn all_unedited(reads: &mut Reads<'_>, sessions: &[Session]) -> Result<Decision<()>, StoreError> {
    sessions.iter().try_fold(Decision::unchanged(()), |all, session| {
        Ok(unedited(reads, session, EditLost::Deleted)?.after(all))
    })
}

fn side(reads: &mut Reads<'_>, session: Session) -> Result<Side, StoreError> {
    Ok(Side { reserved: reads.reserved_count(session.key)?, session })
}

fn owned_task(
    reads: &mut Reads<'_>,
    caller: &Caller,
    id: TaskId,
) -> Result<(Task, Vec<Session>), FindError> {
    let task = reads.task(id)?.filter(|task| task.owner.id == caller.id);
    let task = task.ok_or(FindError::NotFound)?;
    Ok((task, reads.sessions_of_task(id)?))
}

fn go_on_archiving(
    reads: &mut Reads<'_>,
    id: TaskId,
) -> Result<Decision<Vec<Stopping>>, StoreError> {
    // Otherwise somebody deleted it or brought it back meanwhile.
    let Some(task) = reads.task(id)?.filter(|task| task.archived) else {
        return Ok(Decision::unchanged(Vec::new()));
    };
    let sessions = reads.sessions_of_task(id)?;
    Ok(lifecycle::archive(&task, &sessions, now()))
}

fn go_on_deleting_session(
    reads: &mut Reads<'_>,
    id: SessionId,
) -> Result<Decision<Vec<Stopping>>, StoreError> {
    // None: somebody else took the last step.
    Ok(match reads.session(id)? {
        Some(session) => lifecycle::delete_session(&session, now()),
        None => Decision::unchanged(Vec::new()),
    })
}

fn go_on_deleting_task(
    reads: &mut Reads<'_>,
    id: TaskId,
) -> Result<Decision<Vec<Stopping>>, StoreError> {
    let Some(task) = reads.any_task(id)? else {
        return Ok(Decision::unchanged(Vec::new()));
    };
    let sessions = reads.sessions_of_task(id)?;
    Ok(lifecycle::go_on_deleting_task(task.key, &sessions, now()))
}
