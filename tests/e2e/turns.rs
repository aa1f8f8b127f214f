//! When the next prompt runs, in which order, and what its turn shows.

use std::io::{Read, Write};

use serde_json::{Value, json};
use usher_tests::chat::{contents, string};
use usher_tests::client::{Client, Refusal};
use usher_tests::scene::Scene;
use usher_tests::server::Launch;
use usher_tests::{in_time, pipe};

#[tokio::test]
async fn a_prompt_is_answered_and_streams_to_subscribers() {
    let mut scene = Scene::new().await;
    scene.admit("hello").await;
    let started = scene.client.notified("turn.started", |_| true).await;
    let mut streamed = String::new();
    let ended = loop {
        let (action, event) = scene.client.notification().await;
        if action == "task.changed" {
            continue;
        }
        assert_eq!(event["session_id"], json!(scene.chat.session_id), "{action}");
        match action.as_str() {
            "transcript.message" if event["role"] == "agent" => {
                streamed = string(&event["content"]);
            }
            "transcript.delta" => {
                let offset = usize::try_from(event["offset"].as_u64().unwrap()).unwrap();
                streamed.truncate(offset);
                assert_eq!(streamed.len(), offset, "a gap in the stream");
                streamed.push_str(event["text"].as_str().unwrap());
            }
            "turn.ended" => break event,
            _ => {}
        }
    };
    assert_eq!(streamed, "You said: hello");
    assert_eq!(ended["turn_id"], started["turn_id"]);
    assert_eq!(
        (&ended["outcome"], &ended["reason"], &ended["text"]),
        (&json!("completed"), &Value::Null, &Value::Null)
    );
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&transcript), ["hello", "You said: hello"]);
    let seqs: Vec<_> = transcript.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2]);
    for message in &transcript {
        assert_eq!(message["status"], "complete");
        assert_eq!(message["turn_id"], started["turn_id"]);
        assert_eq!(message["session_incarnation_id"], json!(scene.chat.incarnation_id));
    }
}

#[tokio::test]
async fn prompts_sent_while_a_turn_runs_wait_and_run_in_order() {
    let mut scene = Scene::new().await;
    scene.running("/demo say busy; hang").await;
    for text in ["A", "B", "C"] {
        scene.admit(text).await;
    }
    assert_eq!(scene.waiting().await, ["A", "B", "C"]);
    scene.cancel().await;
    scene.settled().await;
    scene.client.set_auto_run(&scene.chat, true).await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo say busy; hang", "A", "B", "C"]);
}

#[tokio::test]
async fn c068_the_next_prompt_starts_when_the_turn_ends_without_anybodys_help() {
    let mut scene = Scene::new().await;
    scene.admit("/demo sleep 300ms; say one").await;
    scene.admit("two").await;
    scene.admit("three").await;
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(
        contents(&transcript),
        ["/demo sleep 300ms; say one", "one", "two", "You said: two", "three", "You said: three"]
    );
}

#[tokio::test]
async fn auto_run_off_starts_nothing_and_on_starts_the_head_at_once() {
    let mut scene = Scene::new().await;
    let off = scene.client.set_auto_run(&scene.chat, false).await;
    let id = json!(scene.chat.session_id);
    assert_eq!(off, json!({"session_id": id, "auto_run": false, "dispatched": false}));
    scene.admit("A").await;
    scene.admit("B").await;
    assert_eq!(scene.client.session(&scene.chat).await["state"], "idle");
    assert_eq!(scene.auto_run().await, (json!(false), json!("user")));
    let on = scene.client.set_auto_run(&scene.chat, true).await;
    assert_eq!(on, json!({"session_id": id, "auto_run": true, "dispatched": true}));
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "B"]);
    let on = scene.client.set_auto_run(&scene.chat, true).await;
    assert_eq!(on, json!({"session_id": id, "auto_run": true, "dispatched": false}));
    assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
}

#[tokio::test]
async fn auto_run_off_never_touches_the_running_turn() {
    let mut scene = Scene::new().await;
    scene.running("/demo sleep 300ms; say done").await;
    scene.admit("next").await;
    scene.client.set_auto_run(&scene.chat, false).await;
    scene.settled().await;
    assert_eq!(scene.waiting().await, ["next"]);
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&transcript), ["/demo sleep 300ms; say done", "done"]);
}

