//! Attachments: uploads, who owns them, and that they reach the agent on every way.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, string};
use usher_tests::client::{Answer, Client, Refusal, merge, timed};
use usher_tests::lease_clock::LeaseClock;
use usher_tests::scene::{Scene, let_passes_run, refused};
use usher_tests::server::Launch;
use usher_tests::uploads::{base64, ids, inline, named, names, sha256};

/// An agent that says what it got: its prompt, and what is in the files that the prompt names.
const READER: &str =
    "[agents.reader]\nkind = \"command\"\ncommand = \"sh\"\nmodels = [\"m\"]\nargs = [\"-c\", '''
cat > prompt; cat prompt; echo
sed -n 's/^- \\(.*\\) (.*)$/\\1/p' prompt | while read -r path; do cat \"$path\"; echo; done''']\n";

/// A parked session of an agent that reads its files, in a directory of its own.
async fn reading() -> Scene {
    let launch = Launch::new().config(READER);
    let directory = launch.home().path("work");
    let task = json!({"agent": "reader", "workspace_dir": directory});
    let mut scene = Scene::with(&launch, task).await;
    scene.park().await;
    scene
}

fn unavailable(index: usize) -> Answer {
    Err(Refusal::new("attachment_unavailable", json!({"attachment_index": index})))
}

fn spent() -> Answer {
    refused("attachment_unavailable")
}

fn too_much(field: &str, details: Value) -> Answer {
    let mut all = json!({ "field": field });
    merge(&mut all, details);
    Err(Refusal::new("validation", all))
}

/// Everything that the agent said, in order.
async fn answers(scene: &mut Scene) -> String {
    let transcript = scene.client.transcript(&scene.chat).await;
    let said = by_role(&transcript, "agent");
    said.iter().map(|message| string(&message["content"])).collect::<Vec<_>>().join("\n")
}

async fn prompt_names(scene: &mut Scene) -> Vec<Vec<String>> {
    let transcript = scene.client.transcript(&scene.chat).await;
    by_role(&transcript, "user").iter().map(|message| names(&message["metadata"])).collect()
}

#[tokio::test]
async fn an_upload_goes_on_after_a_lost_reply_and_ends_in_the_transcript() {
    let mut scene = reading().await;
    let (chat, data) = (scene.chat.clone(), b"hello, agent".as_slice());
    let begun = scene.client.begin_upload(&chat, "My Report.pdf", data).await.unwrap();
    assert_eq!(begun["received_bytes"], 0);
    let id = string(&begun["attachment_id"]);
    let received = |n: u64| Ok::<_, Refusal>(json!({ "received_bytes": n }));
    assert_eq!(scene.client.append(&id, 0, &data[..5]).await, received(5));
    // The reply was lost: the same again, and more than that.
    assert_eq!(scene.client.append(&id, 0, &data[..5]).await, received(5));
    let gap = too_much("offset", json!({"received_bytes": 5}));
    assert_eq!(scene.client.append(&id, 7, &data[7..]).await, gap);
    let short = too_much("attachment_id", json!({"received_bytes": 5}));
    assert_eq!(scene.client.finish(&id).await, short);
    // What was received outlives the server.
    let mut scene = scene.restarted().await;
    assert_eq!(scene.client.append(&id, 3, &data[3..]).await, received(12));
    let finished = Ok(json!({"attachment_id": id, "size_bytes": 12}));
    assert_eq!(scene.client.finish(&id).await, finished);
    assert_eq!(scene.client.finish(&id).await, finished);
    assert_eq!(scene.client.append(&id, 0, &data[..5]).await, received(12));
    assert_eq!(scene.client.bytes_of(&id).await.unwrap(), data);

    let added = scene.client.add_with(&chat, "k", "look", vec![named(&id)]).await.unwrap();
    let shown = json!({
        "attachment_id": id, "type": "resource", "name": "My Report.pdf",
        "mime_type": "text/plain", "size_bytes": 12, "delivery_mode": "prompt",
    });
    assert_eq!(added["attachments"], json!([shown]));
    assert_eq!(scene.client.entries(&chat).await[0]["attachments"], json!([shown]));
    for gone in [scene.client.finish(&id).await, scene.client.append(&id, 0, b"x").await] {
        assert_eq!(gone, spent());
    }
    scene.run_all().await;
    let transcript = scene.client.transcript(&chat).await;
    assert_eq!(transcript[0]["metadata"]["attachments"], json!([shown]));
    let said = answers(&mut scene).await;
    assert!(said.ends_with("hello, agent\n"), "{said}");
    assert_eq!(scene.client.bytes_of(&id).await.unwrap(), data);
}

