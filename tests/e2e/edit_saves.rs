//! Saves, and what the end of an edit asks of the queue.

use serde_json::json;
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::leases::{Lease, begin, editing, end, lost, save, saved, waiting};
use usher_tests::scene::{Scene, passes, refused};
use usher_tests::server::Launch;

/// A server that starts nothing by its regular pass.
fn without_a_pass() -> Launch {
    Launch::new().config("dispatch_pass = \"1h\"")
}

/// Fails unless these still wait and nothing has run, after a turn of another session.
async fn assert_nothing_runs(scene: &mut Scene, waiting: &[&str], ran: &[&str]) {
    let bystander = Chat::create(&mut scene.client).await;
    passes(scene, &bystander, "bystander").await;
    assert_eq!(scene.waiting().await, waiting);
    assert_eq!(scene.prompts().await, ran);
}

/// A, edited, is the head of an idle session with auto-run ON.
async fn edited_head(launch: &Launch) -> (Scene, Client, Lease) {
    let (mut scene, mut other, ids) = waiting(launch, &["A", "B"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    assert_eq!(other.set_auto_run(&chat, true).await["dispatched"], false);
    (scene, other, lease)
}

#[tokio::test]
async fn an_edit_saved_after_the_running_turn_completed_runs_once_with_the_saved_text() {
    let mut scene = Scene::of(&without_a_pass()).await;
    let chat = scene.chat.clone();
    scene.asking("first").await;
    let ids = scene.admit_all(&["A", "B"]).await;
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    scene.answer().await;
    scene.idle().await;
    assert_eq!(scene.client.queue(&chat).await["blocked"], "head_editing");
    assert_nothing_runs(&mut scene, &["A", "B"], &["/demo ask"]).await;
    assert_eq!(saved(&save(&mut scene.client, &chat, &lease, "o", "A2").await), 2);
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "A2", "B"]);
}

#[tokio::test]
async fn an_edit_that_is_cancelled_asks_nothing_of_the_queue() {
    let (mut scene, mut other, lease) = edited_head(&without_a_pass()).await;
    let chat = scene.chat.clone();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_nothing_runs(&mut scene, &["A", "B"], &[]).await;
    assert_eq!(other.queue(&chat).await["blocked"], json!(null));
    // The next thing that does ask starts it.
    other.set_auto_run(&chat, true).await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "B"]);
}

#[tokio::test]
async fn the_regular_pass_takes_a_head_whose_edit_was_cancelled() {
    let launch = Launch::new().config("dispatch_pass = \"50ms\"");
    let (mut scene, _, lease) = edited_head(&launch).await;
    let chat = scene.chat.clone();
    assert_nothing_runs(&mut scene, &["A", "B"], &[]).await;
    end(&mut scene.client, &chat, &lease, false).await.unwrap();
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "B"]);
}

#[tokio::test]
async fn a_save_that_failed_asks_nothing_of_the_queue() {
    let (mut scene, mut other, lease) = edited_head(&without_a_pass()).await;
    let chat = scene.chat.clone();
    let stale = save(&mut scene.client, &chat, &lease.at(7), "o1", "late").await;
    assert_eq!(stale, Err(Refusal::new("revision_conflict", json!({"target_revision": 1}))));
    let blank = save(&mut scene.client, &chat, &lease, "o2", " ").await;
    assert_eq!(blank.unwrap_err().code, "validation");
    let foreign = save(&mut other, &chat, &lease, "o3", "late").await;
    assert_eq!(foreign, refused("edit_conflict"));
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_nothing_runs(&mut scene, &["A", "B"], &[]).await;
}

