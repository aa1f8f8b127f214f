//! Users beside the one who runs the server: what they can do, and that they see nothing else.

use std::process::Output;

use serde_json::{Value, json};
use usher_tests::actions::{UNKNOWN, with_identity};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Answer, Client, Closed, Refusal};
use usher_tests::server::{Launch, Server};
use uuid::Uuid;

const REVOKED: Closed = Closed { code: Some(1008) };

fn refused(code: &str) -> Answer {
    Err(Refusal::new(code, json!({})))
}

/// Says hello over TCP; returns the answer.
async fn hello(server: &Server, token: &str) -> Answer {
    Client::dial_tcp(server, &[]).await.unwrap().hello(json!({"token": token})).await
}

/// How many turns have not ended.
fn open_turns(server: &Server) -> i64 {
    server.launch().number("SELECT COUNT(*) FROM turns WHERE ended_at IS NULL")
}

/// The lines that a command printed, if it worked.
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

/// What a command said on stderr when it did nothing.
fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &[][..]), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn a_token_is_shown_once_stored_as_a_digest_and_lets_its_user_in() {
    let server = Server::start();
    let added = server.launch().user(&["add", "Zoë"]);
    assert_eq!(added.stderr, b"");
    let [token] = lines(&added).try_into().unwrap();
    assert_eq!(token.len(), 64, "256 bits");
    assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()));

    let shown = hello(&server, &token).await.unwrap();
    assert_eq!(shown["user"]["name"], "Zoë");
    let header = format!("Bearer {token}");
    let mut client = Client::dial_tcp(&server, &[("authorization", &header)]).await.unwrap();
    assert_eq!(client.hello(json!({})).await.unwrap()["user"], shown["user"]);
    let owner = Client::dial(&server).await.unwrap().hello(json!({})).await.unwrap();
    assert_ne!(owner["user"]["id"], shown["user"]["id"]);
    assert_eq!(hello(&server, &server.launch().token()).await.unwrap()["user"], owner["user"]);
    for wrong in [&token[..63], &token.to_uppercase(), ""] {
        assert_eq!(hello(&server, wrong).await, refused("unauthorized"), "{wrong}");
    }
    if server.launch().home().database().is_none() {
        for name in ["usher.db", "usher.db-wal"] {
            let stored = std::fs::read(server.launch().data_dir().join(name)).unwrap();
            assert!(!stored.windows(64).any(|bytes| bytes == token.as_bytes()), "{name}");
        }
    }
}