#[tokio::test]
async fn c096_c101_every_file_reaches_the_agent_and_the_transcript_on_every_way() {
    let launch = Launch::new().config(&format!("auto_merge_enabled = true\n{READER}"));
    let directory = launch.home().path("work");
    let task = json!({"agent": "reader", "workspace_dir": directory});
    let mut scene = Scene::with(&launch, task).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let upload = scene.client.upload(&chat, "My Report.pdf", b"first").await;
    let first = scene.client.add_with(&chat, "k1", "look", vec![named(&upload)]).await;
    // A fold.
    let second = scene.client.add_with(&chat, "k2", "too", vec![inline("b c.txt", b"second")]);
    let second = accepted(&second.await);
    assert_eq!(second, (accepted(&first).0, "folded".to_owned()));
    // Another model: an entry of its own, which is merged by hand.
    let mut other = chat.prompt("k3", "and");
    let carried = json!({"model": "m", "attachments": [inline("b c.txt", b"third")]});
    merge(&mut other, carried);
    let third = scene.client.ok("message.queue.add", other).await;
    scene.act("message.queue.merge", json!({"entry_id": third["id"]})).await;
    let together = ["My Report.pdf", "b c.txt", "b c.txt"];
    let entry = scene.client.entries(&chat).await.remove(0);
    assert_eq!(names(&entry), together);
    // An edit of the text alone keeps them.
    let begun = scene.act("message.queue.edit.begin", json!({"entry_id": entry["id"]})).await;
    let lease = json!({"entry_id": entry["id"], "lease_id": begun["lease_id"]});
    let mut save = lease.clone();
    let fields = json!({
        "operation_id": "o", "expected_target_revision": entry["target_revision"],
        "content": "one line",
    });
    merge(&mut save, fields);
    scene.act("message.queue.update", save).await;
    scene.act("message.queue.edit.end", lease).await;
    // A removal that is undone, another order, a restart, and send now.
    let mut fourth = chat.prompt("k4", "/last");
    merge(&mut fourth, json!({"model": "m", "attachments": [inline("d", b"fourth")]}));
    let last = string(&scene.client.ok("message.queue.add", fourth).await["id"]);
    let removed = scene.act("message.queue.remove", json!({"entry_id": entry["id"]})).await;
    scene.act("message.queue.restore", json!({"undo_id": removed["undo_id"]})).await;
    scene.act("message.queue.reorder", json!({"ordered_ids": [last, entry["id"]]})).await;
    let mut scene = scene.restarted().await;
    scene.act("message.queue.send_now", json!({"scope": "all", "resume": false})).await;
    scene.idle().await;
    assert_eq!(prompt_names(&mut scene).await, [["d", "My Report.pdf", "b c.txt", "b c.txt"]]);
    let said = answers(&mut scene).await;
    for part in ["/last", "one line", "/My Report.pdf (text/plain, 5 bytes)", "/b c.txt ("] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.ends_with("\nfourth\nfirst\nsecond\nthird\n"), "{said}");
    // The files of the turn are gone with it.
    let turns = scene.server.launch().data_dir().join("attachments/turns");
    assert_eq!(fs::read_dir(turns).unwrap().count(), 0);
}

