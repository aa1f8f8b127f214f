//! Edit leases as tests hold them.

use serde_json::json;

use crate::chat::{Chat, string};
use crate::client::{Answer, Client};
use crate::scene::Scene;
use crate::server::Launch;

/// A lease as its holder knows it.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The entry.
    pub entry_id: String,
    /// Its name.
    pub lease_id: String,
    /// The entry's revision that the next save expects.
    pub revision: u64,
}

impl Lease {
    /// The same, and its holder has seen another revision.
    #[must_use]
    pub fn at(&self, revision: u64) -> Self {
        Self { revision, ..self.clone() }
    }
}

/// Asks for a lease.
pub async fn begin(client: &mut Client, chat: &Chat, entry: &str) -> Answer {
    client.request("message.queue.edit.begin", chat.with(json!({"entry_id": entry}))).await
}

/// Asks for one that has to be granted.
pub async fn editing(client: &mut Client, chat: &Chat, entry: &str) -> Lease {
    let begun = begin(client, chat, entry).await.expect("nobody edits it");
    Lease {
        entry_id: entry.to_owned(),
        lease_id: string(&begun["lease_id"]),
        revision: begun["target_revision"].as_u64().expect("a counter"),
    }
}

/// Asks for a longer life.
pub async fn renew(client: &mut Client, chat: &Chat, lease: &Lease) -> Answer {
    client.request("message.queue.edit.renew", chat.with(named(lease))).await
}

/// Ends it.
pub async fn end(client: &mut Client, chat: &Chat, lease: &Lease, dispatch: bool) -> Answer {
    let mut fields = named(lease);
    fields["dispatch_if_auto_run"] = json!(dispatch);
    client.request("message.queue.edit.end", chat.with(fields)).await
}

/// Saves an edit under it.
pub async fn save(
    client: &mut Client,
    chat: &Chat,
    lease: &Lease,
    operation: &str,
    content: &str,
) -> Answer {
    let mut fields = named(lease);
    fields["operation_id"] = json!(operation);
    fields["expected_target_revision"] = json!(lease.revision);
    fields["content"] = json!(content);
    client.request("message.queue.update", chat.with(fields)).await
}

fn named(lease: &Lease) -> serde_json::Value {
    json!({"entry_id": lease.entry_id, "lease_id": lease.lease_id})
}

/// Returns the revision that a save made.
pub fn saved(answer: &Answer) -> u64 {
    let saved = answer.as_ref().expect("the edit is saved");
    saved["target_revision"].as_u64().expect("a counter")
}

/// Waits until the client is told that a lease is over: which, and why.
pub async fn lost(client: &mut Client) -> (String, String) {
    let told = client.notified("message.queue.edit.lost", |_| true).await;
    (string(&told["lease_id"]), string(&told["reason"]))
}

/// A parked session with these prompts waiting, another link of the same user, and their ids.
pub async fn waiting(launch: &Launch, texts: &[&str]) -> (Scene, Client, Vec<String>) {
    let mut scene = Scene::of(launch).await;
    scene.park().await;
    let ids = scene.admit_all(texts).await;
    let mut other = Client::connect(&scene.server).await;
    other.subscribe(&scene.chat).await;
    (scene, other, ids)
}
