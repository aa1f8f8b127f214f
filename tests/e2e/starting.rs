//! A turn whose agent may have the prompt but has not shown that it does: for as long as that
//! lasts, and whatever happens meanwhile, nobody gets the prompt a second time.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use usher_tests::chat::{accepted, by_role, contents, string};
use usher_tests::client::Refusal;
use usher_tests::pipe;
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Launch;

/// Answers with how much it was sent. A run that finds the file `block` first does what is in there,
/// with its prompt unread.
const AGENT: &str = r#"
dispatch_pass = "10ms"
[agents.gated]
kind = "command"
command = "sh"
args = ["-c", "echo ran >>runs; if [ -e block ]; then mv block now; . ./now; fi; wc -c"]
"#;

struct Gated {
    scene: Scene,
    work: PathBuf,
    gate: File,
}

/// More than a pipe holds: until it is read, the program cannot have all of it.
fn long(text: &str) -> String {
    format!("{text} {}", "x".repeat(200_000))
}

impl Gated {
    /// A session whose prompt `A` is on its way to an agent that does not read it before the gate
    /// is open.
    async fn new() -> Self {
        Self::with("read line <gate").await
    }

    /// The same with an agent that does this first.
    async fn with(block: &str) -> Self {
        let launch = Launch::new().config(AGENT);
        let work = launch.home().path("work");
        let gate = pipe(&work.join("gate"));
        fs::write(work.join("block"), block).unwrap();
        let task = json!({"agent": "gated", "workspace_dir": work});
        let mut scene = Scene::with(&launch, task).await;
        scene.client.admit(&scene.chat, "A", &long("A")).await;
        scene.client.until(&scene.chat, |session, _| session["state"] == "starting").await;
        let mut gated = Self { scene, work, gate };
        gated.at_the_gate().await;
        gated
    }

    /// Waits until the program waits.
    async fn at_the_gate(&mut self) {
        while self.work.join("block").exists() {
            self.scene.client.ok("ping", json!({})).await;
        }
    }

    /// Lets the program read.
    fn open(&mut self) {
        self.gate.write_all(b"go\n").unwrap();
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.work.join("runs")).unwrap().lines().count()
    }

    async fn prompts(&mut self) -> Vec<(String, String)> {
        let prompts = by_role(&self.scene.client.transcript(&self.scene.chat).await, "user");
        let short = |text: &Value| string(text)[..1].to_owned();
        prompts.iter().map(|p| (short(&p["content"]), string(&p["status"]))).collect()
    }
}

fn prompt(text: &str, status: &str) -> (String, String) {
    (text.to_owned(), status.to_owned())
}

#[tokio::test]
async fn c018_a_prompt_on_its_way_is_reserved_until_the_agent_takes_it_and_is_sent_once() {
    let mut gated = Gated::new().await;
    let scene = &mut gated.scene;
    scene.admit("B").await;
    for _ in 0..100 {
        // Pass after pass finds the turn open.
        let replay = scene.client.add(&scene.chat, "A", &long("A")).await;
        assert_eq!(accepted(&replay).1, "replayed");
    }
    let queue = scene.client.queue(&scene.chat).await;
    assert_eq!(
        (&queue["count"], contents(queue["entries"].as_array().unwrap())),
        (&json!(2), vec!["B"])
    );
    assert_eq!(scene.client.session(&scene.chat).await["state"], "starting");
    assert_eq!(scene.ask("message.queue.drain", json!({})).await, refused("session_busy"));
    assert_eq!(gated.runs(), 1);
    gated.open();
    gated.scene.settled().await;
    assert_eq!(gated.prompts().await, [prompt("A", "complete"), prompt("B", "complete")]);
    let answers = by_role(&gated.scene.client.transcript(&gated.scene.chat).await, "agent");
    assert_eq!(contents(&answers), ["200002\n", "1\n"]);
    assert_eq!(gated.runs(), 2);
}

/// Longer than any limit that somebody could think of for a hand-over.
#[tokio::test]
async fn c018_an_agent_that_takes_its_prompt_after_35_seconds_gets_it_once() {
    let mut gated = Gated::with("sleep 35").await;
    gated.scene.admit("B").await;
    gated.scene.settled().await;
    assert_eq!(gated.prompts().await, [prompt("A", "complete"), prompt("B", "complete")]);
    let transcript = gated.scene.client.transcript(&gated.scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "agent")), ["200002\n", "1\n"]);
    assert_eq!(gated.runs(), 2);
}

