//! How much a queue holds, and what is said when it is full.

use serde_json::json;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::scene::Scene;
use usher_tests::server::{Launch, Server};

fn capped(cap: &str) -> Launch {
    Launch::new().env("USHER_QUEUE_MAX_PER_SESSION", cap)
}

fn full(queue_size: u64, max: u64) -> Refusal {
    Refusal::new("queue_full", json!({"queue_size": queue_size, "max": max}))
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_so_but_still_replays() {
    let server = Launch::new().without_env("USHER_QUEUE_MAX_PER_SESSION").start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    for number in 0..10 {
        client.admit(&chat, &format!("k{number}"), "x").await;
    }
    let full = Refusal::new("queue_full", json!({"queue_size": 10, "max": 10}));
    assert_eq!(client.add(&chat, "k10", "x").await, Err(full));
    assert_eq!(accepted(&client.add(&chat, "k0", "x").await).1, "replayed");
    let queue = client.queue(&chat).await;
    assert_eq!((&queue["count"], &queue["max"]), (&json!(10), &json!(10)));

    // The refused id is still free.
    let first = queue["entries"][0]["id"].clone();
    client.ok("message.queue.remove", chat.with(json!({"entry_id": first}))).await;
    assert_eq!(accepted(&client.add(&chat, "k10", "other").await).1, "admitted");
}

#[tokio::test]
async fn without_a_cap_of_the_users_the_hard_bound_holds() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    for batch in 0..20 {
        let mut requests = Vec::new();
        for number in 0..50 {
            let prompt = chat.prompt(&format!("k{batch}-{number}"), "x");
            requests.push(client.send("message.queue.add", prompt).await.unwrap());
        }
        for request in requests {
            assert!(client.answer(&request).await.unwrap().is_ok());
        }
    }
    let full = Refusal::new("queue_full", json!({"queue_size": 1_000, "max": 1_000}));
    assert_eq!(client.add(&chat, "one more", "x").await, Err(full));
}

#[tokio::test]
async fn of_many_prompts_at_once_exactly_as_many_are_admitted_as_fit() {
    const LINKS: usize = 16;
    let server = capped("10").start();
    let mut client = Client::connect(&server).await;
    for _ in 0..10 {
        let chat = Chat::parked(&mut client).await;
        let mut links = JoinSet::new();
        for link in 0..LINKS {
            let (mut client, chat) = (Client::connect(&server).await, chat.clone());
            links.spawn(async move {
                let text = format!("p{link}");
                let answer = client.add(&chat, &text, &text).await;
                (text, answer)
            });
        }
        let (admitted, refused): (Vec<_>, Vec<_>) =
            links.join_all().await.into_iter().partition(|(_, answer)| answer.is_ok());
        assert_eq!((admitted.len(), refused.len()), (10, LINKS - 10));
        for (_, answer) in refused {
            assert_eq!(answer, Err(full(10, 10)));
        }
        let mut expected: Vec<&str> = admitted.iter().map(|(text, _)| text.as_str()).collect();
        let entries = client.entries(&chat).await;
        let mut stored = contents(&entries);
        expected.sort_unstable();
        stored.sort_unstable();
        assert_eq!(stored, expected);
    }
}

#[tokio::test]
async fn a_lowered_cap_takes_nothing_away_and_admits_nothing_until_there_is_room() {
    let mut scene = Scene::of(&capped("5")).await;
    scene.park().await;
    scene.admit_all(&["a", "b", "c", "d", "e"]).await;
    let chat = scene.chat.clone();
    let launch = scene.server.kill().env("USHER_QUEUE_MAX_PER_SESSION", "2");
    let mut scene = Scene::again(&launch, chat.clone()).await;
    let queue = scene.client.queue(&chat).await;
    assert_eq!((&queue["count"], &queue["max"]), (&json!(5), &json!(2)));
    assert_eq!(scene.waiting().await, ["a", "b", "c", "d", "e"]);
    assert_eq!(accepted(&scene.client.add(&chat, "a", "a").await).1, "replayed");
    for size in [5, 4, 3, 2] {
        assert_eq!(scene.client.add(&chat, "new", "new").await, Err(full(size, 2)));
        let entry = scene.client.entries(&chat).await[0]["id"].clone();
        scene.act("message.queue.remove", json!({"entry_id": entry})).await;
    }
    scene.admit("new").await;
    assert_eq!(scene.waiting().await, ["e", "new"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["e", "new"]);
}

#[tokio::test]
async fn what_is_about_to_run_counts_and_comes_back_to_a_full_queue() {
    let mut scene = Scene::of(&capped("2")).await;
    scene.running("/demo deaf").await;
    let ids = scene.admit_all(&["a", "b"]).await;
    let now = json!({"scope": "entry", "entry_id": ids[1]});
    scene.act("message.queue.send_now", now).await;
    assert_eq!(scene.client.add(&scene.chat, "c", "c").await, Err(full(2, 2)));
    scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
    scene.admit("c").await;
    let mut scene = scene.restarted().await;
    assert_eq!(scene.waiting().await, ["b", "c"]);
    assert_eq!(scene.client.add(&scene.chat, "d", "d").await, Err(full(2, 2)));
}

#[tokio::test]
async fn a_cap_that_changes_while_prompts_arrive_admits_no_more_than_the_higher_one() {
    let server = Launch::new().without_env("USHER_QUEUE_MAX_PER_SESSION").start();
    let mut operator = Client::connect(&server).await;
    for round in 0..20 {
        operator.ok("settings.set", json!({"max_per_session": 6})).await;
        let chat = Chat::parked(&mut operator).await;
        let mut links = JoinSet::new();
        for link in 0..8 {
            let (mut client, chat) = (Client::connect(&server).await, chat.clone());
            links.spawn(async move {
                let mut admitted = 0;
                for number in 0..3 {
                    let text = format!("p{link}-{number}");
                    match client.add(&chat, &text, &text).await {
                        Ok(_) => admitted += 1,
                        Err(refusal) => assert_eq!(refusal.code, "queue_full"),
                    }
                }
                admitted
            });
        }
        for cap in [3, 6, 3, 6, 3, 6] {
            operator.ok("settings.set", json!({"max_per_session": cap})).await;
        }
        let admitted: u64 = links.join_all().await.into_iter().sum();
        let queue = operator.queue(&chat).await;
        assert_eq!(queue["count"], json!(admitted), "round {round}");
        assert!((3..=6).contains(&admitted), "round {round}: {admitted}");
    }
}
