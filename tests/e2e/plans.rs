//! The plan of a session and the comments on it.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::{Scene, refused};

/// Steps as they are shown, all of them still to be done.
fn steps(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({"text": text, "status": "pending"})).collect()
}

async fn planned(plan: &str) -> Scene {
    let mut scene = Scene::new().await;
    publish(&mut scene, "plan", plan).await;
    scene
}

/// Has the agent publish a plan; returns when the turn is over.
async fn publish(scene: &mut Scene, id: &str, plan: &str) {
    let text = format!("/demo plan {plan}");
    scene.client.admit(&scene.chat, id, &text).await;
    scene.settled().await;
}

async fn plan(scene: &mut Scene) -> Value {
    scene.act("plan.get", json!({})).await
}

async fn add(scene: &mut Scene, fields: Value) -> Value {
    scene.act("plan.comment.add", fields).await["comment"].take()
}

async fn refused_field(scene: &mut Scene, action: &str, fields: Value) -> (String, Value) {
    let refusal = scene.ask(action, fields).await.unwrap_err();
    assert_eq!(refusal.code, "validation");
    (string(&refusal.details["field"]), refusal.details["limit"].clone())
}

fn conflict(comment: &Value) -> Answer {
    Err(Refusal::new("plan_comment_conflict", json!({"id": comment["id"]})))
}

#[tokio::test]
async fn the_plan_of_a_session_is_the_last_one_also_after_a_kill() {
    let mut scene = Scene::new().await;
    assert_eq!(plan(&mut scene).await, json!({"plan": null, "comments": []}));
    publish(&mut scene, "k1", "A | B").await;
    let first = plan(&mut scene).await;
    assert_eq!(first["plan"]["entries"], steps(&["A", "B"]));
    publish(&mut scene, "k2", "[x] A|[>] B|C").await;
    let second = plan(&mut scene).await;
    assert_eq!(
        second["plan"]["entries"],
        json!([
            {"text": "A", "status": "completed"},
            {"text": "B", "status": "in_progress"},
            {"text": "C", "status": "pending"},
        ])
    );
    assert_ne!(first["plan"]["id"], second["plan"]["id"]);
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "plan")), ["A\nB", "A\nB\nC"]);
    let mut scene = scene.restarted().await;
    assert_eq!(plan(&mut scene).await, second);
}

#[tokio::test]
async fn a_turn_that_changes_its_plan_keeps_its_name_and_watchers_are_told_each_time() {
    let mut scene = Scene::new().await;
    scene.admit("/demo plan A|B; ask; plan [x] A|B").await;
    let first = scene.client.notified("plan.changed", |_| true).await;
    assert_eq!(first["plan"]["entries"], steps(&["A", "B"]));
    assert_eq!(first["comments"], json!([]));
    assert_eq!(first["session_id"], scene.chat.session_id);
    assert!(first["event_seq"].is_u64() && first["epoch"].is_string(), "{first}");
    scene.answer().await;
    scene.settled().await;
    let now = plan(&mut scene).await;
    assert_eq!(now["plan"]["entries"][0]["status"], "completed");
    assert_eq!(now["plan"]["id"], first["plan"]["id"]);
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "plan")), ["A\nB"]);
}

#[tokio::test]
async fn a_plan_beyond_its_bounds_is_cut_and_the_transcript_has_it_all() {
    let long = "é".repeat(2_000);
    let length = |n| if n == 99 { long.len() } else { 0 };
    let all: Vec<String> = (0..120).map(|n| format!("{n:03}{}", &long[..length(n)])).collect();
    let mut scene = planned(&all.join("|")).await;
    let shown = plan(&mut scene).await;
    let entries = shown["plan"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 100);
    assert_eq!(entries[98]["text"], "098");
    assert_eq!(entries[99]["text"], json!(format!("099{}", "é".repeat(1_022))));
    let transcript = scene.client.transcript(&scene.chat).await;
    let message = by_role(&transcript, "plan").pop().unwrap();
    let read = json!({"message_id": message["id"], "offset": 0, "length": 524_288});
    let whole = scene.act("transcript.read", read).await;
    assert_eq!(whole["text"], json!(all.join("\n")));
}

