//! Pages of the transcript.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::Client;
use usher_tests::server::Server;

async fn page(client: &mut Client, chat: &Chat, bounds: Value) -> (Vec<Value>, bool) {
    let mut request = json!({"session_id": chat.session_id});
    usher_tests::client::merge(&mut request, bounds);
    let page = client.ok("transcript.page", request).await;
    (page["messages"].as_array().unwrap().clone(), page["has_more"].as_bool().unwrap())
}

#[tokio::test]
async fn c106_pages_up_and_down_give_every_message_once_in_one_order_also_after_a_restart() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    for number in 0..10 {
        client.admit(&chat, &format!("k{number}"), &format!("p{number}")).await;
    }
    client.until_settled(&chat).await;
    let all = client.transcript(&chat).await;
    let expected: Vec<String> =
        (0..10).flat_map(|n| [format!("p{n}"), format!("You said: p{n}")]).collect();
    assert_eq!(contents(&all), expected);

    let server = server.kill().start();
    let mut client = Client::connect(&server).await;
    let mut down = Vec::new();
    loop {
        let after = down.last().map_or(json!(0), |last: &Value| last["seq"].clone());
        let (messages, has_more) =
            page(&mut client, &chat, json!({"after_seq": after, "limit": 7})).await;
        down.extend(messages);
        if !has_more {
            break;
        }
    }
    assert_eq!(down, all);

    let (mut up, mut has_more) = page(&mut client, &chat, json!({"limit": 7})).await;
    while has_more {
        let before = up[0]["seq"].clone();
        let (mut messages, more) =
            page(&mut client, &chat, json!({"before_seq": before, "limit": 7})).await;
        messages.append(&mut up);
        up = messages;
        has_more = more;
    }
    assert_eq!(up, all);
}

#[tokio::test]
async fn bounds_of_a_page_are_checked() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    for (field, bounds) in [
        ("limit", json!({"limit": 0})),
        ("limit", json!({"limit": 201})),
        ("limit", json!({"limit": -1})),
        ("before_seq", json!({"before_seq": "x"})),
    ] {
        let mut request = json!({"session_id": chat.session_id});
        usher_tests::client::merge(&mut request, bounds.clone());
        let refusal = client.request("transcript.page", request).await.unwrap_err();
        assert_eq!(refusal.code, "validation", "{bounds}");
        assert_eq!(refusal.details["field"], json!(field), "{bounds}");
    }
    let (messages, has_more) = page(&mut client, &chat, json!({"after_seq": 99})).await;
    assert_eq!((messages, has_more), (Vec::new(), false));
}

#[tokio::test]
async fn a_long_answer_is_cut_in_lists_and_says_so() {
    const BYTES: usize = 1_000_000;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k", &format!("/demo big {BYTES}")).await;
    client.until_settled(&chat).await;
    let answer = client.transcript(&chat).await.pop().unwrap();
    assert_eq!(answer["content"].as_str().unwrap().len(), 262_144);
    assert_eq!(answer["content_truncated"], true);
}
