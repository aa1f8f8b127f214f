//! New prompts that fold into the tail of the queue: which do, which do not, and that none of
//! their texts and proofs is ever missing.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::Scene;
use usher_tests::server::Launch;

/// A parked session of a server that folds.
async fn parked(launch: &Launch) -> Scene {
    let mut scene = Scene::of(launch).await;
    scene.park().await;
    scene
}

/// As outside of tests: folding and a cap of ten.
fn as_shipped() -> Launch {
    Launch::new().folding().without_env("USHER_QUEUE_MAX_PER_SESSION")
}

async fn add(scene: &mut Scene, id: &str, text: &str, fields: Value) -> Answer {
    let mut payload = scene.chat.prompt(id, text);
    usher_tests::client::merge(&mut payload, fields);
    scene.client.request("message.queue.add", payload).await
}

/// Fills the queue up to ten entries that do not fold into each other.
async fn fill(scene: &mut Scene) {
    for number in 0..10 {
        let model = format!("m{number}");
        let answer = add(scene, &format!("fill-{number}"), &model, json!({"model": model})).await;
        assert_eq!(accepted(&answer).1, "admitted");
    }
}

fn revision(answer: &Value) -> u64 {
    answer["admission"]["queue_revision"].as_u64().unwrap()
}

/// The first answer as a retry gets it.
fn replayed(first: &Value) -> Value {
    let mut replay = first.clone();
    replay["admission"]["outcome"] = json!("replayed");
    replay
}

#[tokio::test]
async fn prompts_fold_into_one_unless_somebody_says_otherwise() {
    let mut scene = parked(&as_shipped()).await;
    let first = add(&mut scene, "k1", "one", json!({})).await.unwrap();
    let second = add(&mut scene, "k2", "two", json!({})).await.unwrap();
    let third = add(&mut scene, "k3", "three", json!({})).await.unwrap();
    assert_eq!(first["admission"]["outcome"], "admitted");
    let mut expected = first.clone();
    for (answer, text, ids) in [
        (&second, "one\n\ntwo", json!(["k1", "k2"])),
        (&third, "one\n\ntwo\n\nthree", json!(["k1", "k2", "k3"])),
    ] {
        expected["content"] = json!(text);
        expected["metadata"]["queue_admission_ids"] = ids;
        expected["target_revision"] = json!(expected["target_revision"].as_u64().unwrap() + 1);
        expected["queued_at"] = answer["queued_at"].clone();
        expected["admission"]["outcome"] = json!("folded");
        expected["admission"]["queue_revision"] = json!(revision(&expected) + 1);
        assert_eq!(answer, &expected);
        assert!(string(&answer["queued_at"]) >= string(&first["queued_at"]));
    }
    // What is stored is the last answer, and every answer is given again as it was.
    let entries = scene.client.entries(&scene.chat).await;
    expected.as_object_mut().unwrap().remove("admission");
    assert_eq!(entries, [expected]);
    let queue = scene.client.queue(&scene.chat).await;
    assert_eq!((&queue["count"], &queue["auto_merge_enabled"]), (&json!(1), &json!(true)));
    for (id, text, answer) in
        [("k1", "one", first), ("k2", "two", second), ("k3", "three", third.clone())]
    {
        let replay = add(&mut scene, id, text, json!({})).await.unwrap();
        assert_eq!(replay, replayed(&answer));
    }
    assert_eq!(scene.client.queue(&scene.chat).await, queue);
    let conflict = add(&mut scene, "k2", "other", json!({})).await;
    assert_eq!(conflict, Err(Refusal::new("queue_id_conflict", json!({}))));
}

#[tokio::test]
async fn only_what_runs_alike_folds_and_only_into_the_last_entry() {
    let mut scene = parked(&as_shipped()).await;
    for (id, fields, outcome) in [
        ("a", json!({"model": "m1"}), "admitted"),
        ("b", json!({"model": "m2"}), "admitted"),
        // The one it would go with is not the last.
        ("c", json!({"model": "m1"}), "admitted"),
        ("d", json!({"model": "m1", "plan_mode": true}), "admitted"),
        ("e", json!({"model": "m1", "plan_mode": true}), "folded"),
        ("f", json!({"plan_mode": true}), "admitted"),
        ("g", json!({}), "admitted"),
        ("h", json!({"model": null, "plan_mode": false}), "folded"),
    ] {
        assert_eq!(accepted(&add(&mut scene, id, id, fields).await).1, outcome, "{id}");
    }
    assert_eq!(scene.waiting().await, ["a", "b", "c", "d\n\ne", "f", "g\n\nh"]);
}

