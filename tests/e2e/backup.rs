//! `usherd backup` beside a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use usher_tests::binaries;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::Client;
use usher_tests::home::Home;
use usher_tests::server::{Launch, Server};
use usher_tests::trace::strace_injecting;
use usher_tests::uploads::{ids, inline, named};

/// Links that admit while the copy is made.
const LINKS: usize = 6;
/// Prompts of each link that are acknowledged before it begins.
const BEFORE: usize = 100;
/// Bytes of a prompt: the copy then takes many steps.
const PROMPT_BYTES: usize = 20_000;

fn backup(launch: &Launch, file: &Path) -> Command {
    let mut command = Command::new(binaries::usherd());
    command.arg("backup").arg(file).arg("--data-dir").arg(launch.data_dir());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A link's prompt, long and different from all others.
fn text(id: &str) -> String {
    let mut text = format!("{id} ").repeat(PROMPT_BYTES / (id.len() + 1));
    text.push_str(id);
    text
}

/// Admits until told to stop, and at least [`BEFORE`]; returns the IDs that were acknowledged.
async fn admit(
    mut client: Client,
    chat: Chat,
    link: usize,
    ready: watch::Sender<usize>,
    stop: watch::Receiver<bool>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    while !*stop.borrow() && acknowledged.len() < 900 {
        let id = format!("link-{link}-{}", acknowledged.len());
        assert_eq!(accepted(&client.add(&chat, &id, &text(&id)).await).1, "admitted");
        acknowledged.push(id);
        if acknowledged.len() == BEFORE {
            ready.send_modify(|count| *count += 1);
        }
    }
    acknowledged
}

/// Puts a backup where a server looks for its database.
fn restored(file: &Path) -> Launch {
    let launch = Launch::with_home(Home::new());
    fs::create_dir_all(launch.data_dir()).unwrap();
    fs::copy(file, launch.data_dir().join("usher.db")).unwrap();
    launch
}

#[tokio::test]
async fn attachments_come_along_beside_the_copy_and_are_there_when_it_is_restored() {
    let server = Server::start();
    let launch = server.launch().clone();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let upload = client.upload(&chat, "u", b"uploaded").await;
    let both = vec![named(&upload), inline("i", b"inline")];
    let entry = client.add_with(&chat, "k", "look", both).await.unwrap();
    let file = launch.home().path("backup.db");
    let folder = launch.home().path("backup.db.attachments");
    let output = backup(&launch, &file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // A folder of that name is not written into.
    fs::remove_file(&file).unwrap();
    let output = backup(&launch, &file).output().unwrap();
    assert!(said(&output).contains("backup.db.attachments exists"), "{}", said(&output));
    fs::remove_dir_all(&folder).unwrap();
    assert!(backup(&launch, &file).output().unwrap().status.success());

    let restored = restored(&file);
    let objects = restored.data_dir().join("attachments/objects");
    fs::create_dir_all(objects.parent().unwrap()).unwrap();
    let copied = Command::new("cp").arg("-r").arg(&folder).arg(&objects).status().unwrap();
    assert!(copied.success());
    let server = restored.start();
    let mut client = Client::connect(&server).await;
    for (id, data) in ids(&entry).iter().zip([b"uploaded".as_slice(), b"inline"]) {
        assert_eq!(client.bytes_of(id).await.unwrap(), data);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_holds_all_that_was_acknowledged_before_and_is_sound() {
    let server = Server::start();
    let launch = server.launch().clone();
    let (ready, mut is_ready) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let mut chats = Vec::new();
    let mut links = JoinSet::new();
    for link in 0..LINKS {
        let mut client = Client::connect(&server).await;
        // Long prompts that nothing takes away.
        let chat = Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        chats.push(chat.clone());
        links.spawn(admit(client, chat, link, ready.clone(), stopped.clone()));
    }
    is_ready.wait_for(|count| *count == LINKS).await.unwrap();
    let file = launch.home().path("backup.db");
    let mut command = backup(&launch, &file);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    stop.send_replace(true);
    let acknowledged: Vec<String> = links.join_all().await.into_iter().flatten().collect();
    drop(server);

    // The home of the restored server is checked like every other.
    let server = restored(&file).start();
    let mut client = Client::connect(&server).await;
    let mut held = 0;
    for chat in &chats {
        let entries = client.entries(chat).await;
        held += entries.len();
        let ids: Vec<&str> = entries
            .iter()
            .filter_map(|entry| entry["metadata"]["queue_admission_ids"][0].as_str())
            .collect();
        let link = ids[0].rsplit_once('-').unwrap().0;
        let first: Vec<String> = (0..ids.len()).map(|number| format!("{link}-{number}")).collect();
        assert_eq!(ids, first, "a copy of one state holds the first prompts of a link, in order");
        assert!(ids.len() >= BEFORE, "{} of {link}", ids.len());
        // Whatever is there is answered from its receipt, whatever is not is new.
        let last = ids[ids.len() - 1].to_owned();
        assert_eq!(accepted(&client.add(chat, &last, &text(&last)).await).1, "replayed");
        let next = format!("{link}-{}", ids.len());
        assert_eq!(accepted(&client.add(chat, &next, &text(&next)).await).1, "admitted");
    }
    assert!(held < acknowledged.len(), "{held}: nothing happened while it was made");
}

#[tokio::test]
async fn a_backup_that_is_killed_leaves_no_file_and_the_next_one_is_whole() {
    let server = Server::start();
    let launch = server.launch().clone();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    for number in 0..20 {
        let id = format!("k{number}");
        client.admit(&chat, &id, &text(&id)).await;
    }
    let file = launch.home().path("backup.db");
    let partial = launch.home().path("backup.db.partial");
    // The copy's own calls are written to a file that is not searched for prompts.
    let trace = launch.home().path("calls");
    for call in
        ["pwrite64:signal=KILL:when=1", "pwrite64:signal=KILL:when=30", "fsync:signal=KILL:when=1"]
    {
        let plain = backup(&launch, &file);
        let words: Vec<_> = strace_injecting(call, Some(&partial), trace.clone());
        let output = Command::new(&words[0])
            .args(&words[1..])
            .arg(plain.get_program())
            .args(plain.get_args())
            .output()
            .unwrap();
        assert!(!output.status.success(), "{call}: {}", said(&output));
        assert!(!file.exists(), "{call}");
        assert!(partial.exists(), "{call}: it was killed before it had begun");
    }
    let output = backup(&launch, &file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!partial.exists());
    let again = backup(&launch, &file).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("exists"), "{}", said(&again));

    let server = restored(&file).start();
    let mut client = Client::connect(&server).await;
    let entries = client.entries(&chat).await;
    assert_eq!(contents(&entries), (0..20).map(|n| text(&format!("k{n}"))).collect::<Vec<_>>());
    client.ok("message.queue.cancel", chat.with(json!({}))).await;
}

#[test]
fn a_backup_of_postgresql_names_the_tool_for_it() {
    let nowhere = PathBuf::from("never-made.db");
    let output = Command::new(binaries::usherd())
        .arg("backup")
        .arg(&nowhere)
        .args(["--database", "postgres://anna@localhost/usher"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("pg_dump"), "{}", said(&output));
    assert!(!nowhere.exists());
}
