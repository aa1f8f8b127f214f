//! The plan of a session and the comments on it.

use tracing::debug;
use usher_shared::id::{PlanCommentId, SessionId, TurnId};

use super::session::owned;
use super::{FindError, PlanError, Service, TurnError};
use crate::clock::fresh_uuid;
use crate::domain::Decision;
use crate::domain::plan::{self, Comment, CommentRef, NewComment, Plan, PlanView};
use crate::domain::session::{Caller, Target, authorize};
use crate::store::TransactError;

type Transacted<T> = Result<T, TransactError<PlanError>>;

impl Service {
    /// Makes a plan that of its session, while the turn that publishes it is open.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn publish_plan(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        plan: Plan,
    ) -> Result<(), TransactError<TurnError>> {
        let entries = plan.entries.len();
        self.store
            .transact(move |reads| {
                let (session, _) = super::turn::open(reads, session_id, turn_id)?;
                let known = reads.plan(session.key)?;
                Ok::<_, TurnError>(plan::publish(&session, known.as_ref(), plan.clone()))
            })
            .await?;
        debug!(session = %session_id, turn = %turn_id, entries, "plan published");
        Ok(())
    }

    /// Returns the plan of a session with its comments.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub async fn plan(&self, caller: Caller, target: Target) -> Result<PlanView, PlanError> {
        self.store
            .read(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                Ok(reads.plan_view(&session)?)
            })
            .await
    }

    /// Returns the same as those are told of it who watch: that of an archived session, too.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn watched_plan(
        &self,
        caller: Caller,
        session_id: SessionId,
    ) -> Result<PlanView, FindError> {
        self.store
            .read(move |reads| {
                let session = owned(reads, &caller, session_id)?;
                Ok(reads.plan_view(&session)?)
            })
            .await
    }

    /// Returns comments that a prompt of a session took along, in this order: they never change any
    /// more.
    ///
    /// # Errors
    /// See [`TurnError`].
    pub async fn consumed_comments(
        &self,
        session_id: SessionId,
        refs: Vec<CommentRef>,
    ) -> Result<Vec<Comment>, TransactError<TurnError>> {
        // A transaction that changes nothing: unlike a read it tells what may work later.
        self.store
            .transact(move |reads| {
                let session = super::turn::existing(reads, session_id)?;
                Ok(Decision::unchanged(reads.consumed_comments(session.key, &refs)?))
            })
            .await
    }

    /// Makes a comment on the plan of a session.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub async fn add_comment(
        &self,
        caller: Caller,
        target: Target,
        new: NewComment,
    ) -> Transacted<Comment> {
        let id = PlanCommentId::from_uuid(fresh_uuid());
        let made = self
            .store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let plan = reads.plan(session.key)?;
                let waiting = reads.comments_waiting(&session)?;
                Ok::<_, PlanError>(plan::add(&session, plan.as_ref(), waiting, new.clone(), id)?)
            })
            .await?;
        debug!(session = %target.session_id, comment = %id, "plan comment made");
        Ok(made)
    }

    /// Lets a comment say something else.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub async fn update_comment(
        &self,
        caller: Caller,
        target: Target,
        seen: CommentRef,
        body: String,
    ) -> Transacted<Comment> {
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let known = reads.plan_comment(&session, seen.id)?;
                Ok(plan::update(&session, known, seen, body.clone())?)
            })
            .await
    }

    /// Takes a comment away.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub async fn remove_comment(
        &self,
        caller: Caller,
        target: Target,
        seen: CommentRef,
    ) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let known = reads.plan_comment(&session, seen.id)?;
                let removed: Decision<()> = plan::remove(&session, known, seen)?;
                Ok(removed)
            })
            .await
    }
}
