//! What somebody asks for wins over an editor: the lease is over, its holder is told why, and what
//! was typed is saved nowhere.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents};
use usher_tests::client::Client;
use usher_tests::leases::{Lease, begin, editing, lost, renew, save, saved, waiting};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

/// One way to win over the editor of an entry.
struct Way {
    action: &'static str,
    /// The entry that is edited, and the one that the action names: A, B or C.
    edited: usize,
    named: usize,
    fields: Value,
    reason: &'static str,
    /// What a save is answered with afterwards.
    late: &'static str,
}

fn ways() -> Vec<Way> {
    let way = |action, [edited, named]: [usize; 2], fields, reason, late| Way {
        action,
        edited,
        named,
        fields,
        reason,
        late,
    };
    let (gone, unavailable) = ("entry_not_found", "queue_session_unavailable");
    vec![
        way("message.queue.remove", [1, 1], json!({}), "removed", gone),
        way("message.queue.cancel", [1, 0], json!({}), "removed", gone),
        way("message.queue.merge", [1, 1], json!({}), "merged", gone),
        way("message.queue.merge", [0, 1], json!({}), "merged", "edit_conflict"),
        way("message.queue.send_now", [1, 1], json!({"scope": "entry"}), "sent", gone),
        way("message.queue.send_now", [1, 0], json!({"scope": "all"}), "sent", gone),
        way("message.queue.drain", [0, 0], json!({}), "sent", gone),
        way("session.transfer", [1, 0], json!({}), "transferred", gone),
        way("session.reset", [1, 0], json!({"keep_queue": true}), "reset", unavailable),
        way("session.reset", [1, 0], json!({"keep_queue": false}), "reset", unavailable),
        way("session.delete", [1, 0], json!({}), "deleted", unavailable),
        way("task.archive", [1, 0], json!({}), "deleted", unavailable),
        way("task.delete", [1, 0], json!({}), "deleted", unavailable),
    ]
}

/// Everything that waits or ran in the sessions of a client's user.
async fn everything(client: &mut Client) -> Vec<String> {
    let mut texts = Vec::new();
    let sessions = client.ok("session.list", json!({})).await;
    for session in sessions["sessions"].as_array().unwrap() {
        let chat = Chat::of_session(session);
        let ran = by_role(&client.transcript(&chat).await, "user");
        let queue = client.request("message.queue.get", chat.identity()).await;
        let queue = queue.map_or(json!([]), |queue| queue["entries"].clone());
        texts.extend(contents(&ran).into_iter().map(str::to_owned));
        texts.extend(contents(queue.as_array().unwrap()).into_iter().map(str::to_owned));
    }
    texts
}

#[tokio::test]
async fn everything_that_somebody_does_to_an_edited_entry_ends_the_edit() {
    for Way { action, edited, named, mut fields, reason, late } in ways() {
        let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A", "B", "C"]).await;
        let chat = scene.chat.clone();
        let lease = editing(&mut scene.client, &chat, &ids[edited]).await;
        let target = Chat::parked(&mut other).await;
        fields["to_task_id"] = json!(target.task_id);
        fields["to_session_id"] = json!(target.session_id);
        fields["to_session_incarnation_id"] = json!(target.incarnation_id);
        if fields["scope"] != "all" {
            fields["entry_id"] = json!(ids[named]);
        }
        other.ok(action, chat.with(fields)).await;
        let context = format!("{action} of {named} while {edited} is edited");
        let expected = (lease.lease_id.clone(), reason.to_owned());
        assert_eq!(lost(&mut scene.client).await, expected, "{context}");
        let answer = save(&mut scene.client, &chat, &lease, "late", "late").await;
        assert_eq!(answer, refused(late), "{context}");
        let answer = renew(&mut scene.client, &chat, &lease).await;
        assert_eq!(answer, refused(late), "{context}");
        if action == "message.queue.drain" {
            scene.settled().await;
        }
        let texts = everything(&mut other).await;
        assert!(!texts.iter().any(|text| text.contains("late")), "{context}: {texts:?}");
    }
}

#[tokio::test]
async fn a_holder_is_told_also_of_what_it_did_itself() {
    let (mut scene, _, ids) = waiting(&Launch::new(), &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "removed".to_owned()));
}

#[tokio::test]
async fn an_entry_that_was_removed_while_it_was_edited_comes_back_unedited() {
    for action in ["message.queue.remove", "message.queue.cancel"] {
        let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A", "B"]).await;
        let chat = scene.chat.clone();
        let lease = editing(&mut scene.client, &chat, &ids[0]).await;
        let removed = other.ok(action, chat.with(json!({"entry_id": ids[0]}))).await;
        let undo = json!({"undo_id": removed["undo_id"]});
        other.ok("message.queue.restore", chat.with(undo)).await;
        assert_eq!(lost(&mut scene.client).await, (lease.lease_id.clone(), "removed".to_owned()));
        let late = save(&mut scene.client, &chat, &lease, "late", "late").await;
        assert_eq!(late, refused("edit_conflict"), "{action}");
        assert_eq!(scene.waiting().await, ["A", "B"], "{action}");
        let begun = begin(&mut scene.client, &chat, &ids[0]).await.unwrap();
        assert_eq!(
            (&begun["lease_generation"], &begun["target_revision"], &begun["entry"]["content"]),
            (&json!(2), &json!(1), &json!("A"))
        );
    }
}