#[tokio::test]
async fn auto_run_is_remembered_over_restarts() {
    let mut scene = Scene::new().await;
    scene.client.set_auto_run(&scene.chat, false).await;
    scene.admit("A").await;
    let server = scene.server.kill().start();
    let mut client = Client::connect(&server).await;
    let queue = client.queue(&scene.chat).await;
    assert_eq!((&queue["auto_run"], &queue["auto_run_reason"]), (&json!(false), &json!("user")));
    assert_eq!(contents(&client.entries(&scene.chat).await), ["A"]);
    assert_eq!(client.transcript(&scene.chat).await, Vec::<Value>::new());
}

#[tokio::test]
async fn drain_starts_the_head_and_switches_auto_run_on() {
    let mut scene = Scene::new().await;
    let id = json!(scene.chat.session_id);
    scene.client.set_auto_run(&scene.chat, false).await;
    let identity = scene.chat.identity();
    let empty = scene.client.ok("message.queue.drain", identity.clone()).await;
    assert_eq!(empty, json!({"session_id": id, "drained": false}));

    scene.client.set_auto_run(&scene.chat, false).await;
    scene.admit("/demo say A; hang").await;
    scene.admit("B").await;
    let drained = scene.client.ok("message.queue.drain", identity.clone()).await;
    assert_eq!(drained, json!({"session_id": id, "drained": true}));
    scene.client.until_running(&scene.chat).await;
    assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
    let busy = scene.client.request("message.queue.drain", identity).await;
    assert_eq!(busy, Err(Refusal::new("session_busy", json!({}))));
    assert_eq!(scene.waiting().await, ["B"]);
}

#[tokio::test]
async fn a_cancel_of_another_turn_than_the_running_one_is_refused() {
    let mut scene = Scene::new().await;
    scene.admit("first").await;
    let first = scene.client.notified("turn.started", |_| true).await["turn_id"].clone();
    scene.settled().await;
    scene.running("/demo hang").await;
    let running = scene.client.session(&scene.chat).await["turn"]["id"].clone();
    let wrong = scene.chat.with(json!({"expected_turn_id": first}));
    let refused = scene.client.request("turn.cancel", wrong).await;
    assert_eq!(refused, Err(Refusal::new("turn_changed", json!({"turn_id": running}))));
    let right = scene.chat.with(json!({"expected_turn_id": running}));
    assert_eq!(scene.client.ok("turn.cancel", right).await, json!({"cancelled": true}));
    scene.settled().await;
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_ended_by_force_and_the_next_prompt_runs() {
    let mut scene = Scene::new().await;
    scene.running("/demo deaf").await;
    scene.admit("next").await;
    scene.cancel().await;
    let ended = scene.client.notified("turn.ended", |_| true).await;
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("cancelled"), &json!("forced")));
    scene.client.set_auto_run(&scene.chat, true).await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "next"]);
}

#[tokio::test]
async fn c071_a_queued_prompt_never_answers_a_question() {
    let mut scene = Scene::new().await;
    scene.admit("/demo ask; say went on").await;
    let asked = scene.client.notified("permission.requested", |_| true).await;
    let kinds: Vec<_> =
        asked["options"].as_array().unwrap().iter().map(|option| string(&option["kind"])).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    scene.admit("y").await;
    let session = scene.client.session(&scene.chat).await;
    assert_eq!(session["state"], "awaiting_permission");
    assert_eq!(session["permission"]["request_id"], asked["request_id"]);
    assert_eq!(scene.waiting().await, ["y"]);
    let drain = scene.client.request("message.queue.drain", scene.chat.identity()).await;
    assert_eq!(drain, Err(Refusal::new("session_not_promptable", json!({}))));

    let answer = |option: &str| {
        scene.chat.with(json!({"request_id": asked["request_id"], "option_id": option}))
    };
    let (unknown, reject) = (answer("maybe"), answer("no"));
    let refused = scene.client.request("permission.respond", unknown).await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), &refused.details["field"]),
        ("validation", &json!("option_id"))
    );
    let answered = scene.client.ok("permission.respond", reject.clone()).await;
    assert_eq!(answered, json!({"request_id": asked["request_id"]}));
    let late = scene.client.request("permission.respond", reject).await;
    assert_eq!(late, Err(Refusal::new("permission_closed", json!({}))));
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(
        contents(&transcript),
        ["/demo ask; say went on", "You chose: Reject\nwent on", "y", "You said: y"]
    );
}

