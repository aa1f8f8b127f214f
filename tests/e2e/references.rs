//! What prompts point at: files of the task's directory, sessions, tasks, and context files.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, string};
use usher_tests::client::{Answer, Client, Refusal, merge};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

/// An agent that says what it got.
const CAT: &str = "[agents.cat]\nkind = \"command\"\ncommand = \"cat\"\n";

/// A parked session in a directory with `src/main.rs`, and `outside` beside that directory.
async fn scene_in(config: &str) -> Scene {
    let launch = Launch::new().config(&format!("{config}{CAT}"));
    let directory = launch.home().path("work");
    fs::create_dir(directory.join("src")).unwrap();
    fs::write(directory.join("src/main.rs"), "fn main() {}").unwrap();
    fs::write(launch.home().path("outside"), "secret").unwrap();
    symlink(launch.home().path("outside"), directory.join("leak")).unwrap();
    symlink("src/main.rs", directory.join("link")).unwrap();
    symlink("nowhere", directory.join("broken")).unwrap();
    let task = json!({"agent": "cat", "workspace_dir": directory});
    let mut scene = Scene::with(&launch, task).await;
    scene.park().await;
    scene
}

async fn add(client: &mut Client, chat: &Chat, id: &str, fields: Value) -> Answer {
    let mut request = chat.prompt(id, "look");
    merge(&mut request, fields);
    client.request("message.queue.add", request).await
}

fn file(id: &str) -> Value {
    json!({"entity_references": [{"kind": "file", "id": id}]})
}

fn context(path: &str) -> Value {
    json!({"context_files": [{"path": path, "name": "n"}]})
}

#[tokio::test]
async fn what_a_prompt_points_at_goes_with_it_to_the_agent_and_into_the_transcript() {
    let mut scene = scene_in("").await;
    let chat = scene.chat.clone();
    let fields = json!({
        "entity_references": [
            {"kind": "file", "id": "src/main.rs", "title": "main"},
            {"kind": "session", "id": chat.session_id},
            {"kind": "task", "id": chat.task_id, "title": "this"},
        ],
        "context_files": [
            {"path": "src", "name": "sources", "is_directory": true},
            {"path": "link", "name": "link"},
        ],
    });
    let added = add(&mut scene.client, &chat, "k", fields).await.unwrap();
    let metadata = &added["metadata"];
    assert_eq!(metadata["entity_references"][1]["title"], Value::Null);
    assert_eq!(metadata["context_files"][1]["is_directory"], false);
    let entry = scene.client.entries(&chat).await.remove(0);
    assert_eq!(&entry["metadata"], metadata);
    let mut scene = scene.restarted().await;
    scene.run_all().await;
    let transcript = scene.client.transcript(&chat).await;
    for list in ["entity_references", "context_files"] {
        assert_eq!(transcript[0]["metadata"][list], metadata[list]);
    }
    let said = string(&by_role(&transcript, "agent")[0]["content"]);
    let lists = format!(
        "look\n\nContext:\n- src (directory)\n- link\nReferences:\n- file src/main.rs (main)\n\
         - session {}\n- task {} (this)\n",
        chat.session_id, chat.task_id
    );
    assert_eq!(said, lists);
}

#[tokio::test]
async fn what_is_missing_foreign_or_outside_gets_one_answer_and_stores_nothing() {
    let mut scene = scene_in("").await;
    let chat = scene.chat.clone();
    let token = scene.server.launch().add_user("eve");
    let mut eve = Client::connect_as(&scene.server, &token).await;
    let theirs = Chat::parked(&mut eve).await;
    let outside = scene.server.launch().home().path("outside");
    let to = |kind: &str, id: &str| json!({"entity_references": [{"kind": kind, "id": id}]});
    for fields in [
        file("nothing"),
        file("../outside"),
        file("src/../../outside"),
        file(outside.to_str().unwrap()),
        file("/etc/passwd"),
        file("leak"),
        file("broken"),
        context("nothing"),
        context("../outside"),
        context("leak"),
        context(".."),
        to("session", &theirs.session_id),
        to("session", &chat.task_id),
        to("session", "no id at all"),
        to("task", &theirs.task_id),
        to("task", &chat.session_id),
    ] {
        let answer = add(&mut scene.client, &chat, "k", fields.clone()).await;
        assert_eq!(answer, refused("reference_invalid"), "{fields}");
    }
    // A task without a directory has no files.
    let bare = Chat::parked(&mut scene.client).await;
    let answer = add(&mut scene.client, &bare, "k", file("src/main.rs")).await;
    assert_eq!(answer, refused("reference_invalid"));
    assert_eq!(scene.client.queue(&chat).await["count"], 0);
    accepted(&add(&mut scene.client, &chat, "k", file("src/main.rs")).await);
}

#[tokio::test]
async fn only_the_first_admission_looks_and_a_replay_does_not() {
    let mut scene = scene_in("").await;
    let chat = scene.chat.clone();
    let first = add(&mut scene.client, &chat, "k", file("src/main.rs")).await.unwrap();
    fs::remove_dir_all(scene.server.launch().home().path("work/src")).unwrap();
    let mut replay = add(&mut scene.client, &chat, "k", file("src/main.rs")).await.unwrap();
    assert_eq!(replay["admission"]["outcome"], "replayed");
    replay["admission"]["outcome"] = json!("admitted");
    assert_eq!(replay, first);
    let other = add(&mut scene.client, &chat, "k2", file("src/main.rs")).await;
    assert_eq!(other, refused("reference_invalid"));
}

