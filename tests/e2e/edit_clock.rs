//! Edit leases at exact instants: a clock that stands still, and that only the test moves.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted};
use usher_tests::client::{Answer, Client};
use usher_tests::lease_clock::LeaseClock;
use usher_tests::leases::{Lease, begin, editing, end, lost, renew, save, saved, waiting};
use usher_tests::pauses::Pauses;
use usher_tests::scene::{Scene, passes, refused};
use usher_tests::server::Launch;

/// How long a lease lives, milliseconds.
const TTL: i64 = 60_000;

/// No pass of the dispatcher gets in between.
fn standing_still(launch: Launch) -> (LeaseClock, Launch) {
    LeaseClock::keep(launch.config("dispatch_pass = \"1h\""))
}

/// The same, and the dispatcher passes all the time.
fn passing(launch: Launch) -> (LeaseClock, Launch) {
    LeaseClock::keep(launch.config("dispatch_pass = \"50ms\""))
}

fn conflict(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|refusal| refusal.code == "edit_conflict")
}

/// Waits until somebody's edit is seen to be over.
async fn until_nobody_edits(client: &mut Client, chat: &Chat, entry: &str) {
    client
        .until(chat, |_, queue| {
            let entries = queue["entries"].as_array().expect("entries are a list");
            let entry = entries.iter().find(|shown| shown["id"] == entry);
            entry.is_some_and(|entry| entry["editing"] == Value::Null)
        })
        .await;
}

#[tokio::test]
async fn c041_a_lease_is_live_before_its_last_instant_and_gone_at_it() {
    // What is done at T - 1, T and T + 1.
    for (after, is_live) in [(TTL - 1, true), (TTL, false), (TTL + 1, false)] {
        let (clock, launch) = standing_still(Launch::new());
        let (mut scene, mut other, ids) = waiting(&launch, &["A", "B", "C", "D"]).await;
        let chat = scene.chat.clone();
        let mut leases = Vec::new();
        for id in &ids {
            leases.push(editing(&mut scene.client, &chat, id).await);
        }
        clock.advance(after);
        let shown = other.queue(&chat).await["entries"][0]["editing"] != Value::Null;
        assert_eq!(shown, is_live, "shown after {after}");
        let answer = save(&mut scene.client, &chat, &leases[0], "o", "A2").await;
        assert_eq!((answer.is_ok(), conflict(&answer)), (is_live, !is_live), "save after {after}");
        let answer = renew(&mut scene.client, &chat, &leases[1]).await;
        assert_eq!((answer.is_ok(), conflict(&answer)), (is_live, !is_live), "renew after {after}");
        let answer = end(&mut scene.client, &chat, &leases[2], true).await;
        assert_eq!((answer.is_ok(), conflict(&answer)), (is_live, !is_live), "end after {after}");
        for client in [&mut other, &mut scene.client] {
            let answer = begin(client, &chat, &ids[3]).await;
            // The second one meets the lease of the first.
            let is_taken = is_live || leases.len() > 4;
            assert_eq!((answer.is_err(), conflict(&answer)), (is_taken, is_taken), "begin {after}");
            leases.push(leases[3].clone());
        }
    }
}

#[tokio::test]
async fn c041_of_a_save_and_a_begin_at_the_last_instant_never_both_succeed() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let mut content = "A".to_owned();
    for round in 0..60 {
        let lease = editing(&mut scene.client, &chat, &ids[0]).await;
        clock.advance(TTL - i64::from(round % 3));
        let fields = chat.with(json!({
            "entry_id": ids[0], "lease_id": lease.lease_id, "operation_id": "o",
            "expected_target_revision": lease.revision, "content": format!("A{round}"),
        }));
        let taken = chat.with(json!({"entry_id": ids[0]}));
        let save = scene.client.send("message.queue.update", fields).await.unwrap();
        let begin = other.send("message.queue.edit.begin", taken).await.unwrap();
        clock.advance(i64::from(round % 2));
        let save = scene.client.answer(&save).await.unwrap();
        let begin = other.answer(&begin).await.unwrap();
        if save.is_ok() {
            content = format!("A{round}");
        }
        let shown = scene.client.entries(&chat).await;
        assert_eq!(shown[0]["content"], content.as_str());
        match &begin {
            // It came first, or the lease was over: nothing is saved under the old one.
            Ok(begun) => {
                assert_eq!(begun["entry"]["content"], shown[0]["content"], "round {round}");
                let late = renew(&mut scene.client, &chat, &lease).await;
                assert_eq!(late, refused("edit_conflict"));
            }
            Err(refusal) => assert_eq!(refusal.code, "edit_conflict"),
        }
        // Everything that is left is over.
        clock.advance(2 * TTL);
    }
}