#[tokio::test]
async fn a_prompt_without_an_id_folds_too_and_proves_nothing() {
    let mut scene = parked(&as_shipped()).await;
    add(&mut scene, "k1", "one", json!({})).await.unwrap();
    let plain = scene.act("message.queue.add", json!({"content": "two"})).await;
    assert_eq!(plain["admission"]["outcome"], "folded");
    assert_eq!(plain["admission"]["replay_safe"], false);
    assert_eq!(plain["metadata"]["queue_admission_ids"], json!(["k1"]));
    scene.act("message.queue.add", json!({"content": "two"})).await;
    assert_eq!(scene.waiting().await, ["one\n\ntwo\n\ntwo"]);
}

#[tokio::test]
async fn switched_off_nothing_folds_and_merging_by_hand_is_another_switch() {
    for (config, folds, merges) in [
        ("auto_merge_enabled = false\n", false, true),
        ("auto_merge_enabled = true\nmerge_enabled = false\n", true, false),
    ] {
        let mut scene = parked(&as_shipped().config(config)).await;
        add(&mut scene, "k1", "one", json!({"model": "m"})).await.unwrap();
        let second = add(&mut scene, "k2", "two", json!({"model": "m"})).await;
        assert_eq!(accepted(&second).1, if folds { "folded" } else { "admitted" }, "{config}");
        let last = accepted(&add(&mut scene, "k3", "three", json!({})).await).0;
        let queue = scene.client.queue(&scene.chat).await;
        assert_eq!(
            (&queue["auto_merge_enabled"], &queue["merge_enabled"]),
            (&json!(folds), &json!(merges))
        );
        let merged = scene.ask("message.queue.merge", json!({"entry_id": last})).await;
        match merges {
            true => assert!(merged.is_ok(), "{config}: {merged:?}"),
            false => assert_eq!(merged, Err(Refusal::new("merge_disabled", json!({})))),
        }
    }
}

#[tokio::test]
async fn c023_two_links_that_fold_into_a_full_queue_at_once_both_land() {
    const ROUNDS: usize = 200;
    let mut scene = parked(&as_shipped()).await;
    fill(&mut scene).await;
    let mut other = Client::connect(&scene.server).await;
    let model = json!({"model": "m9"});
    for round in 0..ROUNDS {
        // Every round has a tail of its own: an entry remembers only so many admissions.
        let tail = scene.client.entries(&scene.chat).await[9]["id"].clone();
        scene.act("message.queue.remove", json!({"entry_id": tail})).await;
        let text = format!("tail {round}");
        let tail = accepted(&add(&mut scene, &text, &text, model.clone()).await).0;

        let (x, y) = (format!("x{round}"), format!("y{round}"));
        let mut sent = scene.chat.prompt(&y, &y);
        usher_tests::client::merge(&mut sent, model.clone());
        let (first, second) = tokio::join!(
            add(&mut scene, &x, &x, model.clone()),
            other.request("message.queue.add", sent.clone())
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        let queue = scene.client.queue(&scene.chat).await;
        let in_commit_order = match revision(&first) < revision(&second) {
            true => [&x, &y],
            false => [&y, &x],
        };
        let expected = format!("{text}\n\n{}\n\n{}", in_commit_order[0], in_commit_order[1]);
        assert_eq!(queue["count"], 10, "round {round}");
        assert_eq!(queue["entries"].as_array().unwrap().len(), 10, "round {round}");
        assert_eq!(queue["entries"][9]["content"], json!(expected), "round {round}");
        assert_eq!(
            queue["entries"][9]["metadata"]["queue_admission_ids"],
            json!([text, in_commit_order[0], in_commit_order[1]])
        );
        for answer in [&first, &second] {
            assert_eq!(answer["id"], json!(tail));
            assert_eq!(answer["admission"]["outcome"], "folded");
        }
        assert_eq!(other.request("message.queue.add", sent).await, Ok(replayed(&second)));
        assert_eq!(add(&mut scene, &x, &x, model.clone()).await, Ok(replayed(&first)));
    }
}

#[tokio::test]
async fn a_full_queue_refuses_what_does_not_fold_and_the_id_stays_free() {
    let full = Err(Refusal::new("queue_full", json!({"queue_size": 10, "max": 10})));
    let mut scene = parked(&as_shipped()).await;
    fill(&mut scene).await;
    assert_eq!(add(&mut scene, "k", "x", json!({})).await, full);
    let other_mode = json!({"model": "m9", "plan_mode": true});
    assert_eq!(add(&mut scene, "k", "x", other_mode).await, full);
    let folded = add(&mut scene, "k", "y", json!({"model": "m9"})).await;
    assert_eq!(accepted(&folded).1, "folded");
    // A replay is no admission: it is answered though the queue is full.
    assert_eq!(
        accepted(&add(&mut scene, "fill-0", "m0", json!({"model": "m0"})).await).1,
        "replayed"
    );

    let off = as_shipped().config("auto_merge_enabled = false\n");
    let mut scene = parked(&off).await;
    fill(&mut scene).await;
    assert_eq!(add(&mut scene, "k", "x", json!({"model": "m9"})).await, full);
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 10);
}

