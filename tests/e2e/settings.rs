//! What users choose about their queues, and what the server's operator fixes.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::server::Launch;

const CAP: &str = "USHER_QUEUE_MAX_PER_SESSION";

fn setting(value: impl Into<Value>, source: &str) -> Value {
    let locked = matches!(source, "environment" | "configuration");
    json!({"value": value.into(), "source": source, "locked": locked})
}

async fn set(client: &mut Client, fields: Value) -> Value {
    client.ok("settings.set", fields).await
}

#[tokio::test]
async fn the_environment_beats_the_file_beats_what_was_saved_beats_the_default() {
    let free = Launch::new().without_env(CAP).folding();
    let server = free.start();
    let mut client = Client::connect(&server).await;
    let nothing =
        json!({"max_per_session": null, "merge_enabled": null, "auto_merge_enabled": null});
    let effective = json!({
        "max_per_session": setting(10, "default"),
        "merge_enabled": setting(true, "default"),
        "auto_merge_enabled": setting(true, "default"),
    });
    let reply = client.ok("settings.get", json!({})).await;
    assert_eq!(reply, json!({"settings": nothing, "effective": effective}));

    let reply = set(&mut client, json!({"max_per_session": 2, "merge_enabled": false})).await;
    let saved = json!({"max_per_session": 2, "merge_enabled": false, "auto_merge_enabled": null});
    let effective = json!({
        "max_per_session": setting(2, "setting"),
        "merge_enabled": setting(false, "setting"),
        "auto_merge_enabled": setting(true, "default"),
    });
    assert_eq!(reply, json!({"settings": saved, "effective": effective}));

    let (_, launch) = server.terminate();
    let file = "max_per_session = 3\nmerge_enabled = true";
    let server = launch.clone().config(file).start();
    let mut client = Client::connect(&server).await;
    let reply = client.ok("settings.get", json!({})).await;
    assert_eq!(reply["settings"], saved);
    assert_eq!(reply["effective"]["max_per_session"], setting(3, "configuration"));
    assert_eq!(reply["effective"]["merge_enabled"], setting(true, "configuration"));
    server.terminate();

    let server = launch.config(file).env(CAP, "4").start();
    let mut client = Client::connect(&server).await;
    let reply = client.ok("settings.get", json!({})).await;
    assert_eq!(reply["effective"]["max_per_session"], setting(4, "environment"));
    let chat = Chat::create(&mut client).await;
    let queue = client.queue(&chat).await;
    assert_eq!((&queue["max"], &queue["merge_enabled"]), (&json!(4), &json!(true)));
}

#[tokio::test]
async fn a_locked_key_is_forbidden_and_takes_the_whole_request_with_it() {
    let server = Launch::new().env(CAP, "5").folding().start();
    let mut client = Client::connect(&server).await;
    let before = client.ok("settings.get", json!({})).await;
    let both = json!({"max_per_session": 7, "merge_enabled": false});
    let refused = client.request("settings.set", both).await;
    assert_eq!(refused, Err(Refusal::new("forbidden", json!({}))));
    assert_eq!(client.ok("settings.get", json!({})).await, before);
}

#[tokio::test]
async fn c132_a_patch_changes_only_what_it_names() {
    let server = Launch::new().without_env(CAP).folding().start();
    let mut client = Client::connect(&server).await;
    set(&mut client, json!({"merge_enabled": false, "auto_merge_enabled": false})).await;
    let changed = set(&mut client, json!({"max_per_session": 0, "merge_enabled": null})).await;
    let saved = json!({"max_per_session": 0, "merge_enabled": false, "auto_merge_enabled": false});
    assert_eq!(changed["settings"], saved);
    assert_eq!(set(&mut client, json!({})).await, changed);
    let server = server.kill().start();
    let mut client = Client::connect(&server).await;
    assert_eq!(client.ok("settings.get", json!({})).await, changed);
}

#[tokio::test]
async fn c142_a_cap_that_is_no_cap_is_refused_with_its_field() {
    let server = Launch::new().without_env(CAP).start();
    let mut client = Client::connect(&server).await;
    let before = client.ok("settings.get", json!({})).await;
    for cap in ["-1", "1.5", "1e3", "\"10\"", "true", "[]", "99999999999999999999999"] {
        let cap: Value = serde_json::from_str(cap).unwrap();
        let refused = client.request("settings.set", json!({"max_per_session": cap})).await;
        let field = json!({"field": "max_per_session"});
        assert_eq!(refused, Err(Refusal::new("validation", field)), "{cap}");
    }
    for cap in [1_001, 4_294_967_296_u64] {
        let refused = client.request("settings.set", json!({"max_per_session": cap})).await;
        let details = json!({"field": "max_per_session", "limit": 1_000});
        assert_eq!(refused, Err(Refusal::new("validation", details)));
    }
    let refused = client.request("settings.set", json!({"merge_enabled": 1})).await;
    assert_eq!(refused, Err(Refusal::new("validation", json!({"field": "merge_enabled"}))));
    assert_eq!(client.ok("settings.get", json!({})).await, before);
}

#[tokio::test]
async fn a_new_cap_counts_at_once_trims_nothing_and_is_told_to_who_watches() {
    let server = Launch::new().without_env(CAP).start();
    let mut client = Client::connect(&server).await;
    let mut watcher = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    for id in ["a", "b", "c"] {
        client.admit(&chat, id, id).await;
    }
    let before = watcher.subscribe(&chat).await["queue"].clone();
    set(&mut client, json!({"max_per_session": 2})).await;
    let told = watcher.notified("message.queue.status_changed", |_| true).await;
    assert_eq!((&told["max"], &told["count"]), (&json!(2), &json!(3)));
    assert_eq!(told["queue_revision"], before["queue_revision"]);
    let full = Refusal::new("queue_full", json!({"queue_size": 3, "max": 2}));
    assert_eq!(client.add(&chat, "d", "d").await, Err(full));
    set(&mut client, json!({"max_per_session": 4})).await;
    client.admit(&chat, "d", "d").await;
}

#[tokio::test]
async fn folding_and_merging_obey_what_was_saved() {
    let server = Launch::new().folding().start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "a", "a").await;
    client.admit(&chat, "b", "b").await;
    set(&mut client, json!({"auto_merge_enabled": false, "merge_enabled": false})).await;
    let apart = client.admit(&chat, "c", "c").await;
    assert_eq!(contents(&client.entries(&chat).await), ["a\n\nb", "c"]);
    let merge = chat.with(json!({"entry_id": apart}));
    let refused = client.request("message.queue.merge", merge).await;
    assert_eq!(refused, Err(Refusal::new("merge_disabled", json!({}))));
}
