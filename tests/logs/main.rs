//! Nothing secret reaches a log, however verbose: not prompts, names, tokens or agent output.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use usher_shared::vocabulary::EditEvent;
use usher_tests::chat::Chat;
use usher_tests::cli::UserHome;
use usher_tests::client::Client;
use usher_tests::lease_clock::LeaseClock;
use usher_tests::leases::{begin, editing, end, save};
use usher_tests::pty::Terminal;
use usher_tests::scene::Scene;
use usher_tests::server::{Launch, Server};
use usher_tests::uploads::{inline, named};

/// Stands for everything nobody but its owner may read.
const SECRET: &str = "sEcReT-7f3a";

const AGENTS: &str = r#"
[agents.echo]
kind = "command"
command = "sh"
args = ["-c", "cat; cat >/dev/null; echo sEcReT-7f3a; echo sEcReT-7f3a >&2"]

[agents.broken]
kind = "command"
command = "sh"
args = ["-c", "echo sEcReT-7f3a; echo sEcReT-7f3a >&2; exit 3"]

[agents.sEcReT-7f3a]
kind = "command"
command = "no-such-program-sEcReT-7f3a"
"#;

/// Sends one of everything, secrets in every text of it.
async fn exercise(server: &Server) {
    let mut client = Client::connect(server).await;
    let directory = server.launch().home().path(&format!("work/{SECRET}"));
    fs::create_dir_all(&directory).unwrap();
    for agent in ["demo", "echo", "broken", SECRET] {
        let fields = json!({
            "title": SECRET, "agent": agent, "workspace_dir": directory, "client_request_id": SECRET,
        });
        let mut fields = fields;
        fields["client_request_id"] = json!(format!("{SECRET}-{agent}"));
        let chat = Chat::create_with(&mut client, fields).await;
        client.subscribe(&chat).await;
        prompts(&mut client, &chat).await;
    }
    wrong_input(server, &mut client).await;
}

async fn prompts(client: &mut Client, chat: &Chat) {
    let scripts = [
        SECRET.to_owned(),
        format!("/demo say {SECRET}; think {SECRET}; tool {SECRET} {SECRET}; plan {SECRET}|B"),
        format!("/demo fail {SECRET}"),
        format!("/demo say {SECRET}; crash"),
        format!("/demo late {SECRET}"),
        format!("/demo {SECRET}"),
        "/demo refuse".to_owned(),
    ];
    for (number, text) in scripts.iter().enumerate() {
        // Every failed turn parks the queue.
        client.set_auto_run(chat, true).await;
        client.admit(chat, &format!("{SECRET}-{number}"), text).await;
        client.until_settled(chat).await;
    }
    let conflict = client.add(chat, &format!("{SECRET}-0"), &format!("other {SECRET}")).await;
    assert_eq!(conflict.unwrap_err().code, "queue_id_conflict");
    client.set_auto_run(chat, false).await;
    // Only the demo agent has published a plan.
    let about = json!({"body": SECRET, "selected_text": SECRET});
    if let Ok(made) = client.request("plan.comment.add", chat.with(about)).await {
        let comment = &made["comment"];
        let refs = json!([{"id": comment["id"], "version": comment["version"]}]);
        let id = format!("{SECRET}-comment");
        let prompt = json!({"client_queue_id": id, "content": "", "plan_comment_refs": refs});
        client.ok("message.queue.add", chat.with(prompt)).await;
        let stale = json!({"id": comment["id"], "version": 1, "body": SECRET});
        let conflict = client.request("plan.comment.update", chat.with(stale)).await;
        assert_eq!(conflict.unwrap_err().code, "plan_comment_conflict");
    }
    attachments(client, chat).await;
    let entry = client.admit(chat, SECRET, SECRET).await;
    client.ok("message.queue.remove", chat.with(json!({"entry_id": entry}))).await;
    client.ok("message.queue.cancel", chat.identity()).await;
}

/// Files whose names and bytes are secrets, good ones and wrong ones.
async fn attachments(client: &mut Client, chat: &Chat) {
    let upload = client.upload(chat, SECRET, SECRET.as_bytes()).await;
    let both = vec![named(&upload), inline(SECRET, SECRET.as_bytes())];
    client.add_with(chat, &format!("{SECRET}-files"), SECRET, both.clone()).await.unwrap();
    let again = client.add_with(chat, &format!("{SECRET}-again"), SECRET, both).await;
    assert_eq!(again.unwrap_err().code, "attachment_unavailable");
    let begun = client.begin_upload(chat, SECRET, SECRET.as_bytes()).await.unwrap();
    let id = begun["attachment_id"].as_str().unwrap().to_owned();
    client.append(&id, 0, &vec![b'x'; SECRET.len()]).await.unwrap();
    assert_eq!(client.finish(&id).await.unwrap_err().code, "validation");
    let mut pointing = chat.prompt(&format!("{SECRET}-reference"), SECRET);
    pointing["entity_references"] = json!([{"kind": "file", "id": SECRET, "title": SECRET}]);
    let nowhere = client.request("message.queue.add", pointing).await;
    assert_eq!(nowhere.unwrap_err().code, "reference_invalid");
    client.set_auto_run(chat, true).await;
    client.until_settled(chat).await;
    client.set_auto_run(chat, false).await;
}

