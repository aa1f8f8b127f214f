//! The plan of a session, and the comments on it.

use serde::{Deserialize, Serialize};

use super::actions;
use super::session::Identity;
use crate::counter::CommentVersion;
use crate::id::{PlanCommentId, PlanId};
use crate::vocabulary::{CommentState, PlanStatus};

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// The plan that the session's agent published last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name; another one with every turn that publishes a plan.
    pub id: PlanId,
    /// Its steps in order.
    pub entries: Vec<PlanEntry>,
}

/// A comment on a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Its name.
    pub id: PlanCommentId,
    /// Grows by every update, from 1.
    pub version: CommentVersion,
    /// The step that it is about, from 0, in the plan of that time.
    pub entry_index: Option<u64>,
    /// What it quotes.
    pub selected_text: Option<String>,
    /// What it says.
    pub body: String,
    /// Whether a prompt took it along.
    pub state: CommentState,
}

/// `plan.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanGetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
}

/// The answer to `plan.get`, and what `plan.changed` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReply {
    /// None: the agent has published none in this life of the session.
    pub plan: Option<Plan>,
    /// Those that wait to be sent, and the newest of those that were, the oldest first.
    pub comments: Vec<Comment>,
}

/// `plan.comment.add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentAddParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// The step that it is about, from 0; omitted: the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_index: Option<u64>,
    /// What it quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_text: Option<String>,
    /// What it says.
    pub body: String,
}

/// `plan.comment.update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentUpdateParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which comment.
    pub id: PlanCommentId,
    /// Refuse (`plan_comment_conflict`) if it is another one by now.
    pub version: CommentVersion,
    /// What it says from now on.
    pub body: String,
}

/// The answer to `plan.comment.add` and `plan.comment.update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentReply {
    /// The comment as it is now.
    pub comment: Comment,
}

/// `plan.comment.remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentRemoveParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which comment.
    pub id: PlanCommentId,
    /// Refuse (`plan_comment_conflict`) if it is another one by now.
    pub version: CommentVersion,
}

/// The answer to `plan.comment.remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentRemoveReply {
    /// Which comment.
    pub id: PlanCommentId,
}

actions! {
    PlanGetParams => "plan.get" => PlanReply;
    CommentAddParams => "plan.comment.add" => CommentReply;
    CommentUpdateParams => "plan.comment.update" => CommentReply;
    CommentRemoveParams => "plan.comment.remove" => CommentRemoveReply;
}
