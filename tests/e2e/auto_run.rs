//! Auto-run: what keeps the queue going, and what parks it.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::scene::{Scene, passes, refused};
use usher_tests::server::Launch;

fn off(reason: &str) -> (Value, Value) {
    (json!(false), json!(reason))
}

#[tokio::test]
async fn c065_after_a_cancel_and_a_restart_what_waits_can_be_sent_now_or_removed() {
    let mut scene = Scene::new().await;
    scene.running("/demo hang").await;
    scene.admit_all(&["B", "C", "D"]).await;
    scene.cancel().await;
    scene.settled().await;
    assert_eq!(scene.waiting().await, ["B", "C", "D"]);
    // Another link sees the same; so does the next server.
    let mut other = Client::connect(&scene.server).await;
    assert_eq!(contents(&other.entries(&scene.chat).await), ["B", "C", "D"]);
    other.cut();
    let mut scene = scene.restarted().await;
    assert_eq!(scene.auto_run().await, off("cancelled"));
    let entries = scene.client.entries(&scene.chat).await;
    assert_eq!(contents(&entries), ["B", "C", "D"]);
    scene.act("message.queue.remove", json!({"entry_id": entries[0]["id"]})).await;
    // Without switching the queue on: one runs, the other still waits.
    let ask = json!({"scope": "entry", "entry_id": entries[2]["id"], "resume": false});
    scene.act("message.queue.send_now", ask).await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo hang", "D"]);
    assert_eq!(scene.waiting().await, ["C"]);
    assert_eq!(scene.auto_run().await, off("cancelled"));
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["/demo hang", "D", "C"]);
}

#[tokio::test]
async fn c067_a_head_that_waits_with_auto_run_on_is_never_stuck() {
    let mut scene = Scene::new().await;
    for round in 0..20 {
        let (b, d) = (format!("B{round}"), format!("D{round}"));
        scene.client.admit(&scene.chat, &format!("A{round}"), "/demo hang").await;
        scene.client.until_running(&scene.chat).await;
        scene.admit(&b).await;
        scene.cancel().await;
        // Switched on again while the cancelled turn may still be ending.
        scene.client.set_auto_run(&scene.chat, true).await;
        scene.admit(&d).await;
        scene.settled().await;
        let prompts = scene.prompts().await;
        assert_eq!(prompts[round * 3..], ["/demo hang".to_owned(), b, d], "round {round}");
    }
}

#[tokio::test]
async fn c068_with_a_regular_pass_that_never_comes_the_end_of_a_turn_starts_the_next() {
    let launch = Launch::new().config("dispatch_pass = \"1h\"\n");
    let mut scene = Scene::of(&launch).await;
    scene.asking("A").await;
    scene.admit_all(&["B", "C"]).await;
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "B", "C"]);
    // The same after every kind of end that does not park.
    for end in ["late x", "refuse", "fail x", "crash"] {
        let text = format!("/demo ask; {end}");
        scene.admit(&text).await;
        scene.asked().await;
        let next = format!("after {end}");
        scene.admit(&next).await;
        scene.answer().await;
        scene.client.until(&scene.chat, |session, _| session["state"] == "idle").await;
        scene.run_all().await;
        assert_eq!(scene.prompts().await.last(), Some(&next));
    }
}

#[tokio::test]
async fn c070_nothing_runs_between_the_steps_of_a_turn() {
    let launch = Launch::new().config("dispatch_pass = \"10ms\"\n");
    let mut scene = Scene::of(&launch).await;
    let text = "/demo tool a 1; sleep 30ms; ask; tool b 2; sleep 30ms; ask; say done";
    scene.admit(text).await;
    scene.admit("B").await;
    for _ in 0..2 {
        scene.asked().await;
        assert_eq!(scene.waiting().await, ["B"]);
        assert_eq!(scene.prompts().await, [text]);
        scene.answer().await;
        scene.client.until(&scene.chat, |s, _| s["state"] != "awaiting_permission").await;
    }
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    let prompts: Vec<usize> =
        (0..transcript.len()).filter(|index| transcript[*index]["role"] == "user").collect();
    assert_eq!(prompts, [0, transcript.len() - 2], "{:?}", contents(&transcript));
}