#[tokio::test]
async fn a_comment_is_made_changed_and_taken_away_and_watchers_are_told() {
    let mut scene = planned("A|B").await;
    let about = json!({"entry_index": 1, "selected_text": "B", "body": "why?"});
    let made = add(&mut scene, about).await;
    assert_eq!(
        made,
        json!({
            "id": made["id"], "version": 1, "entry_index": 1, "selected_text": "B",
            "body": "why?", "state": "pending",
        })
    );
    let whole = add(&mut scene, json!({"body": "fine", "entry_index": null})).await;
    assert_eq!((&whole["entry_index"], &whole["selected_text"]), (&Value::Null, &Value::Null));
    let told = scene.client.notified("plan.changed", |told| told["comments"][1] != Value::Null);
    assert_eq!(told.await["comments"], json!([made, whole]));

    let change = json!({"id": made["id"], "version": 1, "body": "why not?"});
    let mut changed = made.clone();
    (changed["version"], changed["body"]) = (json!(2), json!("why not?"));
    let answer = scene.act("plan.comment.update", change.clone()).await;
    assert_eq!(answer, json!({"comment": changed}));
    assert_eq!(scene.ask("plan.comment.update", change).await, conflict(&made));
    let stale = json!({"id": made["id"], "version": 1});
    assert_eq!(scene.ask("plan.comment.remove", stale).await, conflict(&made));
    let future = json!({"id": made["id"], "version": 3});
    assert_eq!(scene.ask("plan.comment.remove", future).await, conflict(&made));
    assert_eq!(plan(&mut scene).await["comments"], json!([changed, whole]));

    let mut scene = scene.restarted().await;
    assert_eq!(plan(&mut scene).await["comments"], json!([changed, whole]));
    let remove = json!({"id": made["id"], "version": 2});
    let removed = scene.act("plan.comment.remove", remove.clone()).await;
    assert_eq!(removed, json!({"id": made["id"]}));
    let told = scene.client.notified("plan.changed", |_| true).await;
    assert_eq!(told["comments"], json!([whole]));
    assert_eq!(scene.ask("plan.comment.remove", remove).await, refused("not_found"));
}

#[tokio::test]
async fn a_comment_that_cannot_be_is_refused_with_what_is_wrong_with_it() {
    let mut scene = Scene::new().await;
    let without_plan = scene.ask("plan.comment.add", json!({"body": "x"})).await;
    assert_eq!(without_plan, refused("not_found"));
    publish(&mut scene, "plan", "A").await;
    for (fields, field, limit) in [
        (json!({}), "body", Value::Null),
        (json!({"body": " \n"}), "body", Value::Null),
        (json!({"body": "a\u{0}"}), "body", Value::Null),
        (json!({"body": "x".repeat(8_193)}), "body", json!(8_192)),
        (json!({"body": "x", "entry_index": 1}), "entry_index", Value::Null),
        (json!({"body": "x", "entry_index": -1}), "entry_index", Value::Null),
        (
            json!({"body": "x", "entry_index": 9_007_199_254_740_993_u64}),
            "entry_index",
            Value::Null,
        ),
        (json!({"body": "x", "selected_text": 5}), "selected_text", Value::Null),
        (json!({"body": "x", "selected_text": "x".repeat(4_097)}), "selected_text", json!(4_096)),
    ] {
        let refused = refused_field(&mut scene, "plan.comment.add", fields).await;
        assert_eq!(refused, (field.to_owned(), limit));
    }
    let made = add(&mut scene, json!({"body": "x".repeat(8_192), "entry_index": 0})).await;
    for (fields, field) in [
        (json!({"id": made["id"], "version": 1, "body": ""}), "body"),
        (json!({"id": made["id"], "body": "x"}), "version"),
        (json!({"version": 1, "body": "x"}), "id"),
    ] {
        let refused = refused_field(&mut scene, "plan.comment.update", fields).await;
        assert_eq!(refused.0, field);
    }
    for id in ["", "x", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        let fields = json!({"id": id, "version": 1, "body": "y"});
        assert_eq!(scene.ask("plan.comment.update", fields).await, refused("not_found"), "{id}");
    }
    assert_eq!(plan(&mut scene).await["comments"], json!([made]));
}

