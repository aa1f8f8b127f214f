//! Several servers over one database.

use rustix::process::Signal;
use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::Client;
use usher_tests::server::{Launch, Server};

/// Short, so that a test need not wait long for a server to be taken for dead.
const IMPATIENT: &str = "node_lease = \"1500ms\"\ndispatch_pass = \"200ms\"\n";

/// Two servers over one database, each with a client.
async fn two_servers(launch: Launch) -> ((Server, Client), (Server, Client)) {
    let second = launch.beside();
    // Both find an empty database.
    let starting = std::thread::spawn(move || second.start());
    let first = launch.start();
    let second = starting.join().unwrap();
    let clients = (Client::connect(&first).await, Client::connect(&second).await);
    ((first, clients.0), (second, clients.1))
}

async fn chat_of(client: &mut Client, auto_run: bool) -> Chat {
    let chat = Chat::create(client).await;
    client.set_auto_run(&chat, auto_run).await;
    chat
}

#[tokio::test]
async fn two_servers_that_get_one_admission_from_many_links_at_once_admit_it_once() {
    let ((first, mut here), (second, mut there)) = two_servers(Launch::new()).await;
    let chat = chat_of(&mut here, false).await;
    let mut links = Vec::new();
    for server in [&first, &second].repeat(4) {
        links.push(Client::connect(server).await);
    }
    let mut expected = Vec::new();
    for round in 0..200 {
        let (id, text) = (format!("k{round}"), format!("text {round}"));
        let racers = links.iter_mut().map(|link| link.add(&chat, &id, &text));
        let answers = futures_util::future::join_all(racers).await;
        let answers: Vec<_> = answers.iter().map(accepted).collect();
        assert!(answers.iter().all(|answer| answer.0 == answers[0].0), "all name one entry");
        let admitted = answers.iter().filter(|answer| answer.1 == "admitted").count();
        let replayed = answers.iter().filter(|answer| answer.1 == "replayed").count();
        assert_eq!((admitted, replayed), (1, 7), "round {round}");
        expected.push(text);
    }
    let entries: Vec<Value> = there.entries(&chat).await;
    assert_eq!(contents(&entries), expected);
}

#[tokio::test]
async fn of_two_orders_that_two_servers_get_at_once_one_wins_whole() {
    let ((_first, mut here), (_second, mut there)) = two_servers(Launch::new()).await;
    let chat = chat_of(&mut here, false).await;
    let mut ids = Vec::new();
    for text in ["a", "b", "c"] {
        ids.push(here.admit(&chat, text, text).await);
    }
    for round in 0..100 {
        let seen = here.queue(&chat).await["queue_revision"].clone();
        let order = |picks: [usize; 3]| {
            let ids = picks.map(|pick| ids[pick].clone());
            chat.with(json!({"ordered_ids": ids, "expected_queue_revision": seen}))
        };
        let (one, two) = (order([2, 0, 1]), order([1, 2, 0]));
        let (one, two) = tokio::join!(
            here.request("message.queue.reorder", one),
            there.request("message.queue.reorder", two)
        );
        let entries = there.entries(&chat).await;
        let (won, lost) = match one.is_ok() {
            true => (["c", "a", "b"], two),
            false => (["b", "c", "a"], one),
        };
        assert_eq!(contents(&entries), won, "round {round}");
        assert_eq!(lost.unwrap_err().code, "queue_changed", "round {round}");
        let back = chat.with(json!({"ordered_ids": ids}));
        here.ok("message.queue.reorder", back).await;
    }
}

#[tokio::test]
async fn two_servers_that_fold_into_the_tail_of_a_full_queue_keep_both_texts() {
    let launch = Launch::new().folding().env("USHER_QUEUE_MAX_PER_SESSION", "1");
    let ((_first, mut here), (_second, mut there)) = two_servers(launch).await;
    for round in 0..200 {
        let chat = chat_of(&mut here, false).await;
        here.admit(&chat, "k0", "first").await;
        let (one, other) =
            tokio::join!(here.add(&chat, "k1", "one"), there.add(&chat, "k2", "two"));
        let (one, other) = (accepted(&one), accepted(&other));
        assert_eq!((one.1.as_str(), other.1.as_str()), ("folded", "folded"), "{round}");
        let queue = there.queue(&chat).await;
        assert_eq!(queue["count"], 1);
        let mut text: Vec<&str> =
            queue["entries"][0]["content"].as_str().unwrap().split("\n\n").collect();
        text[1..].sort();
        assert_eq!(text, ["first", "one", "two"]);
        assert_eq!(accepted(&there.add(&chat, "k1", "one").await).1, "replayed");
        assert_eq!(accepted(&here.add(&chat, "k2", "two").await).1, "replayed");
    }
}

