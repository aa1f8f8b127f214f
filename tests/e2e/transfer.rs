//! Moving what waits in one session behind what waits in another.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::server::{Launch, Server};

fn to(from: &Chat, to: &Chat) -> Value {
    from.with(json!({
        "to_task_id": to.task_id,
        "to_session_id": to.session_id,
        "to_session_incarnation_id": to.incarnation_id,
    }))
}

async fn transfer(client: &mut Client, from: &Chat, destination: &Chat) -> Answer {
    client.request("session.transfer", to(from, destination)).await
}

/// A parked session of a task of its own with these prompts.
async fn parked(client: &mut Client, texts: &[&str]) -> Chat {
    let chat = Chat::create(client).await;
    client.set_auto_run(&chat, false).await;
    for text in texts {
        client.admit(&chat, text, text).await;
    }
    chat
}

#[tokio::test]
async fn what_waits_moves_behind_what_waits_there_and_proves_nothing_any_more() {
    let server = Launch::new().env("USHER_QUEUE_MAX_PER_SESSION", "3").start();
    let mut client = Client::connect(&server).await;
    let from = parked(&mut client, &["A", "B", "C"]).await;
    let there = parked(&mut client, &["X", "Y"]).await;
    let removed = client.entries(&from).await[1]["id"].clone();
    let undo = client.ok("message.queue.remove", from.with(json!({"entry_id": removed}))).await;
    let (left, joined) = (client.queue(&from).await, client.queue(&there).await);
    let mut expected = [joined["entries"].as_array().unwrap().clone(), Vec::new()].concat();
    for (entry, place) in left["entries"].as_array().unwrap().iter().zip(3..) {
        let mut entry = entry.clone();
        entry["metadata"]["queue_admission_ids_past"] =
            entry["metadata"]["queue_admission_ids"].take();
        entry["metadata"]["queue_admission_ids"] = json!([]);
        for (field, value) in
            [("task_id", json!(there.task_id)), ("session_id", json!(there.session_id))]
        {
            entry[field] = value;
        }
        entry["position"] = json!(place);
        expected.push(entry);
    }
    client.subscribe(&from).await;
    client.subscribe(&there).await;

    // Beyond the cap: the work was accepted.
    assert_eq!(transfer(&mut client, &from, &there).await, Ok(json!({"moved": 2})));
    let (after_from, after_there) = (client.queue(&from).await, client.queue(&there).await);
    assert_eq!((&after_from["entries"], &after_from["count"]), (&json!([]), &json!(0)));
    assert_eq!((&after_there["entries"], &after_there["count"]), (&json!(expected), &json!(4)));
    for (before, after) in [(&left, &after_from), (&joined, &after_there)] {
        assert!(after["queue_revision"].as_u64() > before["queue_revision"].as_u64());
    }
    let mut untold = vec![json!(from.session_id), json!(there.session_id)];
    while !untold.is_empty() {
        let told = client.notified("message.queue.status_changed", |_| true).await;
        untold.retain(|session| *session != told["session_id"]);
    }
    let restore = from.with(json!({"undo_id": undo["undo_id"]}));
    let restored = client.request("message.queue.restore", restore).await;
    assert_eq!(restored, Err(Refusal::new("undo_expired", json!({}))));
    // The receipt stays where it was given.
    assert_eq!(accepted(&client.add(&from, "A", "A").await).1, "replayed");
    assert_eq!(client.queue(&from).await["count"], 0);
    let there_again = client.add(&there, "A", "A").await;
    let full = Refusal::new("queue_full", json!({"queue_size": 4, "max": 3}));
    assert_eq!(there_again, Err(full), "no replay in the other session");
}

#[tokio::test]
async fn auto_run_is_on_only_if_both_are_and_then_the_head_starts() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let from = parked(&mut client, &["A"]).await;
    let there = Chat::create(&mut client).await;
    transfer(&mut client, &from, &there).await.unwrap();
    let queue = client.queue(&there).await;
    assert_eq!((&queue["auto_run"], &queue["auto_run_reason"]), (&json!(false), &json!("user")));
    assert_eq!(contents(&client.entries(&there).await), ["A"]);

    let running = Chat::create(&mut client).await;
    client.subscribe(&running).await;
    client.admit(&running, "k1", "/demo hang").await;
    client.until_running(&running).await;
    client.admit(&running, "k2", "B").await;
    let other = Chat::create(&mut client).await;
    client.subscribe(&other).await;
    assert_eq!(transfer(&mut client, &running, &other).await, Ok(json!({"moved": 1})));
    client.until_settled(&other).await;
    assert_eq!(contents(&client.transcript(&other).await), ["B", "You said: B"]);
    assert_eq!(client.queue(&running).await["auto_run"], true);
}

