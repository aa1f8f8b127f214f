//! Send now: chosen entries run next, in the place of what runs.

use serde_json::{Value, json};
use usher_tests::chat::{accepted, by_role, contents};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

fn sent(scene: &Scene, count: u64) -> Answer {
    Ok(json!({"session_id": scene.chat.session_id, "dispatched": true, "sent_count": count}))
}

async fn send(scene: &mut Scene, fields: Value) -> Answer {
    scene.ask("message.queue.send_now", fields).await
}

fn outcomes(ended: &[Value]) -> Vec<(&str, Option<&str>)> {
    ended.iter().map(|turn| (turn["outcome"].as_str().unwrap(), turn["reason"].as_str())).collect()
}

#[tokio::test]
async fn c059_the_chosen_entry_replaces_what_runs_and_the_others_keep_their_order() {
    let mut scene = Scene::new().await;
    let text = "/demo say so far; hang";
    scene.running(text).await;
    scene.client.until_said(&scene.chat, "so far").await;
    let ids = scene.admit_all(&["B", "C", "D"]).await;
    scene.client.forget_notifications();
    assert_eq!(scene.send_now(&ids[1]).await, sent(&scene, 1));
    let ended = scene.turns(4).await;
    assert_eq!(
        outcomes(&ended),
        [
            ("cancelled", Some("replaced")),
            ("completed", None),
            ("completed", None),
            ("completed", None)
        ]
    );
    scene.settled().await;
    assert_eq!(scene.prompts().await, [text, "C", "B", "D"]);
    // Nobody is told that something was cancelled, and nothing is parked.
    assert_eq!(scene.notices().await, Vec::<String>::new());
    assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(
        (&transcript[0]["status"], &transcript[1]["status"]),
        (&json!("complete"), &json!("interrupted"))
    );
}

#[tokio::test]
async fn c059_what_replaces_a_turn_is_followed_by_the_rest_unless_auto_run_is_off_and_stays_off() {
    for (auto_run, resume, goes_on) in [
        (true, json!(null), true),
        (true, json!(false), true),
        (false, json!(null), true),
        (false, json!(true), true),
        (false, json!(false), false),
    ] {
        let mut scene = Scene::new().await;
        scene.running("/demo hang").await;
        let ids = scene.admit_all(&["B", "C"]).await;
        scene.client.set_auto_run(&scene.chat, auto_run).await;
        let ask = json!({"scope": "entry", "entry_id": ids[1], "resume": resume});
        assert_eq!(send(&mut scene, ask).await, sent(&scene, 1));
        scene.settled().await;
        let (prompts, waiting) = (scene.prompts().await, scene.waiting().await);
        if goes_on {
            assert_eq!(prompts, ["/demo hang", "C", "B"], "{auto_run} {resume}");
            assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
        } else {
            assert_eq!(prompts, ["/demo hang", "C"]);
            assert_eq!(waiting, ["B"]);
            assert_eq!(scene.auto_run().await, (json!(false), json!("user")));
        }
    }
}

#[tokio::test]
async fn resume_decides_what_becomes_of_a_parked_queue() {
    for (resume, stays_off) in [(json!(null), false), (json!(true), false), (json!(false), true)] {
        let mut scene = Scene::new().await;
        scene.park().await;
        let ids = scene.admit_all(&["A", "B", "C"]).await;
        let ask = json!({"scope": "entry", "entry_id": ids[1], "resume": resume});
        assert_eq!(send(&mut scene, ask).await, sent(&scene, 1));
        scene.settled().await;
        if stays_off {
            assert_eq!(scene.prompts().await, ["B"]);
            assert_eq!(scene.waiting().await, ["A", "C"]);
            assert_eq!(scene.auto_run().await, (json!(false), json!("user")));
        } else {
            assert_eq!(scene.prompts().await, ["B", "A", "C"]);
            assert_eq!(scene.auto_run().await, (json!(true), Value::Null));
        }
    }
}