#[tokio::test]
async fn what_would_break_a_bound_stays_an_entry_of_its_own() {
    let mut scene = parked(&Launch::new().folding()).await;
    let half = "h".repeat(131_072);
    add(&mut scene, "half", &half, json!({})).await.unwrap();
    // A blank line is two bytes: one byte too many, then exactly as many as there may be.
    let too_long = &half[..131_071];
    assert_eq!(accepted(&add(&mut scene, "over", too_long, json!({})).await).1, "admitted");
    let fits = "f".repeat(262_144 - 131_071 - 2);
    let folded = add(&mut scene, "fits", &fits, json!({})).await.unwrap();
    assert_eq!(folded["admission"]["outcome"], "folded");
    // The answer is cut, the same way in every replay; the entry is whole.
    assert_eq!(folded["content_truncated"], true);
    // The two IDs count, too.
    assert_eq!(folded["content"].as_str().unwrap().len(), 65_536 - 8);
    assert_eq!(add(&mut scene, "fits", &fits, json!({})).await, Ok(replayed(&folded)));
    assert_eq!(scene.waiting().await, [half.clone(), format!("{too_long}\n\n{fits}")]);
}

#[tokio::test]
async fn an_entry_remembers_256_admissions_and_the_next_is_its_own() {
    let mut scene = parked(&as_shipped().env("USHER_QUEUE_MAX_PER_SESSION", "2")).await;
    let chat = scene.chat.clone();
    for batch in 0..8 {
        let mut requests = Vec::new();
        for number in 0..32 {
            let id = format!("k{batch}-{number}");
            let prompt = chat.prompt(&id, "x");
            requests.push(scene.client.send("message.queue.add", prompt).await.unwrap());
        }
        for request in requests {
            assert!(scene.client.answer(&request).await.unwrap().is_ok());
        }
    }
    let ids = |entry: &Value| entry["metadata"]["queue_admission_ids"].as_array().unwrap().len();
    let entries = scene.client.entries(&chat).await;
    assert_eq!(entries.iter().map(ids).collect::<Vec<_>>(), [256]);
    assert_eq!(accepted(&scene.client.add(&chat, "one more", "x").await).1, "admitted");
    assert_eq!(accepted(&scene.client.add(&chat, "and more", "x").await).1, "folded");
    let entries = scene.client.entries(&chat).await;
    assert_eq!(entries.iter().map(ids).collect::<Vec<_>>(), [256, 2]);
    // By hand it is said why not.
    let below = json!({"entry_id": entries[1]["id"]});
    let overflow = scene.ask("message.queue.merge", below).await;
    let limit = json!({"limit": "admission_ids_max"});
    assert_eq!(overflow, Err(Refusal::new("merge_overflow", limit)));
    assert_eq!(scene.client.entries(&chat).await, entries);
}

