//! Edit leases: who may edit what, until when, and who wins over an editor.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::leases::{Lease, begin, editing, end, lost, renew, save, saved, waiting};
use usher_tests::scene::refused;
use usher_tests::server::Launch;

#[tokio::test]
async fn one_connection_at_a_time_edits_an_entry_and_everybody_sees_who() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A", "B"]).await;
    let chat = scene.chat.clone();
    let revision = scene.client.queue(&chat).await["queue_revision"].clone();
    let begun = begin(&mut scene.client, &chat, &ids[0]).await.unwrap();
    assert_eq!(begun["session_id"], chat.session_id.as_str());
    assert_eq!(begun["entry_id"], ids[0].as_str());
    assert_eq!(begun["ttl_ms"], 60_000);
    assert_eq!(begun["lease_generation"], 1);
    assert_eq!(begun["entry"]["content"], "A");
    assert_eq!(begun["entry"]["editing"]["is_you"], true);

    // Shown to both, each in its own words; the queue itself did not change.
    let shown = |queue: &Value| queue["entries"][0]["editing"].clone();
    let told =
        other.notified("message.queue.status_changed", |queue| !shown(queue).is_null()).await;
    assert_eq!(shown(&told)["is_you"], false);
    assert_eq!(shown(&told)["by"]["name"], told["entries"][0]["queued_by"]["name"]);
    assert_eq!(told["entries"][1]["editing"], Value::Null);
    assert_eq!(told["queue_revision"], revision);
    let own = scene.client.queue(&chat).await;
    assert_eq!(shown(&own)["is_you"], true);

    // Nobody else, nor the same connection, gets a second one.
    for (client, is_you) in [(&mut other, false), (&mut scene.client, true)] {
        let conflict = begin(client, &chat, &ids[0]).await.unwrap_err();
        assert_eq!(conflict.code, "edit_conflict");
        assert_eq!(conflict.details["holder_is_you"], is_you);
        assert!(conflict.details["expires_at"].is_string());
    }
    // The other entry is free.
    let lease = editing(&mut other, &chat, &ids[1]).await;
    let renewed = renew(&mut other, &chat, &lease).await.unwrap();
    assert_eq!((&renewed["lease_generation"], &renewed["entry"]), (&json!(2), &Value::Null));
    // A lease is good on its own connection only.
    for answer in [
        renew(&mut scene.client, &chat, &lease).await,
        save(&mut scene.client, &chat, &lease, "o", "x").await,
        end(&mut scene.client, &chat, &lease, false).await,
    ] {
        assert_eq!(answer, refused("edit_conflict"));
    }
    assert_eq!(end(&mut other, &chat, &lease, false).await.unwrap()["entry_id"], ids[1].as_str());
    assert_eq!(end(&mut other, &chat, &lease, false).await, refused("edit_conflict"));
    // The generation of an entry goes on over its leases.
    assert_eq!(begin(&mut scene.client, &chat, &ids[1]).await.unwrap()["lease_generation"], 3);
}

#[tokio::test]
async fn a_save_is_done_once_per_operation() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let (chat, client) = (scene.chat.clone(), &mut scene.client);
    let lease = editing(client, &chat, &ids[0]).await;
    assert_eq!(saved(&save(client, &chat, &lease, "o1", "A2").await), 2);
    // The same again, whatever revision it expects now; another edit under that name; a stale one.
    assert_eq!(saved(&save(client, &chat, &lease, "o1", "A2").await), 2);
    let other = save(client, &chat, &lease, "o1", "A3").await;
    assert_eq!(other, refused("operation_conflict"));
    let stale = save(client, &chat, &lease, "o2", "A3").await.unwrap_err();
    assert_eq!(
        (stale.code.as_str(), &stale.details["target_revision"]),
        ("revision_conflict", &json!(2))
    );
    let next = Lease { revision: 2, ..lease.clone() };
    assert_eq!(saved(&save(client, &chat, &next, "o2", "A3").await), 3);
    let blank = save(client, &chat, &Lease { revision: 3, ..lease.clone() }, "o3", " \n").await;
    assert_eq!(blank.unwrap_err().details["field"], "content");
    let entries = client.entries(&chat).await;
    assert_eq!((contents(&entries), &entries[0]["target_revision"]), (vec!["A3"], &json!(3)));
    // What was accepted is answered as it was accepted.
    let replay = client.add(&chat, "A", "A").await;
    assert_eq!(accepted(&replay), (ids[0].clone(), "replayed".to_owned()));
    assert_eq!(replay.unwrap()["content"], "A");
}

#[tokio::test]
async fn an_edited_head_waits_and_a_save_lets_it_run() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A", "B"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    // Auto-run does not jump over it; a restart of the pass does not either.
    assert_eq!(other.set_auto_run(&chat, true).await["dispatched"], false);
    let blocked = other.queue(&chat).await;
    assert_eq!((&blocked["blocked"], &blocked["auto_run"]), (&json!("head_editing"), &json!(true)));
    save(&mut scene.client, &chat, &lease, "o", "A2").await.unwrap();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A2", "B"]);
}

