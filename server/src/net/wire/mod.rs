//! The protocol's words to the domain's and back: the only place that sees both. Pure, so that
//! another front of the same rules can speak the same protocol.

mod edit;
mod enclosed;
mod error;
mod plan;
mod queue;
mod session;
mod size;
mod strict;
mod transcript;

use serde::de::DeserializeOwned;
use usher_shared::error::WireError;
use usher_shared::id::ClientIdError;
use usher_shared::limits::CLIENT_QUEUE_ID_BYTES_MAX;
use usher_shared::protocol::session::Identity;
use usher_shared::time::UnixMillis;

pub use edit::{edit, edit_lease, edited, shown};
pub(super) use enclosed::{Announced, described};
use strict::Strict;

pub use error::{add_error, edit_error, find_error, queue_error, session_error, turn_error};
pub(super) use error::{
    make_error, plan_error, settings_error, text_error, too_many, transact_error, upload_error,
};
pub(super) use plan::{comment, comment_update, new_comment, plan};
pub(super) use queue::send_now;
pub use queue::{admitted, status, submission};
pub(super) use session::{existing_directory, permission, task, task_request};
pub use session::{session, user};
pub(super) use size::fitting;
pub use transcript::{PageEnd, message, page, turn_reason};

use crate::domain::lease::LinkId;
use crate::domain::session::{Caller, Target};

/// What ends a request without a reply: the link must close with 1011.
pub(super) struct CommitUnknown;

/// A refusal for the client, or nothing to say at all.
pub(super) type Refused = Result<WireError, CommitUnknown>;

/// Who is shown something.
pub struct Viewer<'a> {
    /// The user.
    pub caller: &'a Caller,
    /// The connection.
    pub link: LinkId,
    /// When.
    pub now: UnixMillis,
}

/// The longest name of a field that an error repeats, bytes: ours are shorter.
const FIELD_BYTES_MAX: usize = 128;

/// Reads the payload of a request.
///
/// # Errors
/// `validation` with the field that is missing or wrong.
pub fn parse<R: DeserializeOwned>(payload: &str) -> Result<R, WireError> {
    let mut reader = serde_json::Deserializer::from_str(payload);
    R::deserialize(Strict(&mut reader)).map_err(|_| field_error::<R>(payload))
}

/// Finds the field that is wrong: read again, with a path.
fn field_error<R: DeserializeOwned>(payload: &str) -> WireError {
    if !payload.starts_with('{') {
        return WireError::validation("payload", "is no object");
    }
    let mut reader = serde_json::Deserializer::from_str(payload);
    let Err(error) = serde_path_to_error::deserialize::<_, R>(Strict(&mut reader)) else {
        return WireError::validation("payload", Wrong::Value.words());
    };
    let path = error.path().to_string();
    let text = error.inner().to_string();
    let wrong = Wrong::of(&text);
    // serde names a missing field only in its text, and a repeated one.
    let named = match wrong {
        Wrong::Missing | Wrong::Repeated => text.split('`').nth(1),
        Wrong::Type | Wrong::Word | Wrong::Value => None,
    };
    let field = match (path.as_str(), named) {
        ("." | "", Some(named)) => named.to_owned(),
        ("." | "", None) => identity_field(payload).unwrap_or_default(),
        // The path of a repeated one may end with it.
        (path, Some(named)) if path == named || path.ends_with(&format!(".{named}")) => {
            path.to_owned()
        }
        (path, Some(named)) => format!("{path}.{named}"),
        (path, None) => path.to_owned(),
    };
    // A client's own field, far too long or not even a name, is nothing to repeat.
    let ours = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
    let is_ours = (1..=FIELD_BYTES_MAX).contains(&field.len()) && field.chars().all(ours);
    let field = if is_ours { field.as_str() } else { "payload" };
    let refused = WireError::validation(field, wrong.words());
    if text.starts_with(&ClientIdError::TooLong.to_string()) {
        return refused.with("limit", CLIENT_QUEUE_ID_BYTES_MAX);
    }
    refused
}

/// What is wrong with a field. serde's own text holds what the client sent, of any length.
#[derive(Clone, Copy)]
enum Wrong {
    Missing,
    Repeated,
    Type,
    Word,
    Value,
}

impl Wrong {
    fn of(text: &str) -> Self {
        let starts = [
            ("missing field", Self::Missing),
            ("duplicate field", Self::Repeated),
            ("invalid type", Self::Type),
            ("unknown variant", Self::Word),
        ];
        let found = starts.into_iter().find(|(start, _)| text.starts_with(start));
        found.map_or(Self::Value, |(_, wrong)| wrong)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Repeated => "is there more than once",
            Self::Type => "is of a wrong type",
            Self::Word => "is no word of the protocol",
            Self::Value => "has a wrong value",
        }
    }
}