#[tokio::test]
async fn what_one_server_does_is_seen_and_stopped_through_another() {
    let launch = Launch::new();
    let first = launch.start();
    let mut here = Client::connect(&first).await;
    let chat = chat_of(&mut here, true).await;
    here.subscribe(&chat).await;
    here.admit(&chat, "k1", "/demo say busy; hang").await;
    here.until_said(&chat, "busy").await;
    // A server that starts leaves alone what another one runs.
    let second = launch.beside().start();
    let mut there = Client::connect(&second).await;
    there.subscribe(&chat).await;
    assert_eq!(there.session(&chat).await["state"], "running");
    here.admit(&chat, "k2", "/demo stream 40 200").await;
    there.until(&chat, |_, queue| queue["count"] == 1).await;
    there.forget_notifications();
    let cancelled = there.ok("turn.cancel", chat.identity()).await;
    assert_eq!(cancelled["cancelled"], true);
    for client in [&mut here, &mut there] {
        let ended = client.notified("turn.ended", |_| true).await;
        assert_eq!(ended["outcome"], "cancelled");
    }
    // What the first server's agent says next is read at the second as it comes.
    let runs = there.set_auto_run(&chat, true).await;
    assert_eq!(runs["dispatched"], true);
    there.until_settled(&chat).await;
    let whole = by_role(&here.transcript(&chat).await, "agent");
    assert_eq!(by_role(&there.transcript(&chat).await, "agent"), whole);
}

#[tokio::test]
async fn text_that_grows_on_one_server_is_shown_by_another_without_a_gap() {
    let ((_first, mut here), (second, mut there)) = two_servers(Launch::new()).await;
    let chat = chat_of(&mut here, true).await;
    there.subscribe(&chat).await;
    // Whichever server reserves it runs it; the other one shows it all the same.
    here.subscribe(&chat).await;
    here.admit(
        &chat,
        "k1",
        "/demo stream 20 100; sleep 300ms; stream 20 100; sleep 300ms; say end",
    )
    .await;
    for client in [&mut here, &mut there] {
        let mut streamed = String::new();
        loop {
            let (action, event) = client.notification().await;
            match action.as_str() {
                "transcript.message" if event["role"] == "agent" => {
                    streamed = string(&event["content"]);
                }
                "transcript.delta" => {
                    let offset = usize::try_from(event["offset"].as_u64().unwrap()).unwrap();
                    assert!(offset <= streamed.len(), "a gap in the stream");
                    streamed.truncate(offset);
                    streamed.push_str(event["text"].as_str().unwrap());
                }
                "turn.ended" => break,
                _ => {}
            }
        }
        let said = by_role(&client.transcript(&chat).await, "agent");
        assert_eq!(contents(&said), [streamed]);
    }
    drop(second);
}

#[tokio::test]
async fn a_killed_servers_turn_is_settled_by_another_when_its_lease_is_over() {
    let launch = Launch::new().config(IMPATIENT);
    let first = launch.start();
    let mut here = Client::connect(&first).await;
    let chat = chat_of(&mut here, true).await;
    here.subscribe(&chat).await;
    here.admit(&chat, "k1", "/demo say half; hang").await;
    here.until_said(&chat, "half").await;
    here.admit(&chat, "k2", "/demo say next").await;
    let second = launch.beside().start();
    let mut there = Client::connect(&second).await;
    there.subscribe(&chat).await;
    first.kill();
    let ended = there.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "interrupted");
    let queue = there.queue(&chat).await;
    assert_eq!((&queue["count"], &queue["auto_run_reason"]), (&json!(1), &json!("interrupted")));
    there.set_auto_run(&chat, true).await;
    there.until_said(&chat, "next").await;
}

