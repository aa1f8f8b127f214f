//! `usher send --attach`: files that go with a prompt.

use std::fs;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use usher_tests::PATIENCE;
use usher_tests::cli::{Ran, UserHome};

/// Runs a prompt with files through an agent that says what it got.
fn send(user: &UserHome, args: &[&str]) -> Ran {
    let mut line = vec!["send", "--wait", "--json"];
    line.extend(args);
    user.usher(&line)
}

fn with_shell_agent() -> UserHome {
    let user = UserHome::new();
    user.configure(
        "default_agent = \"shell\"\n[agents.shell]\nkind = \"command\"\ncommand = \"sh\"\n\
         args = [\"-c\", \"sed -n 's/^- \\\\(\\\\/.*\\\\) (.*/\\\\1/p' | xargs -d '\\\\n' sha256sum | cut -c -64\"]\n",
    );
    user
}

fn sha256_of(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn answer(ran: &Ran) -> Value {
    ran.json().pop().unwrap()["text"].clone()
}

#[test]
fn small_and_large_files_reach_the_agent_whole_and_in_order() {
    let user = with_shell_agent();
    let small = b"small".to_vec();
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 3 % 251) as u8).collect();
    fs::write(user.home().path("work/a small.txt"), &small).unwrap();
    fs::write(user.home().path("work/large.bin"), &large).unwrap();
    for (files, expected) in [
        (vec!["a small.txt"], vec![sha256_of(&small)]),
        (vec!["large.bin", "a small.txt"], vec![sha256_of(&large), sha256_of(&small)]),
    ] {
        let mut args: Vec<&str> = files.iter().flat_map(|file| ["--attach", file]).collect();
        args.push("look");
        let ran = send(&user, &args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(answer(&ran).as_str().unwrap().trim(), expected.join("\n"));
    }
}

#[test]
fn the_same_command_with_its_files_is_the_same_admission() {
    let user = with_shell_agent();
    fs::write(user.home().path("work/file"), vec![7; 2_000_000]).unwrap();
    let args = ["--id", "mine", "--attach", "file", "look"];
    let (first, again) = (send(&user, &args), send(&user, &args));
    assert_eq!((first.code, again.code), (0, 0), "{first:?} {again:?}");
    assert_eq!(again.json()[0]["admission"], json!("replayed"));
    fs::write(user.home().path("work/file"), vec![8; 2_000_000]).unwrap();
    let other = send(&user, &args);
    assert_eq!((other.code, &other.json()[0]["code"]), (3, &json!("queue_id_conflict")));
}

#[test]
fn files_that_cannot_go_are_named_before_anything_is_sent() {
    let user = UserHome::new();
    let work = user.home().path("work");
    fs::File::create(work.join("huge")).unwrap().set_len(104_857_601).unwrap();
    fs::write(work.join("small"), "x").unwrap();
    mknodat(CWD, work.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let too_many: Vec<&str> = std::iter::repeat_n(["--attach", "small"], 11).flatten().collect();
    for (args, said) in [
        (vec!["--attach", "missing"], "missing"),
        (vec!["--attach", "."], "folder"),
        (vec!["--attach", "pipe"], "pipe"),
        (vec!["--attach", "/dev/zero"], "device"),
        (vec!["--attach", "huge"], "100 MiB"),
        (vec!["--id", "k", "--attach", "huge"], "10 MiB"),
        (too_many, "10 files"),
    ] {
        let mut line = args.clone();
        line.push("look");
        let ran = send(&user, &line);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?} {ran:?}");
        assert!(ran.stderr.contains(said), "{args:?} {ran:?}");
    }
}

/// Waits until a process has read so many bytes.
fn wait_until_read(pid: u32, bytes: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        if read.parse::<usize>().unwrap() >= bytes {
            return;
        }
        assert!(Instant::now() < deadline, "it never reads: {counts}");
        std::thread::yield_now();
    }
}

#[test]
fn a_file_that_changes_while_it_goes_up_is_named_and_nothing_is_sent() {
    let user = UserHome::new();
    assert_eq!(user.usher(&["send", "--wait", "hi"]).code, 0);
    for (name, size, then) in [("changed", 4_000_000, 4_000_000), ("cut", 4_000_000, 10)] {
        let path = user.home().path("work").join(name);
        fs::write(&path, vec![7; size]).unwrap();
        user.signal_server(Signal::STOP);
        let child = user.start_usher_piped(&["send", "--attach", name, "look"]);
        wait_until_read(child.id(), size);
        fs::write(&path, vec![8; then]).unwrap();
        user.signal_server(Signal::CONT);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name} changed while")), "{said}");
    }
    let list = user.usher(&["queue", "list", "--json"]).json().pop().unwrap();
    assert_eq!(list["entries"], json!([]));
}