async fn wrong_input(server: &Server, client: &mut Client) {
    for raw in [
        SECRET.to_owned(),
        format!(
            r#"{{"id":"{SECRET}","type":"request","action":"{SECRET}","payload":{{"x":"{SECRET}"}}}}"#
        ),
        format!(r#"{{"id":"1","type":"{SECRET}"}}"#),
        format!(
            r#"{{"id":"2","type":"request","action":"task.get","payload":{{"task_id":["{SECRET}"]}}}}"#
        ),
        format!(
            r#"{{"id":"3","type":"request","action":"task.create","payload":{{"title":"x","kind":"{SECRET}"}}}}"#
        ),
    ] {
        client.send_raw(Message::text(raw)).await.unwrap();
    }
    client.send_raw(Message::binary(SECRET.as_bytes().to_vec())).await.unwrap();
    client.ok("ping", json!({})).await;
    let mut wrong = Client::dial_tcp(server, &[]).await.unwrap();
    let hello = json!({"token": SECRET, "client": {"name": "tests", "version": "0"}});
    assert_eq!(wrong.hello(hello).await.unwrap_err().code, "unauthorized");
    let bearer = format!("Bearer {SECRET}");
    if let Ok(mut wrong) = Client::dial_tcp(server, &[("authorization", &bearer)]).await {
        assert_eq!(wrong.hello(json!({})).await.unwrap_err().code, "unauthorized");
    }
}

#[tokio::test]
async fn the_most_verbose_log_of_the_server_holds_no_secret() {
    for format in ["text", "json"] {
        let launch =
            Launch::new().env("RUST_LOG", "trace").args(["--log-format", format]).config(AGENTS);
        let server = launch.start();
        exercise(&server).await;
        let token = launch.token();
        let mut right = Client::dial_tcp(&server, &[]).await.unwrap();
        assert!(right.hello(json!({"token": token})).await.is_ok());
        // A turn that a crash interrupts is reported at the next start.
        let mut client = Client::connect(&server).await;
        let chat = Chat::create(&mut client).await;
        client.subscribe(&chat).await;
        client.admit(&chat, SECRET, &format!("/demo say {SECRET}; hang")).await;
        client.until_running(&chat).await;
        let (_, launch) = server.kill().start().terminate();

        let log = launch.home().read("server.log");
        assert!(log.lines().count() > 20, "the log is not verbose:\n{log}");
        assert_no_secret(&log, &[SECRET, &token]);
    }
}

#[tokio::test]
async fn what_goes_wrong_with_edits_is_logged_by_its_kind_alone() {
    let (clock, launch) = LeaseClock::keep(Launch::new().config("dispatch_pass = \"20ms\""));
    let mut scene = Scene::of(&launch).await;
    scene.park().await;
    let ids = scene.admit_all(&[SECRET, "B", "C"]).await;
    let chat = scene.chat.clone();
    let (client, mut other) = (&mut scene.client, Client::connect(&scene.server).await);
    let lease = editing(client, &chat, &ids[0]).await;
    assert!(begin(&mut other, &chat, &ids[0]).await.is_err());
    assert!(save(client, &chat, &lease.at(9), "o1", SECRET).await.is_err());
    save(client, &chat, &lease, "o2", SECRET).await.unwrap();
    end(client, &chat, &lease, true).await.unwrap();
    editing(client, &chat, &ids[1]).await;
    clock.advance(60_000);
    client.notified("message.queue.edit.lost", |_| true).await;
    // What the first save brought is there, so the second one writes nothing; and what it did not
    // claim cannot be looked for.
    let lease = editing(client, &chat, &ids[2]).await;
    let files = json!([inline(SECRET, SECRET.as_bytes())]);
    let with_files = |operation: &str| {
        json!({
            "entry_id": ids[2], "lease_id": lease.lease_id, "operation_id": operation,
            "expected_target_revision": 1, "content": SECRET, "attachments": files,
        })
    };
    client.ok("message.queue.update", chat.with(with_files("o3"))).await;
    let incoming = scene.server.launch().data_dir().join("attachments/incoming");
    fs::remove_dir(&incoming).unwrap();
    fs::write(&incoming, "").unwrap();
    assert!(client.request("message.queue.update", chat.with(with_files("o4"))).await.is_err());
    let log = scene.server.log();
    for word in EditEvent::ALL {
        let said = format!("edit_event={word}");
        assert!(log.lines().any(|line| line.contains(&said)), "{said}\n{log}");
    }
    assert_no_secret(&log, &[SECRET]);
}

#[test]
fn the_logs_of_a_users_own_server_and_client_hold_no_secret() {
    let user = UserHome::with_env(&[("RUST_LOG", "trace"), ("USHER_LOG", "trace")]);
    assert_eq!(user.usher(&["send", "--wait", "--json", "--id", SECRET, SECRET]).code, 0);
    let mut terminal = Terminal::open(&user, 100, 30, &[]);
    terminal.wait_for("● online");
    terminal.submit(&format!("hello {SECRET}"));
    terminal.wait_for(&format!("You said: hello {SECRET}"));
    terminal.close();
    assert_eq!(user.usher(&["stop"]).code, 0);
    let mut logs = 0;
    for place in ["state", "run"] {
        logs += assert_no_secret_in(&user.home().path(place));
    }
    assert!(logs > 0, "a log is written");
}

fn assert_no_secret(log: &str, secrets: &[&str]) {
    for line in log.lines() {
        for secret in secrets {
            assert!(!line.contains(secret), "a secret is in the log: {line}");
        }
    }
}

/// Reads every log under `folder`; returns how many there are.
fn assert_no_secret_in(folder: &Path) -> usize {
    let mut logs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            logs += assert_no_secret_in(&path);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            logs += 1;
            let log = fs::read(&path).unwrap();
            assert_no_secret(&String::from_utf8_lossy(&log), &[SECRET]);
        }
    }
    logs
}