#[tokio::test]
async fn at_the_last_instant_an_edited_head_starts_by_itself_and_not_before() {
    let (clock, launch) = passing(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A", "B"]).await;
    let chat = scene.chat.clone();
    let bystander = Chat::create(&mut other).await;
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    other.set_auto_run(&chat, true).await;
    clock.advance(TTL - 1);
    passes(&scene, &bystander, "one").await;
    assert_eq!(scene.waiting().await, ["A", "B"]);
    clock.advance(1);
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "expired".to_owned()));
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "B"]);
}

#[tokio::test]
async fn whoever_edits_a_head_that_starts_when_the_edit_has_expired_is_told() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    clock.advance(TTL);
    // No pass has looked at the lease yet.
    assert_eq!(other.set_auto_run(&chat, true).await["dispatched"], true);
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "expired".to_owned()));
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A"]);
}

#[tokio::test]
async fn at_the_last_instant_an_edited_tail_takes_a_fold_and_not_before() {
    for (after, outcome, texts) in [
        (TTL - 1, "admitted", vec!["A", "B"]),
        (TTL, "folded", vec!["A\n\nB"]),
        (TTL + 1, "folded", vec!["A\n\nB"]),
    ] {
        let (clock, launch) = standing_still(Launch::new().folding());
        let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
        let chat = scene.chat.clone();
        let lease = editing(&mut scene.client, &chat, &ids[0]).await;
        clock.advance(after);
        assert_eq!(accepted(&other.add(&chat, "B", "B").await).1, outcome, "{after}");
        assert_eq!(scene.waiting().await, texts, "{after}");
        let late = save(&mut scene.client, &chat, &lease, "o", "A2").await;
        assert_eq!(late.is_ok(), after < TTL, "{after}");
        assert!(scene.waiting().await.concat().contains('B'));
    }
}

#[tokio::test]
async fn renewals_count_from_their_own_instant_up_to_the_longest_hold() {
    let launch = Launch::new().config("dispatch_pass = \"1h\"\nlease_hold_max = \"100s\"");
    let (clock, launch) = LeaseClock::keep(launch);
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    clock.advance(50_000);
    renew(&mut scene.client, &chat, &lease).await.unwrap();
    clock.advance(49_999);
    // Not for 60 s from here: nobody holds one for longer than 100 s, and its holder is told so.
    let renewed = renew(&mut scene.client, &chat, &lease).await.unwrap();
    assert_eq!((&renewed["lease_generation"], &renewed["ttl_ms"]), (&3.into(), &1.into()));
    assert!(conflict(&begin(&mut other, &chat, &ids[0]).await));
    clock.advance(1);
    assert_eq!(renew(&mut scene.client, &chat, &lease).await, refused("edit_conflict"));
    editing(&mut other, &chat, &ids[0]).await;
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "held_too_long".to_owned()));
}

#[tokio::test]
async fn a_save_under_a_lease_that_is_over_asks_nothing_of_the_queue() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    other.set_auto_run(&chat, true).await;
    clock.advance(TTL);
    let late = save(&mut scene.client, &chat, &lease, "o", "late").await;
    assert_eq!(late, refused("edit_conflict"));
    assert_eq!(end(&mut scene.client, &chat, &lease, true).await, refused("edit_conflict"));
    let bystander = Chat::create(&mut other).await;
    passes(&scene, &bystander, "one").await;
    assert_eq!((scene.waiting().await, scene.prompts().await), (vec!["A".to_owned()], vec![]));
}