#[tokio::test]
async fn a_server_that_was_taken_for_dead_stops_its_agents_and_changes_nothing_more() {
    let launch = Launch::new().config(IMPATIENT);
    let first = launch.start();
    let mut here = Client::connect(&first).await;
    let chat = chat_of(&mut here, true).await;
    here.subscribe(&chat).await;
    here.admit(&chat, "k1", "/demo say half; hang").await;
    here.until_said(&chat, "half").await;
    let second = launch.beside().start();
    let mut there = Client::connect(&second).await;
    there.subscribe(&chat).await;
    first.signal(Signal::STOP);
    let ended = there.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "interrupted");
    let settled = there.transcript(&chat).await;
    first.signal(Signal::CONT);
    // Nobody told it what was done meanwhile: its watchers start over.
    assert_eq!(here.closed().await.code, Some(1013));
    let mut here = Client::connect(&first).await;
    assert_eq!(here.session(&chat).await["state"], "idle");
    assert_eq!(there.transcript(&chat).await, settled);
    // It goes on under a new lease.
    let other = chat_of(&mut here, true).await;
    here.subscribe(&other).await;
    here.admit(&other, "k1", "/demo say again").await;
    here.until_said(&other, "again").await;
}

/// The agent says its first word when others have settled its turn.
#[tokio::test]
async fn what_an_agent_says_first_when_its_turn_is_settled_waits_for_no_more() {
    let agent = "[agents.late]\nkind = \"command\"\ncommand = \"sh\"\nargs = [\"-c\", \
        \"cat >input; while [ ! -e go ]; do sleep 0.02; done; echo late; sleep 60\"]\n";
    let launch = Launch::new().config(&format!("{IMPATIENT}{agent}"));
    let first = launch.start();
    let mut here = Client::connect(&first).await;
    let work = launch.home().path("work");
    let fields = json!({"agent": "late", "workspace_dir": work});
    let chat = Chat::create_with(&mut here, fields).await;
    here.subscribe(&chat).await;
    here.admit(&chat, "k1", "wait").await;
    here.until_running(&chat).await;
    let second = launch.beside().start();
    let mut there = Client::connect(&second).await;
    there.subscribe(&chat).await;
    first.signal(Signal::STOP);
    let ended = there.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "interrupted");
    std::fs::write(work.join("go"), "").unwrap();
    first.signal(Signal::CONT);
    // It goes on under a new lease, and has let go of its agents by then.
    let mut here = Client::connect(&first).await;
    let other = Chat::create(&mut here).await;
    here.subscribe(&other).await;
    here.admit(&other, "k1", "/demo say again").await;
    here.until_said(&other, "again").await;
    let transcript = there.transcript(&chat).await;
    assert!(transcript.iter().all(|message| message["status"] != "streaming"), "{transcript:?}");
}

#[tokio::test]
async fn who_watches_at_one_server_is_told_of_the_plan_and_comments_that_the_other_stores() {
    let ((_first, mut here), (_second, mut there)) = two_servers(Launch::new()).await;
    let chat = chat_of(&mut here, true).await;
    there.subscribe(&chat).await;
    here.subscribe(&chat).await;
    here.admit(&chat, "k", "/demo plan A|B").await;
    here.until_settled(&chat).await;
    let told = there.notified("plan.changed", |_| true).await;
    assert_eq!(told["plan"]["entries"][1]["text"], "B");
    let about = chat.with(json!({"entry_index": 1, "body": "why?"}));
    let made = here.ok("plan.comment.add", about).await["comment"].take();
    let told = there.notified("plan.changed", |told| told["comments"][0] != Value::Null).await;
    assert_eq!(told["comments"], json!([made]));
    // Each of both servers may take it along, once.
    let refs = json!([{"id": made["id"], "version": made["version"]}]);
    let mut outcomes = Vec::new();
    for (client, id) in [(&mut here, "a"), (&mut there, "b")] {
        let prompt = json!({"client_queue_id": id, "content": "x", "plan_comment_refs": refs});
        outcomes.push(client.request("message.queue.add", chat.with(prompt)).await.is_ok());
    }
    assert_eq!(outcomes, [true, false]);
    here.until_settled(&chat).await;
}