#[tokio::test]
async fn a_transfer_ends_edits_on_both_sides() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A"]).await;
    let (from, to) = (scene.chat.clone(), Chat::parked(&mut other).await);
    let there = other.admit(&to, "B", "B").await;
    let leases = [
        editing(&mut scene.client, &from, &ids[0]).await,
        editing(&mut scene.client, &to, &there).await,
    ];
    let fields = json!({
        "to_task_id": to.task_id, "to_session_id": to.session_id,
        "to_session_incarnation_id": to.incarnation_id,
    });
    other.ok("session.transfer", from.with(fields)).await;
    let mut told = vec![lost(&mut scene.client).await, lost(&mut scene.client).await];
    told.sort();
    let mut expected =
        leases.each_ref().map(|lease| (lease.lease_id.clone(), "transferred".to_owned()));
    expected.sort();
    assert_eq!(told, expected);
    for lease in &leases {
        let late = save(&mut scene.client, &to, lease, "late", "late").await;
        assert_eq!(late, refused("edit_conflict"));
    }
    assert_eq!(contents(&other.entries(&to).await), ["B", "A"]);
}

#[tokio::test]
async fn after_a_reset_an_old_edit_is_none_of_the_new_life() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    let reset = other.ok("session.reset", chat.identity()).await;
    let chat = Chat::of_session(&reset["session"]);
    let late = save(&mut scene.client, &chat, &lease, "late", "late").await;
    assert_eq!(late, refused("edit_conflict"));
    assert_eq!(contents(&other.entries(&chat).await), ["A"]);
}

/// The order of the entries is asked for; their edits go on.
async fn reordered(scene: &mut Scene, other: &mut Client, order: &[&String], lease: &Lease) {
    let chat = scene.chat.clone();
    other.ok("message.queue.reorder", chat.with(json!({"ordered_ids": order}))).await;
    let queue = other.queue(&chat).await;
    let entries = queue["entries"].as_array().unwrap();
    let ids: Vec<&Value> = entries.iter().map(|entry| &entry["id"]).collect();
    assert_eq!(json!(ids), json!(order));
    let edited = entries.iter().find(|entry| entry["id"] == lease.entry_id.as_str()).unwrap();
    assert_eq!(
        (&edited["editing"]["is_you"], &edited["target_revision"]),
        (&json!(false), &json!(1))
    );
}

#[tokio::test]
async fn c037_a_reorder_moves_an_edited_entry_and_leaves_its_edit_alone() {
    let (mut scene, mut other, ids) = waiting(&Launch::new(), &["a", "b", "c"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[1]).await;
    // An order that is none of these entries moves nothing.
    let short = chat.with(json!({"ordered_ids": [ids[2], ids[1]]}));
    let refusal = other.request("message.queue.reorder", short).await.unwrap_err();
    assert_eq!(refusal.code, "queue_changed");
    assert_eq!(scene.waiting().await, ["a", "b", "c"]);
    reordered(&mut scene, &mut other, &[&ids[2], &ids[1], &ids[0]], &lease).await;
    reordered(&mut scene, &mut other, &[&ids[1], &ids[0], &ids[2]], &lease).await;
    assert_eq!(saved(&save(&mut scene.client, &chat, &lease, "o", "b2").await), 2);
    assert_eq!(scene.waiting().await, ["b2", "a", "c"]);
    let told = scene.client.take_notifications();
    assert!(told.iter().all(|(action, _)| action != "message.queue.edit.lost"), "{told:?}");
}

#[tokio::test]
async fn c028_nothing_that_folds_or_merges_is_wiped_by_a_save() {
    // A is in plan mode: B does not fold into it.
    let (mut scene, mut other, ids) = waiting(&Launch::new().folding(), &[]).await;
    assert!(ids.is_empty());
    let chat = scene.chat.clone();
    let mut planned = chat.prompt("A", "A");
    planned["plan_mode"] = json!(true);
    let a = other.ok("message.queue.add", planned).await["id"].clone();
    let b = scene.admit("B").await;
    let lease = editing(&mut scene.client, &chat, &b).await;
    // C would fold into B.
    let c = other.ok("message.queue.add", chat.prompt("C", "C")).await;
    assert_eq!(c["admission"]["outcome"], "admitted");
    let merged = other.ok("message.queue.merge", chat.with(json!({"entry_id": b}))).await;
    assert_eq!(merged["entry_id"], a);
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id.clone(), "merged".to_owned()));
    let late = save(&mut scene.client, &chat, &lease, "o", "late").await;
    assert_eq!(late, refused("entry_not_found"));
    assert_eq!(scene.waiting().await, ["A\n\nB", "C"]);
}
