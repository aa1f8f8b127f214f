//! Attachments whose bytes are gone, and a disk that has no room for them.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use usher_tests::binaries;
use usher_tests::chat::{Chat, accepted, by_role};
use usher_tests::client::Refusal;
use usher_tests::disk::SmallDisk;
use usher_tests::scene::{Scene, refused};
use usher_tests::server::{Launch, Server};
use usher_tests::uploads::{inline, named, sha256};

/// Where the bytes of an attachment are.
fn object(server: &Server, data: &[u8]) -> PathBuf {
    let name = sha256(data);
    server.launch().data_dir().join("attachments/objects").join(&name[..2]).join(&name[2..])
}

#[tokio::test]
async fn c102_a_prompt_whose_file_is_gone_is_not_sent_without_it_and_others_go_on() {
    let mut scene = Scene::new().await;
    let chat = scene.chat.clone();
    scene.park().await;
    let data = b"the file of the prompt";
    let added = scene.client.add_with(&chat, "k", "look", vec![inline("n", data)]).await;
    let path = object(&scene.server, data);
    fs::rename(&path, path.with_extension("away")).unwrap();
    let mut scene = scene.restarted().await;
    scene.run_all().await;
    // Nothing went to the agent; it waits at its place, and everybody sees why.
    let entries = scene.client.entries(&chat).await;
    assert_eq!(entries[0]["id"], accepted(&added).0.as_str());
    assert_eq!(scene.auto_run().await, (json!(false), json!("failed")));
    let (notice, text) = scene.last_notice().await;
    assert_eq!(notice, "start_failed");
    assert!(text.contains("attachments"), "{text}");
    assert_eq!(scene.prompts().await, [""; 0]);
    let other = Chat::watched(&mut scene.client).await;
    scene.client.admit(&other, "o", "other").await;
    scene.client.until_settled(&other).await;
    assert_eq!(by_role(&scene.client.transcript(&other).await, "user").len(), 1);
    // With its file it goes.
    fs::rename(path.with_extension("away"), &path).unwrap();
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["look"]);
}

#[tokio::test]
async fn a_full_disk_takes_no_upload_and_loses_nothing_that_was_accepted() {
    let launch = Launch::new();
    let disk = SmallDisk::at(&launch.data_dir(), 48);
    let launch = launch.under(disk.seen());
    let mut scene = Scene::of(&launch).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let kept = scene.client.upload(&chat, "kept", b"kept").await;
    accepted(&scene.client.add_with(&chat, "k1", "A", vec![named(&kept)]).await);
    let large = vec![7; 20_000_000];
    let begun = scene.client.begin_upload(&chat, "large", &large).await.unwrap();
    let id = begun["attachment_id"].as_str().unwrap().to_owned();
    disk.fill("ballast");
    let mut at = 0;
    let full = loop {
        match scene.client.append(&id, at, &large[at..at + 400_000]).await {
            Ok(answer) => at = answer["received_bytes"].as_u64().unwrap() as usize,
            Err(refusal) => break refusal,
        }
    };
    let unavailable = Refusal::new("queue_admission_unavailable", json!({"retry_after_ms": 1_000}));
    assert_eq!(full, unavailable);
    let inside = scene.client.add_with(&chat, "k2", "B", vec![inline("n", &large[..1_000_000])]);
    assert_eq!(inside.await, Err(unavailable));
    assert_eq!(scene.client.bytes_of(&kept).await.unwrap(), b"kept");
    // With room again, the same upload goes on where it was.
    disk.free("ballast");
    for start in (at..large.len()).step_by(400_000) {
        scene.client.append(&id, start, &large[start..start + 400_000]).await.unwrap();
    }
    scene.client.finish(&id).await.unwrap();
    let inside = vec![inline("n", &large[..1_000_000]), named(&id)];
    accepted(&scene.client.add_with(&chat, "k2", "B", inside).await);
    assert_eq!(scene.client.queue(&chat).await["count"], 2);
    let data_dir = scene.server.launch().data_dir();
    let args = ["check", "--data-dir", data_dir.to_str().unwrap()];
    let output = disk.run(binaries::usherd(), &args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scene.client.finish(&id).await, refused("attachment_unavailable"));
}