#[tokio::test]
async fn c098_a_replay_is_answered_though_its_upload_is_claimed_and_nobody_else_gets_it() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let chat = scene.chat.clone();
    let upload = scene.client.upload(&chat, "u1", b"data").await;
    let both = || vec![inline("i", b"inline"), named(&upload)];
    let first = scene.client.add_with(&chat, "k1", "A", both()).await.unwrap();
    let mut replay = scene.client.add_with(&chat, "k1", "A", both()).await.unwrap();
    assert_eq!(replay["admission"]["outcome"], "replayed");
    replay["admission"]["outcome"] = json!("admitted");
    assert_eq!(replay, first);
    let count = |scene: &Value| scene["count"].clone();
    assert_eq!(count(&scene.client.queue(&chat).await), 1);
    let other_bytes = vec![inline("i", b"Inline"), named(&upload)];
    let other = scene.client.add_with(&chat, "k1", "A", other_bytes).await;
    assert_eq!(other, refused("queue_id_conflict"));
    assert_eq!(scene.client.add_with(&chat, "k2", "A", both()).await, unavailable(1));
    // The ID stays free, and the prompt goes without the spent one.
    let alone = scene.client.add_with(&chat, "k2", "A", vec![inline("i", b"inline")]).await;
    assert_eq!(accepted(&alone).1, "admitted");
    // It replays after the entry is gone, too.
    scene.act("message.queue.cancel", json!({})).await;
    let mut replay = scene.client.add_with(&chat, "k1", "A", both()).await.unwrap();
    replay["admission"]["outcome"] = json!("admitted");
    assert_eq!(replay, first);
}

/// Begins an edit of an entry that carries `u1`, with `u2` at hand; returns the entry, both uploads, and
/// the lease.
async fn edited(scene: &mut Scene) -> (String, String, String, Value) {
    let chat = scene.chat.clone();
    let u1 = scene.client.upload(&chat, "u1", b"one").await;
    let added = scene.client.add_with(&chat, "k", "B", vec![named(&u1)]).await;
    let (entry, _) = accepted(&added);
    let u2 = scene.client.upload(&chat, "u2", b"two").await;
    let begun = scene.act("message.queue.edit.begin", json!({"entry_id": entry})).await;
    (entry, u1, u2, begun)
}

#[tokio::test]
async fn c099_a_failed_save_frees_what_it_claimed_and_a_good_one_what_it_replaces() {
    let mut scene = Scene::of(&Launch::new().config("dispatch_pass = \"20ms\"")).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let (entry, u1, u2, begun) = edited(&mut scene).await;
    assert_eq!(ids(&begun["entry"]), std::slice::from_ref(&u1));
    let save = |operation: &str, revision: u64, attachments: Value| {
        json!({
            "entry_id": entry, "lease_id": begun["lease_id"], "operation_id": operation,
            "expected_target_revision": revision, "content": "B2", "attachments": attachments,
        })
    };
    let stale = scene.ask("message.queue.update", save("o1", 7, json!([named(&u2)]))).await;
    let conflict = Refusal::new("revision_conflict", json!({"target_revision": 1}));
    assert_eq!(stale, Err(conflict));
    // The second of two is not there: the first is claimed by nothing.
    let missing = json!([named(&u2), named("01890a5d-ac96-774b-bcce-b302099a8057")]);
    assert_eq!(scene.ask("message.queue.update", save("o2", 1, missing)).await, unavailable(1));
    let_passes_run(&scene.server).await;
    assert_eq!(scene.client.bytes_of(&u1).await.unwrap(), b"one");
    assert_eq!(scene.client.bytes_of(&u2).await.unwrap(), b"two");
    assert_eq!(ids(&scene.client.entries(&chat).await[0]), std::slice::from_ref(&u1));

    let good = save("o3", 1, json!([inline("new", b"three"), named(&u2)]));
    let saved = scene.act("message.queue.update", good.clone()).await;
    assert_eq!(saved["target_revision"], 2);
    // The lost reply: once, though the upload is claimed by now.
    assert_eq!(scene.act("message.queue.update", good).await, saved);
    let carried = scene.client.entries(&chat).await.remove(0);
    assert_eq!(names(&carried), ["new", "u2"]);
    let_passes_run(&scene.server).await;
    assert_eq!(scene.client.bytes_of(&u1).await, Err(spent().unwrap_err()));
    assert_eq!(scene.client.bytes_of(&ids(&carried)[0]).await.unwrap(), b"three");
    assert_eq!(scene.client.bytes_of(&u2).await.unwrap(), b"two");

    // Kept by its id, with another way to the agent; omitted: kept; empty: none; but not all blank.
    let path = json!({"attachment_id": u2, "delivery_mode": "path"});
    scene.act("message.queue.update", save("o4", 2, json!([path]))).await;
    let carried = scene.client.entries(&chat).await.remove(0);
    assert_eq!(carried["attachments"][0]["delivery_mode"], "path");
    // Omitted it is what it always is when it is omitted.
    scene.act("message.queue.update", save("o4b", 3, json!([named(&u2)]))).await;
    let carried = scene.client.entries(&chat).await.remove(0);
    assert_eq!(carried["attachments"][0]["delivery_mode"], "prompt");
    let mut blank = save("o5", 4, json!([]));
    blank["content"] = json!(" ");
    let refusal = scene.ask("message.queue.update", blank.clone()).await;
    assert_eq!(refusal, too_much("content", json!({})));
    blank["attachments"] = Value::Null;
    scene.act("message.queue.update", blank).await;
    scene.act("message.queue.update", save("o6", 5, json!([]))).await;
    assert_eq!(names(&scene.client.entries(&chat).await[0]), [""; 0]);
}

