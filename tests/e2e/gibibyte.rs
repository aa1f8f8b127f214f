//! A gibibyte of attachments through a server that keeps none of it in memory.

use std::fs;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use usher_tests::chat::{accepted, string};
use usher_tests::client::Refusal;
use usher_tests::scene::{Scene, let_passes_run};
use usher_tests::server::Launch;
use usher_tests::uploads::{base64, named, names};

/// What one message may bring.
const MESSAGE_BYTES: usize = 104_857_600;
/// What one request may append.
const PART_BYTES: usize = 524_288;
/// Messages: a little more than a gibibyte together.
const MESSAGES: u8 = 11;
/// What the server may take, KiB.
const MEMORY_KIB_MAX: u64 = 64 * 1_024;

/// The most memory that the server ever had, KiB.
fn peak_kib(scene: &Scene) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", scene.server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Uploads so many bytes, all alike.
async fn upload(scene: &mut Scene, byte: u8, size: usize) -> String {
    let part = vec![byte; PART_BYTES];
    let mut hash = Sha256::new();
    for at in (0..size).step_by(PART_BYTES) {
        hash.update(&part[..PART_BYTES.min(size - at)]);
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let changes = json!({"size_bytes": size, "sha256": hash});
    let begun = scene.client.begin_upload_with(&scene.chat, "large", &[], changes).await.unwrap();
    let id = string(&begun["attachment_id"]);
    let whole = base64(&part);
    for at in (0..size).step_by(PART_BYTES) {
        let left = PART_BYTES.min(size - at);
        let data = if left == PART_BYTES { whole.clone() } else { base64(&part[..left]) };
        let fields = json!({"attachment_id": id, "offset": at, "data": data});
        scene.client.ok("attachment.append", fields).await;
    }
    scene.client.finish(&id).await.unwrap();
    id
}

#[tokio::test]
async fn a_gibibyte_in_messages_as_large_as_they_may_be_takes_little_memory_and_leaves_nothing() {
    let mut scene = Scene::of(&Launch::new().config("dispatch_pass = \"20ms\"")).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let mut last = String::new();
    for n in 0..MESSAGES {
        last = upload(&mut scene, n, MESSAGE_BYTES).await;
        let id = format!("k{n}");
        let added = scene.client.add_with(&chat, &id, "look", vec![named(&last)]).await;
        assert_eq!(accepted(&added).1, "admitted");
    }
    // One byte more in one message is one too many, and stays an upload.
    let (half, more) = (MESSAGE_BYTES / 2, MESSAGE_BYTES / 2 + 1);
    let (half, more) = (upload(&mut scene, 100, half).await, upload(&mut scene, 101, more).await);
    let both = vec![named(&half), named(&more)];
    let refused = scene.client.add_with(&chat, "more", "look", both).await;
    let details = json!({"field": "attachments", "limit": MESSAGE_BYTES, "attachment_index": 1});
    assert_eq!(refused, Err(Refusal::new("validation", details)));
    for id in [&half, &more] {
        scene.client.ok("attachment.abort", named(id)).await;
    }
    let merged = scene.client.entries(&chat).await;
    assert_eq!((merged.len(), names(&merged[0])), (MESSAGES.into(), vec!["large".to_owned()]));
    let merge = scene.ask("message.queue.merge", json!({"entry_id": merged[1]["id"]})).await;
    let overflow = Refusal::new("merge_overflow", json!({"limit": "attachment_bytes_max"}));
    assert_eq!(merge, Err(overflow));
    // One of them goes to an agent, too.
    let now = json!({"scope": "entry", "entry_id": merged[0]["id"], "resume": false});
    scene.act("message.queue.send_now", now).await;
    scene.idle().await;
    let end = json!({"attachment_id": last, "offset": MESSAGE_BYTES - 2, "length": 10});
    let end = scene.client.ok("attachment.read", end).await;
    assert_eq!(end, json!({"data": base64(&[MESSAGES - 1; 2]), "eof": true}));

    let peak = peak_kib(&scene);
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    let_passes_run(&scene.server).await;
    let folder = scene.server.launch().data_dir().join("attachments");
    for name in ["incoming", "turns"] {
        assert_eq!(fs::read_dir(folder.join(name)).unwrap().count(), 0, "{name}");
    }
}
