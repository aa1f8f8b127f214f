//! Merging an entry into the one above by hand.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

async fn parked(texts: &[&str]) -> (Scene, Vec<String>) {
    let mut scene = Scene::new().await;
    scene.park().await;
    let ids = scene.admit_all(texts).await;
    (scene, ids)
}

async fn merge(scene: &mut Scene, entry_id: &str) -> Answer {
    scene.ask("message.queue.merge", json!({"entry_id": entry_id})).await
}

fn overflow(limit: &str) -> Answer {
    Err(Refusal::new("merge_overflow", json!({"limit": limit})))
}

#[tokio::test]
async fn c026_texts_are_joined_by_one_blank_line_and_the_entry_above_survives() {
    let (mut scene, _) = parked(&[]).await;
    let parts = ["A\r\n", "\n\nB", "```\ncode", "plain", "    indented", "A\u{3000}", "\u{3000}B"];
    for (number, part) in parts.iter().enumerate() {
        scene.client.admit(&scene.chat, &format!("k{number}"), part).await;
    }
    let before = scene.client.entries(&scene.chat).await;
    let mut expected = before[0].clone();
    let mut revision = scene.client.queue(&scene.chat).await["queue_revision"].as_u64().unwrap();
    let mut text = parts[0].to_owned();
    for (number, below) in before.iter().enumerate().skip(1) {
        let survivor = merge(&mut scene, below["id"].as_str().unwrap()).await;
        assert_eq!(survivor, Ok(json!({"entry_id": before[0]["id"]})));
        text = format!("{text}\n\n{}", parts[number]);
        revision += 1;
        expected["content"] = json!(text);
        expected["queued_at"] = below["queued_at"].clone();
        expected["target_revision"] = json!(number + 1);
        let ids: Vec<String> = (0..=number).map(|number| format!("k{number}")).collect();
        expected["metadata"]["queue_admission_ids"] = json!(ids);
        let queue = scene.client.queue(&scene.chat).await;
        assert_eq!(queue["entries"][0], expected);
        assert_eq!(queue["entries"].as_array().unwrap()[1..], before[number + 1..]);
        assert_eq!(queue["count"], json!(before.len() - number));
        assert_eq!(queue["queue_revision"], json!(revision));
    }
}

#[tokio::test]
async fn c025_a_merge_that_breaks_a_bound_changes_nothing() {
    let long = "l".repeat(150 * 1_024);
    let (mut scene, ids) = parked(&["first"]).await;
    scene.client.admit(&scene.chat, "a", &long).await;
    let below = scene.client.admit(&scene.chat, "b", &long).await;
    let before = scene.client.queue(&scene.chat).await;
    assert_eq!(merge(&mut scene, &below).await, overflow("content_bytes_max"));
    assert_eq!(scene.client.queue(&scene.chat).await, before);
    // One that fits still does.
    let middle = string(&before["entries"][1]["id"]);
    assert_eq!(merge(&mut scene, &middle).await, Ok(json!({"entry_id": ids[0]})));
    assert_eq!(scene.waiting().await, [format!("first\n\n{long}"), long]);
}