#[tokio::test]
async fn a_full_queue_leaves_an_upload_usable_and_folds_what_comes_inside_the_request() {
    let launch = Launch::new().folding().env("USHER_QUEUE_MAX_PER_SESSION", "1");
    let mut scene = Scene::of(&launch).await;
    scene.park().await;
    let chat = scene.chat.clone();
    scene.admit("A").await;
    let upload = scene.client.upload(&chat, "u", b"data").await;
    let full = scene.client.add_with(&chat, "k1", "B", vec![named(&upload)]).await;
    assert_eq!(full, Err(Refusal::new("queue_full", json!({"queue_size": 1, "max": 1}))));
    let folded = scene.client.add_with(&chat, "k2", "C", vec![inline("i", b"inline")]).await;
    assert_eq!(accepted(&folded).1, "folded");
    assert_eq!(scene.client.bytes_of(&upload).await.unwrap(), b"data");
    scene.act("message.queue.cancel", json!({})).await;
    let later = scene.client.add_with(&chat, "k1", "B", vec![named(&upload)]).await;
    assert_eq!(accepted(&later).1, "admitted");
}

#[tokio::test]
async fn what_would_be_too_much_together_stays_an_entry_of_its_own() {
    let launch = Launch::new().config("auto_merge_enabled = true");
    let mut scene = Scene::of(&launch).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let six = || (0..6).map(|n| inline(&format!("f{n}"), b"x")).collect::<Vec<_>>();
    accepted(&scene.client.add_with(&chat, "k1", "A", six()).await);
    let second = accepted(&scene.client.add_with(&chat, "k2", "B", six()).await);
    assert_eq!(second.1, "admitted");
    let merged = scene.ask("message.queue.merge", json!({"entry_id": second.0})).await;
    let overflow = |code: &str| Err(Refusal::new(code, json!({"limit": "attachments_max"})));
    assert_eq!(merged, overflow("merge_overflow"));
    let sent = scene.ask("message.queue.send_now", json!({"scope": "all"})).await;
    assert_eq!(sent, overflow("send_now_overflow"));
    let eleven = (0..11).map(|n| inline(&format!("f{n}"), b"x")).collect();
    let many = scene.client.add_with(&chat, "k3", "C", eleven).await;
    assert_eq!(many, too_much("attachments", json!({"limit": 10, "attachment_index": 10})));
}

