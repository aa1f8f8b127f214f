//! The order of what waits: who may change it, what it then means, and what leaves it alone.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, contents, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

async fn parked(texts: &[&str]) -> (Scene, Vec<String>) {
    let mut scene = Scene::new().await;
    scene.park().await;
    let ids = scene.admit_all(texts).await;
    (scene, ids)
}

async fn reorder(scene: &mut Scene, ids: &[&String]) -> Answer {
    scene.ask("message.queue.reorder", json!({"ordered_ids": ids})).await
}

async fn revision(scene: &mut Scene) -> Value {
    scene.client.queue(&scene.chat).await["queue_revision"].clone()
}

fn changed(revision: &Value) -> Answer {
    Err(Refusal::new("queue_changed", json!({"queue_revision": revision})))
}

fn positions(entries: &[Value]) -> Vec<u64> {
    entries.iter().map(|entry| entry["position"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn entries_are_put_into_any_order_and_only_their_places_change() {
    let (mut scene, ids) = parked(&["a", "b", "c", "d"]).await;
    let before = scene.client.queue(&scene.chat).await;
    let answer = reorder(&mut scene, &[&ids[2], &ids[0], &ids[3], &ids[1]]).await.unwrap();
    let after = scene.client.queue(&scene.chat).await;
    let next = before["queue_revision"].as_u64().unwrap() + 1;
    let expected =
        json!({"session_id": scene.chat.session_id, "reordered": 4, "queue_revision": next});
    assert_eq!(answer, expected);
    assert_eq!(after["queue_revision"], json!(next));
    let (before, after) =
        (before["entries"].as_array().unwrap(), after["entries"].as_array().unwrap());
    assert_eq!(contents(after), ["c", "a", "d", "b"]);
    assert_eq!(positions(after), positions(before), "they share out the places that they had");
    for (now, then) in after.iter().zip([2, 0, 3, 1]) {
        let mut expected = before[then].clone();
        expected["position"] = now["position"].clone();
        assert_eq!(now, &expected);
    }

    // The order that is there already is no change.
    let same = reorder(&mut scene, &[&ids[2], &ids[0], &ids[3], &ids[1]]).await;
    assert_eq!(same, Ok(expected));
    assert_eq!(revision(&mut scene).await, json!(next));
    // What comes later stands behind all of them.
    scene.admit("e").await;
    assert_eq!(scene.waiting().await, ["c", "a", "d", "b", "e"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["c", "a", "d", "b", "e"]);
}

#[tokio::test]
async fn an_order_that_does_not_name_exactly_what_waits_moves_nothing() {
    let (mut scene, ids) = parked(&["a", "b", "c"]).await;
    let gone = scene.admit("gone").await;
    scene.act("message.queue.remove", json!({"entry_id": gone})).await;
    let [a, b, c] = [&ids[0], &ids[1], &ids[2]];
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057".to_owned();
    let before = scene.client.queue(&scene.chat).await;
    let revision = &before["queue_revision"];
    for order in [
        vec![],
        vec![c, b],
        vec![c, b, a, &gone],
        vec![c, b, &gone],
        vec![c, b, &unknown],
        vec![c, b, a, &unknown],
        vec![c, b, b],
        vec![c, b, a, a],
        vec![c, c, c],
        vec![a, b, c, a, b, c],
    ] {
        assert_eq!(reorder(&mut scene, &order).await, changed(revision), "{order:?}");
        assert_eq!(scene.client.queue(&scene.chat).await, before, "{order:?}");
    }
    for (wrong, field) in [
        (json!({}), "ordered_ids"),
        (json!({"ordered_ids": "a"}), "ordered_ids"),
        (json!({"ordered_ids": [1, 2, 3]}), "ordered_ids[0]"),
        (json!({"ordered_ids": ids, "expected_queue_revision": "1"}), "expected_queue_revision"),
    ] {
        let refusal = scene.ask("message.queue.reorder", wrong.clone()).await.unwrap_err();
        assert_eq!(
            (refusal.code.as_str(), &refusal.details["field"]),
            ("validation", &json!(field))
        );
    }
    let garbage = scene.ask("message.queue.reorder", json!({"ordered_ids": ["x", "", "y"]})).await;
    let code = garbage.unwrap_err().code;
    assert!(["queue_changed", "validation"].contains(&code.as_str()), "{code}");
    assert_eq!(scene.client.queue(&scene.chat).await, before);
}

#[tokio::test]
async fn a_reorder_that_expects_another_queue_is_refused_also_if_the_entries_are_the_same() {
    let (mut scene, ids) = parked(&["a", "b"]).await;
    let seen = revision(&mut scene).await;
    scene.admit("c").await;
    let last = scene.client.entries(&scene.chat).await[2]["id"].clone();
    scene.act("message.queue.remove", json!({"entry_id": last})).await;
    let now = revision(&mut scene).await;
    let stale = json!({"ordered_ids": [ids[1], ids[0]], "expected_queue_revision": seen});
    assert_eq!(scene.ask("message.queue.reorder", stale).await, changed(&now));
    assert_eq!(scene.waiting().await, ["a", "b"]);
    let fresh = json!({"ordered_ids": [ids[1], ids[0]], "expected_queue_revision": now});
    scene.act("message.queue.reorder", fresh).await;
    assert_eq!(scene.waiting().await, ["b", "a"]);
}

#[tokio::test]
async fn c031_an_order_that_names_what_has_started_is_refused_and_the_rest_stays() {
    let (mut scene, ids) = parked(&[]).await;
    assert_eq!(ids, Vec::<String>::new());
    let a = scene.client.admit(&scene.chat, "a", "/demo ask").await;
    let ids = scene.admit_all(&["b", "c"]).await;
    scene.client.set_auto_run(&scene.chat, true).await;
    scene.asked().await;
    let now = revision(&mut scene).await;
    assert_eq!(reorder(&mut scene, &[&ids[1], &a, &ids[0]]).await, changed(&now));
    assert_eq!(scene.waiting().await, ["b", "c"]);
    reorder(&mut scene, &[&ids[1], &ids[0]]).await.unwrap();
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "c", "b"]);
}

#[tokio::test]
async fn c031_reorders_that_meet_a_start_keep_every_entry_once() {
    const ROUNDS: usize = 60;
    let mut scene = Scene::new().await;
    let mut other = Client::connect(&scene.server).await;
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        scene.park().await;
        let texts = ["a", "b", "c"].map(|text| format!("{text}{round}"));
        let ids = scene.admit_all(&texts.each_ref().map(String::as_str)).await;
        let order = scene.chat.with(json!({"ordered_ids": [ids[2], ids[0], ids[1]]}));
        let chat = scene.chat.clone();
        let (started, answer) = tokio::join!(
            scene.client.set_auto_run(&chat, true),
            other.request("message.queue.reorder", order)
        );
        assert_eq!(started["dispatched"], true);
        scene.settled().await;
        let [a, b, c] = texts;
        match answer {
            Ok(_) => expected.extend([c, a, b]),
            Err(refusal) => {
                assert_eq!(refusal.code, "queue_changed");
                expected.extend([a, b, c]);
            }
        }
    }
    assert_eq!(scene.prompts().await, expected);
}

#[tokio::test]
async fn c034_prompts_of_one_moment_run_in_the_order_that_is_shown_after_a_restart() {
    let (mut scene, _) = parked(&[]).await;
    // Sent together, so that they are committed together.
    let mut requests = Vec::new();
    for text in ["a", "b", "c", "d", "e"] {
        let prompt = scene.chat.prompt(text, text);
        requests.push(scene.client.send("message.queue.add", prompt).await.unwrap());
    }
    let mut ids = Vec::new();
    for request in requests {
        ids.push(accepted(&scene.client.answer(&request).await.unwrap()).0);
    }
    // To the very millisecond.
    let (_, launch) = scene.server.terminate();
    launch.change("UPDATE queue_entries SET queued_at = 1800000000000");
    let mut scene = Scene::again(&launch, scene.chat).await;
    assert_eq!(scene.waiting().await, ["a", "b", "c", "d", "e"]);
    ids.reverse();
    let backwards: Vec<&String> = ids.iter().collect();
    reorder(&mut scene, &backwards).await.unwrap();
    assert_eq!(scene.waiting().await, ["e", "d", "c", "b", "a"]);
    let mut scene = scene.restarted().await;
    assert_eq!(scene.waiting().await, ["e", "d", "c", "b", "a"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["e", "d", "c", "b", "a"]);
}

#[tokio::test]
async fn c036_an_order_of_one_session_leaves_others_alone_and_knows_none_of_theirs() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let session = json!({"task_id": scene.chat.task_id});
    let session = scene.client.ok("session.create", session).await;
    let two = Chat::of_session(&session["session"]);
    scene.client.set_auto_run(&two, false).await;
    let one = scene.chat.clone();
    let mut ids = Vec::new();
    for (chat, text) in [(&one, "a1"), (&two, "b1"), (&one, "a2"), (&two, "b2")] {
        ids.push(scene.client.admit(chat, text, text).await);
    }
    let before = scene.client.queue(&two).await;
    reorder(&mut scene, &[&ids[2], &ids[0]]).await.unwrap();
    assert_eq!(scene.waiting().await, ["a2", "a1"]);
    assert_eq!(scene.client.queue(&two).await, before);

    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057".to_owned();
    let now = revision(&mut scene).await;
    for foreign in [&ids[1], &unknown] {
        assert_eq!(reorder(&mut scene, &[&ids[0], foreign]).await, changed(&now));
        assert_eq!(reorder(&mut scene, &[foreign]).await, changed(&now));
    }
    assert_eq!(scene.client.queue(&two).await, before);
    assert_eq!(scene.waiting().await, ["a2", "a1"]);
}

#[tokio::test]
async fn c037_a_reserved_entry_keeps_its_place_whatever_is_ordered_around_it() {
    let mut scene = Scene::new().await;
    scene.running("/demo deaf").await;
    let ids = scene.admit_all(&["a", "b", "c", "d"]).await;
    // The agent does not hear that it is to stop: the claim stays a claim.
    scene.send_now(&ids[2]).await.unwrap();
    scene.park().await;
    assert_eq!(scene.waiting().await, ["a", "b", "d"]);
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 4);
    let now = revision(&mut scene).await;
    for order in [vec![&ids[2], &ids[3], &ids[1], &ids[0]], vec![&ids[2], &ids[1], &ids[0]]] {
        assert_eq!(reorder(&mut scene, &order).await, changed(&now));
    }
    assert_eq!(scene.waiting().await, ["a", "b", "d"]);
    reorder(&mut scene, &[&ids[3], &ids[1], &ids[0]]).await.unwrap();
    assert_eq!(scene.waiting().await, ["d", "b", "a"]);
    // The end of the server takes the claim back.
    let mut scene = scene.restarted().await;
    assert_eq!(scene.waiting().await, ["d", "b", "c", "a"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "d", "b", "c", "a"]);
}

