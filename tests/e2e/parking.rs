//! What parks the queue: a cancel, a failure, a crash; what is shown of it, and how it goes on.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents};
use usher_tests::client::Client;
use usher_tests::scene::{Scene, passes};
use usher_tests::server::Launch;

#[tokio::test]
async fn c065_a_cancel_keeps_the_answer_so_far_and_parks_what_waits() {
    let mut scene = Scene::new().await;
    let text = "/demo say so far; hang";
    scene.running(text).await;
    scene.admit("B").await;
    scene.admit("C").await;
    scene.client.until_said(&scene.chat, "so far").await;
    assert_eq!(scene.cancel().await, json!({"cancelled": true}));
    let ended = scene.client.notified("turn.ended", |_| true).await;
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("cancelled"), &Value::Null));
    scene.settled().await;
    assert_eq!(scene.auto_run().await, (json!(false), json!("cancelled")));
    assert_eq!(scene.waiting().await, ["B", "C"]);
    assert_eq!(scene.last_notice().await.0, "turn_cancelled");
    let answers = by_role(&scene.client.transcript(&scene.chat).await, "agent");
    assert_eq!(contents(&answers), ["so far"]);
    assert_eq!(answers[0]["status"], "interrupted");
    assert_eq!(scene.cancel().await, json!({"cancelled": false}));

    // Parked for as long as it takes, restart included; then everything still works.
    let server = scene.server.kill().start();
    let mut client = Client::connect(&server).await;
    client.subscribe(&scene.chat).await;
    let queue = client.queue(&scene.chat).await;
    assert_eq!(
        (&queue["auto_run"], &queue["auto_run_reason"]),
        (&json!(false), &json!("cancelled"))
    );
    let first = client.entries(&scene.chat).await[0]["id"].clone();
    client.ok("message.queue.remove", scene.chat.with(json!({"entry_id": first}))).await;
    client.ok("message.queue.drain", scene.chat.identity()).await;
    client.until_settled(&scene.chat).await;
    let prompts = by_role(&client.transcript(&scene.chat).await, "user");
    assert_eq!(contents(&prompts), [text, "C"]);
}

#[tokio::test]
async fn a_cancel_with_nothing_waiting_leaves_auto_run_on() {
    let mut scene = Scene::new().await;
    scene.running("/demo hang").await;
    scene.cancel().await;
    scene.settled().await;
    assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
    scene.admit("next").await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo hang", "next"]);
}

#[tokio::test]
async fn c077_a_failed_turn_parks_the_queue_and_shows_why() {
    let mut scene = Scene::new().await;
    for (text, outcome, reason, parked, notice, words) in [
        ("/demo say a; fail no luck", "failed", "error", "failed", "turn_failed", "no luck"),
        ("/demo say b; crash", "failed", "agent_exit", "failed", "turn_failed", ""),
        ("/demo refuse", "completed", "refused", "refused", "turn_refused", ""),
    ] {
        scene.client.set_auto_run(&scene.chat, false).await;
        scene.admit(text).await;
        let next = format!("after {text}");
        scene.admit(&next).await;
        scene.client.set_auto_run(&scene.chat, true).await;
        let is_it = |ended: &Value| ended["reason"] == json!(reason);
        let ended = scene.client.notified("turn.ended", is_it).await;
        assert_eq!(ended["outcome"], json!(outcome), "{text}");
        scene.settled().await;
        assert_eq!(scene.auto_run().await, (json!(false), json!(parked)), "{text}");
        assert_eq!(scene.waiting().await, [next.as_str()]);
        assert_eq!(scene.last_notice().await, (json!(notice), words.to_owned()), "{text}");
        scene.client.set_auto_run(&scene.chat, true).await;
        scene.settled().await;
        assert_eq!(scene.prompts().await.last(), Some(&next));
    }
    let answers = by_role(&scene.client.transcript(&scene.chat).await, "agent");
    assert_eq!(contents(&answers)[0], "a");
    assert!(contents(&answers).contains(&"b"), "what was said before the crash is kept");
}

#[tokio::test]
async fn a_failed_prompt_runs_again_or_is_dropped_only_when_asked() {
    let mut scene = Scene::new().await;
    let text = "/demo fail no luck";
    scene.admit(text).await;
    let turn = scene.client.notified("turn.ended", |_| true).await["turn_id"].clone();
    scene.settled().await;
    let resolve =
        |turn: &Value, how: &str| scene.chat.with(json!({"turn_id": turn, "resolution": how}));
    let resend = resolve(&turn, "resend");
    let drop_it = resolve(&turn, "drop");
    let answer = scene.client.ok("turn.resolve", resend.clone()).await;
    assert_eq!(answer, json!({"turn_id": turn}));
    let second = scene.client.notified("turn.ended", |_| true).await;
    assert_eq!(second["outcome"], "failed");
    assert_ne!(second["turn_id"], turn);
    scene.client.until(&scene.chat, |session, _| session["state"] == "idle").await;
    // The same message, not a second one; and what is resolved stays resolved.
    assert_eq!(scene.prompts().await, [text]);
    for again in [resend, drop_it] {
        let refused = scene.client.request("turn.resolve", again).await.unwrap_err();
        assert_eq!(refused.code, "turn_changed");
    }
    let drop_second = scene.chat.with(json!({"turn_id": second["turn_id"], "resolution": "drop"}));
    scene.client.ok("turn.resolve", drop_second).await;
    let prompts = by_role(&scene.client.transcript(&scene.chat).await, "user");
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0]["metadata"]["resolution"], "drop");
    assert_eq!(prompts[0]["status"], "failed");
}

