//! What those who watch a session are told, and how one that was away catches up.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::scene::Scene;

/// The events of a session in the order they came, each of which covers a range of numbers.
#[derive(Debug, Default)]
struct Told {
    events: Vec<(String, Value)>,
}

impl Told {
    /// Reads events after `place` until one `is` the last. Every number is covered once.
    async fn until(client: &mut Client, place: &Value, is: impl Fn(&str, &Value) -> bool) -> Self {
        let mut next = place.as_u64().unwrap() + 1;
        let mut told = Self::default();
        loop {
            let (action, event) = client.notification().await;
            if action == "task.changed" {
                continue;
            }
            let first = event.get("first_event_seq").unwrap_or(&event["event_seq"]);
            assert_eq!(first.as_u64(), Some(next), "{action}");
            next = event["event_seq"].as_u64().unwrap() + 1;
            let last = is(&action, &event);
            told.events.push((action, event));
            if last {
                return told;
            }
        }
    }

    fn of<'a>(&'a self, kind: &str) -> Vec<&'a Value> {
        self.events.iter().filter(|(action, _)| action == kind).map(|(_, event)| event).collect()
    }
}

/// Tells whether a session is idle behind its message number `last`.
fn is_idle_at(last: u64) -> impl Fn(&str, &Value) -> bool {
    move |action, event| {
        action == "session.changed" && event["state"] == "idle" && event["last_seq"] == last
    }
}

async fn resume(client: &mut Client, chat: &Chat, place: &Value, epoch: &Value) -> Value {
    let request = json!({
        "session_id": chat.session_id, "after_event_seq": place, "epoch": epoch,
    });
    client.ok("session.subscribe", request).await
}

#[tokio::test]
async fn every_subscriber_sees_every_event_in_sequence() {
    let mut scene = Scene::new().await;
    let mut second = Client::connect(&scene.server).await;
    let snapshot = second.subscribe(&scene.chat).await;
    let mut next = snapshot["event_seq"].as_u64().unwrap() + 1;
    scene.admit("/demo stream 50 100; say end").await;
    loop {
        let (action, event) = second.notification().await;
        if action == "task.changed" {
            continue;
        }
        let first = event.get("first_event_seq").unwrap_or(&event["event_seq"]);
        assert_eq!(first.as_u64(), Some(next), "{action}");
        assert_eq!(event["epoch"], snapshot["epoch"]);
        next = event["event_seq"].as_u64().unwrap() + 1;
        if action == "session.changed" && event["state"] == "idle" {
            break;
        }
    }
}

#[tokio::test]
async fn a_link_that_comes_back_gets_exactly_what_it_missed() {
    let mut scene = Scene::new().await;
    let mut away = Client::connect(&scene.server).await;
    let snapshot = away.subscribe(&scene.chat).await;
    assert_eq!((&snapshot["resumed"], &snapshot["has_more"]), (&json!(false), &json!(false)));
    away.cut();
    scene.admit("/demo say one; tool t two; think three").await;
    scene.settled().await;
    scene.park().await;
    for number in 0..30 {
        scene.admit(&format!("p{number}")).await;
    }
    scene.act("session.set", json!({"title": "the end"})).await;

    let mut back = Client::connect(&scene.server).await;
    let (place, epoch) = (&snapshot["event_seq"], &snapshot["epoch"]);
    let resumed = resume(&mut back, &scene.chat, place, epoch).await;
    assert_eq!(resumed["resumed"], true);
    assert_eq!(
        (&resumed["queue"], &resumed["messages"], &resumed["epoch"]),
        (&Value::Null, &Value::Null, epoch)
    );
    let told = Told::until(&mut back, place, |action, event| {
        action == "session.changed" && event["title"] == "the end"
    })
    .await;
    assert_eq!((told.of("turn.started").len(), told.of("turn.ended").len()), (1, 1));
    // Of what later states replace only the last is told, and it says which events it stands for.
    let statuses = told.of("message.queue.status_changed");
    assert_eq!(statuses.len(), 1, "{statuses:?}");
    assert!(statuses[0]["first_event_seq"].as_u64() < statuses[0]["event_seq"].as_u64());
    let mut queue = scene.client.queue(&scene.chat).await;
    assert_eq!(statuses[0]["queue_revision"], queue["queue_revision"]);
    assert_eq!(statuses[0]["entries"], queue["entries"].take());
    // What was said is told whole: the last of every message is what is stored.
    let stored = scene.client.transcript(&scene.chat).await;
    for message in &stored {
        let last =
            told.of("transcript.message").into_iter().rfind(|told| told["id"] == message["id"]);
        let last = last.unwrap_or_else(|| panic!("{message} was never told"));
        for field in ["seq", "role", "content", "status", "turn_id"] {
            assert_eq!(last[field], message[field], "{field}");
        }
    }

    // From where it is now there is nothing to tell; the place before the last has one event.
    let newest = told.events.last().unwrap().1["event_seq"].clone();
    let before = json!(newest.as_u64().unwrap() - 1);
    let mut again = Client::connect(&scene.server).await;
    assert_eq!(resume(&mut again, &scene.chat, &newest, epoch).await["resumed"], true);
    assert_eq!(resume(&mut again, &scene.chat, &before, epoch).await["resumed"], true);
    Told::until(&mut again, &before, |action, _| action == "session.changed").await;
}

