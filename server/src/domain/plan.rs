//! The plan of a session and the comments on it.
//!
//! A session has the plan that its agent published last. Comments wait until an admission takes them
//! along, which happens to each once; they outlive the plan that they are about.

use usher_shared::counter::CommentVersion;
use usher_shared::id::{EntryId, PlanCommentId, PlanId};
use usher_shared::limits::{PLAN_COMMENTS_MAX, PLAN_ENTRIES_MAX, PLAN_ENTRY_BYTES_MAX};
use usher_shared::prompt::cut_at_char;
use usher_shared::vocabulary::PlanStatus;

use super::change::{Change, Decision};
use super::event::Event;
use super::session::Session;

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// The plan of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub id: PlanId,
    /// Its steps in order, within the bounds of a plan.
    pub entries: Vec<PlanEntry>,
}

/// What a comment is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The step, from 0, in the plan of that time; None: the whole plan.
    pub entry_index: Option<u64>,
    /// The text of that step at that time.
    pub entry_text: Option<String>,
    /// What it quotes.
    pub selected_text: Option<String>,
}

/// A comment on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its name.
    pub id: PlanCommentId,
    /// Grows by every update.
    pub version: CommentVersion,
    /// What it is about.
    pub subject: Subject,
    /// What it says.
    pub body: String,
    /// The entry whose admission took it along; None: it waits.
    pub consumed_by: Option<EntryId>,
}

/// A comment that somebody makes. Its shape and hard bounds are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComment {
    /// The step that it is about, from 0.
    pub entry_index: Option<u64>,
    /// What it quotes.
    pub selected_text: Option<String>,
    /// What it says.
    pub body: String,
}

/// Names a comment as somebody saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommentRef {
    /// Which.
    pub id: PlanCommentId,
    /// Its version at that time.
    pub version: CommentVersion,
}

/// A plan and its comments, as their readers see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanView {
    /// The plan.
    pub plan: Option<Plan>,
    /// Those that wait and the newest of the others, the oldest first.
    pub comments: Vec<Comment>,
}

/// A comment is another one than the caller saw, or was consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("comment {0} was changed or consumed")]
pub struct CommentConflict(pub PlanCommentId);

/// Why a comment was not made, changed or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommentRefusal {
    /// There is no plan to comment on.
    #[error("no plan was published")]
    NoPlan,
    /// There is no such comment.
    #[error("no such comment")]
    NotFound,
    /// The plan has no such step.
    #[error("the plan has no such step")]
    NoSuchEntry,
    /// Too many wait already.
    #[error("{PLAN_COMMENTS_MAX} comments wait already")]
    TooMany,
    /// See [`CommentConflict`].
    #[error(transparent)]
    Conflict(#[from] CommentConflict),
}

/// Returns the steps of an agent's plan as far as a plan may have them.
pub fn bounded(mut steps: Vec<PlanEntry>) -> Vec<PlanEntry> {
    steps.truncate(PLAN_ENTRIES_MAX);
    for step in &mut steps {
        let whole = cut_at_char(&step.text, PLAN_ENTRY_BYTES_MAX).len();
        step.text.truncate(whole);
    }
    steps
}

/// Makes `plan` the plan of the session. Comments on the one before go on waiting.
pub fn publish(session: &Session, known: Option<&Plan>, plan: Plan) -> Decision<()> {
    if known == Some(&plan) {
        return Decision::unchanged(());
    }
    told(session, Change::PutPlan(session.key, Box::new(plan)), ())
}

/// Lets a session begin its next life without the plan that it has: comments that wait are gone with
/// it, those that prompts took along are kept for the prompts.
pub fn forget(session: &Session) -> Decision<()> {
    told(session, Change::ForgetPlan(session.key), ())
}

/// Lets the comments that waiting prompts took along go where those go, which is told before they move.
pub fn transfer(from: &Session, to: &Session) -> Decision<()> {
    told(from, Change::TransferComments { from: from.key, to: to.key }, ())
}

/// Makes a comment on the session's plan. `waiting` counts those that wait.
pub fn add(
    session: &Session,
    plan: Option<&Plan>,
    waiting: u64,
    new: NewComment,
    id: PlanCommentId,
) -> Result<Decision<Comment>, CommentRefusal> {
    let plan = plan.ok_or(CommentRefusal::NoPlan)?;
    let NewComment { entry_index, selected_text, body } = new;
    let entry = match entry_index {
        None => None,
        Some(index) => {
            let entry = usize::try_from(index).ok().and_then(|index| plan.entries.get(index));
            Some(entry.ok_or(CommentRefusal::NoSuchEntry)?)
        }
    };
    if waiting >= PLAN_COMMENTS_MAX as u64 {
        return Err(CommentRefusal::TooMany);
    }
    let entry_text = entry.map(|entry| entry.text.clone());
    let comment = Comment {
        id,
        version: CommentVersion::new(1),
        subject: Subject { entry_index, entry_text, selected_text },
        body,
        consumed_by: None,
    };
    let stored = Box::new(comment.clone());
    let insert = Change::InsertComment(session.key, session.incarnation_key, stored);
    Ok(told(session, insert, comment))
}

/// Lets a comment say something else.
pub fn update(
    session: &Session,
    known: Option<Comment>,
    seen: CommentRef,
    body: String,
) -> Result<Decision<Comment>, CommentRefusal> {
    let known = known.ok_or(CommentRefusal::NotFound)?;
    let comment = Comment { version: known.version.next(), body, ..waiting(known, seen)? };
    Ok(told(session, Change::RewriteComment(Box::new(comment.clone())), comment))
}

/// Takes a comment away.
pub fn remove(
    session: &Session,
    known: Option<Comment>,
    seen: CommentRef,
) -> Result<Decision<()>, CommentRefusal> {
    let known = waiting(known.ok_or(CommentRefusal::NotFound)?, seen)?;
    Ok(told(session, Change::DeleteComment(known.id), ()))
}

/// Returns a comment if it still waits as the caller saw it.
pub fn waiting(known: Comment, seen: CommentRef) -> Result<Comment, CommentConflict> {
    match known.consumed_by.is_none() && known.version == seen.version {
        true => Ok(known),
        false => Err(CommentConflict(known.id)),
    }
}

/// Returns what takes the comments along that an admission refers to; `known` are those that there are,
/// in the order of `seen`.
pub fn consume(
    known: Vec<Option<Comment>>,
    seen: &[CommentRef],
    entry: EntryId,
) -> Result<Vec<Change>, CommentConflict> {
    let taken = seen.iter().zip(known).map(|(seen, known)| {
        let comment = waiting(known.ok_or(CommentConflict(seen.id))?, *seen)?;
        Ok(Change::ConsumeComment(comment.id, entry))
    });
    taken.collect()
}

fn told<T>(session: &Session, change: Change, reply: T) -> Decision<T> {
    let events = vec![(session.id, Event::PlanChanged)];
    Decision { changes: vec![change], events, reply }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
