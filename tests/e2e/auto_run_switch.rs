//! The auto-run switch itself: who turns it, and what it stays at.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use usher_tests::client::Client;
use usher_tests::scene::Scene;
use uuid::Uuid;

fn off(reason: &str) -> (Value, Value) {
    (json!(false), json!(reason))
}

fn on() -> (Value, Value) {
    (json!(true), Value::Null)
}

#[tokio::test]
async fn c079_nothing_but_its_own_switch_turns_auto_run_on() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let ids = scene.admit_all(&["/demo hang", "b", "c", "d"]).await;
    assert_eq!(scene.auto_run().await, off("user"), "add");
    scene.client.add(&scene.chat, "b", "b").await.unwrap();
    assert_eq!(scene.auto_run().await, off("user"), "replay");
    let ordered = json!({"ordered_ids": [ids[0], ids[2], ids[1], ids[3]]});
    scene.act("message.queue.reorder", ordered).await;
    assert_eq!(scene.auto_run().await, off("user"), "reorder");
    scene.act("message.queue.merge", json!({"entry_id": ids[1]})).await;
    assert_eq!(scene.auto_run().await, off("user"), "merge");
    let removed = scene.act("message.queue.remove", json!({"entry_id": ids[3]})).await;
    assert_eq!(scene.auto_run().await, off("user"), "remove");
    let undo = json!({"undo_id": removed["undo_id"]});
    scene.act("message.queue.restore", undo).await;
    assert_eq!(scene.auto_run().await, off("user"), "restore");
    let now = json!({"scope": "entry", "entry_id": ids[0], "resume": false});
    scene.act("message.queue.send_now", now).await;
    scene.client.until_running(&scene.chat).await;
    assert_eq!(scene.auto_run().await, off("user"), "send now");
    scene.cancel().await;
    scene.settled().await;
    assert_eq!(scene.auto_run().await, off("user"), "cancel keeps the reason");
    let turn = scene.client.transcript(&scene.chat).await[0]["turn_id"].clone();
    let drop_it = json!({"turn_id": turn, "resolution": "drop"});
    assert_eq!(scene.ask("turn.resolve", drop_it).await.unwrap_err().code, "turn_changed");
    let mut scene = scene.restarted().await;
    assert_eq!(scene.auto_run().await, off("user"), "restart");
    let cleared = scene.act("message.queue.cancel", json!({})).await;
    assert_eq!(scene.auto_run().await, off("user"), "clear");
    scene.act("message.queue.restore", json!({"undo_id": cleared["undo_id"]})).await;
    assert_eq!(scene.waiting().await, ["c\n\nb", "d"]);
    assert_eq!(scene.auto_run().await, off("user"), "restore");
    assert_eq!(scene.prompts().await, ["/demo hang"]);
}

#[tokio::test]
async fn c079_nothing_but_what_stops_the_queue_turns_auto_run_off() {
    let mut scene = Scene::new().await;
    scene.client.admit(&scene.chat, "first", "/demo ask").await;
    scene.asked().await;
    let ids = scene.admit_all(&["/demo ask; say b", "c", "d"]).await;
    let ordered = json!({"ordered_ids": [ids[0], ids[2], ids[1]]});
    scene.act("message.queue.reorder", ordered).await;
    scene.act("message.queue.merge", json!({"entry_id": ids[1]})).await;
    let removed = scene.act("message.queue.remove", json!({"entry_id": ids[2]})).await;
    scene.act("message.queue.restore", json!({"undo_id": removed["undo_id"]})).await;
    assert_eq!(scene.auto_run().await, on());
    let now = json!({"scope": "entry", "entry_id": ids[0], "resume": false});
    scene.act("message.queue.send_now", now).await;
    scene.asked().await;
    assert_eq!(scene.auto_run().await, on(), "send now");
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "/demo ask; say b", "d\n\nc"]);
    let mut scene = scene.restarted().await;
    assert_eq!(scene.auto_run().await, on(), "restart");
}

#[tokio::test]
async fn c079_two_switches_with_a_lost_reply_end_where_the_last_one_put_it() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let instance = json!({"client_instance": Uuid::new_v4()});
    for round in 0..50 {
        let (first, last) = (round % 2 == 0, round % 2 == 1);
        let mut link = Client::dial(&scene.server).await.unwrap();
        link.hello(instance.clone()).await.unwrap();
        let switch = |enabled: bool| scene.chat.with(json!({"enabled": enabled}));
        link.send("message.queue.auto_run.set", switch(first)).await.unwrap();
        // The answer is never read. The client comes back and asks for the other position.
        link.send_raw(Message::Close(None)).await.unwrap();
        let mut link = Client::dial(&scene.server).await.unwrap();
        link.hello(instance.clone()).await.unwrap();
        let answer = link.ok("message.queue.auto_run.set", switch(last)).await;
        assert_eq!(answer["auto_run"], json!(last));
        assert_eq!(scene.auto_run().await.0, json!(last), "round {round}");
    }
    let mut scene = scene.restarted().await;
    assert_eq!(scene.auto_run().await.0, json!(true));
}

#[tokio::test]
async fn on_tries_the_head_at_once_but_never_beside_a_turn() {
    let mut scene = Scene::new().await;
    scene.asking("A").await;
    scene.park().await;
    scene.admit("B").await;
    let switched = scene.client.set_auto_run(&scene.chat, true).await;
    assert_eq!(switched["dispatched"], false);
    assert_eq!(scene.waiting().await, ["B"]);
    scene.park().await;
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.waiting().await, ["B"], "switched off before the turn ended");
    let switched = scene.client.set_auto_run(&scene.chat, true).await;
    assert_eq!(switched["dispatched"], true);
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "B"]);
}
