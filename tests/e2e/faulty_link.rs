//! The faulty link itself: it does the harm that it is told to do, and no other.

use serde_json::json;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::faulty::{Do, FaultyLink, Matching, RAW_TEXT, Rule, Seen};
use usher_tests::server::Server;

const ADD: &str = "message.queue.add";

/// A client behind a faulty link, another one beside it, and a session in which prompts wait.
struct Pair {
    server: Server,
    link: FaultyLink,
    behind: Client,
    beside: Client,
    chat: Chat,
}

impl Pair {
    async fn new() -> Self {
        let server = Server::start();
        let link = FaultyLink::before(&server);
        let mut beside = Client::connect(&server).await;
        let chat = Chat::parked(&mut beside).await;
        let behind = Client::connect_to(link.address()).await;
        Self { server, link, behind, beside, chat }
    }

    async fn waiting(&mut self) -> Vec<String> {
        let entries = self.beside.entries(&self.chat).await;
        contents(&entries).into_iter().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn frames_of_every_size_pass_unchanged_and_are_recorded() {
    let server = Server::start();
    let mut beside = Client::connect(&server).await;
    let chat = Chat::parked(&mut beside).await;
    for link in [FaultyLink::before(&server), FaultyLink::over_tcp(&server)] {
        let mut behind = Client::dial_to(link.address()).await.unwrap();
        behind.hello(json!({"token": server.launch().token()})).await.unwrap();
        let texts = ["é".to_owned(), "x".repeat(300), "\u{1f600}".repeat(60_000)];
        for text in &texts {
            behind.ok(ADD, chat.with(json!({"content": text}))).await;
        }
        let entries = beside.entries(&chat).await;
        assert_eq!(contents(&entries), texts.each_ref().map(String::as_str));
        let record = link.record();
        let asked = record.passed(&Matching::request(ADD));
        let sent: Vec<_> =
            asked.iter().map(|seen| seen.json()["payload"]["content"].take()).collect();
        assert_eq!(sent, texts);
        assert_eq!(record.passed(&Matching::answer(ADD)).len(), texts.len());
        beside.ok("message.queue.cancel", chat.identity()).await;
    }
}

#[tokio::test]
async fn a_cut_ends_the_link_on_both_sides_and_the_next_one_works() {
    let mut pair = Pair::new().await;
    pair.beside.subscribe(&pair.chat).await;
    let entry_id = pair.beside.admit(&pair.chat, "k1", "A").await;
    let edit = pair.chat.with(json!({"entry_id": entry_id}));
    pair.behind.ok("message.queue.edit.begin", edit).await;
    pair.beside.forget_notifications();

    pair.link.act(&[Do::Cut]);
    assert_eq!(pair.behind.closed().await.code, None);
    // The server lets go of what the link held.
    let action = "message.queue.status_changed";
    pair.beside.notified(action, |status| status["entries"][0]["editing"].is_null()).await;
    pair.behind = Client::connect_to(pair.link.address()).await;
    assert_eq!(accepted(&pair.behind.add(&pair.chat, "k2", "B").await).1, "admitted");
    assert_eq!(pair.link.record().opened(), 2);
}

#[tokio::test]
async fn a_link_that_is_cut_on_one_side_lives_on_the_other() {
    let mut pair = Pair::new().await;
    pair.beside.subscribe(&pair.chat).await;
    let entry_id = pair.beside.admit(&pair.chat, "k1", "A").await;
    let edit = pair.chat.with(json!({"entry_id": entry_id}));
    pair.behind.ok("message.queue.edit.begin", edit).await;

    pair.link.act(&[Do::CutClient]);
    assert_eq!(pair.behind.closed().await.code, None);
    // The server has answered everything since, and still holds the edit for a link it believes in.
    let entries = pair.beside.entries(&pair.chat).await;
    assert!(entries[0]["editing"].is_object(), "{entries:?}");

    pair.behind = Client::connect_to(pair.link.address()).await;
    pair.beside.forget_notifications();
    pair.link.act(&[Do::CutServer]);
    let action = "message.queue.status_changed";
    pair.beside.notified(action, |status| status["entries"][0]["editing"].is_null()).await;
    // This side can still write into it; nothing comes of it.
    pair.behind.send(ADD, pair.chat.prompt("k2", "B")).await.unwrap();
    pair.link.until_seen(&Matching::request(ADD), 1);
    assert_eq!(pair.waiting().await, ["A"]);
}

#[tokio::test]
async fn new_connections_are_turned_away_until_they_are_not() {
    let pair = Pair::new().await;
    pair.link.act(&[Do::Refuse]);
    Client::dial_to(pair.link.address()).await.map(drop).unwrap_err();
    pair.link.act(&[Do::Accept]);
    Client::connect_to(pair.link.address()).await;
    let record = pair.link.record();
    assert_eq!(record.opened(), 2);
    assert_eq!(record.0.iter().filter(|seen| matches!(seen, Seen::Refused)).count(), 1);
}

#[tokio::test]
async fn a_black_hole_loses_everything_and_new_connections_hang_until_it_is_gone() {
    let mut pair = Pair::new().await;
    pair.link.act(&[Do::BlackHole]);
    pair.behind.send(ADD, pair.chat.prompt("k1", "A")).await.unwrap();
    let record = pair.link.until_seen(&Matching::request(ADD), 1);
    assert_eq!(record.passed(&Matching::request(ADD)).len(), 0);

    let address = pair.link.address().to_owned();
    let next = tokio::spawn(async move { Client::connect_to(&address).await });
    pair.behind.cut();
    pair.link.until("the client's end", |record| record.client_left(1));
    pair.link.mark("healed");
    pair.link.act(&[Do::Accept]);
    let mut next = next.await.unwrap();
    assert_eq!(accepted(&next.add(&pair.chat, "k2", "B").await).1, "admitted");
    assert_eq!(pair.link.record().after("healed").opened(), 1);
    let entries = pair.beside.entries(&pair.chat).await;
    assert_eq!(contents(&entries), ["B"]);
    pair.server.terminate();
}

#[tokio::test]
async fn a_stalled_link_brings_everything_later_in_order() {
    let mut pair = Pair::new().await;
    pair.link.act(&[Do::Stall]);
    let mut asked = Vec::new();
    for id in ["k1", "k2", "k3"] {
        asked.push(pair.behind.send(ADD, pair.chat.prompt(id, id)).await.unwrap());
    }
    assert_eq!(pair.waiting().await, Vec::<String>::new());
    pair.link.act(&[Do::Flow]);
    for id in asked {
        assert_eq!(accepted(&pair.behind.answer(&id).await.unwrap()).1, "admitted");
    }
    assert_eq!(pair.waiting().await, ["k1", "k2", "k3"]);
}

#[tokio::test]
async fn a_slow_link_is_overtaken_and_loses_nothing() {
    for slow in [Do::Delay(std::time::Duration::from_secs(1)), Do::Throttle(100_000)] {
        let mut pair = Pair::new().await;
        pair.link.act(&[slow]);
        let text = "x".repeat(100_000);
        let asked = pair.behind.send(ADD, pair.chat.prompt("k1", &text)).await.unwrap();
        pair.beside.admit(&pair.chat, "k2", "B").await;
        pair.link.act(&[Do::FullSpeed]);
        assert_eq!(accepted(&pair.behind.answer(&asked).await.unwrap()).1, "admitted");
        assert_eq!(pair.waiting().await, ["B", text.as_str()], "{slow:?}");
    }
}

#[tokio::test]
async fn the_nth_frame_of_a_kind_is_swallowed_and_others_pass() {
    let mut pair = Pair::new().await;
    pair.link.rule(Rule::nth(2, Matching::request(ADD)).swallow());
    pair.link.rule(Rule::first(Matching::answer(ADD).saying("k3")).swallow());
    for id in ["k1", "k2", "k3", "k4"] {
        pair.behind.send(ADD, pair.chat.prompt(id, id)).await.unwrap();
    }
    let passed =
        |record: &usher_tests::faulty::Record| record.passed(&Matching::answer(ADD)).len() == 2;
    let record = pair.link.until("two answers", passed);
    assert_eq!(pair.waiting().await, ["k1", "k3", "k4"]);
    assert_eq!(record.frames(&Matching::request(ADD)).len(), 4);
    assert_eq!(record.passed(&Matching::request(ADD)).len(), 3);
}

#[tokio::test]
async fn a_held_frame_comes_when_it_is_let_go() {
    let mut pair = Pair::new().await;
    pair.link.rule(Rule::first(Matching::answer(ADD)).hold());
    let first = pair.behind.send(ADD, pair.chat.prompt("k1", "A")).await.unwrap();
    let second = pair.behind.add(&pair.chat, "k2", "B").await;
    assert_eq!(accepted(&second).1, "admitted");
    pair.link.act(&[Do::Release]);
    assert_eq!(accepted(&pair.behind.answer(&first).await.unwrap()).1, "admitted");
    let record = pair.link.record();
    let answers: Vec<_> = record.passed(&Matching::answer(ADD));
    assert_eq!(answers[1].json()["id"], first);
}

#[tokio::test]
async fn a_frame_is_rewritten_or_answered_in_the_servers_place() {
    let mut pair = Pair::new().await;
    pair.link.rule(Rule::every(Matching::answer("hello")).rewrite(|hello| {
        hello["payload"]["capabilities"] = json!([]);
    }));
    pair.link.rule(Rule::first(Matching::request(ADD)).refuse("queue_full", json!({"max": 1})));
    let mut behind = Client::dial_to(pair.link.address()).await.unwrap();
    assert_eq!(behind.hello(json!({})).await.unwrap()["capabilities"], json!([]));
    let refused = behind.add(&pair.chat, "k1", "A").await;
    assert_eq!(refused, Err(Refusal::new("queue_full", json!({"max": 1}))));
    assert_eq!(pair.waiting().await, Vec::<String>::new());
    let forged = Matching::answer(ADD).saying(RAW_TEXT);
    assert_eq!(pair.link.record().passed(&forged).len(), 1);
}

#[tokio::test]
async fn a_link_can_end_in_the_middle_of_a_frame() {
    let mut pair = Pair::new().await;
    pair.link.rule(Rule::first(Matching::request(ADD)).part(40).then([Do::Cut]));
    let closed = pair.behind.try_request(ADD, pair.chat.prompt("k1", "A")).await.unwrap_err();
    assert_eq!(closed.code, None);
    assert_eq!(pair.waiting().await, Vec::<String>::new());
}
