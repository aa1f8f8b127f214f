//! Agents of kind `command`, configured in the server's file.

use std::io::Write;

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents, string};
use usher_tests::client::Client;
use usher_tests::scene::Scene;
use usher_tests::server::{Launch, Server};
use usher_tests::{in_time, pipe};

const AGENTS: &str = r#"
[agents.echo]
kind = "command"
command = "sh"
args = ["-c", "cat; echo; echo in $PWD; echo secret=${SECRET_KEY:-none} named=${NAMED_KEY:-none}"]
env_from = ["NAMED_KEY"]

[agents.broken]
kind = "command"
command = "sh"
args = ["-c", "printf partial; echo 'out of luck' >&2; exit 3"]

[agents.slow]
kind = "command"
command = "sh"
args = ["-c", "echo ran >>runs; cat >/dev/null; sleep 3; echo done"]

[agents.missing]
kind = "command"
command = "no-such-program-here"
"#;

#[tokio::test]
async fn a_program_answers_in_the_directory_of_the_task_without_our_environment() {
    let launch =
        Launch::new().config(AGENTS).env("SECRET_KEY", "do-not-hand-on").env("NAMED_KEY", "wanted");
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let directory = launch.home().path("work").canonicalize().unwrap();
    let fields = json!({"agent": "echo", "workspace_dir": directory});
    let chat = Chat::create_with(&mut client, fields).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "wörld\n\"quoted\"").await;
    client.until_settled(&chat).await;
    let answers = by_role(&client.transcript(&chat).await, "agent");
    let expected =
        format!("wörld\n\"quoted\"\nin {}\nsecret=none named=wanted\n", directory.display());
    assert_eq!(contents(&answers), [expected]);
}

#[tokio::test]
async fn a_program_that_fails_shows_what_it_said_and_parks_the_queue() {
    let server = Launch::new().config(AGENTS).start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create_with(&mut client, json!({"agent": "broken"})).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "x").await;
    client.admit(&chat, "k2", "y").await;
    let ended = client.notified("turn.ended", |_| true).await;
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("failed"), &json!("agent_exit")));
    client.until_settled(&chat).await;
    let transcript = client.transcript(&chat).await;
    assert_eq!(contents(&by_role(&transcript, "agent")), ["partial"]);
    assert_eq!(contents(&by_role(&transcript, "system")), ["out of luck\n"]);
    assert_eq!(contents(&by_role(&transcript, "user")), ["x"]);
    assert_eq!(contents(&client.entries(&chat).await), ["y"]);
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_the_turn_and_keeps_the_prompt() {
    let server = Launch::new().config(AGENTS).start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create_with(&mut client, json!({"agent": "missing"})).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "x").await;
    let ended = client.notified("turn.ended", |_| true).await;
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("failed"), &json!("start_failed")));
    let queue = client.until_settled(&chat).await;
    assert_eq!((&queue["auto_run"], &queue["auto_run_reason"]), (&json!(false), &json!("failed")));
    assert_eq!(contents(&client.entries(&chat).await), ["x"]);
    let transcript = client.transcript(&chat).await;
    assert_eq!(by_role(&transcript, "user"), Vec::<Value>::new());
    let notice = by_role(&transcript, "system").pop().unwrap();
    assert_eq!(notice["metadata"]["notice"], "start_failed");
    assert!(string(&notice["content"]).contains("no-such-program-here"));
}

#[tokio::test]
async fn c018_an_agent_that_is_silent_for_long_gets_its_prompt_once() {
    let launch = Launch::new().config(&format!("dispatch_pass = \"100ms\"\n{AGENTS}"));
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let work = launch.home().path("work");
    let fields = json!({"agent": "slow", "workspace_dir": work});
    let chat = Chat::create_with(&mut client, fields).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "x").await;
    client.until_settled(&chat).await;
    assert_eq!(contents(&client.transcript(&chat).await), ["x", "done\n"]);
    assert_eq!(launch.home().read("work/runs"), "ran\n");
}

/// What it has to say is said long before it is done.
#[tokio::test]
async fn c068_a_turn_that_is_slow_to_end_is_followed_by_the_next_when_it_has_ended() {
    const AGENT: &str = "dispatch_pass = \"1h\"\n[agents.slow_end]\nkind = \"command\"\n\
        command = \"sh\"\nargs = [\"-c\", \"cat; exec >&- 2>&-; read line <gate\"]\n";
    let launch = Launch::new().config(AGENT);
    let work = launch.home().path("work");
    let mut gate = pipe(&work.join("gate"));
    let task = json!({"agent": "slow_end", "workspace_dir": work});
    let mut scene = Scene::with(&launch, task).await;
    scene.admit_all(&["A", "B"]).await;
    let chat = scene.chat.clone();
    scene.client.until_said(&chat, "A").await;
    for _ in 0..100 {
        assert_eq!(scene.client.session(&chat).await["state"], "running");
    }
    assert_eq!(scene.waiting().await, ["B"]);
    gate.write_all(b"go\ngo\n").unwrap();
    scene.settled().await;
    assert_eq!(contents(&scene.client.transcript(&chat).await), ["A", "A", "B", "B"]);
}

/// A session whose program has started a child of its own; the pipe ends when both have.
struct Family {
    server: Server,
    client: Client,
    chat: Chat,
    pipe: std::fs::File,
}

impl Family {
    async fn start(child: &str) -> Self {
        let launch = Launch::new().config(&format!(
            "[agents.family]\nkind = \"command\"\ncommand = \"sh\"\n\
             args = [\"-c\", \"mkfifo pipe; {child} sleep 1000 >pipe & echo up; wait\"]\n"
        ));
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let work = launch.home().path("work");
        let fields = json!({"agent": "family", "workspace_dir": work});
        let chat = Chat::create_with(&mut client, fields).await;
        client.subscribe(&chat).await;
        client.admit(&chat, "k1", "x").await;
        client.notified("transcript.message", |message| message["role"] == "agent").await;
        // Opening waits until the child has opened the other end.
        let pipe = work.join("pipe");
        let pipe = in_time(move || std::fs::File::open(pipe)).await;
        Self { server, client, chat, pipe }
    }
}

/// Waits until nobody holds the other end.
async fn all_gone(mut pipe: std::fs::File) {
    assert_eq!(in_time(move || std::io::copy(&mut pipe, &mut std::io::sink())).await, 0);
}

#[tokio::test]
async fn a_program_that_is_cancelled_ends_and_so_does_all_it_started() {
    let mut family = Family::start("").await;
    family.client.ok("turn.cancel", family.chat.identity()).await;
    let ended = family.client.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "cancelled");
    all_gone(family.pipe).await;
}

#[tokio::test]
async fn a_program_ends_with_its_server_and_so_does_all_it_started() {
    let family = Family::start("").await;
    let (status, _) = family.server.terminate();
    assert_eq!(status.code(), Some(0));
    all_gone(family.pipe).await;
}

#[tokio::test]
async fn what_a_killed_server_left_running_ends_when_the_next_one_starts() {
    for child in ["", "setsid "] {
        let family = Family::start(child).await;
        let launch = family.server.kill();
        let server = launch.start();
        all_gone(family.pipe).await;
        let mut client = Client::connect(&server).await;
        let prompts = by_role(&client.transcript(&family.chat).await, "user");
        assert_eq!(contents(&prompts), ["x"]);
        assert_eq!(prompts[0]["status"], "interrupted");
    }
}