#[tokio::test]
async fn a_place_of_another_epoch_of_the_future_or_too_far_back_gets_a_snapshot() {
    let mut scene = Scene::new().await;
    let snapshot = scene.client.subscribe(&scene.chat).await;
    scene.admit("hello").await;
    scene.settled().await;
    let (place, epoch) = (&snapshot["event_seq"], &snapshot["epoch"]);
    let future = json!(place.as_u64().unwrap() + 1_000_000);
    let other_epoch = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    let check = |answer: &Value| {
        assert_eq!(answer["resumed"], false);
        assert_eq!(contents(answer["messages"].as_array().unwrap()), ["hello", "You said: hello"]);
        assert_eq!(answer["queue"]["count"], 0);
        assert_eq!(answer["queue"]["event_seq"], answer["event_seq"]);
    };
    let mut other = Client::connect(&scene.server).await;
    for (place, epoch) in
        [(&future, epoch), (place, &other_epoch), (&json!(null), epoch), (place, &json!(null))]
    {
        check(&resume(&mut other, &scene.chat, place, epoch).await);
    }
    // More events than anybody keeps.
    scene.client.ok("session.unsubscribe", json!({"session_id": scene.chat.session_id})).await;
    for batch in 0..84 {
        let mut requests = Vec::new();
        for number in 0..50 {
            let title = scene.chat.with(json!({"title": format!("{batch} {number}")}));
            requests.push(scene.client.send("session.set", title).await.unwrap());
        }
        for request in requests {
            assert!(scene.client.answer(&request).await.unwrap().is_ok());
        }
        // It watches, and reads what it is told.
        other.ok("ping", json!({})).await;
    }
    check(&resume(&mut other, &scene.chat, place, epoch).await);

    let chat = scene.chat.clone();
    let mut scene = scene.restarted().await;
    let answer = resume(&mut scene.client, &chat, place, epoch).await;
    check(&answer);
    assert_ne!(&answer["epoch"], epoch);
}

#[tokio::test]
async fn a_status_never_goes_back_however_fast_the_queue_changes() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let mut watcher = Client::connect(&scene.server).await;
    let snapshot = watcher.subscribe(&scene.chat).await;
    let chat = scene.chat.clone();
    let changing = tokio::spawn(async move {
        for round in 0..100 {
            let ids = scene.admit_all(&[&format!("a{round}"), &format!("b{round}")]).await;
            let entries = scene.client.entries(&scene.chat).await;
            let mut order: Vec<&Value> = entries.iter().map(|entry| &entry["id"]).collect();
            order.reverse();
            scene.act("message.queue.reorder", json!({"ordered_ids": order})).await;
            scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
        }
        scene.act("session.set", json!({"title": "the end"})).await;
        scene
    });
    let told = Told::until(&mut watcher, &snapshot["event_seq"], |action, event| {
        action == "session.changed" && event["title"] == "the end"
    })
    .await;
    let mut scene = changing.await.unwrap();
    let revisions: Vec<u64> = told
        .of("message.queue.status_changed")
        .iter()
        .map(|status| status["queue_revision"].as_u64().unwrap())
        .collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
    let queue = scene.client.queue(&chat).await;
    let last = *told.of("message.queue.status_changed").last().unwrap();
    assert_eq!(last["queue_revision"], queue["queue_revision"]);
    assert_eq!(last["entries"], queue["entries"]);
}