#[tokio::test]
async fn comments_have_a_bound_and_a_plan_with_the_largest_of_them_is_told() {
    let long = "\u{1}".repeat(2_048);
    let mut scene = planned(&vec![long; 100].join("|")).await;
    let body = "\u{1}".repeat(8_192);
    let selected = "\u{1}".repeat(4_096);
    // Nobody watches until the last of them.
    let leave = json!({"session_id": scene.chat.session_id});
    scene.client.ok("session.unsubscribe", leave).await;
    for index in 0..100 {
        if index == 99 {
            scene.client.subscribe(&scene.chat).await;
        }
        let fields = json!({"entry_index": index, "selected_text": selected, "body": body});
        add(&mut scene, fields).await;
    }
    let refused = refused_field(&mut scene, "plan.comment.add", json!({"body": "x"})).await;
    assert_eq!(refused, ("comments".to_owned(), json!(100)));
    let told =
        scene.client.notified("plan.changed", |told| told["comments"][99] != Value::Null).await;
    let shown = plan(&mut scene).await;
    assert_eq!((&told["plan"], &told["comments"]), (&shown["plan"], &shown["comments"]));
    let first = &shown["comments"][0];
    let remove = json!({"id": first["id"], "version": 1});
    scene.act("plan.comment.remove", remove).await;
    add(&mut scene, json!({"body": "x"})).await;
}

#[tokio::test]
async fn comments_outlive_the_plan_they_are_about() {
    let mut scene = planned("A|B|C").await;
    let made = add(&mut scene, json!({"entry_index": 2, "selected_text": "C", "body": "x"})).await;
    publish(&mut scene, "k2", "other").await;
    let now = plan(&mut scene).await;
    assert_eq!(now["plan"]["entries"], steps(&["other"]));
    assert_eq!(now["comments"], json!([made]));
}

#[tokio::test]
async fn a_reset_begins_without_a_plan_and_without_comments() {
    let mut scene = planned("A").await;
    let made = add(&mut scene, json!({"body": "x"})).await;
    let old = scene.chat.clone();
    let reset = scene.act("session.reset", json!({})).await;
    scene.chat.incarnation_id = string(&reset["session"]["incarnation_id"]);
    let nothing = json!({"plan": null, "comments": []});
    assert_eq!(plan(&mut scene).await, nothing);
    scene.client.notified("plan.changed", |told| told["plan"] == Value::Null).await;
    let stale = scene.client.request("plan.get", old.identity()).await;
    assert_eq!(stale, refused("queue_session_unavailable"));
    publish(&mut scene, "k2", "B").await;
    let gone = json!({"id": made["id"], "version": 1});
    assert_eq!(scene.ask("plan.comment.remove", gone).await, refused("not_found"));
    assert_eq!(plan(&mut scene).await["comments"], json!([]));
}

#[tokio::test]
async fn an_archived_session_keeps_its_plan_and_a_deleted_one_leaves_nothing() {
    let mut scene = planned("A").await;
    add(&mut scene, json!({"body": "x"})).await;
    let before = plan(&mut scene).await;
    let task = json!({"task_id": scene.chat.task_id});
    scene.client.ok("task.archive", task.clone()).await;
    let archived = scene.ask("plan.get", json!({})).await;
    assert_eq!(archived, refused("queue_session_unavailable"));
    scene.client.ok("task.unarchive", task).await;
    assert_eq!(plan(&mut scene).await, before);
    scene.act("session.delete", json!({})).await;
    let launch = scene.server.launch();
    for table in ["plans", "plan_comments"] {
        assert_eq!(launch.number(&format!("SELECT COUNT(*) FROM {table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn a_comment_of_another_session_or_user_is_not_there() {
    let mut scene = planned("A").await;
    let made = add(&mut scene, json!({"body": "x"})).await;
    let other = Chat::watched(&mut scene.client).await;
    scene.client.admit(&other, "k", "/demo plan B").await;
    scene.client.until_settled(&other).await;
    let id = json!({"id": made["id"], "version": 1, "body": "y"});
    for action in ["plan.comment.update", "plan.comment.remove"] {
        let answer = scene.client.request(action, other.with(id.clone())).await;
        assert_eq!(answer, refused("not_found"), "{action}");
    }
    let token = scene.server.launch().add_user("eve");
    let mut eve = Client::connect_as(&scene.server, &token).await;
    let foreign = eve.request("plan.get", scene.chat.identity()).await;
    assert_eq!(foreign, refused("queue_session_unavailable"));
    assert_eq!(plan(&mut scene).await["comments"], json!([made]));
}