#[tokio::test]
async fn c055_only_the_live_lease_of_a_saved_edit_drains_and_only_once() {
    let (mut scene, _, lease) = edited_head(&without_a_pass()).await;
    let chat = scene.chat.clone();
    let ids = [lease.entry_id.clone()];
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_nothing_runs(&mut scene, &["A", "B"], &[]).await;
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    save(&mut scene.client, &chat, &lease.at(9), "o", "late").await.unwrap_err();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_nothing_runs(&mut scene, &["A", "B"], &[]).await;
    // What an earlier lease saved is none of this one's.
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    save(&mut scene.client, &chat, &lease, "o", "/demo ask").await.unwrap();
    end(&mut scene.client, &chat, &lease, false).await.unwrap();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_nothing_runs(&mut scene, &["/demo ask", "B"], &[]).await;
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    save(&mut scene.client, &chat, &lease, "o", "/demo ask; say A").await.unwrap();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    // Gone, or on its way: it is nobody's lease any more.
    let again = end(&mut scene.client, &chat, &lease, true).await.unwrap_err();
    assert!(["edit_conflict", "entry_not_found"].contains(&again.code.as_str()), "{again:?}");
    scene.asked().await;
    assert_eq!(scene.prompts().await, ["/demo ask; say A"]);
    assert_eq!(scene.waiting().await, ["B"]);
}

#[tokio::test]
async fn c079_an_edit_leaves_auto_run_as_it_is() {
    let (mut scene, mut other, ids) = waiting(&without_a_pass(), &["A", "B"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    save(&mut scene.client, &chat, &lease, "o", "A2").await.unwrap();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    let off = (json!(false), json!("user"));
    assert_eq!(scene.auto_run().await, off);
    assert_nothing_runs(&mut scene, &["A2", "B"], &[]).await;
    // Nor does an edit that is lost, nor a restart.
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    other.ok("message.queue.remove", chat.with(json!({"entry_id": ids[0]}))).await;
    assert_eq!(lost(&mut scene.client).await.0, lease.lease_id);
    editing(&mut scene.client, &chat, &ids[1]).await;
    assert_eq!(scene.auto_run().await, off);
    let mut scene = scene.restarted().await;
    assert_eq!(scene.auto_run().await, off);
    assert_eq!(scene.waiting().await, ["B"]);
}

#[tokio::test]
async fn c049_a_save_whose_reply_was_lost_is_done_once_per_lease() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let (chat, client) = (scene.chat.clone(), &mut scene.client);
    let lease = editing(client, &chat, &ids[0]).await;
    assert_eq!(saved(&save(client, &chat, &lease, "op1", "X").await), 2);
    assert_eq!(saved(&save(client, &chat, &lease, "op1", "X").await), 2);
    assert_eq!(saved(&save(client, &chat, &lease.at(2), "op1", "X").await), 2);
    let conflict = refused("operation_conflict");
    assert_eq!(save(client, &chat, &lease, "op1", "Y").await, conflict);
    let stale = Refusal::new("revision_conflict", json!({"target_revision": 2}));
    assert_eq!(save(client, &chat, &lease, "op2", "Z").await, Err(stale));
    assert_eq!(saved(&save(client, &chat, &lease.at(2), "op2", "Z").await), 3);
    // The first one still answers as it did, and undoes nothing.
    assert_eq!(saved(&save(client, &chat, &lease, "op1", "X").await), 2);
    assert_eq!(contents(&client.entries(&chat).await), ["Z"]);
    end(client, &chat, &lease, false).await.unwrap();
    let lease = editing(client, &chat, &ids[0]).await;
    assert_eq!(lease.revision, 3);
    assert_eq!(saved(&save(client, &chat, &lease, "op1", "W").await), 4);
    assert_eq!(contents(&client.entries(&chat).await), ["W"]);
}

#[tokio::test]
async fn c050_of_two_who_recall_a_prompt_one_edits_it_and_nothing_is_there_twice() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["B"]).await;
    let chat = scene.chat.clone();
    let payload = chat.with(json!({"entry_id": ids[0]}));
    let first = scene.client.send("message.queue.edit.begin", payload.clone()).await.unwrap();
    let second = other.send("message.queue.edit.begin", payload).await.unwrap();
    let first = scene.client.answer(&first).await.unwrap();
    let second = other.answer(&second).await.unwrap();
    let (winner, begun, conflict) = match (first, second) {
        (Ok(begun), Err(conflict)) => (&mut scene.client, begun, conflict),
        (Err(conflict), Ok(begun)) => (&mut other, begun, conflict),
        both => panic!("one of them edits: {both:?}"),
    };
    assert_eq!(
        (conflict.code.as_str(), &conflict.details["holder_is_you"]),
        ("edit_conflict", &json!(false))
    );
    let lease = Lease {
        entry_id: ids[0].clone(),
        lease_id: begun["lease_id"].as_str().unwrap().to_owned(),
        revision: 1,
    };
    save(winner, &chat, &lease, "o", "B2").await.unwrap();
    end(winner, &chat, &lease, true).await.unwrap();
    let entries = scene.client.entries(&chat).await;
    assert_eq!((contents(&entries), &entries[0]["id"]), (vec!["B2"], &json!(ids[0])));
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["B2"]);
}

