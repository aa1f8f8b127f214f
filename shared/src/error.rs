//! Error codes of the wire: stable names, each with one advice. Clients branch on these, never on
//! text, and people read `locales/<lang>/errors.ftl`, found by code.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a client does next after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// The same request may work later.
    RetrySame,
    /// The client's picture is old: read the state, then decide.
    ReconcileFirst,
    /// The request can never work as it is.
    FixInput,
    /// Nothing the client can do will make it work.
    GiveUp,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $advice:ident;)*) => {
        /// The code of an error. Released codes are never changed or reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {$(
            $(#[$doc])*
            $variant,
        )*}

        impl ErrorCode {
            /// Every code, in the order of the protocol page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {$(Self::$variant => $name,)*}
            }

            /// Returns what the client does next.
            pub const fn advice(self) -> Advice {
                match self {$(Self::$variant => Advice::$advice,)*}
            }
        }
    };
}

error_codes! {
    /// The frame is no request.
    BadRequest = "bad_request", FixInput;
    /// A field is missing, of a wrong type, or out of bounds: `{field, limit?, attachment_index?}`.
    Validation = "validation", FixInput;
    /// The server does not know the action.
    UnknownAction = "unknown_action", GiveUp;
    /// No valid token, or no `hello` yet.
    Unauthorized = "unauthorized", FixInput;
    /// No protocol version in common.
    ProtocolUnsupported = "protocol_unsupported", GiveUp;
    /// The caller may see the thing but not do this.
    Forbidden = "forbidden", GiveUp;
    /// Unknown and foreign alike.
    NotFound = "not_found", ReconcileFirst;
    /// Too much at once: `{retry_after_ms}`.
    RateLimited = "rate_limited", RetrySame;
    /// The server is stopping: `{retry_after_ms}`.
    ShuttingDown = "shutting_down", RetrySame;
    /// A fault of the server.
    Internal = "internal", RetrySame;
    /// The queue is full: `{queue_size, max}`.
    QueueFull = "queue_full", ReconcileFirst;
    /// The admission ID was used with another payload.
    QueueIdConflict = "queue_id_conflict", GiveUp;
    /// Unknown, foreign, deleted, archived, wrong pair or stale incarnation, all alike.
    QueueSessionUnavailable = "queue_session_unavailable", ReconcileFirst;
    /// The store cannot give durable replay right now: `{retry_after_ms}`.
    QueueAdmissionUnavailable = "queue_admission_unavailable", RetrySame;
    /// Missing, foreign or spent upload: `{attachment_index}`.
    AttachmentUnavailable = "attachment_unavailable", FixInput;
    /// A reference is missing, foreign or outside the task's directory.
    ReferenceInvalid = "reference_invalid", FixInput;
    /// A plan comment was changed or consumed: `{id}`.
    PlanCommentConflict = "plan_comment_conflict", ReconcileFirst;
    /// The entry is not visible (any more).
    EntryNotFound = "entry_not_found", ReconcileFirst;
    /// Somebody holds the entry, or the lease is not live.
    EditConflict = "edit_conflict", ReconcileFirst;
    /// The operation id was used with other content.
    OperationConflict = "operation_conflict", GiveUp;
    /// The entry changed since: `{target_revision}`.
    RevisionConflict = "revision_conflict", ReconcileFirst;
    /// Merging is switched off.
    MergeDisabled = "merge_disabled", GiveUp;
    /// There is nothing to merge into.
    NoMergeTarget = "no_merge_target", ReconcileFirst;
    /// The merged entry would break a bound: `{limit}`.
    MergeOverflow = "merge_overflow", FixInput;
    /// The queue changed since: `{queue_revision}`.
    QueueChanged = "queue_changed", ReconcileFirst;
    /// Nothing waits.
    QueueEmpty = "queue_empty", ReconcileFirst;
    /// There is nothing left to restore.
    UndoExpired = "undo_expired", GiveUp;
    /// Another send-now or cancel is under way.
    SendNowConflict = "send_now_conflict", ReconcileFirst;
    /// The joined prompt would break a bound: `{limit}`.
    SendNowOverflow = "send_now_overflow", FixInput;
    /// Another turn runs than the one named: `{turn_id}`.
    TurnChanged = "turn_changed", ReconcileFirst;
    /// A turn runs.
    SessionBusy = "session_busy", ReconcileFirst;
    /// A question of the agent is open.
    SessionNotPromptable = "session_not_promptable", ReconcileFirst;
    /// The question was answered or is gone.
    PermissionClosed = "permission_closed", ReconcileFirst;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The payload of an error frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireError {
    /// What went wrong.
    pub code: ErrorCode,
    /// For developers and logs, in English; never shown to users.
    pub message: String,
    /// What the code's documentation names; `{}` where it names nothing.
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl WireError {
    /// Makes an error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// Adds one detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// A field of a request that is missing, of a wrong type, or out of bounds.
    pub fn validation(field: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Validation, message).with("field", field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_wire_and_in_code_are_the_same() {
        for code in ErrorCode::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{}\"", code.as_str()));
            assert_eq!(serde_json::from_str::<ErrorCode>(&json).unwrap(), *code);
        }
        assert_eq!(ErrorCode::ALL.len(), 33);
    }
}