#[tokio::test]
async fn c029_every_admission_of_a_merged_entry_is_known_for_ever() {
    let mut scene = Scene::of(&Launch::new().folding()).await;
    scene.park().await;
    let chat = scene.chat.clone();
    let a = scene.client.add(&chat, "k1", "A").await.unwrap();
    let b = scene.client.add(&chat, "k2", "B").await.unwrap();
    let other_model = json!({"client_queue_id": "k3", "content": "C", "model": "m"});
    let c = scene.act("message.queue.add", other_model.clone()).await;
    assert_eq!(b["admission"]["outcome"], "folded");
    assert_eq!(c["admission"]["outcome"], "admitted");
    let survivor = merge(&mut scene, c["id"].as_str().unwrap()).await;
    assert_eq!(survivor, Ok(json!({"entry_id": a["id"]})));

    let check = async |scene: &mut Scene| {
        for (sent, first) in [
            (json!({"client_queue_id": "k1", "content": "A"}), &a),
            (json!({"client_queue_id": "k2", "content": "B"}), &b),
            (other_model.clone(), &c),
        ] {
            let mut expected = first.clone();
            expected["admission"]["outcome"] = json!("replayed");
            assert_eq!(scene.act("message.queue.add", sent).await, expected);
        }
        let other = scene.client.add(&scene.chat, "k2", "other").await;
        assert_eq!(other, refused("queue_id_conflict"));
    };
    check(&mut scene).await;
    let mut scene = scene.restarted().await;
    check(&mut scene).await;
    assert_eq!(scene.waiting().await, ["A\n\nB\n\nC"]);
    scene.run_all().await;
    check(&mut scene).await;
    let mut scene = scene.restarted().await;
    check(&mut scene).await;

    assert_eq!(scene.client.queue(&chat).await["count"], 0);
    let prompts = by_role(&scene.client.transcript(&chat).await, "user");
    assert_eq!(contents(&prompts), ["A\n\nB\n\nC"]);
    assert_eq!(prompts[0]["metadata"]["queue_admission_ids"], json!(["k1", "k2", "k3"]));
}

#[tokio::test]
async fn a_chain_of_merges_from_below_ends_in_the_first() {
    let (mut scene, ids) = parked(&["A", "B", "C"]).await;
    assert_eq!(merge(&mut scene, &ids[2]).await, Ok(json!({"entry_id": ids[1]})));
    assert_eq!(merge(&mut scene, &ids[1]).await, Ok(json!({"entry_id": ids[0]})));
    assert_eq!(scene.waiting().await, ["A\n\nB\n\nC"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["A\n\nB\n\nC"]);
}

#[tokio::test]
async fn the_entry_above_decides_how_the_merged_prompt_runs() {
    let (mut scene, _) = parked(&[]).await;
    let above = json!({"client_queue_id": "a", "content": "A", "model": "m1"});
    scene.act("message.queue.add", above).await;
    let below = json!({"client_queue_id": "b", "content": "B", "model": "m2", "plan_mode": true});
    let below = string(&scene.act("message.queue.add", below).await["id"]);
    merge(&mut scene, &below).await.unwrap();
    let merged = &scene.client.entries(&scene.chat).await[0];
    assert_eq!(
        (&merged["content"], &merged["model"], &merged["plan_mode"]),
        (&json!("A\n\nB"), &json!("m1"), &json!(false))
    );
}

#[tokio::test]
async fn what_has_nothing_above_or_is_not_there_is_refused_and_nothing_moves() {
    let (mut scene, ids) = parked(&["A", "B"]).await;
    let other = Chat::create(&mut scene.client).await;
    scene.client.set_auto_run(&other, false).await;
    let foreign = scene.client.admit(&other, "k", "foreign").await;
    let before = scene.client.queue(&scene.chat).await;
    assert_eq!(merge(&mut scene, &ids[0]).await, refused("no_merge_target"));
    for id in [foreign.as_str(), "no-such-id", "", "00000000-0000-0000-0000-000000000000"] {
        assert_eq!(merge(&mut scene, id).await, refused("entry_not_found"), "{id}");
    }
    assert_eq!(scene.client.queue(&scene.chat).await, before);

    // The one above is about to run.
    let mut scene = Scene::new().await;
    scene.running("/demo deaf").await;
    let ids = scene.admit_all(&["A", "B"]).await;
    scene.send_now(&ids[0]).await.unwrap();
    assert_eq!(merge(&mut scene, &ids[1]).await, refused("no_merge_target"));
    assert_eq!(merge(&mut scene, &ids[0]).await, refused("entry_not_found"));
    assert_eq!(scene.waiting().await, ["B"]);
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "A", "B"]);
}