#[tokio::test]
async fn c038_a_lease_outlives_its_editor_no_longer_than_it_has_to() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A", "B"]).await;
    let chat = scene.chat.clone();
    // Hung up: anybody may begin as soon as that is seen.
    let mut editor = Client::connect(&scene.server).await;
    editing(&mut editor, &chat, &ids[0]).await;
    editor.cut();
    until_nobody_edits(&mut scene.client, &chat, &ids[0]).await;
    let lease = editing(&mut other, &chat, &ids[0]).await;
    end(&mut other, &chat, &lease, false).await.unwrap();
    // Silent, with its link open as far as anybody can see: from the last instant on, not later.
    let mut silent = Client::connect(&scene.server).await;
    editing(&mut silent, &chat, &ids[1]).await;
    clock.advance(TTL - 1);
    let taken = begin(&mut other, &chat, &ids[1]).await.unwrap_err();
    assert_eq!(taken.details["holder_is_you"], false);
    clock.advance(1);
    editing(&mut other, &chat, &ids[1]).await;
    drop(silent);
}

#[tokio::test]
async fn after_a_lost_link_its_head_is_held_until_the_last_instant() {
    let (clock, launch) = passing(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let mut editor = Client::connect(&scene.server).await;
    let lease = editing(&mut editor, &chat, &ids[0]).await;
    clock.advance(10_000);
    renew(&mut editor, &chat, &lease).await.unwrap();
    editor.cut();
    until_nobody_edits(&mut scene.client, &chat, &ids[0]).await;
    other.set_auto_run(&chat, true).await;
    clock.advance(TTL - 1);
    let bystander = Chat::create(&mut other).await;
    passes(&scene, &bystander, "one").await;
    assert_eq!(other.queue(&chat).await["blocked"], "head_held");
    assert_eq!(scene.waiting().await, ["A"]);
    clock.advance(1);
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A"]);
}

#[tokio::test]
async fn c040_whoever_wakes_up_with_an_old_lease_saves_over_nobody() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let old = editing(&mut scene.client, &chat, &ids[0]).await;
    clock.advance(TTL + 1_000);
    let new = editing(&mut other, &chat, &ids[0]).await;
    save(&mut other, &chat, &new, "o", "new").await.unwrap();
    end(&mut other, &chat, &new, true).await.unwrap();
    for revision in [old.revision, 2] {
        let late = save(&mut scene.client, &chat, &old.at(revision), "o", "old").await;
        assert_eq!(late, refused("edit_conflict"));
    }
    assert_eq!(lost(&mut scene.client).await, (old.lease_id, "expired".to_owned()));
    assert_eq!(scene.waiting().await, ["new"]);
}

#[tokio::test]
async fn c043_a_renewal_that_meets_the_end_of_its_entry_brings_nothing_back() {
    for action in ["message.queue.remove", "message.queue.drain"] {
        let launch = Launch::new();
        let pauses = Pauses::listen(&launch.home().path("run"));
        let (name, value) = pauses.variable();
        let (_clock, launch) = standing_still(launch.env(name, value));
        let (mut scene, mut other, ids) = waiting(&launch, &["/demo ask; say A"]).await;
        let chat = scene.chat.clone();
        let lease = editing(&mut scene.client, &chat, &ids[0]).await;
        let held = pauses.arm("renew", &chat.session_id);
        let fields = json!({"entry_id": ids[0], "lease_id": lease.lease_id});
        let renewal =
            scene.client.send("message.queue.edit.renew", chat.with(fields)).await.unwrap();
        let hold = held.await.unwrap();
        other.ok(action, chat.with(json!({"entry_id": ids[0]}))).await;
        drop(hold);
        let answer = scene.client.answer(&renewal).await.unwrap();
        assert_eq!(answer, refused("entry_not_found"), "{action}");
        assert_eq!(lost(&mut scene.client).await.0, lease.lease_id);
        let next = other.admit(&chat, "next", "next").await;
        let queue = scene.client.queue(&chat).await;
        assert_eq!(queue["entries"][0]["editing"], Value::Null, "{action}");
        let begun = begin(&mut scene.client, &chat, &next).await.unwrap();
        assert_eq!(begun["lease_generation"], 1, "{action}");
    }
}