#[tokio::test]
async fn all_run_as_one_prompt_in_order_with_the_options_of_the_first() {
    let mut scene = Scene::new().await;
    scene.running("/demo hang").await;
    for (id, fields) in [
        ("A", json!({"model": "demo-fast"})),
        ("B", json!({"model": "demo", "plan_mode": true})),
        ("C", json!({})),
    ] {
        let mut payload = scene.chat.prompt(id, id);
        usher_tests::client::merge(&mut payload, fields);
        scene.client.ok("message.queue.add", payload).await;
    }
    assert_eq!(send(&mut scene, json!({"scope": "all"})).await, sent(&scene, 3));
    scene.settled().await;
    let prompts = by_role(&scene.client.transcript(&scene.chat).await, "user");
    assert_eq!(contents(&prompts), ["/demo hang", "A\n\nB\n\nC"]);
    assert_eq!(prompts[1]["metadata"]["queue_admission_ids"], json!(["A", "B", "C"]));
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 0);
    for id in ["A", "B", "C"] {
        let mut payload = scene.chat.prompt(id, id);
        if id == "C" {
            let replay = scene.client.request("message.queue.add", payload.take()).await;
            assert_eq!(accepted(&replay).1, "replayed");
        }
    }
    assert_eq!(send(&mut scene, json!({"scope": "all"})).await, refused("queue_empty"));
}

#[tokio::test]
async fn what_is_too_much_for_one_prompt_is_refused_before_anything_is_stopped() {
    let mut scene = Scene::new().await;
    scene.asking("asks").await;
    let long = "l".repeat(100_000);
    for id in ["a", "b", "c"] {
        scene.client.admit(&scene.chat, id, &long).await;
    }
    let before = scene.client.queue(&scene.chat).await;
    let overflow = Refusal::new("send_now_overflow", json!({"limit": "content_bytes_max"}));
    assert_eq!(send(&mut scene, json!({"scope": "all"})).await, Err(overflow));
    assert_eq!(scene.client.queue(&scene.chat).await, before);
    // The turn was not touched: it still asks, and can be answered.
    scene.answer().await;
    scene.settled().await;
    assert_eq!(scene.prompts().await.len(), 4);
}

#[tokio::test]
async fn a_request_about_another_moment_claims_nothing() {
    let mut scene = Scene::new().await;
    scene.admit("first").await;
    let ended = scene.turns(1).await;
    scene.settled().await;
    scene.running("/demo hang").await;
    let running = scene.client.session(&scene.chat).await["turn"]["id"].clone();
    let ids = scene.admit_all(&["B", "C"]).await;
    let revision = scene.client.queue(&scene.chat).await["queue_revision"].clone();
    let stale = json!(revision.as_u64().unwrap() - 1);
    let other_turn = json!({"expected_turn_id": ended[0]["turn_id"]});
    let other_queue = json!({"expected_queue_revision": stale});
    for scope in [json!({"scope": "all"}), json!({"scope": "entry", "entry_id": ids[1]})] {
        for (expected, refusal) in [
            (&other_turn, Refusal::new("turn_changed", json!({"turn_id": running}))),
            (&other_queue, Refusal::new("queue_changed", json!({"queue_revision": revision}))),
        ] {
            let mut ask = scope.clone();
            usher_tests::client::merge(&mut ask, expected.clone());
            assert_eq!(send(&mut scene, ask).await, Err(refusal));
        }
    }
    for missing in ["no-such-id", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        assert_eq!(scene.send_now(missing).await, refused("entry_not_found"));
    }
    for (ask, field) in [
        (json!({}), "scope"),
        (json!({"scope": "some"}), "scope"),
        (json!({"scope": "entry"}), "entry_id"),
        (json!({"scope": "entry", "entry_id": 7}), "entry_id"),
        (json!({"scope": "all", "resume": "yes"}), "resume"),
    ] {
        let refusal = send(&mut scene, ask.clone()).await.unwrap_err();
        let got = (refusal.code.as_str(), &refusal.details["field"]);
        assert_eq!(got, ("validation", &json!(field)), "{ask}");
    }
    assert_eq!(scene.client.session(&scene.chat).await["turn"]["id"], running);
    assert_eq!(scene.waiting().await, ["B", "C"]);
    let right = json!({
        "scope": "entry", "entry_id": ids[1],
        "expected_turn_id": running, "expected_queue_revision": revision,
    });
    assert_eq!(send(&mut scene, right).await, sent(&scene, 1));
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["first", "/demo hang", "C", "B"]);
}