#[tokio::test]
async fn whatever_is_wrong_with_an_attachment_is_named_and_nothing_is_stored() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let chat = scene.chat.clone();
    let with = |changes: Value| {
        let mut one = inline("a.png", b"x");
        merge(&mut one, changes);
        one
    };
    let wrong = |index: usize| too_much("attachments", json!({ "attachment_index": index }));
    for (one, answer) in [
        (json!({}), wrong(1)),
        (with(json!({"attachment_id": "u"})), wrong(1)),
        (with(json!({"data": "eA"})), wrong(1)),
        (with(json!({"data": "e A=="})), wrong(1)),
        (with(json!({"type": null})), wrong(1)),
        (with(json!({"name": null})), wrong(1)),
        (with(json!({"mime_type": null})), wrong(1)),
        (with(json!({"mime_type": "text"})), wrong(1)),
        (with(json!({"mime_type": "a/b\n"})), wrong(1)),
        (with(json!({"type": "image"})), wrong(1)),
        (json!({"attachment_id": "no id at all"}), unavailable(1)),
        (with(json!({"type": "film"})), too_much("attachments[1].type", json!({}))),
    ] {
        let both = vec![inline("ok", b"x"), one.clone()];
        assert_eq!(scene.client.add_with(&chat, "k", "A", both).await, answer, "{one}");
    }
    let large = vec![0; 5_300_000];
    let two = vec![inline("1", &large), inline("2", &large)];
    let limit = json!({"limit": 10_485_760, "attachment_index": 1});
    assert_eq!(scene.client.add_with(&chat, "k", "A", two).await, too_much("attachments", limit));
    for (changes, field) in [
        (json!({"sha256": "AB".repeat(32)}), "sha256"),
        (json!({"sha256": "ab"}), "sha256"),
        (json!({"size_bytes": -1}), "size_bytes"),
        (json!({"mime_type": ""}), "mime_type"),
        (json!({"type": "audio"}), "mime_type"),
        (json!({"name": "a\0"}), "name"),
    ] {
        let answer = scene.client.begin_upload_with(&chat, "n", b"x", changes).await;
        assert_eq!(answer, too_much(field, json!({})));
    }
    let answer =
        scene.client.begin_upload_with(&chat, "n", b"x", json!({"size_bytes": 104_857_601}));
    assert_eq!(answer.await, too_much("size_bytes", json!({"limit": 104_857_600})));
    let begun = scene.client.begin_upload(&chat, "n", b"four").await.unwrap();
    let id = string(&begun["attachment_id"]);
    let longer = scene.client.append(&id, 0, b"fours").await;
    assert_eq!(longer, too_much("data", json!({"limit": 4})));
    let part = vec![0; 524_289];
    assert_eq!(
        scene.client.append(&id, 0, &part).await,
        too_much("data", json!({"limit": 524_288}))
    );
    scene.client.append(&id, 0, b"Four").await.unwrap();
    assert_eq!(scene.client.finish(&id).await, too_much("sha256", json!({})));
    // It can never become what was announced: it is given up.
    assert_eq!(scene.client.append(&id, 4, b"").await, spent());
    assert_eq!(scene.client.queue(&chat).await["count"], 0);
    let accepted_now =
        scene.client.add_with(&chat, "k", "", vec![inline("../../a b.txt", b"")]).await;
    assert_eq!(names(accepted_now.as_ref().unwrap()), ["a b.txt"]);
}