#[tokio::test]
async fn ending_an_edit_never_switches_auto_run_on() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    save(&mut scene.client, &chat, &lease, "o", "A2").await.unwrap();
    end(&mut scene.client, &chat, &lease, true).await.unwrap();
    assert_eq!(scene.waiting().await, ["A2"]);
    assert_eq!(scene.auto_run().await.0, json!(false));
}

#[tokio::test]
async fn an_edited_tail_takes_no_fold() {
    let (mut scene, mut other, ids) = waiting(&Launch::new().folding(), &["A"]).await;
    let chat = scene.chat.clone();
    editing(&mut scene.client, &chat, &ids[0]).await;
    assert_eq!(accepted(&other.add(&chat, "B", "B").await).1, "admitted");
    assert_eq!(accepted(&other.add(&chat, "C", "C").await).1, "folded");
    assert_eq!(scene.waiting().await, ["A", "B\n\nC"]);
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_over_and_its_holder_is_told() {
    let launch = Launch::new().config("lease_ttl = \"200ms\"\ndispatch_pass = \"50ms\"");
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    other.set_auto_run(&chat, true).await;
    scene.idle().await;
    scene.park().await;
    let id = scene.admit("B").await;
    let _ = ids;
    let lease = editing(&mut scene.client, &chat, &id).await;
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id.clone(), "expired".to_owned()));
    for answer in [
        renew(&mut scene.client, &chat, &lease).await,
        save(&mut scene.client, &chat, &lease, "o", "x").await,
        end(&mut scene.client, &chat, &lease, true).await,
    ] {
        assert_eq!(answer, refused("edit_conflict"));
    }
    assert_eq!(scene.client.queue(&chat).await["entries"][0]["editing"], Value::Null);
    // Whoever comes next gets it.
    editing(&mut other, &chat, &id).await;
}

#[tokio::test]
async fn a_lease_held_for_too_long_ends_however_often_it_is_renewed() {
    let launch = Launch::new()
        .config("lease_ttl = \"10s\"\nlease_hold_max = \"300ms\"\ndispatch_pass = \"50ms\"");
    let (mut scene, _, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    while renew(&mut scene.client, &chat, &lease).await.is_ok() {}
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "held_too_long".to_owned()));
}

#[tokio::test]
async fn after_a_lost_link_the_head_is_held_for_its_editor_and_anybody_may_begin() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A", "B"]).await;
    let chat = scene.chat.clone();
    other.set_auto_run(&chat, false).await;
    let mut editor = Client::connect(&scene.server).await;
    let old = editing(&mut editor, &chat, &ids[0]).await;
    editor.cut();
    other
        .notified("message.queue.status_changed", |queue| {
            queue["entries"][0]["editing"] == Value::Null
        })
        .await;
    assert_eq!(other.set_auto_run(&chat, true).await["dispatched"], false);
    assert_eq!(other.queue(&chat).await["blocked"], "head_held");
    // The old lease is good for nothing; a new one lifts the hold when it ends.
    assert_eq!(end(&mut other, &chat, &old, true).await, refused("edit_conflict"));
    let lease = editing(&mut other, &chat, &ids[0]).await;
    assert_eq!(other.queue(&chat).await["blocked"], "head_editing");
    save(&mut other, &chat, &lease, "o", "A2").await.unwrap();
    end(&mut other, &chat, &lease, true).await.unwrap();
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A2", "B"]);
}

#[tokio::test]
async fn leases_end_with_the_server_and_generations_go_on() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    renew(&mut scene.client, &chat, &lease).await.unwrap();
    let mut scene = scene.restarted().await;
    assert_eq!(renew(&mut scene.client, &chat, &lease).await, refused("edit_conflict"));
    let queue = scene.client.queue(&chat).await;
    assert_eq!(queue["entries"][0]["editing"], Value::Null);
    let begun = begin(&mut scene.client, &chat, &ids[0]).await.unwrap();
    assert_eq!(begun["lease_generation"], 3);
}

#[tokio::test]
async fn only_a_visible_entry_of_ones_own_can_be_edited() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let chat = scene.chat.clone();
    let nobody = "00000000-0000-4000-8000-000000000000";
    let not_found = refused("entry_not_found");
    assert_eq!(begin(&mut scene.client, &chat, nobody).await, not_found);
    scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
    assert_eq!(begin(&mut scene.client, &chat, &ids[0]).await, not_found);
    let lease = Lease { entry_id: ids[0].clone(), lease_id: nobody.to_owned(), revision: 1 };
    assert_eq!(renew(&mut scene.client, &chat, &lease).await, not_found);
    assert_eq!(save(&mut scene.client, &chat, &lease, "o", "x").await, not_found);
    let unknown = Refusal::new("queue_session_unavailable", json!({}));
    let stale = Chat { incarnation_id: nobody.to_owned(), ..chat };
    assert_eq!(begin(&mut scene.client, &stale, &ids[0]).await, Err(unknown));
}