#[tokio::test]
async fn nothing_moves_within_one_session_from_an_empty_one_or_into_a_full_one() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = parked(&mut client, &["A"]).await;
    let empty = parked(&mut client, &[]).await;
    let (before, elsewhere) = (client.queue(&one).await, client.queue(&empty).await);
    assert_eq!(transfer(&mut client, &one, &one).await, Ok(json!({"moved": 0})));
    assert_eq!(transfer(&mut client, &empty, &one).await, Ok(json!({"moved": 0})));
    assert_eq!(client.queue(&one).await, before);
    assert_eq!(client.queue(&empty).await, elsewhere);

    let full = parked(&mut client, &[]).await;
    for number in 0..1_000 {
        client.admit(&full, &number.to_string(), "x").await;
    }
    let refused = transfer(&mut client, &one, &full).await;
    let details = json!({"queue_size": 1_000, "max": 1_000});
    assert_eq!(refused, Err(Refusal::new("queue_full", details)));
    assert_eq!(client.queue(&one).await, before);
}

#[tokio::test]
async fn both_sessions_must_be_the_callers_and_of_this_life() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = parked(&mut client, &["A"]).await;
    let two = parked(&mut client, &["B"]).await;
    let unavailable = Err(Refusal::new("queue_session_unavailable", json!({})));
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    for field in [
        "task_id",
        "session_id",
        "session_incarnation_id",
        "to_task_id",
        "to_session_id",
        "to_session_incarnation_id",
    ] {
        let mut request = to(&one, &two);
        request[field] = json!(unknown);
        assert_eq!(client.request("session.transfer", request).await, unavailable, "{field}");
    }
    client.ok("task.archive", json!({"task_id": two.task_id})).await;
    assert_eq!(transfer(&mut client, &one, &two).await, unavailable);
    assert_eq!(transfer(&mut client, &two, &one).await, unavailable);
    assert_eq!(contents(&client.entries(&one).await), ["A"]);
}

#[tokio::test]
async fn transfers_in_opposite_directions_at_once_lose_and_double_nothing() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let one = parked(&mut client, &["A", "B", "C"]).await;
    let two = parked(&mut client, &["X", "Y"]).await;
    for _ in 0..100 {
        let (there, back) =
            tokio::join!(transfer(&mut client, &one, &two), transfer(&mut other, &two, &one));
        let moved = [there, back].map(|answer| answer.unwrap()["moved"].as_u64().unwrap());
        // The second of the two moves everything back or on.
        assert!(moved.contains(&5), "{moved:?}");
        let mut all = client.entries(&one).await;
        all.extend(client.entries(&two).await);
        let mut texts = contents(&all);
        texts.sort_unstable();
        assert_eq!(texts, ["A", "B", "C", "X", "Y"]);
    }
}

#[tokio::test]
async fn what_is_admitted_while_its_session_is_emptied_is_in_one_of_the_two() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let there = parked(&mut client, &[]).await;
    for round in 0..50 {
        let from = parked(&mut client, &["A"]).await;
        let mut requests = Vec::new();
        for text in ["B", "C", "D"] {
            let prompt = from.prompt(text, text);
            requests.push(client.send("message.queue.add", prompt).await.unwrap());
        }
        let moved = transfer(&mut other, &from, &there).await.unwrap()["moved"].clone();
        let mut ids = Vec::new();
        for request in requests {
            ids.push(accepted(&client.answer(&request).await.unwrap()).0);
        }
        let (left, joined) = (client.entries(&from).await, client.entries(&there).await);
        assert_eq!(json!(joined.len()), moved, "round {round}");
        let all = [joined, left].concat();
        assert_eq!(contents(&all), ["A", "B", "C", "D"], "round {round}");
        for (text, id) in ["B", "C", "D"].into_iter().zip(ids) {
            let replay = accepted(&client.add(&from, text, text).await);
            assert_eq!(replay, (id, "replayed".to_owned()), "round {round}");
        }
        client.ok("message.queue.cancel", there.identity()).await;
    }
}

#[tokio::test]
async fn what_follows_a_transfer_on_one_link_comes_after_it_in_both_sessions() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = parked(&mut client, &["A"]).await;
    let two = parked(&mut client, &[]).await;
    for (from, there) in [(&one, &two), (&two, &one)].into_iter().cycle().take(20) {
        let moved = client.send("session.transfer", to(from, there)).await.unwrap();
        let left = client.send("message.queue.get", from.identity()).await.unwrap();
        let joined = client.send("message.queue.get", there.identity()).await.unwrap();
        assert_eq!(client.answer(&moved).await, Ok(Ok(json!({"moved": 1}))));
        for (asked, count) in [(left, 0), (joined, 1)] {
            assert_eq!(client.answer(&asked).await.unwrap().unwrap()["count"], count);
        }
    }
}