#[tokio::test]
async fn c139_uploads_of_others_are_as_unknown_as_none() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let chat = scene.chat.clone();
    let ready = scene.client.upload(&chat, "u", b"secret").await;
    let claimed = scene.client.upload(&chat, "c", b"secret").await;
    accepted(&scene.client.add_with(&chat, "k1", "A", vec![named(&claimed)]).await);
    let token = scene.server.launch().add_user("eve");
    let mut eve = Client::connect_as(&scene.server, &token).await;
    let theirs = Chat::parked(&mut eve).await;
    let begun = eve.begin_upload(&chat, "n", b"x").await;
    assert_eq!(begun, refused("not_found"));
    for id in [&ready, &claimed, "01890a5d-ac96-774b-bcce-b302099a8057"] {
        assert_eq!(eve.append(id, 0, b"x").await, spent());
        assert_eq!(eve.finish(id).await, spent());
        assert_eq!(eve.request("attachment.abort", named(id)).await, spent());
        assert_eq!(eve.bytes_of(id).await, Err(spent().unwrap_err()));
        assert_eq!(eve.add_with(&theirs, "k", "A", vec![named(id)]).await, unavailable(0));
    }
    // Nor does an upload of one session serve another of the same user, or a wrong task.
    let other = Chat::parked(&mut scene.client).await;
    assert_eq!(scene.client.add_with(&other, "k", "A", vec![named(&ready)]).await, unavailable(0));
    let mixed = Chat { task_id: other.task_id.clone(), ..chat.clone() };
    assert_eq!(scene.client.begin_upload(&mixed, "n", b"x").await, refused("not_found"));
    accepted(&scene.client.add_with(&chat, "k2", "A", vec![named(&ready)]).await);
}

/// Every file below a folder.
fn files_in(folder: &Path) -> usize {
    let Ok(listed) = fs::read_dir(folder) else { return 0 };
    listed
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files_in(&path) } else { 1 })
        .sum()
}

/// Waits until an attachment is gone, and then until nothing of any is left.
async fn all_gone(scene: &mut Scene, id: &str) {
    let launch = scene.server.launch();
    let (folder, is_shared) = (launch.data_dir().join("attachments"), launch.home().database());
    let is_shared = is_shared.is_some();
    timed(async {
        loop {
            let_passes_run(&scene.server).await;
            let gone = scene.client.bytes_of(id).await.is_err();
            if gone && (is_shared || files_in(&folder) == 0) {
                break;
            }
        }
    })
    .await;
    if let Some(database) = scene.server.launch().home().database() {
        assert_eq!(database.run("SELECT COUNT(*) FROM attachment_parts"), ["0"]);
    }
}

#[tokio::test]
async fn what_nobody_claims_and_what_nothing_carries_any_more_is_deleted() {
    let config = "dispatch_pass = \"20ms\"\nstaged_ttl = \"2s\"";
    let mut scene = Scene::of(&Launch::new().config(config)).await;
    scene.park().await;
    let chat = scene.chat.clone();
    // Aborted, expired half way, expired whole.
    let aborted = scene.client.upload(&chat, "a", b"aborted").await;
    let abort = scene.client.request("attachment.abort", named(&aborted)).await;
    assert_eq!(abort, Ok(named(&aborted)));
    assert_eq!(scene.client.request("attachment.abort", named(&aborted)).await, spent());
    let half = scene.client.begin_upload(&chat, "h", b"half").await.unwrap();
    scene.client.append(&string(&half["attachment_id"]), 0, b"ha").await.unwrap();
    let whole = scene.client.upload(&chat, "w", b"whole").await;
    all_gone(&mut scene, &whole).await;
    assert_eq!(scene.client.add_with(&chat, "k0", "A", vec![named(&whole)]).await, unavailable(0));

    // Claimed ones outlive that time; a reset without its queue frees them, a deletion, too.
    let claimed = scene.client.upload(&chat, "c", b"claimed").await;
    let entry = scene.client.add_with(&chat, "k1", "A", vec![named(&claimed)]).await.unwrap();
    scene.act("message.queue.remove", json!({"entry_id": entry["id"]})).await;
    let_passes_run(&scene.server).await;
    assert_eq!(scene.client.bytes_of(&claimed).await.unwrap(), b"claimed");
    let reset = scene.act("session.reset", json!({"keep_queue": false})).await;
    scene.chat = Chat::of_session(&reset["session"]);
    all_gone(&mut scene, &claimed).await;
    let chat = scene.chat.clone();
    let last = scene.client.upload(&chat, "l", b"last").await;
    accepted(&scene.client.add_with(&chat, "k2", "A", vec![named(&last)]).await);
    scene.client.ok("task.delete", json!({"task_id": chat.task_id})).await;
    all_gone(&mut scene, &last).await;
}

