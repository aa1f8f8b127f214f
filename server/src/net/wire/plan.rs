//! Plans and their comments.

use usher_shared::error::WireError;
use usher_shared::limits::{COMMENT_BODY_BYTES_MAX, SELECTED_TEXT_BYTES_MAX};
use usher_shared::prompt::is_blank;
use usher_shared::protocol::plan::{
    self as wire_plan, CommentAddParams, CommentUpdateParams, PlanReply,
};
use usher_shared::vocabulary::CommentState;

use super::bounded;
use crate::domain::plan::{Comment, CommentRef, NewComment, PlanView};

/// Checks shape and hard bounds of a new comment.
pub(in crate::net) fn new_comment(params: CommentAddParams) -> Result<NewComment, WireError> {
    bounded("selected_text", params.selected_text.as_deref(), SELECTED_TEXT_BYTES_MAX)?;
    let body = body(params.body)?;
    Ok(NewComment { entry_index: params.entry_index, selected_text: params.selected_text, body })
}

/// Checks shape and hard bounds of an update.
pub(in crate::net) fn comment_update(
    params: CommentUpdateParams,
) -> Result<(CommentRef, String), WireError> {
    Ok((CommentRef { id: params.id, version: params.version }, body(params.body)?))
}

fn body(body: String) -> Result<String, WireError> {
    bounded("body", Some(&body), COMMENT_BODY_BYTES_MAX)?;
    match is_blank(&body) {
        true => Err(WireError::validation("body", "is blank")),
        false => Ok(body),
    }
}

pub(in crate::net) fn plan(view: PlanView) -> PlanReply {
    let plan = view.plan.map(|plan| wire_plan::Plan {
        id: plan.id,
        entries: plan
            .entries
            .into_iter()
            .map(|entry| wire_plan::PlanEntry { text: entry.text, status: entry.status })
            .collect(),
    });
    PlanReply { plan, comments: view.comments.into_iter().map(comment).collect() }
}

pub(in crate::net) fn comment(comment: Comment) -> wire_plan::Comment {
    wire_plan::Comment {
        id: comment.id,
        version: comment.version,
        entry_index: comment.subject.entry_index,
        selected_text: comment.subject.selected_text,
        body: comment.body,
        state: match comment.consumed_by {
            None => CommentState::Pending,
            Some(_) => CommentState::Consumed,
        },
    }
}
