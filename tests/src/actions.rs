//! The actions of the protocol, for tests that try all of them.

use serde_json::{Value, json};

use crate::chat::Chat;
use crate::client::Client;
use crate::scene::refused;

/// An id that nothing has.
pub const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Every action that names a session by its whole identity, with what it needs beside that.
pub fn with_identity() -> Vec<(&'static str, Value)> {
    vec![
        ("message.queue.get", json!({})),
        ("message.queue.add", json!({"client_queue_id": "k1", "content": "A"})),
        ("message.queue.entry.get", json!({"entry_id": UNKNOWN})),
        ("message.queue.remove", json!({"entry_id": UNKNOWN})),
        ("message.queue.cancel", json!({})),
        ("message.queue.restore", json!({"undo_id": UNKNOWN})),
        ("message.queue.merge", json!({"entry_id": UNKNOWN})),
        ("message.queue.reorder", json!({"ordered_ids": []})),
        ("message.queue.edit.begin", json!({"entry_id": UNKNOWN})),
        ("message.queue.edit.renew", json!({"entry_id": UNKNOWN, "lease_id": UNKNOWN})),
        ("message.queue.edit.end", json!({"entry_id": UNKNOWN, "lease_id": UNKNOWN})),
        (
            "message.queue.update",
            json!({
                "entry_id": UNKNOWN, "lease_id": UNKNOWN, "operation_id": "o1",
                "expected_target_revision": 1, "content": "A",
            }),
        ),
        ("message.queue.send_now", json!({"scope": "all"})),
        ("message.queue.drain", json!({})),
        ("message.queue.auto_run.set", json!({"enabled": true})),
        ("plan.get", json!({})),
        ("plan.comment.add", json!({"body": "x"})),
        ("plan.comment.update", json!({"id": UNKNOWN, "version": 1, "body": "x"})),
        ("plan.comment.remove", json!({"id": UNKNOWN, "version": 1})),
        ("turn.cancel", json!({})),
        ("turn.resolve", json!({"turn_id": UNKNOWN, "resolution": "drop"})),
        ("session.set", json!({"title": "x"})),
        ("session.reset", json!({})),
        ("session.delete", json!({})),
    ]
}

/// Fails unless every one of them is answered as if there were no such session.
pub async fn all_unavailable(client: &mut Client, chat: &Chat) {
    for (action, fields) in with_identity() {
        let answer = client.request(action, chat.with(fields)).await;
        assert_eq!(answer, refused("queue_session_unavailable"), "{action}");
    }
}
