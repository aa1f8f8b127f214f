//! What was asked of the server beside prompts, and what its answers mean.

use serde_json::value::RawValue;
use usher_shared::client::{Call, CallId, CallOutcome, Input, reply};
use usher_shared::error::WireError;
use usher_shared::protocol::Request;
use usher_shared::protocol::session::SessionListParams;
use usher_shared::protocol::task::{TaskCreateParams, TaskListParams};
use usher_shared::protocol::turn::TurnCancelParams;

use super::ask::Toast;
use super::state::State;

/// What a call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        }
        Ok(())
    }

    fn rejected(&mut self, asked: Asked, error: &WireError) {
        match asked {
            Asked::NewTask if self.retry_without_directory(error) => return,
            Asked::Answer => self.permission.not_answered(),
            Asked::Tasks | Asked::Sessions | Asked::NewTask | Asked::StopTurn | Asked::Change => {}
        }
        let text = self.localizer.error(error);
        self.toast = Some(match asked {
            // Without these there is nothing else to look at.
            Asked::Tasks | Asked::Sessions | Asked::NewTask => Toast::lasting(text),
            Asked::StopTurn | Asked::Change | Asked::Answer => Toast::passing(text, self.now),
        });
    }

    fn not_answered(&mut self, asked: Asked, outcome: &CallOutcome) {
        match asked {
            // Asked again when there is a link.
            Asked::Tasks | Asked::Sessions | Asked::NewTask => return,
            Asked::Answer => self.permission.not_answered(),
            Asked::StopTurn | Asked::Change => {}
        }
        self.say(match outcome {
            CallOutcome::NotSent => "tui-call-not-sent",
            CallOutcome::Lost | CallOutcome::Reply(_) | CallOutcome::Rejected(_) => "tui-call-lost",
        });
    }
}