#[tokio::test]
async fn c071_nothing_in_the_queue_answers_a_question_whatever_is_done_to_the_queue() {
    let mut scene = Scene::new().await;
    scene.asking("A").await;
    let question = scene.client.session(&scene.chat).await["permission"].clone();
    let ids = scene.admit_all(&["y", "once", "Allow once"]).await;
    scene.ask("message.queue.drain", json!({})).await.unwrap_err();
    scene.client.set_auto_run(&scene.chat, false).await;
    scene.client.set_auto_run(&scene.chat, true).await;
    let ordered = json!({"ordered_ids": [ids[1], ids[2], ids[0]]});
    scene.act("message.queue.reorder", ordered).await;
    scene.act("message.queue.merge", json!({"entry_id": ids[2]})).await;
    scene.act("message.queue.remove", json!({"entry_id": ids[0]})).await;
    let session = scene.client.session(&scene.chat).await;
    assert_eq!(
        (&session["state"], &session["permission"]),
        (&json!("awaiting_permission"), &question)
    );
    assert_eq!(scene.waiting().await, ["once\n\nAllow once"]);
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo ask", "once\n\nAllow once"]);
}

#[tokio::test]
async fn c076_a_turn_whose_agent_is_gone_ends_before_anything_else_runs() {
    let mut scene = Scene::new().await;
    scene.client.admit(&scene.chat, "A", "/demo say half; ask; crash").await;
    scene.asked().await;
    scene.admit("B").await;
    scene.client.forget_notifications();
    scene.answer().await;
    // Somebody insists the moment it fails.
    let ended = scene.turns(1).await;
    assert_eq!(
        (&ended[0]["outcome"], &ended[0]["reason"]),
        (&json!("failed"), &json!("agent_exit"))
    );
    scene.idle().await;
    assert_eq!(scene.auto_run().await, off("failed"));
    assert_eq!(scene.waiting().await, ["B"]);
    let failed = by_role(&scene.client.transcript(&scene.chat).await, "user").pop().unwrap();
    assert_eq!((&failed["status"], &failed["turn_id"]), (&json!("failed"), &ended[0]["turn_id"]));
    scene.run_all().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    // What the failed turn left stands whole before the next prompt.
    let last_of_failed =
        transcript.iter().rposition(|message| message["turn_id"] == ended[0]["turn_id"]).unwrap();
    let next = transcript.iter().position(|message| message["content"] == "B").unwrap();
    assert!(last_of_failed < next, "{:?}", contents(&transcript));
}