#[tokio::test]
async fn of_two_orders_for_the_same_queue_one_wins_whole() {
    let (mut scene, ids) = parked(&["a", "b", "c"]).await;
    let mut other = Client::connect(&scene.server).await;
    for round in 0..100 {
        let seen = revision(&mut scene).await;
        let before = scene.waiting().await;
        let order = |picks: [usize; 3]| {
            let ids = picks.map(|pick| ids[pick].clone());
            scene.chat.with(json!({"ordered_ids": ids, "expected_queue_revision": seen}))
        };
        let (one, two) = (order([2, 0, 1]), order([1, 2, 0]));
        let (one, two) = tokio::join!(
            scene.client.request("message.queue.reorder", one),
            other.request("message.queue.reorder", two)
        );
        let after = scene.waiting().await;
        let won = |answer: &Answer, order: [&str; 3]| answer.is_ok() && after == order;
        assert!(won(&one, ["c", "a", "b"]) || won(&two, ["b", "c", "a"]), "round {round}");
        // Both only if the first of them was the order that was there already.
        if one.is_ok() && two.is_ok() {
            assert!([vec!["c", "a", "b"], vec!["b", "c", "a"]].iter().any(|same| before == *same));
        }
        reorder(&mut scene, &[&ids[0], &ids[1], &ids[2]]).await.unwrap();
    }
}

