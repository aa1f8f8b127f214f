//! What looks at a database and changes nothing: where nothing can be written, where nothing may be
//! read, and where there is no database of ours.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use usher_tests::binaries;
use usher_tests::chat::Chat;
use usher_tests::client::Client;
use usher_tests::server::{Launch, Server};

/// The commands that look; backups are made in the home's folder `work`.
fn looks(launch: &Launch) -> Vec<Vec<String>> {
    let copy = launch.home().path("work/copy.db").to_string_lossy().into_owned();
    [vec!["user", "list"], vec!["check"], vec!["backup", &copy]]
        .map(|words| words.into_iter().map(str::to_owned).collect())
        .to_vec()
}

/// Runs a command as somebody whom permissions bind, whoever runs the tests.
fn run(launch: &Launch, words: &[String]) -> Output {
    let mut command = Command::new(binaries::usherd());
    command.args(words).arg("--data-dir").arg(launch.data_dir());
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command.output().unwrap()
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes a data directory readable for everybody and writable for nobody.
fn freeze(launch: &Launch) {
    allow(&launch.home().path(""), 0o755);
    allow(&launch.home().path("work"), 0o777);
    allow_all(&launch.data_dir(), 0o555, 0o444);
}

/// Sets the modes of a folder and of all that is in it.
fn allow_all(folder: &Path, folders: u32, files: u32) {
    allow(folder, 0o700);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => allow_all(&path, folders, files),
            false => allow(&path, files),
        }
    }
    allow(folder, folders);
}

fn thaw(launch: &Launch) {
    allow_all(&launch.data_dir(), 0o755, 0o600);
}

async fn used() -> Server {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    client.admit(&chat, "k", "A").await;
    server
}

#[tokio::test]
async fn what_only_looks_works_where_nothing_can_be_written() {
    let (_, launch) = used().await.terminate();
    let copy = launch.home().path("work/copy.db");
    // With the files that a server leaves beside its database, and without.
    for beside in [true, false] {
        if !beside {
            for name in ["usher.db-wal", "usher.db-shm"] {
                drop(fs::remove_file(launch.data_dir().join(name)));
            }
            fs::remove_file(&copy).unwrap();
        }
        freeze(&launch);
        let outputs: Vec<_> =
            looks(&launch).iter().map(|words| (words.clone(), run(&launch, words))).collect();
        thaw(&launch);
        for (words, output) in outputs {
            assert!(output.status.success(), "{words:?}: {output:?}");
        }
        assert!(copy.metadata().unwrap().len() > 0);
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_not_read_over() {
    let launch = used().await.kill();
    fs::remove_file(launch.data_dir().join("usher.db-shm")).unwrap();
    freeze(&launch);
    let outputs: Vec<_> =
        looks(&launch).iter().map(|words| (words.clone(), run(&launch, words))).collect();
    thaw(&launch);
    for (words, output) in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}: {output:?}");
        assert!(said.contains("copy usher.db and usher.db-wal"), "{words:?}: {said}");
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_not_said_to_be_missing() {
    let (_, launch) = used().await.terminate();
    allow(&launch.data_dir(), 0);
    let outputs: Vec<_> =
        looks(&launch).iter().map(|words| (words.clone(), run(&launch, words))).collect();
    allow(&launch.data_dir(), 0o700);
    for (words, output) in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {output:?}");
        assert!(said.contains("ermission denied") && !said.contains("none yet"), "{said}");
    }
}

#[test]
fn what_is_no_database_of_ours_is_neither_checked_nor_copied() {
    let launch = Launch::new();
    fs::create_dir(launch.data_dir()).unwrap();
    let database = launch.data_dir().join("usher.db");
    let copy = launch.home().path("work/copy.db");
    for command in ["check", "backup"] {
        let look = || {
            let mut look = Command::new(binaries::usherd());
            look.arg(command).args((command == "backup").then_some(&copy));
            let output = look.arg("--data-dir").arg(launch.data_dir()).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
            assert!(output.stdout.is_empty() && !copy.exists(), "{command}: {output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        assert!(look().contains("there is none yet"), "{command}");
        fs::write(&database, "").unwrap();
        assert!(look().contains("it is empty"), "{command}");
        fs::write(&database, [7; 4_096]).unwrap();
        assert!(look().contains("no database of usher"), "{command}");
        fs::remove_file(&database).unwrap();
        let other = rusqlite::Connection::open(&database).unwrap();
        other.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
        drop(other);
        assert!(look().contains("no database of usher"), "{command}");
        fs::remove_file(&database).unwrap();
    }
}