#[tokio::test]
async fn c044_renewals_that_overlap_never_shorten_a_lease() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A"]).await;
    let chat = scene.chat.clone();
    let lease = editing(&mut scene.client, &chat, &ids[0]).await;
    clock.advance(20_000);
    let fields = chat.with(json!({"entry_id": ids[0], "lease_id": lease.lease_id}));
    let mut sent = Vec::new();
    for _ in 0..3 {
        let id = scene.client.send("message.queue.edit.renew", fields.clone()).await.unwrap();
        sent.push(id);
    }
    let mut last = (1, String::new());
    for id in sent {
        let renewed = scene.client.answer(&id).await.unwrap().unwrap();
        let generation = renewed["lease_generation"].as_u64().unwrap();
        let expires_at = renewed["expires_at"].as_str().unwrap().to_owned();
        assert!(generation == last.0 + 1 && expires_at >= last.1, "{last:?}, then {renewed}");
        last = (generation, expires_at);
    }
    // Of another connection it changes nothing.
    assert_eq!(renew(&mut other, &chat, &lease).await, refused("edit_conflict"));
    clock.advance(TTL - 1);
    assert_eq!(saved(&save(&mut scene.client, &chat, &lease, "o", "A2").await), 2);
    clock.advance(1);
    let late = save(&mut scene.client, &chat, &lease.at(2), "o2", "A3").await;
    assert_eq!(late, refused("edit_conflict"));
}

#[tokio::test]
async fn c046_what_an_old_holder_does_late_is_nothing_to_the_new_one() {
    let (clock, launch) = standing_still(Launch::new());
    let (mut scene, mut other, ids) = waiting(&launch, &["A", "B"]).await;
    let chat = scene.chat.clone();
    let mut old_holder = Client::connect(&scene.server).await;
    let old = editing(&mut old_holder, &chat, &ids[0]).await;
    save(&mut old_holder, &chat, &old, "o", "A2").await.unwrap();
    clock.advance(TTL);
    let new = editing(&mut other, &chat, &ids[0]).await;
    other.set_auto_run(&chat, true).await;
    assert_eq!(end(&mut old_holder, &chat, &old, true).await, refused("edit_conflict"));
    assert_eq!(renew(&mut old_holder, &chat, &old).await, refused("edit_conflict"));
    // What is cleaned up after it: its edit of B, and nothing of the new holder's.
    editing(&mut old_holder, &chat, &ids[1]).await;
    old_holder.cut();
    until_nobody_edits(&mut scene.client, &chat, &ids[1]).await;
    let queue = other.queue(&chat).await;
    assert_eq!(queue["entries"][0]["editing"]["is_you"], true);
    assert_eq!(queue["blocked"], "head_editing");
    let bystander = Chat::create(&mut scene.client).await;
    passes(&scene, &bystander, "one").await;
    assert_eq!((scene.waiting().await.len(), scene.prompts().await), (2, vec![]));
    assert_eq!(saved(&save(&mut other, &chat, &new, "o", "A3").await), 3);
}

/// A lease whose clock goes on like the real one, and is far ahead of it.
async fn expiring(scene: &mut Scene, clock: &LeaseClock, entry: &str) -> Lease {
    let chat = scene.chat.clone();
    clock.run_ahead(0);
    let lease = editing(&mut scene.client, &chat, entry).await;
    clock.run_ahead(TTL);
    lease
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_ends_what_is_over() {
    let (clock, launch) = passing(Launch::new());
    let (mut scene, _, ids) = waiting(&launch, &["A"]).await;
    let lease = expiring(&mut scene, &clock, &ids[0]).await;
    assert_eq!(lost(&mut scene.client).await, (lease.lease_id, "expired".to_owned()));
}