/// Behind a flattened struct serde loses the path; the only one that requests have is the identity.
fn identity_field(payload: &str) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(payload);
    let error = serde_path_to_error::deserialize::<_, Identity>(Strict(&mut reader)).err()?;
    Some(error.path().to_string()).filter(|path| path != ".")
}

/// Returns what a request names.
pub fn target(identity: &Identity) -> Target {
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

#[cfg(test)]
mod tests {
    use usher_shared::error::ErrorCode;
    use usher_shared::protocol::queue::{QueueAddParams, QueueRemoveParams, SendNowParams};
    use usher_shared::protocol::task::TaskCreateParams;
    use usher_shared::protocol::turn::TurnCancelParams;

    use super::*;

    fn field<R: DeserializeOwned>(payload: &str) -> String {
        let error = parse::<R>(payload).map(drop).unwrap_err();
        assert_eq!(error.code, ErrorCode::Validation);
        error.details["field"].as_str().unwrap().to_owned()
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

    #[test]
    fn repeated_fields_and_payloads_that_are_no_objects_are_named() {
        for payload in ["[]", "[\"TT\",null,null,null,null]", "7", "\"x\""] {
            assert_eq!(field::<TaskCreateParams>(payload), "payload", "{payload}");
        }
        assert_eq!(field::<TaskCreateParams>(r#"{"title":"a","title":"b"}"#), "title");
        let identity = r#""task_id":"t","session_id":"s","session_incarnation_id":"i""#;
        let remove = |rest: &str| field::<QueueRemoveParams>(&format!("{{{identity},{rest}}}"));
        assert_eq!(remove(r#""entry_id":"e","entry_id":"e""#), "entry_id");
        assert_eq!(remove(r#""entry_id":"e","task_id":"t""#), "task_id");
        let add = format!("{{{identity},\"content\":\"x\",\"context_files\":[[\"p\",\"n\"]]}}");
        assert_eq!(field::<QueueAddParams>(&add), "context_files[0]");
        let twice = r#"[{"path":"p","name":"n","name":"n"}]"#;
        let add = format!("{{{identity},\"content\":\"x\",\"context_files\":{twice}}}");
        assert_eq!(field::<QueueAddParams>(&add), "context_files[0].name");
        for scope in [r#"{"all":null}"#, "[]", "\"many\"", "0"] {
            let send = format!("{{{identity},\"scope\":{scope}}}");
            assert_eq!(field::<SendNowParams>(&send), "scope", "{scope}");
        }
        assert_eq!(field::<TaskCreateParams>(r#"{"title":"t","kind":{"quick":null}}"#), "kind");
    }

    fn assert_says_little(error: &WireError) {
        let sent = serde_json::to_string(error).unwrap();
        assert!(sent.len() < 256 && !sent.contains("sEcReT"), "{sent:.500}");
    }

    #[test]
    fn no_answer_repeats_what_the_client_sent() {
        let secret = "\u{85}sEcReT".repeat(1_000);
        let identity = r#""task_id":"t","session_id":"s","session_incarnation_id":"i""#;
        let key = serde_json::to_string(&secret).unwrap();
        for fields in [
            format!("\"content\":\"x\",\"plan_mode\":{key}"),
            format!("\"content\":[{key}]"),
            format!("\"content\":\"x\",\"client_queue_id\":{key}"),
            format!("\"content\":\"x\",\"entity_references\":[{{\"kind\":{key}}}]"),
        ] {
            let error = parse::<QueueAddParams>(&format!("{{{identity},{fields}}}")).unwrap_err();
            assert_says_little(&error);
        }
        for fields in [format!("{key}:1e999"), format!("{key}:{{{key}:1e999}}")] {
            let payload = format!("{{{identity},{fields}}}");
            assert_says_little(&parse::<QueueRemoveParams>(&payload).unwrap_err());
        }
    }

    #[test]
    fn a_too_long_admission_id_names_its_limit() {
        let id = "k".repeat(129);
        let payload =
            format!(r#"{{"task_id":"t","session_id":"s","content":"x","client_queue_id":"{id}"}}"#);
        let error = parse::<QueueAddParams>(&payload).unwrap_err();
        let details = serde_json::json!({"field": "client_queue_id", "limit": 128});
        assert_eq!(serde_json::Value::from(error.details), details);
    }

    /// Each field is looked at a bounded number of times, however many there are.
    #[test]
    fn many_unknown_fields_are_read_in_one_go() {
        let unknown: String = (0..200_000).map(|n| format!("\"a{n}\":0,")).collect();
        let payload = format!("{{{unknown}\"entry_id\":\"e\",\"task_id\":5}}");
        assert_eq!(field::<QueueRemoveParams>(&payload), "task_id");
    }
}
