//! The protocol's words to the domain's and back: the only place that sees both.

mod edit;
mod error;
mod queue;
mod session;
mod transcript;

use serde::de::DeserializeOwned;
use usher_shared::error::WireError;
use usher_shared::protocol::Request;
use usher_shared::protocol::session::Identity;
use usher_shared::time::UnixMillis;

pub(super) use edit::{edit, edit_lease, edited, shown};
pub(super) use error::{
    add_error, edit_error, find_error, make_error, queue_error, session_error, settings_error,
    transact_error, turn_error,
};
pub(super) use queue::{admitted, send_now, status, submission};
pub(super) use session::{permission, session, task, task_request, user};
pub(super) use transcript::{PageEnd, message, page};

use crate::domain::lease::LinkId;
use crate::domain::session::{Caller, Target};

/// What ends a request without a reply: the link must close with 1011.
pub(super) struct CommitUnknown;

/// A refusal for the client, or nothing to say at all.
pub(super) type Refused = Result<WireError, CommitUnknown>;

/// Who is shown something.
pub(super) struct Viewer<'a> {
    /// The user.
    pub(super) caller: &'a Caller,
    /// The connection.
    pub(super) link: LinkId,
    /// When.
    pub(super) now: UnixMillis,
}

/// Reads the payload of a request.
///
/// # Errors
/// `validation` with the field that is missing or wrong.
pub(super) fn parse<R: Request + DeserializeOwned>(payload: &str) -> Result<R, WireError> {
    serde_json::from_str(payload).map_err(|_| field_error::<R>(payload))
}

/// Finds the field that is wrong: read again, with a path.
fn field_error<R: DeserializeOwned>(payload: &str) -> WireError {
    let mut reader = serde_json::Deserializer::from_str(payload);
    let Err(error) = serde_path_to_error::deserialize::<_, R>(&mut reader) else {
        return WireError::validation("", "trailing characters");
    };
    let path = error.path().to_string();
    let text = error.inner().to_string();
    // serde names a missing field only in its text.
    let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let field = match (path.as_str(), missing) {
        ("." | "", Some(missing)) => missing.to_owned(),
        ("." | "", None) => identity_field(payload).unwrap_or_default(),
        (path, Some(missing)) => format!("{path}.{missing}"),
        (path, None) => path.to_owned(),
    };
    WireError::validation(&field, text)
}

/// Behind a flattened struct serde loses the path; the only one that requests have is the identity.
fn identity_field(payload: &str) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(payload);
    let error = serde_path_to_error::deserialize::<_, Identity>(&mut reader).err()?;
    Some(error.path().to_string()).filter(|path| path != ".")
}

pub(super) fn target(identity: &Identity) -> Target {
    Target {
        task_id: identity.task_id,
        session_id: identity.session_id,
        incarnation_id: Some(identity.session_incarnation_id),
    }
}

/// Checks an optional text of a request: bound and no NUL.
pub(super) fn bounded(field: &str, text: Option<&str>, max: usize) -> Result<(), WireError> {
    match text {
        Some(text) if text.len() > max => {
            Err(WireError::validation(field, "too long").with("limit", max))
        }
        Some(text) if text.contains('\0') => Err(WireError::validation(field, "holds a NUL")),
        _ => Ok(()),
    }
}

/// Returns the size of a text as JSON, without its quotes.
fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// What an entry or a message has on the wire beside its text, about.
const OVERHEAD_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use usher_shared::error::ErrorCode;
    use usher_shared::protocol::queue::{QueueAddParams, QueueRemoveParams};
    use usher_shared::protocol::turn::TurnCancelParams;

    use super::*;

    fn field<R: Request>(payload: &str) -> String {
        let error = parse::<R>(payload).map(drop).unwrap_err();
        assert_eq!(error.code, ErrorCode::Validation);
        error.details["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn texts_are_measured_as_they_are_sent() {
        for text in ["", "plain é", "\"\\\n\r\t\u{8}\u{c}", "\u{1}\u{1f}\u{7f}\u{85}\u{2028}"] {
            let sent = serde_json::to_string(text).unwrap();
            assert_eq!(json_bytes(text), sent.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named_wherever_it_is() {
        let identity = r#""task_id":"t","session_id":"s","session_incarnation_id":"i""#;
        let remove = |rest: &str| field::<QueueRemoveParams>(&format!("{{{rest}}}"));
        assert_eq!(remove(identity), "entry_id");
        assert_eq!(remove(&format!("{identity},\"entry_id\":7")), "entry_id");
        assert_eq!(remove(r#""entry_id":"e","session_id":"s""#), "task_id");
        let wrong = r#""task_id":5,"session_id":"s","session_incarnation_id":"i","entry_id":"e""#;
        assert_eq!(remove(wrong), "task_id");
        let cancel = format!("{{{identity},\"expected_turn_id\":[]}}");
        assert_eq!(field::<TurnCancelParams>(&cancel), "expected_turn_id");
        let add = |rest: &str| field::<QueueAddParams>(&format!("{{{identity}{rest}}}"));
        assert_eq!(add(""), "content");
        assert_eq!(add(r#","content":"x","client_queue_id":null"#), "client_queue_id");
        let nested = r#","content":"x","context_files":[{"path":"p","name":5}]"#;
        assert_eq!(add(nested), "context_files[0].name");
    }

    /// Each field is looked at a bounded number of times, however many there are.
    #[test]
    fn many_unknown_fields_are_read_in_one_go() {
        let unknown: String = (0..200_000).map(|n| format!("\"a{n}\":0,")).collect();
        let payload = format!("{{{unknown}\"entry_id\":\"e\",\"task_id\":5}}");
        assert_eq!(field::<QueueRemoveParams>(&payload), "task_id");
    }
}
