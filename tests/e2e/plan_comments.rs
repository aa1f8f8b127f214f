//! Plan comments that prompts take along: each once, to the agent, whatever happens to the prompt.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Answer, Client, Refusal, merge};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

/// A session with auto-run off and a plan of two steps.
async fn planned(launch: &Launch) -> Scene {
    let mut scene = Scene::of(launch).await;
    scene.admit("/demo plan A|B").await;
    scene.settled().await;
    scene.park().await;
    scene
}

async fn comment(scene: &mut Scene, fields: Value) -> Value {
    scene.act("plan.comment.add", fields).await["comment"].take()
}

async fn comments(scene: &mut Scene) -> Vec<Value> {
    let plan = scene.act("plan.get", json!({})).await;
    plan["comments"].as_array().unwrap().clone()
}

fn reference(comment: &Value) -> Value {
    json!({"id": comment["id"], "version": comment["version"]})
}

/// The payload of an admission with comments.
fn with(chat: &Chat, id: &str, text: &str, refs: &[Value]) -> Value {
    let mut payload = chat.prompt(id, text);
    merge(&mut payload, json!({"plan_comment_refs": refs}));
    payload
}

async fn add(scene: &mut Scene, id: &str, text: &str, refs: &[Value]) -> Answer {
    scene.client.request("message.queue.add", with(&scene.chat, id, text, refs)).await
}

fn conflict(comment: &Value) -> Answer {
    Err(Refusal::new("plan_comment_conflict", json!({"id": comment["id"]})))
}

async fn said(scene: &mut Scene) -> String {
    let transcript = scene.client.transcript(&scene.chat).await;
    contents(&by_role(&transcript, "agent")).pop().unwrap_or_default().to_owned()
}

const WHY: &str = "Comments on the plan:\n\nOn step 2, \"B\":\n> a part\nwhy?";

fn why() -> Value {
    json!({"entry_index": 1, "selected_text": "a part", "body": "why?"})
}

#[tokio::test]
async fn an_admission_takes_its_comments_along_and_they_reach_the_agent() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    let whole = comment(&mut scene, json!({"body": "fine"})).await;
    let refs = [reference(&whole), reference(&made)];
    let entry = add(&mut scene, "k1", "go on", &refs).await.unwrap();
    assert_eq!(entry["metadata"]["plan_comment_refs"], json!(refs));
    let told = scene.client.notified("plan.changed", |told| {
        let comments = told["comments"].as_array().unwrap();
        comments.len() == 2 && comments.iter().all(|one| one["state"] == "consumed")
    });
    assert_eq!(told.await["comments"], json!(comments(&mut scene).await));
    let waiting = scene.client.entries(&scene.chat).await;
    assert_eq!(waiting[0]["metadata"]["plan_comment_refs"], json!(refs));
    // The plan of the time when a comment was made is what it is about.
    let mut scene = scene.restarted().await;
    scene.run_all().await;
    let expected =
        "Comments on the plan:\n\nOn the plan:\nfine\n\nOn step 2, \"B\":\n> a part\nwhy?";
    assert_eq!(said(&mut scene).await, format!("{expected}\nYou said: go on"));
    let prompt = by_role(&scene.client.transcript(&scene.chat).await, "user").pop().unwrap();
    assert_eq!(prompt["content"], "go on");
    assert_eq!(prompt["metadata"]["plan_comment_refs"], json!(refs));
}

#[tokio::test]
async fn a_comment_is_taken_along_once_as_it_was_seen_or_nothing_is_stored() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    let stays = comment(&mut scene, json!({"body": "stays"})).await;
    let other = Chat::watched(&mut scene.client).await;
    scene.client.admit(&other, "k", "/demo plan C").await;
    scene.client.until_settled(&other).await;
    let foreign = scene.client.ok("plan.comment.add", other.with(json!({"body": "x"}))).await;
    let foreign = foreign["comment"].clone();
    let unknown = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057", "version": 1});
    let mut stale = reference(&made);
    stale["version"] = json!(2);
    for wrong in [&stale, &foreign, &unknown] {
        let refs = [reference(&stays), reference(wrong)];
        assert_eq!(add(&mut scene, "k1", "x", &refs).await, conflict(wrong), "{wrong}");
    }
    let malformed = [json!({"id": "x", "version": 1})];
    let refusal = add(&mut scene, "k1", "x", &malformed).await.unwrap_err();
    assert_eq!(refusal.code, "plan_comment_conflict");
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 0);
    assert_eq!(comments(&mut scene).await, [made.clone(), stays.clone()]);

    // The refused ID stayed free.
    add(&mut scene, "k1", "x", &[reference(&made)]).await.unwrap();
    let again = add(&mut scene, "k2", "y", &[reference(&stays), reference(&made)]).await;
    assert_eq!(again, conflict(&made));
    for action in ["plan.comment.update", "plan.comment.remove"] {
        let mut fields = reference(&made);
        merge(&mut fields, json!({"body": "z"}));
        assert_eq!(scene.ask(action, fields).await, conflict(&made), "{action}");
    }
    assert_eq!(scene.waiting().await, ["x"]);
    assert_eq!(comments(&mut scene).await[1], stays);
}