#[tokio::test]
async fn folds_and_merges_name_each_thing_once_within_the_bounds() {
    let mut scene = scene_in("auto_merge_enabled = true\n").await;
    let chat = scene.chat.clone();
    add(&mut scene.client, &chat, "k1", file("src/main.rs")).await.unwrap();
    let both = json!({
        "entity_references": [
            {"kind": "file", "id": "link"},
            {"kind": "file", "id": "src/main.rs", "title": "again"},
        ],
        "context_files": [{"path": "src", "name": "n"}],
    });
    let folded = add(&mut scene.client, &chat, "k2", both).await.unwrap();
    assert_eq!(folded["admission"]["outcome"], "folded");
    let named = json!([
        {"kind": "file", "id": "src/main.rs", "title": null},
        {"kind": "file", "id": "link", "title": null},
    ]);
    assert_eq!(folded["metadata"]["entity_references"], named);
    // A hundred is all there may be of references.
    let directory = scene.server.launch().home().path("work");
    for n in 0..99 {
        fs::write(directory.join(format!("f{n}")), "").unwrap();
    }
    let many: Vec<Value> =
        (0..99).map(|n| json!({"kind": "file", "id": format!("f{n}")})).collect();
    let many = add(&mut scene.client, &chat, "k3", json!({"entity_references": many})).await;
    let many = accepted(&many);
    assert_eq!(many.1, "admitted");
    let merged = scene.ask("message.queue.merge", json!({"entry_id": many.0})).await;
    assert_eq!(merged, Err(Refusal::new("merge_overflow", json!({"limit": "references_max"}))));
}

#[tokio::test]
async fn a_list_that_is_too_long_or_a_name_that_is_none_is_a_wrong_field() {
    let mut scene = scene_in("").await;
    let chat = scene.chat.clone();
    let wrong = |field: &str, details: Value| {
        let mut all = json!({ "field": field });
        merge(&mut all, details);
        Err(Refusal::new("validation", all))
    };
    let reference = json!({"kind": "file", "id": "src/main.rs"});
    let file = json!({"path": "src", "name": "n"});
    let long = "x".repeat(513);
    for (fields, answer) in [
        (
            json!({"entity_references": vec![reference; 101]}),
            wrong("entity_references", json!({"limit": 100})),
        ),
        (json!({"context_files": vec![file; 201]}), wrong("context_files", json!({"limit": 200}))),
        (
            json!({"entity_references": [{"kind": "file", "id": long}]}),
            wrong("entity_references[0].id", json!({"limit": 512})),
        ),
        (
            json!({"entity_references": [{"kind": "file", "id": ""}]}),
            wrong("entity_references[0].id", json!({})),
        ),
        (
            json!({"entity_references": [{"kind": "film", "id": "x"}]}),
            wrong("entity_references[0].kind", json!({})),
        ),
        (
            json!({"context_files": [{"path": "a\0b", "name": "n"}]}),
            wrong("context_files[0].path", json!({})),
        ),
        (json!({"context_files": [{"path": "src"}]}), wrong("context_files[0].name", json!({}))),
    ] {
        assert_eq!(add(&mut scene.client, &chat, "k", fields.clone()).await, answer, "{fields}");
    }
    // More of it than a receipt can repeat.
    let winding = json!({"path": format!("src{}", "/.".repeat(200)), "name": "n"});
    let heavy = json!({"context_files": vec![winding; 200]});
    let answer = add(&mut scene.client, &chat, "k", heavy).await;
    assert_eq!(answer, wrong("payload", json!({"limit": 65_536})));
    assert_eq!(scene.client.queue(&chat).await["count"], 0);
}

#[tokio::test]
async fn an_edit_sets_references_keeps_context_and_is_refused_what_is_not_there() {
    let mut scene = scene_in("").await;
    let chat = scene.chat.clone();
    let mut fields = file("src/main.rs");
    merge(&mut fields, context("src"));
    let entry = add(&mut scene.client, &chat, "k", fields).await.unwrap();
    let begun = scene.act("message.queue.edit.begin", json!({"entry_id": entry["id"]})).await;
    let save = |operation: &str, revision: u64, references: Value| {
        json!({
            "entry_id": entry["id"], "lease_id": begun["lease_id"], "operation_id": operation,
            "expected_target_revision": revision, "content": "edited",
            "entity_references": references,
        })
    };
    let nowhere = save("o1", 1, json!([{"kind": "file", "id": "../outside"}]));
    assert_eq!(scene.ask("message.queue.update", nowhere).await, refused("reference_invalid"));
    let link = json!([{"kind": "file", "id": "link", "title": null}]);
    scene.act("message.queue.update", save("o2", 1, link.clone())).await;
    let metadata = scene.client.entries(&chat).await[0]["metadata"].clone();
    assert_eq!(metadata["entity_references"], link);
    assert_eq!(metadata["context_files"], entry["metadata"]["context_files"]);
    scene.act("message.queue.update", save("o3", 2, Value::Null)).await;
    assert_eq!(scene.client.entries(&chat).await[0]["metadata"], metadata);
    scene.act("message.queue.update", save("o4", 3, json!([]))).await;
    assert_eq!(scene.client.entries(&chat).await[0]["metadata"]["entity_references"], json!([]));
}
