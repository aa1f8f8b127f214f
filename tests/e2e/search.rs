//! Finding text in transcripts.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::server::Server;

/// A subscribed session in which these were answered.
async fn talked(client: &mut Client, prompts: &[&str]) -> Chat {
    let chat = Chat::create(client).await;
    client.subscribe(&chat).await;
    for prompt in prompts {
        client.admit(&chat, prompt, prompt).await;
        client.until_settled(&chat).await;
    }
    chat
}

async fn search(client: &mut Client, fields: Value) -> Vec<Value> {
    client.ok("transcript.search", fields).await["hits"].as_array().unwrap().clone()
}

fn hit(chat: &Chat, seq: u64, snippet: &str) -> Value {
    json!({"session_id": chat.session_id, "seq": seq, "snippet": snippet})
}

#[tokio::test]
async fn messages_are_found_newest_first_without_regard_to_case() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = talked(&mut client, &["Straße", "other"]).await;
    let two = talked(&mut client, &["STRASSE"]).await;
    let (said_two, said_one) = ("You said: STRASSE", "You said: Straße");
    let all = [
        hit(&two, 2, said_two),
        hit(&two, 1, "STRASSE"),
        hit(&one, 2, said_one),
        hit(&one, 1, "Straße"),
    ];
    assert_eq!(search(&mut client, json!({"query": "strasse"})).await, all);
    assert_eq!(search(&mut client, json!({"query": "straße", "limit": 3})).await, all[..3]);
    let within = json!({"query": "SS", "session_id": one.session_id});
    assert_eq!(search(&mut client, within).await, all[2..]);
    assert_eq!(search(&mut client, json!({"query": "nowhere"})).await, [] as [Value; 0]);
}

#[tokio::test]
async fn archived_tasks_are_searched_only_if_their_session_is_named() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = talked(&mut client, &["treasure"]).await;
    client.ok("task.archive", json!({"task_id": chat.task_id})).await;
    assert_eq!(search(&mut client, json!({"query": "treasure"})).await, [] as [Value; 0]);
    let named = json!({"query": "treasure", "session_id": chat.session_id});
    assert_eq!(search(&mut client, named.clone()).await.len(), 2);
    client.ok("task.delete", json!({"task_id": chat.task_id})).await;
    let gone = client.request("transcript.search", named).await;
    assert_eq!(gone, Err(Refusal::new("not_found", json!({}))));
}

#[tokio::test]
async fn the_end_of_a_long_message_is_found_and_only_a_snippet_of_it_shown() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = talked(&mut client, &["/demo stream 2000 100"]).await;
    let transcript = client.transcript(&chat).await;
    let said = contents(&transcript)[1].to_owned();
    assert!(said.len() > 100_000, "{}", said.len());
    let needle = &said[said.len() - 120..];
    let hits = search(&mut client, json!({"query": needle})).await;
    let snippet = hits[0]["snippet"].as_str().unwrap();
    assert!(snippet.len() <= 200 && snippet.ends_with(needle), "{snippet}");
    assert_eq!((hits.len(), &hits[0]["seq"]), (1, &json!(2)));
}

#[tokio::test]
async fn many_messages_are_passed_over_to_find_the_oldest() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let old = talked(&mut client, &["the very first"]).await;
    let prompts: Vec<String> = (0..100).map(|number| format!("/demo say n{number}")).collect();
    let new = Chat::create(&mut client).await;
    client.subscribe(&new).await;
    for prompt in &prompts {
        client.admit(&new, prompt, prompt).await;
    }
    client.until_settled(&new).await;
    let first = search(&mut client, json!({"query": "VERY FIRST"})).await;
    assert_eq!(first, [hit(&old, 2, "You said: the very first"), hit(&old, 1, "the very first")]);
    let hits = search(&mut client, json!({"query": "say n", "limit": 100})).await;
    let seqs: Vec<_> = hits.iter().map(|hit| hit["seq"].as_u64().unwrap()).collect();
    let mut sorted = seqs.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!((seqs.len(), &seqs), (100, &sorted));
}

#[tokio::test]
async fn a_search_for_nothing_or_too_much_is_refused_with_its_field() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    for (payload, details) in [
        (json!({}), json!({"field": "query"})),
        (json!({"query": ""}), json!({"field": "query"})),
        (json!({"query": " \n\u{3000}"}), json!({"field": "query"})),
        (json!({"query": "a\0"}), json!({"field": "query"})),
        (json!({"query": "x".repeat(1_025)}), json!({"field": "query", "limit": 1_024})),
        (json!({"query": "x", "limit": 0}), json!({"field": "limit", "limit": 100})),
        (json!({"query": "x", "limit": 101}), json!({"field": "limit", "limit": 100})),
    ] {
        let refused = client.request("transcript.search", payload.clone()).await;
        assert_eq!(refused, Err(Refusal::new("validation", details)), "{payload}");
    }
}