#[tokio::test]
async fn two_admissions_of_one_comment_at_once_are_one() {
    let mut scene = planned(&Launch::new()).await;
    for round in 0..10 {
        let refs = [reference(&comment(&mut scene, json!({"body": "x"})).await)];
        let mut links = Vec::new();
        for side in ["a", "b"] {
            let mut client = Client::connect(&scene.server).await;
            let payload = with(&scene.chat, &format!("{side}{round}"), side, &refs);
            let id = client.send("message.queue.add", payload).await.unwrap();
            links.push((client, id));
        }
        let mut outcomes = Vec::new();
        for (mut client, id) in links {
            let answer = client.answer(&id).await.unwrap();
            outcomes.push(answer.map_or_else(|refusal| refusal.code, |_| "admitted".to_owned()));
        }
        outcomes.sort();
        assert_eq!(outcomes, ["admitted", "plan_comment_conflict"]);
    }
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 10);
}

#[tokio::test]
async fn an_exact_replay_answers_as_the_first_time_whatever_became_of_the_entry() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    let other = comment(&mut scene, json!({"body": "other"})).await;
    let refs = [reference(&made)];
    let first = add(&mut scene, "k1", "x", &refs).await.unwrap();
    let removed = scene.act("message.queue.remove", json!({"entry_id": first["id"]})).await;
    let mut expected = first;
    expected["admission"]["outcome"] = json!("replayed");
    assert_eq!(add(&mut scene, "k1", "x", &refs).await, Ok(expected.clone()));
    for others in [&[][..], &[reference(&other)], &[reference(&made), reference(&other)]] {
        let answer = add(&mut scene, "k1", "x", others).await;
        assert_eq!(answer, refused("queue_id_conflict"));
    }
    // Consumed is consumed: the removal can be undone, and its receipt says so for ever.
    assert_eq!(comments(&mut scene).await[0]["state"], "consumed");
    let undo = json!({"undo_id": removed["undo_id"]});
    scene.act("message.queue.restore", undo).await;
    let waiting = scene.client.entries(&scene.chat).await;
    assert_eq!(waiting[0]["metadata"]["plan_comment_refs"], json!(refs));
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, format!("{WHY}\nYou said: x"));
    assert_eq!(add(&mut scene, "k1", "x", &refs).await, Ok(expected));
    scene.act("message.queue.cancel", json!({})).await;
    let states: Vec<_> =
        comments(&mut scene).await.iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["consumed", "pending"]);
}

#[tokio::test]
async fn a_prompt_with_comments_needs_no_text_but_an_id() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    let refs = [reference(&made)];
    let field = |answer: Answer| {
        let refusal = answer.unwrap_err();
        assert_eq!(refusal.code, "validation");
        (string(&refusal.details["field"]), refusal.details["limit"].clone())
    };
    let unidentified = json!({"content": "x", "plan_comment_refs": refs});
    let answer = scene.ask("message.queue.add", unidentified).await;
    assert_eq!(field(answer), ("client_queue_id".to_owned(), Value::Null));
    let twice = add(&mut scene, "k", "x", &[refs[0].clone(), refs[0].clone()]).await;
    assert_eq!(field(twice), ("plan_comment_refs".to_owned(), Value::Null));
    let many: Vec<Value> = (0..101).map(|n| json!({"id": format!("{n}"), "version": 1})).collect();
    let many = add(&mut scene, "k", "x", &many).await;
    assert_eq!(field(many), ("plan_comment_refs".to_owned(), json!(100)));
    let nothing = add(&mut scene, "k", " ", &[]).await;
    assert_eq!(field(nothing), ("content".to_owned(), Value::Null));
    assert_eq!(comments(&mut scene).await, [made]);

    let entry = add(&mut scene, "k", "", &refs).await.unwrap();
    // Its text may be taken away again, too.
    let edit = json!({"entry_id": entry["id"]});
    let lease = scene.act("message.queue.edit.begin", edit).await["lease_id"].clone();
    for (operation, text) in [("o1", "some"), ("o2", " ")] {
        let entry = scene.client.entries(&scene.chat).await[0].clone();
        let save = json!({
            "entry_id": entry["id"], "lease_id": lease, "operation_id": operation,
            "expected_target_revision": entry["target_revision"], "content": text,
        });
        scene.act("message.queue.update", save).await;
    }
    scene.act("message.queue.edit.end", json!({"entry_id": entry["id"], "lease_id": lease})).await;
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, WHY);
}