#[tokio::test]
async fn only_what_is_watched_is_told_and_only_while_it_is() {
    let mut scene = Scene::new().await;
    let mut other = Client::connect(&scene.server).await;
    let second = Chat::create(&mut scene.client).await;
    let name = |chat: &Chat| json!({"session_id": chat.session_id});
    let first = scene.chat.clone();
    for chat in [&first, &second] {
        other.subscribe(chat).await;
    }
    other.ok("session.unsubscribe", name(&first)).await;
    other.forget_notifications();
    for chat in [&first, &second] {
        scene.client.subscribe(chat).await;
        scene.client.admit(chat, "k", "hello").await;
        scene.client.until_settled(chat).await;
    }
    loop {
        let (action, event) = other.notification().await;
        if action == "task.changed" {
            continue;
        }
        assert_eq!(event["session_id"], json!(second.session_id), "{action}");
        if is_idle_at(2)(&action, &event) {
            break;
        }
    }
    // To stop watching what is not watched is no error; to watch twice tells everything once.
    assert_eq!(other.ok("session.unsubscribe", name(&first)).await, name(&first));
    other.ok("session.unsubscribe", name(&second)).await;
    other.subscribe(&first).await;
    let place = other.subscribe(&first).await["event_seq"].clone();
    // What came before that answer is before that place.
    other.forget_notifications();
    scene.client.admit(&first, "k2", "again").await;
    Told::until(&mut other, &place, is_idle_at(4)).await;
}

#[tokio::test]
async fn a_snapshot_has_the_newest_hundred_messages_and_says_that_there_are_more() {
    let mut scene = Scene::new().await;
    scene.park().await;
    for number in 0..55 {
        scene.admit(&format!("p{number}")).await;
    }
    scene.run_all().await;
    let snapshot = scene.client.subscribe(&scene.chat).await;
    let messages = snapshot["messages"].as_array().unwrap();
    let all = scene.client.transcript(&scene.chat).await;
    assert_eq!((all.len(), &snapshot["has_more"]), (110, &json!(true)));
    assert_eq!(messages[..], all[10..]);
    assert_eq!(snapshot["session"]["last_seq"], 110);
}

#[tokio::test]
async fn answers_come_between_the_events_of_a_long_stream() {
    let mut scene = Scene::new().await;
    scene.admit("/demo ask; stream 20000 100; ask; say end").await;
    scene.answer().await;
    // Asked while the answer streams: nothing waits for its end, which waits for a question.
    for number in 0..200 {
        scene.admit(&format!("p{number}")).await;
        scene.client.forget_notifications();
    }
    scene.client.set_auto_run(&scene.chat, false).await;
    scene.answer().await;
    scene.settled().await;
    let said = by_role(&scene.client.transcript(&scene.chat).await, "agent");
    assert_eq!(said[0]["content_truncated"], true);
    assert_eq!(scene.waiting().await.len(), 200);
}

#[tokio::test]
async fn a_link_watches_so_many_sessions_and_no_more() {
    let mut scene = Scene::new().await;
    let (chat, task) = (scene.chat.clone(), json!({"task_id": scene.chat.task_id}));
    let made = async |client: &mut Client| {
        let made = client.ok("session.create", task.clone()).await;
        Chat::of_session(&made["session"])
    };
    for _ in 1..256 {
        let one = made(&mut scene.client).await;
        scene.client.subscribe(&one).await;
    }
    let more = made(&mut scene.client).await;
    let (watched, wanted) =
        (json!({"session_id": chat.session_id}), json!({"session_id": more.session_id}));
    let refused = scene.client.request("session.subscribe", wanted).await;
    let too_many = Refusal::new("rate_limited", json!({"retry_after_ms": 5_000}));
    assert_eq!(refused, Err(too_many));
    // What is watched can be asked for again, and another link has its own.
    scene.client.subscribe(&chat).await;
    Client::connect(&scene.server).await.subscribe(&more).await;
    scene.client.ok("session.unsubscribe", watched).await;
    scene.client.subscribe(&more).await;
}