#[tokio::test]
async fn a_cancel_closes_an_open_question() {
    let mut scene = Scene::new().await;
    scene.admit("/demo ask; say never").await;
    let asked = scene.client.notified("permission.requested", |_| true).await;
    scene.cancel().await;
    let resolved = scene.client.notified("permission.resolved", |_| true).await;
    assert_eq!(
        (&resolved["request_id"], &resolved["option_id"], &resolved["reason"]),
        (&asked["request_id"], &Value::Null, &json!("cancelled"))
    );
    scene.settled().await;
    let session = scene.client.session(&scene.chat).await;
    assert_eq!((&session["state"], &session["permission"]), (&json!("idle"), &Value::Null));
}

#[tokio::test]
async fn c070_a_pause_between_tool_calls_is_not_the_end_of_a_turn() {
    let mut scene = Scene::new().await;
    scene.admit("/demo tool a 1; sleep 50ms; tool b 2; sleep 50ms; say done").await;
    scene.admit("B").await;
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    let roles: Vec<String> = transcript.iter().map(|message| string(&message["role"])).collect();
    assert_eq!(roles, ["user", "tool", "tool", "agent", "user", "agent"]);
    assert_eq!(transcript[1]["metadata"]["tool"], "a");
    assert_eq!(contents(&transcript)[1..4], ["1", "2", "done"]);
}

#[tokio::test]
async fn c073_the_queue_runs_while_nobody_is_connected() {
    const AGENT: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"sh\"\n\
        args = [\"-c\", \"read line <gate; tee seen\"]\n";
    let launch = Launch::new().config(AGENT);
    let work = launch.home().path("work");
    let (mut gate, mut seen) = (pipe(&work.join("gate")), pipe(&work.join("seen")));
    let task = json!({"agent": "mine", "workspace_dir": work});
    let mut scene = Scene::with(&launch, task).await;
    scene.admit_all(&["A", "B", "C"]).await;
    let Scene { server, client, chat } = scene;
    client.cut();
    gate.write_all(b"go\ngo\ngo\n").unwrap();
    let mut ran = [0; 3];
    let ran = in_time(move || seen.read_exact(&mut ran).map(|()| ran)).await;
    assert_eq!(&ran, b"ABC");
    let mut client = Client::connect(&server).await;
    client.subscribe(&chat).await;
    client.until_settled(&chat).await;
    let transcript = client.transcript(&chat).await;
    assert_eq!(contents(&transcript), ["A", "A", "B", "B", "C", "C"]);
}

#[tokio::test]
async fn late_text_goes_to_its_own_turn_and_never_to_the_next() {
    let mut scene = Scene::new().await;
    scene.admit("/demo say a; late psst").await;
    let is_late = |message: &Value| message["content"] == "psst";
    let late = scene.client.notified("transcript.message", is_late).await;
    scene.admit("b").await;
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&transcript), ["/demo say a; late psst", "a", "psst", "b", "You said: b"]);
    assert_eq!(transcript[0]["turn_id"], late["turn_id"]);
    assert_eq!(transcript[2]["turn_id"], late["turn_id"]);
}

#[tokio::test]
async fn thoughts_tools_and_plans_are_kept_in_order() {
    let mut scene = Scene::new().await;
    scene.admit("/demo think hm; say a; tool grep 3 hits; plan A|B; say b").await;
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    let seen: Vec<(String, String)> = transcript[1..]
        .iter()
        .map(|message| (string(&message["role"]), string(&message["content"])))
        .collect();
    let expected =
        [("thought", "hm"), ("agent", "a"), ("tool", "3 hits"), ("plan", "A\nB"), ("agent", "\nb")]
            .map(|(role, content)| (role.to_owned(), content.to_owned()));
    assert_eq!(seen, expected);
}
