//! Plan mode and models: what a prompt asks for is what its turn has, or nothing reaches the agent.

use serde_json::{Value, json};
use usher_tests::chat::{by_role, contents};
use usher_tests::scene::Scene;
use usher_tests::server::Launch;

const AGENTS: &str = r#"
[agents.able]
kind = "command"
command = "sh"
args = ["-c", "echo ran >>runs; echo model=${USHER_MODEL-unset} plan=${USHER_PLAN_MODE-unset}"]
models = ["large", "small"]
plan_mode = true

[agents.plain]
kind = "command"
command = "sh"
args = ["-c", "echo ran >>runs; echo model=${USHER_MODEL-unset} plan=${USHER_PLAN_MODE-unset}"]

[agents.simple]
kind = "demo"
models = ["m1"]
plan_mode = false
"#;

/// A session of an agent.
async fn of(agent: &str) -> Scene {
    let launch = Launch::new().config(AGENTS);
    let directory = launch.home().path("work").canonicalize().unwrap();
    Scene::with(&launch, json!({"agent": agent, "workspace_dir": directory})).await
}

async fn run(scene: &mut Scene, id: &str, text: &str, fields: Value) {
    let mut payload = json!({"client_queue_id": id, "content": text});
    usher_tests::client::merge(&mut payload, fields);
    scene.act("message.queue.add", payload).await;
    scene.settled().await;
}

/// Returns what the agent said last.
async fn said(scene: &mut Scene) -> String {
    let transcript = scene.client.transcript(&scene.chat).await;
    contents(&by_role(&transcript, "agent")).pop().unwrap_or_default().to_owned()
}

/// Fails unless the newest turn failed for this and the prompt waits as it did before.
async fn assert_kept(scene: &mut Scene, notice: &str, text: &str) {
    let ended = scene.client.notified("turn.ended", |_| true).await;
    let got = (&ended["outcome"], &ended["reason"], &ended["text"]);
    assert_eq!(got, (&json!("failed"), &json!("start_failed"), &json!(text)));
    assert_eq!(scene.last_notice().await, (json!(notice), text.to_owned()));
    assert_eq!(scene.auto_run().await, (json!(false), json!("failed")));
    assert_eq!(scene.prompts().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_demo_agent_runs_in_the_mode_and_with_the_model_of_each_prompt() {
    let mut scene = Scene::new().await;
    for (id, fields, expected) in [
        ("k1", json!({}), "model demo\nnormal mode"),
        ("k2", json!({"model": "demo-fast", "plan_mode": true}), "model demo-fast\nplan mode"),
        // Nothing is left of the turn before.
        ("k3", json!({}), "model demo\nnormal mode"),
        ("k4", json!({"model": "demo"}), "model demo\nnormal mode"),
    ] {
        run(&mut scene, id, "/demo model; mode", fields).await;
        assert_eq!(said(&mut scene).await, expected, "{id}");
    }
}

#[tokio::test]
async fn the_model_of_the_session_counts_where_the_prompt_names_none() {
    let mut scene = Scene::new().await;
    scene.act("session.set", json!({"model": "demo-fast"})).await;
    for (id, fields, expected) in [
        ("k1", json!({}), "model demo-fast"),
        ("k2", json!({"model": "demo"}), "model demo"),
        ("k3", json!({"model": ""}), "model demo"),
    ] {
        run(&mut scene, id, "/demo model", fields).await;
        assert_eq!(said(&mut scene).await, expected, "{id}");
    }
    scene.act("session.set", json!({"model": "m1"})).await;
    scene.admit("lost?").await;
    assert_kept_in(&mut scene, "lost?").await;
    // The prompt names none: with another model of the session it runs.
    scene.act("session.set", json!({"model": ""})).await;
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, "You said: lost?");
}

async fn assert_kept_in(scene: &mut Scene, text: &str) {
    scene.settled().await;
    assert_eq!(scene.waiting().await, [text]);
    assert_eq!(scene.auto_run().await, (json!(false), json!("failed")));
    let text = "demo has no model m1; it has demo, demo-fast";
    assert_eq!(scene.last_notice().await, (json!("model_unavailable"), text.to_owned()));
}

#[tokio::test]
async fn a_prompt_for_a_model_that_is_not_there_is_kept_and_nothing_reaches_the_agent() {
    for (agent, text) in [
        ("able", "able has no model huge; it has large, small"),
        ("plain", "plain has no model huge; it takes none by name"),
        ("simple", "simple has no model huge; it has m1"),
    ] {
        let mut scene = of(agent).await;
        scene.client.forget_notifications();
        let asked = json!({"model": "huge", "client_queue_id": "k", "content": "x"});
        scene.act("message.queue.add", asked).await;
        assert_kept(&mut scene, "model_unavailable", text).await;
        let waiting = scene.client.entries(&scene.chat).await;
        let shown = (&waiting[0]["content"], &waiting[0]["model"], &waiting[0]["target_revision"]);
        assert_eq!(shown, (&json!("x"), &json!("huge"), &json!(1)));
        assert!(!scene.server.launch().home().path("work/runs").exists(), "{agent} was started");
    }
}

#[tokio::test]
async fn a_prompt_for_plan_mode_waits_if_the_agent_has_none() {
    for agent in ["plain", "simple"] {
        let mut scene = of(agent).await;
        scene.client.forget_notifications();
        let asked = json!({"plan_mode": true, "client_queue_id": "k", "content": "x"});
        scene.act("message.queue.add", asked).await;
        let text = format!("{agent} has no plan mode");
        assert_kept(&mut scene, "plan_mode_unavailable", &text).await;
        assert_eq!(scene.waiting().await, ["x"]);
        assert!(!scene.server.launch().home().path("work/runs").exists(), "{agent} was started");
        // What waits behind it runs when it is out of the way.
        let entry = scene.client.entries(&scene.chat).await[0]["id"].clone();
        scene.client.admit(&scene.chat, "next", "/demo say next").await;
        scene.act("message.queue.remove", json!({"entry_id": entry})).await;
        scene.run_all().await;
        assert_eq!(scene.prompts().await, ["/demo say next"]);
    }
}

#[tokio::test]
async fn a_program_is_told_by_its_environment_what_a_turn_asks_for() {
    let mut scene = of("able").await;
    for (id, fields, expected) in [
        ("k1", json!({}), "model=unset plan=unset\n"),
        ("k2", json!({"model": "small", "plan_mode": true}), "model=small plan=1\n"),
        ("k3", json!({"plan_mode": true}), "model=unset plan=1\n"),
        ("k4", json!({"model": "large", "plan_mode": false}), "model=large plan=unset\n"),
    ] {
        run(&mut scene, id, "x", fields).await;
        assert_eq!(said(&mut scene).await, expected, "{id}");
    }
}

#[tokio::test]
async fn what_is_sent_now_and_cannot_run_is_back_at_its_place() {
    let mut scene = Scene::new().await;
    scene.running("/demo hang").await;
    scene.admit("first").await;
    let asked = json!({"model": "m1", "client_queue_id": "k", "content": "x"});
    let entry = scene.act("message.queue.add", asked).await["id"].clone();
    scene.admit("last").await;
    scene.send_now(entry.as_str().unwrap()).await.unwrap();
    scene.settled().await;
    assert_eq!(scene.waiting().await, ["first", "x", "last"]);
    assert_eq!(scene.auto_run().await, (json!(false), json!("failed")));
    assert_eq!(scene.last_notice().await.0, "model_unavailable");
    assert_eq!(scene.prompts().await, ["/demo hang"]);
}