#[tokio::test]
async fn c053_an_edit_to_nothing_is_refused_and_loses_nothing() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["B"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    for (number, nothing) in ["", "  \n\t", "\u{200b}", "\u{a0}\u{3000}"].into_iter().enumerate() {
        let blank = save(&mut scene.client, &chat, &lease, &format!("o{number}"), nothing).await;
        let blank = blank.unwrap_err();
        assert_eq!(
            (blank.code.as_str(), &blank.details["field"]),
            ("validation", &json!("content"))
        );
    }
    // The lease lives on, none of those operations was used, and the text is there.
    assert_eq!(scene.waiting().await, ["B"]);
    assert_eq!(saved(&save(&mut scene.client, &chat, &lease, "o0", "B2").await), 2);
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["B2"]);
}

#[tokio::test]
async fn c056_an_edited_entry_waits_and_what_is_before_it_goes() {
    let launch = Launch::new().config("dispatch_pass = \"50ms\"");
    let (mut scene, mut other, ids) = waiting(&launch, &["A", "/demo ask", "C"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[1]).await;
    other.set_auto_run(&chat, true).await;
    scene.client.until(&chat, |_, queue| queue["blocked"] == "head_editing").await;
    scene.idle().await;
    // Nothing jumps over it.
    assert_nothing_runs(&mut scene, &["/demo ask", "C"], &["A"]).await;
    end(&mut scene.client, &chat, &lease, false).await.unwrap();
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "/demo ask", "C"]);
}

#[tokio::test]
async fn c141_nobody_chooses_who_they_are() {
    let (mut scene, mut other, ids) = waiting(&without_a_pass(), &["A", "B"]).await;
    let chat = scene.chat.clone();
    let lies = json!({
        "entry_id": ids[0], "connection_id": "1", "link_id": "1", "holder": "someone",
        "queued_by": {"kind": "agent", "id": "x", "name": "x"}, "lease_id": "mine",
    });
    let begun = scene.act("message.queue.edit.begin", lies).await;
    assert_ne!(begun["lease_id"], "mine");
    let text = begun.to_string();
    assert!(!text.contains("connection") && !text.contains("link_id"), "{text}");
    let lease = Lease {
        entry_id: ids[0].clone(),
        lease_id: begun["lease_id"].as_str().unwrap().to_owned(),
        revision: 1,
    };
    // Another connection of the same user that has seen the lease's name, with a task of others.
    let stranger = Chat { task_id: Chat::parked(&mut other).await.task_id, ..chat.clone() };
    assert_eq!(save(&mut other, &chat, &lease, "o", "x").await, refused("edit_conflict"));
    let unavailable = refused("queue_session_unavailable");
    assert_eq!(save(&mut scene.client, &stranger, &lease, "o", "x").await, unavailable);
    assert_eq!(begin(&mut other, &stranger, &ids[1]).await, unavailable);
    let mut forged = chat.with(json!({
        "entry_id": ids[0], "lease_id": lease.lease_id, "operation_id": "o",
        "expected_target_revision": 1, "content": "A2", "queued_by": {"kind": "server"},
        "saved": true, "session_key": 1,
    }));
    scene.client.ok("message.queue.update", forged.clone()).await;
    let entry = scene.client.entries(&chat).await[0].clone();
    assert_eq!((&entry["content"], &entry["queued_by"]["kind"]), (&json!("A2"), &json!("user")));
    // A flag of somebody else's lease, or of one that saved nothing, starts nothing.
    other.set_auto_run(&chat, true).await;
    forged["dispatch_if_auto_run"] = json!(true);
    let foreign = other.request("message.queue.edit.end", forged).await;
    assert_eq!(foreign, refused("edit_conflict"));
    assert_nothing_runs(&mut scene, &["A2", "B"], &[]).await;
}