#[tokio::test]
async fn users_are_listed_with_their_tokens_and_told_apart_from_the_owner() {
    let server = Server::start();
    let launch = server.launch();
    for name in ["b b", "a", "a"] {
        launch.add_user(name);
    }
    lines(&launch.user(&["revoke", "b b"]));
    let listed = lines(&launch.user(&["list"]));
    assert_eq!(listed, ["tester\t0\towner", "b b\t0\trevoked", "a\t2\tactive"]);
    let [json] = lines(&launch.user(&["list", "--json"])).try_into().unwrap();
    let mut users: Vec<Value> = serde_json::from_str(&json).unwrap();
    for user in &mut users {
        assert!(Uuid::try_parse(user["id"].take().as_str().unwrap()).is_ok());
    }
    let user =
        |name, tokens, state| json!({"id": null, "name": name, "tokens": tokens, "state": state});
    let expected = [user("tester", 0, "owner"), user("b b", 0, "revoked"), user("a", 2, "active")];
    assert_eq!(users, expected);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_on_stderr_and_changes_nothing() {
    let server = Server::start();
    let launch = server.launch();
    let before = lines(&launch.user(&["list"]));
    let unseen = ["\u{202e}eve", "ev\u{200b}e", "\u{2066}a", "a\u{2028}b", "\u{feff}", "a\u{ad}b"];
    let blank = ["", "  ", "\u{3000}", "a\tb", "\u{9b}", &"é".repeat(33)];
    for name in blank.into_iter().chain(unseen) {
        assert!(refusal(&launch.user(&["add", name])).contains("a name"), "{name:?}");
    }
    for command in ["revoke", "remove"] {
        let said = refusal(&launch.user(&[command, "nobody"]));
        assert!(said.contains("no user of that name"), "{said}");
    }
    let said = refusal(&launch.user(&["remove", "tester"]));
    assert!(said.contains("cannot be removed"), "{said}");
    assert_eq!(lines(&launch.user(&["list"])), before);
}

#[tokio::test]
async fn a_token_that_nobody_has_seen_does_not_stay() {
    let server = Server::start();
    let launch = server.launch();
    let token = launch.add_user("zoe");
    for name in ["zoe", "eve"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let added = launch.user_command(&["add", name]).stdout(full).output().unwrap();
        assert_eq!(added.status.code(), Some(1), "{added:?}");
        let said = String::from_utf8(added.stderr).unwrap();
        assert!(said.contains("could not be printed"), "{said}");
        assert_eq!(lines(&launch.user(&["list"])), ["tester\t0\towner", "zoe\t1\tactive"]);
    }
    assert!(hello(&server, &token).await.is_ok());
    launch.add_user("eve");
}

#[tokio::test]
async fn without_a_database_there_are_no_users_to_change() {
    let launch = Launch::new();
    if launch.home().database().is_some() {
        // An empty PostgreSQL database is no database of ours, either.
        let said = refusal(&launch.user(&["add", "a"]));
        assert!(said.contains("schema"), "{said}");
        return;
    }
    std::fs::create_dir(launch.data_dir()).unwrap();
    let said = refusal(&launch.user(&["add", "a"]));
    assert!(said.contains("a start of usherd makes it"), "{said}");
    assert_eq!(std::fs::read_dir(launch.data_dir()).unwrap().count(), 0);
}

#[tokio::test]
async fn c139_another_users_ids_are_unknown_ids_and_its_receipts_are_never_read() {
    let server = Server::start();
    let mut owner = Client::connect(&server).await;
    let chat = Chat::create(&mut owner).await;
    owner.set_auto_run(&chat, false).await;
    let entry = owner.admit(&chat, "k1", "A").await;
    let before = (owner.queue(&chat).await, owner.session(&chat).await);

    let mut other = Client::connect_as(&server, &server.launch().add_user("eve")).await;
    let mine = Chat::create(&mut other).await;
    for (action, fields) in with_identity() {
        let mut payload = chat.with(fields);
        if payload["entry_id"] == json!(UNKNOWN) {
            payload["entry_id"] = json!(entry);
        }
        let answer = other.request(action, payload).await;
        assert_eq!(answer, refused("queue_session_unavailable"), "{action}");
    }
    for (client_queue_id, content) in [("k1", "A"), ("k1", "not A"), ("k2", "B")] {
        let answer = other.add(&chat, client_queue_id, content).await;
        assert_eq!(answer, refused("queue_session_unavailable"));
    }
    let to = |from: &Chat, to: &Chat| {
        from.with(json!({
            "to_task_id": to.task_id,
            "to_session_id": to.session_id,
            "to_session_incarnation_id": to.incarnation_id,
        }))
    };
    for payload in [to(&chat, &mine), to(&mine, &chat)] {
        let answer = other.request("session.transfer", payload).await;
        assert_eq!(answer, refused("queue_session_unavailable"));
    }
    // An entry of somebody else is no entry of one's own session.
    for action in ["message.queue.remove", "message.queue.entry.get", "message.queue.merge"] {
        let answer = other.request(action, mine.with(json!({"entry_id": entry}))).await;
        assert_eq!(answer, refused("entry_not_found"), "{action}");
    }
    let (task, session) = (json!(chat.task_id), json!(chat.session_id));
    for (action, payload) in [
        ("task.get", json!({"task_id": task})),
        ("task.archive", json!({"task_id": task})),
        ("task.unarchive", json!({"task_id": task})),
        ("task.delete", json!({"task_id": task})),
        ("session.create", json!({"task_id": task})),
        ("session.list", json!({"task_id": task})),
        ("session.get", json!({"session_id": session})),
        ("session.subscribe", json!({"session_id": session})),
        ("transcript.page", json!({"session_id": session})),
        ("transcript.search", json!({"session_id": session, "query": "A"})),
        (
            "transcript.read",
            json!({"session_id": session, "message_id": UNKNOWN, "offset": 0, "length": 1}),
        ),
    ] {
        assert_eq!(other.request(action, payload).await, refused("not_found"), "{action}");
    }
    let tasks = other.ok("task.list", json!({"include_archived": true})).await;
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1);
    let sessions = other.ok("session.list", json!({})).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    assert_eq!((owner.queue(&chat).await, owner.session(&chat).await), before);
}