#[tokio::test]
async fn a_refused_claim_leaves_auto_run_off() {
    let mut scene = Scene::new().await;
    scene.park().await;
    assert_eq!(send(&mut scene, json!({"scope": "all"})).await, refused("queue_empty"));
    assert_eq!(scene.send_now("no-such-id").await, refused("entry_not_found"));
    scene.admit("A").await;
    assert_eq!(scene.auto_run().await, (json!(false), json!("user")));
    assert_eq!(scene.waiting().await, ["A"]);
}

#[tokio::test]
async fn c063_a_second_try_never_sends_another_entry() {
    let mut scene = Scene::new().await;
    for round in 0..20 {
        scene.asking(&format!("a{round}")).await;
        let (b, c) = (format!("b{round}"), format!("c{round}"));
        let b = scene.client.admit(&scene.chat, &b, "/demo ask").await;
        scene.client.admit(&scene.chat, &c, &c).await;
        let ask = scene.chat.with(json!({"scope": "entry", "entry_id": b}));
        // The link is lost before the answer; the request was received whole.
        let mut link = Client::connect(&scene.server).await;
        link.send("message.queue.send_now", ask.clone()).await.unwrap();
        link.cut();
        let waits = |_: &Value, queue: &Value| queue["entries"].as_array().unwrap().len() == 1;
        scene.client.until(&scene.chat, waits).await;
        for _ in 0..2 {
            let again = scene.client.request("message.queue.send_now", ask.clone()).await;
            assert_eq!(again, refused("entry_not_found"));
        }
        assert_eq!(scene.waiting().await, [c.as_str()]);
        scene.answer().await;
        scene.settled().await;
        assert_eq!(scene.prompts().await[round * 3..], ["/demo ask", "/demo ask", c.as_str()]);
    }
}

#[tokio::test]
async fn c062_with_an_agent_that_cannot_start_the_entry_keeps_its_place_and_the_reason_is_shown() {
    const MISSING: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"no-such-program-here\"\n";
    const FOUND: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"cat\"\n";
    let launch = Launch::new().config(MISSING);
    let mut scene = Scene::with(&launch, json!({"agent": "mine"})).await;
    scene.park().await;
    let ids = scene.admit_all(&["A", "B", "C"]).await;
    // Pressed twice, the second time before the first is answered.
    let ask = scene.chat.with(json!({"scope": "entry", "entry_id": ids[1]}));
    let first = scene.client.send("message.queue.send_now", ask.clone()).await.unwrap();
    let second = scene.client.send("message.queue.send_now", ask).await.unwrap();
    assert_eq!(scene.client.answer(&first).await.unwrap(), sent(&scene, 1));
    let turns = match scene.client.answer(&second).await.unwrap() {
        Ok(_) => 2,
        Err(refusal) => {
            assert_eq!(refusal, Refusal::new("entry_not_found", json!({})));
            1
        }
    };
    for ended in scene.turns(turns).await {
        let got = (&ended["outcome"], &ended["reason"]);
        assert_eq!(got, (&json!("failed"), &json!("start_failed")));
        assert!(ended["text"].as_str().unwrap().contains("no-such-program-here"), "{ended}");
    }
    scene.settled().await;
    assert_eq!(scene.waiting().await, ["A", "B", "C"]);
    assert_eq!(scene.auto_run().await, (json!(false), json!("failed")));
    assert_eq!(scene.prompts().await, Vec::<String>::new());
    let (notice, text) = scene.last_notice().await;
    assert_eq!(notice, "start_failed");
    assert!(text.contains("no-such-program-here"), "{text}");

    // The agent is back.
    let chat = scene.chat.clone();
    let launch = scene.server.kill().config(FOUND);
    let mut scene = Scene::again(&launch, chat).await;
    assert_eq!(scene.waiting().await, ["A", "B", "C"]);
    assert_eq!(scene.send_now(&ids[1]).await, sent(&scene, 1));
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["B", "A", "C"]);
}