#[tokio::test]
async fn c077_every_failure_costs_one_prompt_and_then_waits_for_somebody() {
    let launch = Launch::new().config("dispatch_pass = \"10ms\"\n");
    let mut scene = Scene::of(&launch).await;
    let bystander = Chat::create(&mut scene.client).await;
    scene.park().await;
    let texts: Vec<String> = (1..=5).map(|number| format!("/demo fail 429 {number}")).collect();
    scene.admit_all(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (number, text) in texts.iter().enumerate() {
        scene.client.forget_notifications();
        scene.client.set_auto_run(&scene.chat, true).await;
        scene.turns(1).await;
        scene.settled().await;
        passes(&scene, &bystander, text).await;
        assert_eq!(scene.auto_run().await, off("failed"));
        assert_eq!(scene.waiting().await, texts[number + 1..]);
        assert_eq!(scene.prompts().await, texts[..=number]);
        assert_eq!(scene.last_notice().await.1, text["/demo fail ".len()..]);
    }
    assert_eq!(scene.notices().await, vec!["turn_failed"; 5]);

    // With an agent that cannot even start, no prompt is used up at all.
    let launch =
        Launch::new().config("dispatch_pass = \"10ms\"\n[agents.x]\nkind = \"command\"\ncommand = \"no-such-program-here\"\n");
    let mut scene = Scene::with(&launch, json!({"agent": "x"})).await;
    let bystander = Chat::create(&mut scene.client).await;
    scene.park().await;
    scene.admit_all(&["A", "B"]).await;
    for tries in 1..=3 {
        scene.client.forget_notifications();
        scene.client.set_auto_run(&scene.chat, true).await;
        scene.turns(1).await;
        scene.settled().await;
        passes(&scene, &bystander, &format!("try {tries}")).await;
        assert_eq!(scene.waiting().await, ["A", "B"]);
        assert_eq!(scene.notices().await, vec!["start_failed"; tries]);
    }
    assert_eq!(scene.prompts().await, Vec::<String>::new());
}

#[tokio::test]
async fn c077_stop_works_at_once_while_prompts_fail() {
    let mut scene = Scene::new().await;
    scene.client.admit(&scene.chat, "A", "/demo hang; fail never").await;
    scene.client.until_running(&scene.chat).await;
    scene.admit_all(&["B", "C"]).await;
    assert_eq!(scene.cancel().await, json!({"cancelled": true}));
    scene.settled().await;
    assert_eq!(scene.auto_run().await, off("cancelled"));
    assert_eq!(scene.waiting().await, ["B", "C"]);
}

#[tokio::test]
async fn drains_from_many_links_start_the_head_once() {
    let mut scene = Scene::new().await;
    let mut links = Vec::new();
    for _ in 0..8 {
        links.push(Client::connect(&scene.server).await);
    }
    for round in 0..25 {
        scene.park().await;
        let ask = format!("/demo ask; say {round}");
        scene.admit_all(&[&ask, &format!("next {round}")]).await;
        let mut requests = Vec::new();
        for link in &mut links {
            requests.push(link.send("message.queue.drain", scene.chat.identity()).await.unwrap());
        }
        let mut drained = 0;
        for (link, request) in links.iter_mut().zip(requests) {
            match link.answer(&request).await.unwrap() {
                Ok(answer) => drained += u32::from(answer["drained"] == true),
                Err(refusal) => {
                    let known = ["session_busy", "session_not_promptable"];
                    assert!(known.contains(&refusal.code.as_str()), "{refusal:?}");
                }
            }
        }
        assert_eq!(drained, 1, "round {round}");
        scene.answer().await;
        scene.settled().await;
    }
    let expected: Vec<String> = (0..25)
        .flat_map(|round| [format!("/demo ask; say {round}"), format!("next {round}")])
        .collect();
    assert_eq!(scene.prompts().await, expected);
}

#[tokio::test]
async fn c019_a_prompt_whose_agent_was_taken_away_waits_with_a_reason_and_stays_accepted() {
    const AGENT: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"cat\"\n";
    let mut scene = Scene::with(&Launch::new().config(AGENT), json!({"agent": "mine"})).await;
    scene.park().await;
    let first = scene.client.add(&scene.chat, "k1", "A").await.unwrap();
    scene.admit("B").await;
    let healthy = Chat::create(&mut scene.client).await;
    let chat = scene.chat.clone();

    let launch = scene.server.kill().config("");
    let mut scene = Scene::again(&launch, chat.clone()).await;
    scene.client.forget_notifications();
    scene.client.set_auto_run(&chat, true).await;
    let ended = scene.turns(1).await.remove(0);
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("failed"), &json!("start_failed")));
    scene.settled().await;
    assert_eq!(scene.auto_run().await, off("failed"));
    assert_eq!(scene.waiting().await, ["A", "B"]);
    let (notice, text) = scene.last_notice().await;
    assert_eq!(notice, "start_failed");
    assert!(text.contains("mine"), "{text}");
    let mut expected = first;
    expected["admission"]["outcome"] = json!("replayed");
    assert_eq!(scene.client.add(&chat, "k1", "A").await, Ok(expected));
    assert_eq!(
        scene
            .ask("turn.resolve", json!({"turn_id": ended["turn_id"], "resolution": "resend"}))
            .await
            .unwrap_err()
            .code,
        "turn_changed"
    );
    // Others go on.
    scene.client.subscribe(&healthy).await;
    scene.client.admit(&healthy, "k", "hello").await;
    scene.client.until_settled(&healthy).await;

    let launch = scene.server.kill().config(AGENT);
    let mut scene = Scene::again(&launch, chat).await;
    scene.run_all().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "agent")), ["A", "B"]);
    assert_eq!(accepted(&scene.client.add(&scene.chat, "k1", "A").await).1, "replayed");
    assert_eq!(
        scene.ask("message.queue.remove", json!({"entry_id": "x"})).await,
        refused("entry_not_found")
    );
    let conflict = scene.client.add(&scene.chat, "k1", "other").await;
    assert_eq!(conflict, Err(Refusal::new("queue_id_conflict", json!({}))));
}
