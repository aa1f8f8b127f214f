//! Attachments, as clients send and read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::chat::{Chat, string};
use crate::client::{Answer, Client, merge};

/// Returns SHA-256 in lower-case hex.
pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns padded base64.
pub fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// An attachment in a request, with its bytes.
pub fn inline(name: &str, data: &[u8]) -> Value {
    json!({"type": "resource", "name": name, "mime_type": "text/plain", "data": base64(data)})
}

/// An upload, or what an entry carries already, in a request.
pub fn named(id: &str) -> Value {
    json!({"attachment_id": id})
}

/// The names of the attachments of an entry, in order.
pub fn names(entry: &Value) -> Vec<String> {
    list(&entry["attachments"]).iter().map(|one| string(&one["name"])).collect()
}

/// The ids of the attachments of an entry, in order.
pub fn ids(entry: &Value) -> Vec<String> {
    list(&entry["attachments"]).iter().map(|one| string(&one["attachment_id"])).collect()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

impl Client {
    /// Asks for an upload of these bytes.
    pub async fn begin_upload(&mut self, chat: &Chat, name: &str, data: &[u8]) -> Answer {
        self.begin_upload_with(chat, name, data, json!({})).await
    }

    /// The same with other fields.
    pub async fn begin_upload_with(
        &mut self,
        chat: &Chat,
        name: &str,
        data: &[u8],
        changes: Value,
    ) -> Answer {
        let mut request = json!({
            "task_id": chat.task_id, "session_id": chat.session_id, "name": name,
            "mime_type": "text/plain", "type": "resource",
            "size_bytes": data.len(), "sha256": sha256(data),
        });
        merge(&mut request, changes);
        self.request("attachment.begin", request).await
    }

    /// Appends to an upload.
    pub async fn append(&mut self, id: &str, offset: usize, data: &[u8]) -> Answer {
        let fields = json!({"attachment_id": id, "offset": offset, "data": base64(data)});
        self.request("attachment.append", fields).await
    }

    /// Finishes an upload.
    pub async fn finish(&mut self, id: &str) -> Answer {
        self.request("attachment.finish", named(id)).await
    }

    /// Uploads these bytes and returns the upload's id.
    pub async fn upload(&mut self, chat: &Chat, name: &str, data: &[u8]) -> String {
        let begun = self.begin_upload(chat, name, data).await.expect("an upload begins");
        let id = string(&begun["attachment_id"]);
        for (index, part) in data.chunks(400_000).enumerate() {
            self.append(&id, index * 400_000, part).await.expect("bytes are appended");
        }
        self.finish(&id).await.expect("an upload is finished");
        id
    }

    /// Admits a prompt with attachments.
    pub async fn add_with(
        &mut self,
        chat: &Chat,
        admission_id: &str,
        content: &str,
        attachments: Vec<Value>,
    ) -> Answer {
        let mut request = chat.prompt(admission_id, content);
        merge(&mut request, json!({ "attachments": attachments }));
        self.request("message.queue.add", request).await
    }

    /// Reads all bytes of an attachment.
    pub async fn bytes_of(&mut self, id: &str) -> Result<Vec<u8>, crate::client::Refusal> {
        let mut data = Vec::new();
        loop {
            let part = json!({"attachment_id": id, "offset": data.len(), "length": 300_000});
            let answer = self.request("attachment.read", part).await?;
            data.extend(STANDARD.decode(string(&answer["data"])).expect("base64"));
            if answer["eof"] == true {
                return Ok(data);
            }
        }
    }
}