#[tokio::test]
async fn nothing_folds_into_what_is_about_to_run_and_nothing_restored_folds() {
    let mut scene = Scene::of(&as_shipped()).await;
    scene.running("/demo deaf").await;
    let claimed = scene.admit("claimed").await;
    scene.send_now(&claimed).await.unwrap();
    // The agent does not hear that it is to stop: the claim waits.
    let next = scene.client.add(&scene.chat, "next", "next").await;
    assert_eq!(accepted(&next).1, "admitted");
    assert_eq!(accepted(&scene.client.add(&scene.chat, "more", "more").await).1, "folded");
    scene.park().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "claimed"]);
    assert_eq!(scene.waiting().await, ["next\n\nmore"]);

    let cleared = scene.act("message.queue.cancel", json!({})).await;
    scene.admit("later").await;
    let undo = json!({"undo_id": cleared["undo_id"]});
    scene.act("message.queue.restore", undo).await;
    assert_eq!(scene.waiting().await, ["next\n\nmore", "later"]);
}

#[tokio::test]
async fn prompts_that_fold_while_turns_start_and_end_all_run_once_in_order() {
    const PROMPTS: usize = 400;
    let mut scene = Scene::of(&Launch::new().folding()).await;
    let chat: Chat = scene.chat.clone();
    let ids: Vec<String> = (0..PROMPTS).map(|number| format!("p{number}")).collect();
    for batch in ids.chunks(8) {
        let mut requests = Vec::new();
        for id in batch {
            requests
                .push(scene.client.send("message.queue.add", chat.prompt(id, id)).await.unwrap());
        }
        for request in requests {
            assert!(scene.client.answer(&request).await.unwrap().is_ok());
        }
    }
    scene.settled().await;
    let prompts = by_role(&scene.client.transcript(&chat).await, "user");
    let texts: Vec<&str> =
        contents(&prompts).into_iter().flat_map(|text| text.split("\n\n")).collect();
    assert_eq!(texts, ids);
    let proven: Vec<String> = prompts
        .iter()
        .flat_map(|prompt| prompt["metadata"]["queue_admission_ids"].as_array().unwrap())
        .map(string)
        .collect();
    assert_eq!(proven, ids);
    assert!(prompts.len() < PROMPTS, "nothing folded");
}