#[tokio::test]
async fn what_comes_back_after_a_reorder_stands_at_the_place_it_had() {
    let (mut scene, ids) = parked(&["a", "b", "c"]).await;
    let removed = scene.act("message.queue.remove", json!({"entry_id": ids[1]})).await;
    reorder(&mut scene, &[&ids[2], &ids[0]]).await.unwrap();
    scene.admit("d").await;
    let undo = json!({"undo_id": removed["undo_id"]});
    scene.act("message.queue.restore", undo).await;
    assert_eq!(scene.waiting().await, ["c", "b", "a", "d"]);
    let entries = scene.client.entries(&scene.chat).await;
    assert!(positions(&entries).is_sorted_by(|a, b| a < b));
    let entry = json!({"entry_id": entries[1]["id"]});
    assert_eq!(scene.act("message.queue.entry.get", entry.clone()).await, entries[1]);
    scene.act("message.queue.remove", entry.clone()).await;
    assert_eq!(scene.ask("message.queue.entry.get", entry).await, refused("entry_not_found"));
}

#[tokio::test]
async fn a_full_queue_of_a_thousand_is_turned_around_at_once() {
    let mut scene = Scene::of(&Launch::new()).await;
    scene.park().await;
    let mut ids = Vec::new();
    for batch in 0..20 {
        let mut requests = Vec::new();
        for number in 0..50 {
            let text = format!("{}", batch * 50 + number);
            let prompt = scene.chat.prompt(&text, &text);
            requests.push(scene.client.send("message.queue.add", prompt).await.unwrap());
        }
        for request in requests {
            ids.push(string(&scene.client.answer(&request).await.unwrap().unwrap()["id"]));
        }
    }
    ids.reverse();
    let backwards: Vec<&String> = ids.iter().collect();
    assert_eq!(reorder(&mut scene, &backwards).await.unwrap()["reordered"], 1_000);
    let expected: Vec<String> = (0..1_000).rev().map(|number: i32| number.to_string()).collect();
    assert_eq!(scene.waiting().await, expected);
}