#[tokio::test]
async fn one_users_settings_and_clients_leave_the_others_alone() {
    let launch = Launch::new().without_env("USHER_QUEUE_MAX_PER_SESSION");
    let server = launch.start();
    let token = launch.add_user("eve");
    let instance = Uuid::new_v4().to_string();
    let mut other = Client::dial_tcp(&server, &[]).await.unwrap();
    other.hello(json!({"client_instance": instance, "token": token})).await.unwrap();
    let mut owner = Client::dial(&server).await.unwrap();
    owner.hello(json!({"client_instance": instance})).await.unwrap();
    let chat = Chat::create(&mut owner).await;
    other.ok("settings.set", json!({"max_per_session": 1})).await;
    assert_eq!(owner.queue(&chat).await["max"], 10);
    let mine = Chat::create(&mut other).await;
    assert_eq!(other.queue(&mine).await["max"], 1);
}

#[tokio::test]
async fn a_revoked_token_ends_its_links_and_a_new_one_finds_everything_again() {
    let server = Server::start();
    let launch = server.launch();
    let (token, bystander) = (launch.add_user("eve"), launch.add_user("bob"));
    let mut eve = Client::connect_as(&server, &token).await;
    let mut bob = Client::connect_as(&server, &bystander).await;
    let mut owner = Client::connect(&server).await;
    let chat = Chat::create(&mut eve).await;
    eve.set_auto_run(&chat, false).await;
    eve.admit(&chat, "k1", "A").await;
    lines(&launch.user(&["revoke", "eve"]));
    assert_eq!(eve.closed().await, REVOKED);
    assert_eq!(hello(&server, &token).await, refused("unauthorized"));
    for client in [&mut bob, &mut owner] {
        client.ok("ping", json!({})).await;
    }
    let mut eve = Client::connect_as(&server, &launch.add_user("eve")).await;
    assert_eq!(contents(&eve.entries(&chat).await), ["A"]);
    assert_eq!(eve.add(&chat, "k1", "A").await.unwrap()["admission"]["outcome"], "replayed");
}

#[tokio::test]
async fn a_removed_user_is_gone_and_a_new_one_of_that_name_is_another() {
    let server = Launch::new().config("dispatch_pass = \"50ms\"").start();
    let launch = server.launch();
    let token = launch.add_user("eve");
    let mut eve = Client::connect_as(&server, &token).await;
    let chat = Chat::create(&mut eve).await;
    eve.subscribe(&chat).await;
    eve.admit(&chat, "k1", "/demo say on it; hang").await;
    eve.until_running(&chat).await;
    eve.admit(&chat, "k2", "B").await;
    lines(&launch.user(&["remove", "eve"]));
    // From the commit on, whether or not the link has ended yet.
    for (action, payload, code) in [
        ("message.queue.add", chat.prompt("k1", "A"), "queue_session_unavailable"),
        ("task.create", json!({"title": "x"}), "unauthorized"),
        ("settings.set", json!({"merge_enabled": false}), "unauthorized"),
        ("session.get", json!({"session_id": chat.session_id}), "not_found"),
    ] {
        match eve.try_request(action, payload).await {
            Ok(answer) => assert_eq!(answer, refused(code), "{action}"),
            Err(closed) => assert_eq!(closed, REVOKED, "{action}"),
        }
    }
    assert_eq!(eve.closed().await, REVOKED);
    assert_eq!(hello(&server, &token).await, refused("unauthorized"));
    assert_eq!(lines(&launch.user(&["list"])), ["tester\t0\towner"]);

    // What ran for it is stopped, and what waited stays where it is.
    let mut owner = Client::connect(&server).await;
    while open_turns(&server) > 0 {
        owner.ok("ping", json!({})).await;
    }

    let mut new = Client::connect_as(&server, &launch.add_user("eve")).await;
    assert_eq!(new.ok("task.list", json!({"include_archived": true})).await["tasks"], json!([]));
    assert_eq!(new.add(&chat, "k1", "A").await, refused("queue_session_unavailable"));
    let server = server.kill().start();
    let mut owner = Client::connect(&server).await;
    assert_eq!(owner.ok("task.list", json!({})).await["tasks"], json!([]));
}

#[tokio::test]
async fn a_user_added_before_the_server_starts_again_is_known_then() {
    let server = Server::start();
    let (_, launch) = server.terminate();
    let token = launch.add_user("eve");
    let server = launch.start();
    assert_eq!(hello(&server, &token).await.unwrap()["user"]["name"], "eve");
}