/// Rows of a few integers, read beside the server.
fn integers(scene: &Scene, sql: &str) -> Vec<i64> {
    if let Some(database) = scene.server.launch().home().database() {
        return database.run(sql).iter().map(|row| row.parse().unwrap()).collect();
    }
    let path = scene.server.launch().data_dir().join("usher.db");
    let conn = rusqlite::Connection::open(path).unwrap();
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The content and the admission IDs of an answer, bytes.
fn snapshot_bytes(answer: &Value) -> usize {
    let ids = ["queue_admission_ids", "queue_admission_ids_past"];
    let ids = ids.iter().flat_map(|ids| answer["metadata"][ids].as_array().unwrap());
    answer["content"].as_str().unwrap().len() + ids.map(|id| string(id).len()).sum::<usize>()
}

#[tokio::test]
async fn a_receipt_of_a_fold_keeps_what_it_adds_and_answers_with_all_of_it() {
    let mut scene = parked(&as_shipped()).await;
    let id = |number: usize| format!("{number:\"<128}");
    let mut answers = Vec::new();
    for number in 0..256 {
        // From the middle on the snapshot is full, inside a character of two bytes.
        let text = format!("{number}{}", "é".repeat(150));
        answers.push((number, text.clone(), add(&mut scene, &id(number), &text, json!({})).await));
    }
    let mut whole = String::new();
    for (number, text, answer) in &answers {
        let answer = answer.as_ref().unwrap();
        whole.push_str(&if *number == 0 { text.clone() } else { format!("\n\n{text}") });
        let outcome = if *number == 0 { "admitted" } else { "folded" };
        assert_eq!(answer["admission"]["outcome"], outcome, "{number}");
        let ids: Vec<String> = (0..=*number).map(id).collect();
        assert_eq!(answer["metadata"]["queue_admission_ids"], json!(ids));
        let (shown, bytes) = (answer["content"].as_str().unwrap(), snapshot_bytes(answer));
        assert!(whole.starts_with(shown), "{number}");
        let cut = shown.len() < whole.len();
        assert_eq!(answer["content_truncated"], cut, "{number}");
        assert!(bytes <= 65_536 && (bytes >= 65_535 || !cut), "{number}: {bytes}");
    }
    assert_eq!(answers[255].2.as_ref().unwrap()["content_truncated"], true);
    // Linear, whatever was folded before.
    let kept = "SELECT octet_length(content) + COALESCE(octet_length(provenance), 0) \
                FROM queue_admission_receipts";
    let kept = integers(&scene, kept);
    assert_eq!(kept.len(), 256);
    assert!(kept.iter().all(|bytes| *bytes <= 305), "{kept:?}");
    for (number, text, answer) in answers {
        let replay = add(&mut scene, &id(number), &text, json!({})).await.unwrap();
        assert!(replay == replayed(&answer.unwrap()), "{number}");
    }
}

#[tokio::test]
async fn a_replay_answers_as_the_first_time_whatever_became_of_the_entry_in_between() {
    let mut scene = parked(&as_shipped()).await;
    let mut answers: Vec<(Value, Value)> = Vec::new();
    let mut number = 0;
    for happens in 0..8 {
        // Two that go on from each other, then something else, then one that may not go on.
        for _ in 0..2 {
            number += 1;
            let prompt = scene.chat.prompt(&format!("k{number}"), &format!("text {number}"));
            let answer = scene.client.ok("message.queue.add", prompt.clone()).await;
            answers.push((prompt, answer));
        }
        let tail = scene.client.entries(&scene.chat).await.pop().unwrap()["id"].clone();
        match happens {
            0 => drop(scene.act("message.queue.add", json!({"content": "plain"})).await),
            1 => {
                let other = json!({"model": "m"});
                add(&mut scene, "other", "other", other).await.unwrap();
                let last = add(&mut scene, "last", "last", json!({})).await.unwrap()["id"].clone();
                scene.act("message.queue.merge", json!({"entry_id": last})).await;
            }
            2 => {
                let mut ids = Vec::new();
                for entry in scene.client.entries(&scene.chat).await {
                    ids.insert(0, entry["id"].clone());
                }
                scene.act("message.queue.reorder", json!({"ordered_ids": ids})).await;
            }
            3 => {
                let removed = scene.act("message.queue.remove", json!({"entry_id": tail})).await;
                let undo = json!({"undo_id": removed["undo_id"]});
                scene.act("message.queue.restore", undo).await;
            }
            4 => {
                let there = Chat::create(&mut scene.client).await;
                scene.client.set_auto_run(&there, false).await;
                for (from, to) in [(scene.chat.clone(), &there), (there.clone(), &scene.chat)] {
                    let to = json!({
                        "to_task_id": to.task_id, "to_session_id": to.session_id,
                        "to_session_incarnation_id": to.incarnation_id,
                    });
                    scene.client.ok("session.transfer", from.with(to)).await;
                }
            }
            5 => {
                let one = add(&mut scene, "one", "one", json!({"model": "n"})).await.unwrap();
                scene.act("message.queue.merge", json!({"entry_id": one["id"]})).await;
            }
            6 => drop(scene.act("message.queue.cancel", json!({})).await),
            _ => {}
        }
    }
    let queue = scene.client.queue(&scene.chat).await;
    for (prompt, answer) in &answers {
        let replay = scene.client.ok("message.queue.add", prompt.clone()).await;
        assert_eq!(replay, replayed(answer));
    }
    assert_eq!(scene.client.queue(&scene.chat).await, queue);
    let went_on = "SELECT COUNT(*) FROM queue_admission_receipts WHERE base_key IS NOT NULL";
    assert!(integers(&scene, went_on)[0] >= 5, "{:?}", integers(&scene, went_on));
    // Another life of the session has receipts of its own, behind what waits from the one before.
    let reset = scene.act("session.reset", json!({})).await;
    scene.chat.incarnation_id = string(&reset["session"]["incarnation_id"]);
    answers.clear();
    for id in ["k1", "k2", "k3"] {
        let prompt = scene.chat.prompt(id, id);
        let answer = scene.client.ok("message.queue.add", prompt.clone()).await;
        answers.push((prompt, answer));
    }
    for (prompt, answer) in answers {
        assert_eq!(scene.client.ok("message.queue.add", prompt).await, replayed(&answer));
    }
}