#[tokio::test]
async fn c037_what_is_on_its_way_to_the_agent_is_in_no_order_and_runs_first() {
    let mut gated = Gated::new().await;
    let scene = &mut gated.scene;
    let ids = scene.admit_all(&["B", "C"]).await;
    let a = accepted(&scene.client.add(&scene.chat, "A", &long("A")).await).0;
    let revision = scene.client.queue(&scene.chat).await["queue_revision"].clone();
    let changed = Refusal::new("queue_changed", json!({"queue_revision": revision}));
    for order in [vec![&ids[1], &ids[0], &a], vec![&a, &ids[1], &ids[0]]] {
        let answer = scene.ask("message.queue.reorder", json!({"ordered_ids": order})).await;
        assert_eq!(answer, Err(changed.clone()));
    }
    assert_eq!(scene.waiting().await, ["B", "C"]);
    scene.act("message.queue.reorder", json!({"ordered_ids": [ids[1], ids[0]]})).await;
    assert_eq!(scene.waiting().await, ["C", "B"]);
    assert_eq!(scene.client.session(&scene.chat).await["state"], "starting");
    gated.open();
    gated.scene.settled().await;
    let expected = ["A", "C", "B"].map(|text| prompt(text, "complete"));
    assert_eq!(gated.prompts().await, expected);
}

#[tokio::test]
async fn c060_what_is_sent_now_before_the_agent_has_the_first_prompt_runs_after_it_has_ended() {
    let mut gated = Gated::new().await;
    let scene = &mut gated.scene;
    let ids = scene.admit_all(&["B", "C"]).await;
    scene.client.forget_notifications();
    let now = |id: &str| scene.chat.with(json!({"scope": "entry", "entry_id": id}));
    let (b, c) = (now(&ids[0]), now(&ids[1]));
    let b = scene.client.send("message.queue.send_now", b).await.unwrap();
    let c = scene.client.send("message.queue.send_now", c).await.unwrap();
    assert_eq!(scene.client.answer(&b).await.unwrap().unwrap()["dispatched"], true);
    // The first claim is still waiting for the end of the turn, or runs already and is replaced.
    if let Err(refusal) = scene.client.answer(&c).await.unwrap() {
        assert_eq!(Err(refusal), refused("send_now_conflict"));
    }
    let ended = scene.turns(1).await;
    assert_eq!(
        (&ended[0]["outcome"], &ended[0]["reason"]),
        (&json!("cancelled"), &json!("replaced"))
    );
    scene.settled().await;
    let mut prompts = gated.prompts().await;
    // It may have had the first one, so that it does not wait again.
    assert_eq!(prompts.remove(0), prompt("A", "complete"));
    prompts.sort();
    assert_eq!(prompts, [prompt("B", "complete"), prompt("C", "complete")]);
    assert_eq!(gated.scene.client.queue(&gated.scene.chat).await["count"], 0);
}

#[tokio::test]
async fn c074_a_restart_while_the_agent_may_have_the_prompt_asks_somebody_and_sends_nothing() {
    let mut gated = Gated::new().await;
    gated.scene.admit("B").await;
    let turn = gated.scene.client.session(&gated.scene.chat).await["turn"]["id"].clone();
    gated.scene = gated.scene.restarted().await;
    let scene = &mut gated.scene;
    assert_eq!(scene.client.session(&scene.chat).await["state"], "idle");
    assert_eq!(scene.auto_run().await, (json!(false), json!("uncertain_turn")));
    assert_eq!(scene.waiting().await, ["B"]);
    assert_eq!(scene.notices().await, ["turn_uncertain"]);
    let replay = scene.client.add(&scene.chat, "A", &long("A")).await;
    assert_eq!(accepted(&replay).1, "replayed");
    assert_eq!(gated.prompts().await, [prompt("A", "uncertain")]);
    assert_eq!(gated.runs(), 1);

    // Only when asked, and on the same message; B still waits for its own switch.
    let resend = json!({"turn_id": turn, "resolution": "resend"});
    gated.scene.act("turn.resolve", resend.clone()).await;
    gated.scene.idle().await;
    assert_eq!(gated.prompts().await, [prompt("A", "complete")]);
    assert_eq!(gated.runs(), 2);
    let again = gated.scene.ask("turn.resolve", resend).await.unwrap_err();
    assert_eq!(again.code, "turn_changed");
    assert_eq!(gated.scene.waiting().await, ["B"]);
    gated.scene.run_all().await;
    assert_eq!(gated.prompts().await, [prompt("A", "complete"), prompt("B", "complete")]);
    assert_eq!(gated.runs(), 3);
}

#[tokio::test]
async fn a_cancel_before_the_agent_has_the_prompt_parks_what_waits_and_sends_nothing_again() {
    let mut gated = Gated::new().await;
    gated.scene.admit("B").await;
    assert_eq!(gated.scene.cancel().await, json!({"cancelled": true}));
    gated.scene.settled().await;
    assert_eq!(gated.scene.auto_run().await, (json!(false), json!("cancelled")));
    assert_eq!(gated.scene.waiting().await, ["B"]);
    assert_eq!(gated.prompts().await, [prompt("A", "complete")]);
    gated.scene = gated.scene.restarted().await;
    assert_eq!(gated.prompts().await, [prompt("A", "complete")]);
    assert_eq!(gated.runs(), 1);
}