#[tokio::test]
async fn what_was_removed_between_two_entries_does_not_part_them_and_comes_back() {
    let (mut scene, ids) = parked(&["A", "B", "C"]).await;
    let removed = scene.act("message.queue.remove", json!({"entry_id": ids[1]})).await;
    assert_eq!(merge(&mut scene, &ids[2]).await, Ok(json!({"entry_id": ids[0]})));
    let undo = json!({"undo_id": removed["undo_id"]});
    assert_eq!(scene.act("message.queue.restore", undo).await, json!({"restored": 1}));
    assert_eq!(scene.waiting().await, ["A\n\nC", "B"]);
}

#[tokio::test]
async fn a_removed_survivor_comes_back_merged() {
    let (mut scene, ids) = parked(&["A", "B"]).await;
    merge(&mut scene, &ids[1]).await.unwrap();
    let removed = scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
    assert_eq!(merge(&mut scene, &ids[1]).await, refused("entry_not_found"));
    let undo = json!({"undo_id": removed["undo_id"]});
    scene.act("message.queue.restore", undo).await;
    let entries = scene.client.entries(&scene.chat).await;
    assert_eq!(contents(&entries), ["A\n\nB"]);
    assert_eq!(entries[0]["metadata"]["queue_admission_ids"], json!(["A", "B"]));
}

#[tokio::test]
async fn a_merge_that_meets_the_start_of_its_target_loses_no_text() {
    const ROUNDS: usize = 60;
    let mut scene = Scene::new().await;
    let mut other = Client::connect(&scene.server).await;
    let (mut merged, mut too_late) = (0, 0);
    for round in 0..ROUNDS {
        scene.park().await;
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        scene.admit(&a).await;
        let below = scene.admit(&b).await;
        let chat = scene.chat.clone();
        let merge = chat.with(json!({"entry_id": below}));
        // Who comes first in the queue of the server is left to chance.
        let (started, answer) = tokio::join!(
            scene.client.set_auto_run(&chat, true),
            other.request("message.queue.merge", merge)
        );
        assert_eq!(started["dispatched"], true);
        scene.settled().await;
        let expected = match answer {
            Ok(_) => {
                merged += 1;
                vec![format!("{a}\n\n{b}")]
            }
            Err(refusal) => {
                too_late += 1;
                let known = ["no_merge_target", "entry_not_found"];
                assert!(known.contains(&refusal.code.as_str()), "{refusal:?}");
                vec![a.clone(), b.clone()]
            }
        };
        let prompts = scene.prompts().await;
        assert_eq!(prompts[prompts.len() - expected.len()..], expected, "round {round}");
        assert_eq!(accepted(&scene.client.add(&chat, &b, &b).await).1, "replayed");
    }
    assert_eq!(merged + too_late, ROUNDS);
    let all: Vec<String> =
        (0..ROUNDS).flat_map(|round| [format!("a{round}"), format!("b{round}")]).collect();
    let prompts = scene.prompts().await;
    let ran: Vec<&str> = prompts.iter().flat_map(|text| text.split("\n\n")).collect();
    assert_eq!(ran, all);
}

#[tokio::test]
async fn two_links_that_merge_the_same_entry_at_once_join_it_once() {
    let (mut scene, _) = parked(&[]).await;
    let mut other = Client::connect(&scene.server).await;
    for round in 0..50 {
        scene.admit_all(&[&format!("a{round}")]).await;
        let below = scene.admit(&format!("b{round}")).await;
        let payload: Value = scene.chat.with(json!({"entry_id": below}));
        let (one, two) = tokio::join!(
            scene.client.request("message.queue.merge", payload.clone()),
            other.request("message.queue.merge", payload)
        );
        let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
        assert!(won.is_ok(), "round {round}");
        assert_eq!(lost, refused("entry_not_found"), "round {round}");
        assert_eq!(scene.waiting().await, [format!("a{round}\n\nb{round}")]);
        scene.act("message.queue.cancel", json!({})).await;
    }
}