#[tokio::test]
async fn moved_prompts_take_their_attachments_along_and_a_reset_keeps_them() {
    let mut scene = Scene::of(&Launch::new().config("dispatch_pass = \"20ms\"")).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let upload = scene.client.upload(&chat, "u", b"data").await;
    accepted(&scene.client.add_with(&chat, "k", "A", vec![named(&upload)]).await);
    let reset = scene.act("session.reset", json!({})).await;
    scene.chat = Chat::of_session(&reset["session"]);
    let other = Chat::parked(&mut scene.client).await;
    let to = json!({
        "to_task_id": other.task_id, "to_session_id": other.session_id,
        "to_session_incarnation_id": other.incarnation_id,
    });
    assert_eq!(scene.act("session.transfer", to).await["moved"], 1);
    scene.client.ok("task.delete", json!({"task_id": chat.task_id})).await;
    let_passes_run(&scene.server).await;
    let entry = scene.client.entries(&other).await.remove(0);
    assert_eq!(ids(&entry), std::slice::from_ref(&upload));
    assert_eq!(scene.client.bytes_of(&upload).await.unwrap(), b"data");
}

#[tokio::test]
async fn equal_bytes_are_there_once_and_for_as_long_as_anybody_carries_them() {
    let mut scene = Scene::of(&Launch::new().config("dispatch_pass = \"20ms\"")).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let mut entries = Vec::new();
    for n in 0..3 {
        let (id, same) = (format!("k{n}"), vec![inline("n", b"same")]);
        entries.push(scene.client.add_with(&chat, &id, "A", same).await.unwrap());
    }
    let objects = scene.server.launch().data_dir().join("attachments/objects");
    if scene.server.launch().home().database().is_none() {
        assert_eq!(files_in(&objects), 1);
        let name = sha256(b"same");
        let path = objects.join(&name[..2]).join(&name[2..]);
        assert_eq!(fs::read(path).unwrap(), b"same");
    }
    scene
        .act("message.queue.send_now", json!({"scope": "entry", "entry_id": entries[0]["id"]}))
        .await;
    scene.settled().await;
    let_passes_run(&scene.server).await;
    assert_eq!(scene.client.bytes_of(&ids(&entries[0])[0]).await.unwrap(), b"same");
}

#[tokio::test]
async fn bytes_are_read_in_pieces_that_fit_and_to_their_end() {
    let mut scene = Scene::new().await;
    let chat = scene.chat.clone();
    let data: Vec<u8> = (0..1_200_000_u32).map(|n| (n % 251) as u8).collect();
    let id = scene.client.upload(&chat, "n", &data).await;
    assert_eq!(scene.client.bytes_of(&id).await.unwrap(), data);
    let part =
        |offset: u64, length: u64| json!({"attachment_id": id, "offset": offset, "length": length});
    let last = scene.client.ok("attachment.read", part(1_199_998, 100)).await;
    assert_eq!(last, json!({"data": base64(&data[1_199_998..]), "eof": true}));
    let behind = scene.client.ok("attachment.read", part(2_000_000, 1)).await;
    assert_eq!(behind, json!({"data": "", "eof": true}));
    for length in [0, 524_289] {
        let refusal = scene.client.request("attachment.read", part(0, length)).await;
        assert_eq!(refusal, too_much("length", json!({"limit": 524_288})));
    }
}

