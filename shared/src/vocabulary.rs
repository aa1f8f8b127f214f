//! Closed lists of words that the wire, the domain and the database all use, each with one name.
//!
//! Like ids and error codes they belong to no family of types: a word that had to be translated
//! between three enums would sooner or later be translated wrongly.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {$(
            $(#[$variant_doc])*
            $variant,
        )*}

        impl $name {
            /// Every word of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the word on the wire and in the database.
            pub const fn as_str(self) -> &'static str {
                match self {$(Self::$variant => $word,)*}
            }

            /// Reads a word; None for any other string.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn every_word_reads_back_and_is_the_word_of_the_wire() {
                $(for word in $name::ALL {
                    assert_eq!($name::parse(word.as_str()), Some(*word));
                    assert_eq!(serde_json::to_string(word).unwrap(), format!("\"{word}\""));
                })*
            }
        }
    };
}

words! {
    /// What an attachment is.
    AttachmentKind {
        /// A picture.
        Image = "image",
        /// Sound.
        Audio = "audio",
        /// Anything else.
        Resource = "resource",
    }

    /// How an attachment reaches the agent.
    DeliveryMode {
        /// Inside the prompt.
        Prompt = "prompt",
        /// As the path of a file.
        Path = "path",
    }

    /// What a reference points at.
    ReferenceKind {
        /// A file in the task's directory.
        File = "file",
        /// A session of the caller.
        Session = "session",
        /// A task of the caller.
        Task = "task",
    }

    /// What a task is for.
    TaskKind {
        /// Work in a directory.
        Task = "task",
        /// Quick Chat: no set-up, same composer.
        Quick = "quick",
    }

    /// What the session's agent does.
    SessionState {
        /// No turn is open.
        Idle = "idle",
        /// A turn is open and the agent has not accepted its prompt yet.
        Starting = "starting",
        /// The agent works.
        Running = "running",
        /// The agent asks and waits.
        AwaitingPermission = "awaiting_permission",
        /// The agent was told to stop.
        Cancelling = "cancelling",
    }

    /// What an answer to a question means; options are chosen by it, never by their place.
    PermissionKind {
        /// This once.
        AllowOnce = "allow_once",
        /// From now on.
        AllowAlways = "allow_always",
        /// Not this time.
        RejectOnce = "reject_once",
        /// Never.
        RejectAlways = "reject_always",
    }

    /// Why a question is closed.
    PermissionClosed {
        /// Somebody answered.
        Answered = "answered",
        /// The agent's policy answered.
        Policy = "policy",
        /// The turn was cancelled.
        Cancelled = "cancelled",
        /// The agent is gone.
        Expired = "expired",
    }

    /// Who put an entry into the queue.
    SenderKind {
        /// A person or a script: the only kind that clients can make.
        User = "user",
        /// Another agent.
        Agent = "agent",
        /// A workflow of the server.
        Workflow = "workflow",
        /// The server itself.
        Server = "server",
    }

    /// How an admission was accepted.
    AdmissionOutcome {
        /// It is an entry of its own.
        Admitted = "admitted",
        /// It joined the tail.
        Folded = "folded",
        /// It was accepted before; nothing changed.
        Replayed = "replayed",
    }

    /// Why auto-run is OFF.
    AutoRunReason {
        /// Somebody switched it off.
        User = "user",
        /// A turn was cancelled while something waited.
        Cancelled = "cancelled",
        /// A turn failed.
        Failed = "failed",
        /// The agent refused.
        Refused = "refused",
        /// The server stopped while a turn ran.
        Interrupted = "interrupted",
        /// The server stopped before it knew whether the agent had the prompt.
        UncertainTurn = "uncertain_turn",
    }

    /// Why auto-run ON does not start the head.
    Blocked {
        /// Somebody edits it.
        HeadEditing = "head_editing",
        /// Its editor's connection was lost a moment ago.
        HeadHeld = "head_held",
    }

    /// What the log says of edits.
    EditEvent {
        /// Somebody else edits the entry, or the lease is not one of the caller.
        Conflict = "conflict",
        /// A lease was not renewed in time.
        Expired = "expired",
        /// The entry was another one than the editor saw.
        RevisionRejected = "revision_rejected",
        /// The head could not start after a save.
        DrainDeferred = "drain_deferred",
        /// What a refused save had brought could not be taken back yet.
        RollbackFailed = "rollback_failed",
    }

    /// Why a connection no longer holds an edit lease.
    EditLost {
        /// It was not renewed in time.
        Expired = "expired",
        /// The entry was removed.
        Removed = "removed",
        /// The entry was merged, or another into it.
        Merged = "merged",
        /// The entry was sent.
        Sent = "sent",
        /// Entries moved to or from the session.
        Transferred = "transferred",
        /// The session began another life.
        Reset = "reset",
        /// The session was deleted or archived.
        Deleted = "deleted",
        /// It was held for longer than anybody may.
        HeldTooLong = "held_too_long",
    }

    /// Where the value of a setting comes from; each beats those after it.
    SettingSource {
        /// The server's environment.
        Environment = "environment",
        /// The server's configuration file.
        Configuration = "configuration",
        /// The user saved it.
        Setting = "setting",
        /// Nobody said anything.
        Default = "default",
    }

    /// Who speaks in a transcript.
    Role {
        /// The prompt of a turn.
        User = "user",
        /// The agent's answer.
        Agent = "agent",
        /// The agent's reasoning.
        Thought = "thought",
        /// A tool call; the content is its output.
        Tool = "tool",
        /// A plan the agent published, one step a line.
        Plan = "plan",
        /// What happened to a turn; the notice says what.
        System = "system",
    }

    /// How far an agent is with one step of its plan.
    PlanStatus {
        /// It has not begun.
        Pending = "pending",
        /// It works on it.
        InProgress = "in_progress",
        /// It is done.
        Completed = "completed",
    }

    /// What became of a comment on a plan.
    CommentState {
        /// It waits to be sent.
        Pending = "pending",
        /// A prompt took it along: it never changes any more.
        Consumed = "consumed",
    }

    /// How far a message has come.
    MessageStatus {
        /// More text may follow.
        Streaming = "streaming",
        /// It is whole.
        Complete = "complete",
        /// The server stopped, or the turn was cancelled, while it was streaming.
        Interrupted = "interrupted",
        /// Its turn failed.
        Failed = "failed",
        /// Nobody knows whether the agent got it.
        Uncertain = "uncertain",
    }

    /// What a system message reports. Clients have a text for each; the message's content is
    /// what the agent said about it, if anything.
    Notice {
        /// The turn failed; the content is the agent's last error output.
        TurnFailed = "turn_failed",
        /// The agent could not be started; the prompt is still in the queue.
        StartFailed = "start_failed",
        /// The agent does not have the model that the prompt asks for, which the content names; the
        /// prompt is still in the queue.
        ModelUnavailable = "model_unavailable",
        /// The agent has no plan mode; the prompt is still in the queue.
        PlanModeUnavailable = "plan_mode_unavailable",
        /// The turn was cancelled.
        TurnCancelled = "turn_cancelled",
        /// The server stopped while the turn ran.
        TurnInterrupted = "turn_interrupted",
        /// Nobody knows whether the agent got the prompt.
        TurnUncertain = "turn_uncertain",
        /// The agent refused.
        TurnRefused = "turn_refused",
        /// The agent stopped at a limit of its own.
        TurnCutShort = "turn_cut_short",
        /// The session was reset: what comes next is another conversation.
        SessionReset = "session_reset",
    }

    /// What became of a prompt whose turn did not end well.
    Resolution {
        /// Somebody had it run again.
        Resend = "resend",
        /// Somebody gave it up.
        Drop = "drop",
    }

    /// How a turn ended.
    TurnOutcome {
        /// The agent finished.
        Completed = "completed",
        /// Somebody stopped it.
        Cancelled = "cancelled",
        /// The agent failed.
        Failed = "failed",
        /// The server stopped while it ran.
        Interrupted = "interrupted",
        /// Nobody knows whether the agent got the prompt.
        Uncertain = "uncertain",
    }

    /// What a turn's outcome alone does not say.
    TurnReason {
        /// The agent would not do it.
        Refused = "refused",
        /// The agent stopped at a limit of its own.
        CutShort = "cut_short",
        /// Another prompt was sent now.
        Replaced = "replaced",
        /// The agent did not stop when asked and was killed.
        Forced = "forced",
        /// The agent's process ended.
        AgentExit = "agent_exit",
        /// The agent could not be started.
        StartFailed = "start_failed",
        /// The agent does not have the model that the prompt asks for: it got nothing. Never on the
        /// wire, where it is `start_failed`.
        ModelUnavailable = "model_unavailable",
        /// The prompt asks for a plan mode that the agent does not have: it got nothing. Never on the
        /// wire, where it is `start_failed`.
        PlanModeUnavailable = "plan_mode_unavailable",
        /// The agent reported an error.
        Error = "error",
    }
}

impl Default for DeliveryMode {
    /// What an omitted mode means.
    fn default() -> Self {
        Self::Prompt
    }
}
