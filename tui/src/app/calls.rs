//! What was asked of the server beside prompts, and what its answers mean.

use serde_json::value::RawValue;
use usher_shared::client::{Call, CallId, CallOutcome, Input, reply};
use usher_shared::error::WireError;
use usher_shared::protocol::Request;
use usher_shared::protocol::queue::{
    QueueClearParams, QueueClearReply, QueueRemoveParams, QueueRestoreParams,
};
use usher_shared::protocol::session::{Identity, SessionListParams};
use usher_shared::protocol::task::{TaskCreateParams, TaskListParams};
use usher_shared::protocol::turn::TurnCancelParams;

use super::ask::Toast;
use super::state::State;
use super::undo::Undo;

/// What a call was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The caller's tasks.
    Tasks,
    /// The caller's sessions.
    Sessions,
    /// A task with its first session.
    NewTask,
    /// To stop the turn.
    StopTurn,
    /// A change that shows by itself when it is done.
    Change,
    /// To answer the agent's question.
    Answer,
    /// To remove an entry.
    Remove {
        /// Whose.
        identity: Identity,
        /// What it is called when it is gone.
        prompt: String,
    },
    /// To remove all entries.
    Clear(Identity),
    /// To bring back what was removed.
    Restore(Undo),
}

impl State {
    /// Asks the server for something.
    pub(crate) fn call<R: Request>(&mut self, asked: Asked, request: &R) {
        let id = self.mint_call_id();
        self.calls.insert(id, asked);
        let call = Call::new(id, request);
        self.engine.handle(Input::Call(call), self.now);
    }

    /// Tells whether an answer to such a call is still to come.
    pub(crate) fn is_asked(&self, asked: Asked) -> bool {
        self.calls.values().any(|open| *open == asked)
    }

    /// Takes the answer to a call.
    pub(crate) fn called(&mut self, id: CallId, outcome: CallOutcome) {
        let Some(asked) = self.calls.remove(&id) else {
            return;
        };
        match outcome {
            CallOutcome::Reply(payload) => {
                if self.answered(asked, &payload).is_err() {
                    self.say("tui-reply-unreadable");
                }
            }
            CallOutcome::Rejected(error) => self.rejected(asked, &error),
            CallOutcome::Lost | CallOutcome::NotSent => self.not_answered(asked, &outcome),
        }
    }

    fn answered(&mut self, asked: Asked, payload: &RawValue) -> Result<(), serde_json::Error> {
        match asked {
            Asked::Tasks => {
                let tasks = reply::<TaskListParams>(payload)?.tasks;
                self.tasks_listed(tasks);
            }
            Asked::Sessions => {
                let sessions = reply::<SessionListParams>(payload)?.sessions;
                self.listed(sessions);
            }
            Asked::NewTask => {
                let created = reply::<TaskCreateParams>(payload)?;
                self.created(created);
            }
            Asked::StopTurn => {
                if !reply::<TurnCancelParams>(payload)?.cancelled {
                    self.say("tui-nothing-to-stop");
                }
            }
            Asked::Change => {}
            Asked::Answer => self.permission.answered(),
            Asked::Remove { identity, prompt } => {
                let undo_id = reply::<QueueRemoveParams>(payload)?.undo_id;
                self.removed(Undo { identity, undo_id }, &prompt);
            }
            Asked::Clear(identity) => {
                let QueueClearReply { removed, undo_id, .. } = reply::<QueueClearParams>(payload)?;
                self.cleared(Undo { identity, undo_id }, removed);
            }
            Asked::Restore(_) => {
                let restored = reply::<QueueRestoreParams>(payload)?.restored;
                self.restored(restored);
            }
        }
        Ok(())
    }

    fn rejected(&mut self, asked: Asked, error: &WireError) {
        let is_needed = matches!(asked, Asked::Tasks | Asked::Sessions | Asked::NewTask);
        match asked {
            Asked::NewTask if self.retry_without_directory(error) => return,
            Asked::Answer => self.permission.not_answered(),
            Asked::Restore(undo) => self.restore_refused(undo, error),
            Asked::Tasks
            | Asked::Sessions
            | Asked::NewTask
            | Asked::StopTurn
            | Asked::Change
            | Asked::Remove { .. }
            | Asked::Clear(_) => {}
        }
        let text = self.localizer.error(error);
        self.toast = Some(if is_needed {
            // Without these there is nothing else to look at.
            Toast::lasting(text)
        } else {
            Toast::passing(text, self.now)
        });
    }

    fn not_answered(&mut self, asked: Asked, outcome: &CallOutcome) {
        match asked {
            // Asked again when there is a link.
            Asked::Tasks | Asked::Sessions | Asked::NewTask => return,
            Asked::Answer => self.permission.not_answered(),
            Asked::Restore(undo) => self.restore_unanswered(undo),
            Asked::StopTurn | Asked::Change | Asked::Remove { .. } | Asked::Clear(_) => {}
        }
        self.say(match outcome {
            CallOutcome::NotSent => "tui-call-not-sent",
            CallOutcome::Lost | CallOutcome::Reply(_) | CallOutcome::Rejected(_) => "tui-call-lost",
        });
    }
}