#[tokio::test]
async fn c053_a_file_that_was_picked_for_an_edit_goes_with_that_prompt_or_nowhere() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let chat = scene.chat.clone();
    let entry = scene.admit("B").await;
    let picked = scene.client.upload(&chat, "picked", b"picked").await;
    let begun = scene.act("message.queue.edit.begin", json!({"entry_id": entry})).await;
    let save = |operation: &str, content: &str, attachments: Value| {
        json!({
            "entry_id": entry, "lease_id": begun["lease_id"], "operation_id": operation,
            "expected_target_revision": 1, "content": content, "attachments": attachments,
        })
    };
    for (n, blank) in ["", "  \n\t", "\u{200b}"].into_iter().enumerate() {
        let alone = save(&format!("o{n}"), blank, json!([]));
        assert_eq!(scene.ask("message.queue.update", alone).await, too_much("content", json!({})));
    }
    // With a file it says something.
    scene.act("message.queue.update", save("o4", "", json!([named(&picked)]))).await;
    let lease = json!({"entry_id": entry, "lease_id": begun["lease_id"]});
    scene.act("message.queue.edit.end", lease).await;
    scene.client.admit(&chat, "next", "next").await;
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["", "next"]);
    assert_eq!(prompt_names(&mut scene).await, [vec!["picked"], vec![]]);
}

#[tokio::test]
async fn c099_a_save_after_the_lease_expired_claims_nothing_and_releases_nothing() {
    let launch = Launch::new().config("dispatch_pass = \"20ms\"");
    let (clock, launch) = LeaseClock::keep(launch);
    let mut scene = Scene::of(&launch).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let (entry, u1, u2, begun) = edited(&mut scene).await;
    clock.advance(60_000);
    let late = json!({
        "entry_id": entry, "lease_id": begun["lease_id"], "operation_id": "o",
        "expected_target_revision": 1, "content": "B2",
        "attachments": [named(&u2), inline("new", b"three")],
    });
    assert_eq!(scene.ask("message.queue.update", late).await, refused("edit_conflict"));
    let_passes_run(&scene.server).await;
    assert_eq!(ids(&scene.client.entries(&chat).await[0]), std::slice::from_ref(&u1));
    assert_eq!(scene.client.bytes_of(&u1).await.unwrap(), b"one");
    accepted(&scene.client.add_with(&chat, "k2", "C", vec![named(&u2)]).await);
    // What came inside the late save is nowhere.
    let objects = scene.server.launch().data_dir().join("attachments/objects");
    if scene.server.launch().home().database().is_none() {
        assert_eq!(files_in(&objects), 2);
    }
}

#[tokio::test]
async fn a_prompt_sent_right_behind_the_end_of_its_upload_finds_it_whole() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let chat = scene.chat.clone();
    for n in 0..20 {
        let begun = scene.client.begin_upload(&chat, "n", b"data").await.unwrap();
        let id = string(&begun["attachment_id"]);
        let part = json!({"attachment_id": id, "offset": 0, "data": base64(b"data")});
        let mut prompt = chat.prompt(&format!("k{n}"), "look");
        merge(&mut prompt, json!({"attachments": [named(&id)]}));
        // Nothing of it is waited for.
        scene.client.send("attachment.append", part).await.unwrap();
        scene.client.send("attachment.finish", named(&id)).await.unwrap();
        let sent = scene.client.send("message.queue.add", prompt).await.unwrap();
        let added = scene.client.answer(&sent).await.unwrap();
        assert_eq!(names(&added.unwrap()), ["n"]);
    }
}

#[tokio::test]
async fn an_upload_that_is_ended_in_two_ways_at_once_is_whole_or_gone_and_nothing_else() {
    let mut scene = Scene::new().await;
    let chat = scene.chat.clone();
    let mut other = Client::connect(&scene.server).await;
    for _ in 0..40 {
        let begun = scene.client.begin_upload(&chat, "n", b"data").await.unwrap();
        let id = string(&begun["attachment_id"]);
        scene.client.append(&id, 0, b"data").await.unwrap();
        let (finished, aborted) =
            tokio::join!(scene.client.finish(&id), other.request("attachment.abort", named(&id)));
        assert_eq!(aborted, Ok(named(&id)));
        if finished.is_err() {
            assert_eq!(finished, spent());
        }
        assert_eq!(scene.client.bytes_of(&id).await, Err(spent().unwrap_err()));
    }
}