#[tokio::test]
async fn a_turn_that_a_crash_interrupts_is_shown_and_nothing_is_sent_again() {
    let mut scene = Scene::new().await;
    let text = "/demo say half; hang";
    scene.running(text).await;
    scene.admit("next").await;
    let turn = scene.client.session(&scene.chat).await["turn"]["id"].clone();
    let mut scene = scene.restarted().await;
    let client = &mut scene.client;
    let session = client.session(&scene.chat).await;
    assert_eq!((&session["state"], &session["turn"]), (&json!("idle"), &Value::Null));
    let queue = client.queue(&scene.chat).await;
    assert_eq!(
        (&queue["auto_run"], &queue["auto_run_reason"]),
        (&json!(false), &json!("interrupted"))
    );
    assert_eq!(contents(&client.entries(&scene.chat).await), ["next"]);
    let transcript = client.transcript(&scene.chat).await;
    let prompts = by_role(&transcript, "user");
    assert_eq!(contents(&prompts), [text]);
    assert_eq!(prompts[0]["status"], "interrupted");
    let notices = by_role(&transcript, "system");
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0]["metadata"]["notice"], "turn_interrupted");

    let drop_it = scene.chat.with(json!({"turn_id": turn, "resolution": "drop"}));
    client.ok("turn.resolve", drop_it).await;
    assert_eq!(client.queue(&scene.chat).await["auto_run"], false, "resolving leaves it alone");
    client.set_auto_run(&scene.chat, true).await;
    client.until_settled(&scene.chat).await;
    let prompts = by_role(&client.transcript(&scene.chat).await, "user");
    assert_eq!(contents(&prompts), [text, "next"]);
}

#[tokio::test]
async fn c067_a_parked_head_runs_before_what_comes_later() {
    let mut scene = Scene::new().await;
    scene.running("/demo hang").await;
    scene.admit("B").await;
    scene.cancel().await;
    scene.settled().await;
    scene.admit("D").await;
    assert_eq!(scene.waiting().await, ["B", "D"]);
    scene.client.set_auto_run(&scene.chat, true).await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo hang", "B", "D"]);
}

#[tokio::test]
async fn c074_a_turn_of_two_hours_is_left_alone_and_a_restart_starts_nothing_beside_it() {
    const AGENT: &str = r#"
dispatch_pass = "10ms"
[agents.mine]
kind = "command"
command = "sh"
args = ["-c", "prompt=$(cat); echo $prompt >>runs; echo half; if [ $prompt = A ]; then sleep 1000; fi"]
"#;
    let launch = Launch::new().config(AGENT);
    let work = json!({"agent": "mine", "workspace_dir": launch.home().path("work")});
    let mut scene = Scene::with(&launch, work).await;
    let chat = scene.chat.clone();
    scene.running("A").await;
    scene.client.until_said(&chat, "half\n").await;
    scene.admit("B").await;
    let turn = scene.client.session(&chat).await["turn"]["id"].clone();
    launch.change(
        "UPDATE turns SET started_at = started_at - 7200000;
         UPDATE queue_entries SET queued_at = queued_at - 7200000;
         UPDATE messages SET created_at = created_at - 7200000;",
    );
    let bystander = Chat::create_with(&mut scene.client, json!({"agent": "demo"})).await;
    passes(&scene, &bystander, "first").await;
    let session = scene.client.session(&chat).await;
    assert_eq!((&session["state"], &session["turn"]["id"]), (&json!("running"), &turn));
    assert_eq!(
        (scene.prompts().await, scene.waiting().await),
        (vec!["A".to_owned()], vec!["B".to_owned()])
    );
    assert_eq!(launch.home().read("work/runs"), "A\n");

    // The agent outlives its server.
    let mut scene = scene.restarted().await;
    passes(&scene, &bystander, "second").await;
    assert_eq!(scene.auto_run().await, (json!(false), json!("interrupted")));
    assert_eq!(
        (scene.prompts().await, scene.waiting().await),
        (vec!["A".to_owned()], vec!["B".to_owned()])
    );
    assert_eq!(launch.home().read("work/runs"), "A\n");
    scene.run_all().await;
    assert_eq!(launch.home().read("work/runs"), "A\nB\n");
}