#[tokio::test]
async fn a_prompt_with_comments_joins_no_other_and_no_other_joins_it() {
    let mut scene = planned(&Launch::new().folding()).await;
    let mut ids = Vec::new();
    for (id, commented) in [("A", false), ("B", true), ("C", false), ("D", false), ("E", true)] {
        let refs = match commented {
            true => vec![reference(&comment(&mut scene, json!({"body": id})).await)],
            false => Vec::new(),
        };
        let answer = add(&mut scene, id, id, &refs).await;
        let outcome = if id == "D" { "folded" } else { "admitted" };
        assert_eq!(accepted(&answer).1, outcome, "{id}");
        ids.push(answer.unwrap()["id"].clone());
    }
    assert_eq!(scene.waiting().await, ["A", "B", "C\n\nD", "E"]);
    for index in [1, 2, 4] {
        let answer = scene.ask("message.queue.merge", json!({"entry_id": ids[index]})).await;
        assert_eq!(answer, refused("no_merge_target"), "{index}");
    }
    let all = scene.ask("message.queue.send_now", json!({"scope": "all"})).await;
    assert_eq!(all, Err(Refusal::new("send_now_overflow", json!({"limit": "plan_comments"}))));
    assert_eq!(scene.client.session(&scene.chat).await["state"], "idle");
    scene.run_all().await;
    assert_eq!(scene.prompts().await[1..], ["A", "B", "C\n\nD", "E"]);

    scene.park().await;
    let refs = [reference(&comment(&mut scene, json!({"body": "alone"})).await)];
    add(&mut scene, "F", "F", &refs).await.unwrap();
    let sent = scene.act("message.queue.send_now", json!({"scope": "all"})).await;
    assert_eq!(sent["sent_count"], 1);
    scene.settled().await;
    assert_eq!(said(&mut scene).await, "Comments on the plan:\n\nOn the plan:\nalone\nYou said: F");
}

#[tokio::test]
async fn a_full_queue_leaves_the_comments_where_they_are() {
    let launch = Launch::new().folding().env("USHER_QUEUE_MAX_PER_SESSION", "1");
    let mut scene = planned(&launch).await;
    let made = comment(&mut scene, why()).await;
    scene.admit("A").await;
    let full = add(&mut scene, "k", "x", &[reference(&made)]).await;
    assert_eq!(full.unwrap_err().code, "queue_full");
    assert_eq!(comments(&mut scene).await, [made]);
}

#[tokio::test]
async fn comments_go_with_their_entry_to_another_session_and_stay_when_theirs_is_deleted() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    add(&mut scene, "k", "x", &[reference(&made)]).await.unwrap();
    let old = scene.chat.clone();
    let new = Chat::create(&mut scene.client).await;
    scene.client.subscribe(&new).await;
    scene.client.set_auto_run(&new, false).await;
    let to = json!({
        "to_task_id": new.task_id, "to_session_id": new.session_id,
        "to_session_incarnation_id": new.incarnation_id,
    });
    scene.act("session.transfer", to).await;
    assert_eq!(comments(&mut scene).await, Vec::<Value>::new());
    scene.client.ok("session.delete", old.identity()).await;
    scene.chat = new;
    assert_eq!(comments(&mut scene).await, Vec::<Value>::new());
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, format!("{WHY}\nYou said: x"));
}

#[tokio::test]
async fn a_reset_that_keeps_the_queue_keeps_what_its_prompts_took_along() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    comment(&mut scene, json!({"body": "pending"})).await;
    add(&mut scene, "k", "x", &[reference(&made)]).await.unwrap();
    let reset = scene.act("session.reset", json!({"keep_queue": true})).await;
    scene.chat.incarnation_id = string(&reset["session"]["incarnation_id"]);
    assert_eq!(comments(&mut scene).await, Vec::<Value>::new());
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, format!("{WHY}\nYou said: x"));
}

#[tokio::test]
async fn a_prompt_that_runs_again_brings_its_comments_again() {
    let mut scene = planned(&Launch::new()).await;
    let made = comment(&mut scene, why()).await;
    add(&mut scene, "k", "/demo fail no luck", &[reference(&made)]).await.unwrap();
    scene.run_all().await;
    let prompt = by_role(&scene.client.transcript(&scene.chat).await, "user").pop().unwrap();
    let resolve = json!({"turn_id": prompt["turn_id"], "resolution": "resend"});
    scene.act("turn.resolve", resolve).await;
    scene.idle().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "agent")), [WHY, WHY]);
}

#[tokio::test]
async fn a_program_gets_the_comments_below_the_prompt() {
    const CAT: &str = "[agents.cat]\nkind = \"command\"\ncommand = \"cat\"\n";
    let mut scene = planned(&Launch::new().config(CAT)).await;
    let made = comment(&mut scene, why()).await;
    add(&mut scene, "k", "go on", &[reference(&made)]).await.unwrap();
    let session = json!({"task_id": scene.chat.task_id, "agent": "cat"});
    let session = scene.client.ok("session.create", session).await;
    let new = Chat::of_session(&session["session"]);
    let to = json!({
        "to_task_id": new.task_id, "to_session_id": new.session_id,
        "to_session_incarnation_id": new.incarnation_id,
    });
    scene.act("session.transfer", to).await;
    scene.chat = new.clone();
    scene.client.subscribe(&new).await;
    scene.run_all().await;
    assert_eq!(said(&mut scene).await, format!("go on\n\n{WHY}"));
}