#[tokio::test]
async fn an_open_question_is_closed_and_never_answered_by_what_is_sent() {
    let mut scene = Scene::new().await;
    scene.asking("a").await;
    let yes = scene.admit("y").await;
    scene.client.forget_notifications();
    scene.send_now(&yes).await.unwrap();
    let resolved = scene.client.notified("permission.resolved", |_| true).await;
    assert_eq!((&resolved["option_id"], &resolved["reason"]), (&Value::Null, &json!("cancelled")));
    scene.settled().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "user")), ["/demo ask", "y"]);
    assert!(
        !contents(&transcript).iter().any(|text| text.contains("You chose: ")),
        "{transcript:?}"
    );
}

#[tokio::test]
async fn while_a_claim_waits_others_are_refused_and_a_restart_gives_it_back() {
    let mut scene = Scene::new().await;
    scene.running("/demo deaf").await;
    let ids = scene.admit_all(&["A", "B", "C"]).await;
    scene.send_now(&ids[1]).await.unwrap();
    // Hidden, and still counted; nobody else gets the turn's place.
    assert_eq!(scene.waiting().await, ["A", "C"]);
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 3);
    assert_eq!(scene.client.session(&scene.chat).await["state"], "cancelling");
    assert_eq!(scene.send_now(&ids[1]).await, refused("entry_not_found"));
    assert_eq!(scene.send_now(&ids[0]).await, refused("send_now_conflict"));
    assert_eq!(send(&mut scene, json!({"scope": "all"})).await, refused("send_now_conflict"));
    let cancel = scene.ask("turn.cancel", json!({})).await;
    assert_eq!(cancel, refused("send_now_conflict"));
    let busy = scene.ask("message.queue.drain", json!({})).await;
    assert_eq!(busy, refused("session_busy"));
    let remove = scene.ask("message.queue.remove", json!({"entry_id": ids[1]})).await;
    assert_eq!(remove, refused("entry_not_found"));
    let cleared = scene.act("message.queue.cancel", json!({})).await;
    assert_eq!(cleared["removed"], 2);
    assert_eq!(scene.client.queue(&scene.chat).await["count"], 1);
    let undo = json!({"undo_id": cleared["undo_id"]});
    scene.act("message.queue.restore", undo).await;

    let mut scene = scene.restarted().await;
    assert_eq!(scene.waiting().await, ["A", "B", "C"]);
    assert_eq!(scene.auto_run().await, (json!(false), json!("interrupted")));
    assert_eq!(scene.prompts().await, ["/demo deaf"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "A", "B", "C"]);
}

#[tokio::test]
async fn an_agent_that_ignores_its_replacement_is_ended_by_force_and_the_claim_runs() {
    let mut scene = Scene::new().await;
    scene.running("/demo deaf").await;
    let id = scene.admit("next").await;
    scene.client.forget_notifications();
    scene.send_now(&id).await.unwrap();
    let ended = scene.turns(2).await;
    assert_eq!(outcomes(&ended), [("cancelled", Some("replaced")), ("completed", None)]);
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["/demo deaf", "next"]);
    assert_eq!(scene.notices().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_prompt_that_fails_while_it_is_replaced_does_not_stop_the_one_that_replaces_it() {
    let mut scene = Scene::new().await;
    for end in ["fail no luck", "crash", "refuse"] {
        let id = format!("first of {end}");
        scene.client.admit(&scene.chat, &id, &format!("/demo deaf; ask; {end}")).await;
        let next = scene.admit(&format!("after {end}")).await;
        scene.asked().await;
        scene.client.forget_notifications();
        // Its question is closed by the claim, and then it ends in a way of its own.
        scene.send_now(&next).await.unwrap();
        let ended = scene.turns(2).await;
        assert_eq!(
            outcomes(&ended),
            [("cancelled", Some("replaced")), ("completed", None)],
            "{end}"
        );
        scene.settled().await;
        assert_eq!(scene.auto_run().await, (json!(true), Value::Null), "{end}");
        assert_eq!(scene.prompts().await.last(), Some(&format!("after {end}")));
    }
    assert_eq!(scene.notices().await, Vec::<String>::new());
}
