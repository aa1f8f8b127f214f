//! System call traces of a real server, by `strace`, and what they prove about durability.
//!
//! The order of a trace's lines is an order of cause and effect: a traced thread goes on only
//! after its line was written. So a reply that waited for a sync has its line behind the sync's.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::server::Server;

/// Calls that write to sockets and files, or make files durable.
const TRACED: &str = "trace=fsync,fdatasync,sync_file_range,pwrite64,pwritev,write,writev,sendto,\
                      sendmsg";

/// Returns the words that run a program under a trace which is written to `file`. Every sync takes
/// `sync_delay` longer: what can be done meanwhile then depends less on the machine.
pub fn strace(file: &Path, sync_delay: Duration) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["strace", "-f", "-y", "-s", "8192", "-e", TRACED].map(OsString::from).to_vec();
    if !sync_delay.is_zero() {
        words.push("-e".into());
        let micros = sync_delay.as_micros();
        words.push(format!("inject=fsync,fdatasync:delay_enter={micros}").into());
    }
    words.push("-o".into());
    words.push(file.into());
    words
}

/// Returns the words that run a program in which some system calls fail, for example
/// `fsync:error=EIO:when=3+`.
pub fn strace_injecting(what: &str, path: Option<&Path>, log: PathBuf) -> Vec<OsString> {
    let call = what.split(':').next().unwrap_or_default();
    let mut words: Vec<OsString> = ["strace", "-f", "-qq", "-e"].map(OsString::from).to_vec();
    words.push(format!("trace={call}").into());
    words.push("-e".into());
    words.push(format!("inject={what}").into());
    if let Some(path) = path {
        words.push("-P".into());
        words.push(path.into());
    }
    words.push("-o".into());
    words.push(log.into());
    words
}

/// A `strace` of one thread of a running server.
pub struct Attached(Child);

impl Attached {
    /// Waits until it has ended, as it does with the server.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ended(mut self) {
        self.0.wait().expect("strace ends with its thread");
    }
}

/// Injects failing system calls into one thread of a running server, by the thread's name; `what` as
/// for [`strace_injecting`]. Calls are counted from here on.
///
/// # Panics
/// If there is no such thread, or it cannot be traced.
pub fn attach_to_thread(server: &Server, name: &str, what: &str) -> Attached {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let thread = fs::read_dir(tasks)
        .expect("the server runs")
        .map(|task| task.expect("a folder can be listed").path())
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .and_then(|task| Some(task.file_name()?.to_owned()))
        .expect("a thread of that name");
    let call = what.split(':').next().unwrap_or_default();
    let mut strace = Command::new("strace")
        .args(["-e", &format!("trace={call}"), "-e", &format!("inject={what}"), "-p"])
        .arg(thread)
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is installed");
    let mut said = BufReader::new(strace.stderr.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("strace says that it is there");
    assert!(line.contains("attached"), "{line}");
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Attached(strace)
}

/// What a trace says about admissions.
#[derive(Debug, Default)]
pub struct Durability {
    /// Syncs of the write-ahead log that succeeded, from the first admission's bytes on. (A log
    /// that begins anew has its header synced before that, once.)
    pub sync_count: usize,
    /// Admission IDs that were answered, in order.
    pub answered: Vec<String>,
    /// Those that were answered before the sync of what was written for them.
    pub answered_too_early: Vec<String>,
}

/// What happened to one admission's bytes so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// In the log file, not known to be on the disk.
    Written,
    /// On the disk.
    Synced,
}

/// Reads a trace of admissions whose IDs look like `prefix` and digits.
pub fn durability(trace: &Path, prefix: &str) -> Durability {
    let trace = fs::read(trace).expect("the trace was written");
    durability_of(&String::from_utf8_lossy(&trace), prefix)
}

fn durability_of(trace: &str, prefix: &str) -> Durability {
    let mut found = Durability::default();
    let mut bytes: HashMap<&str, Bytes> = HashMap::new();
    // Syncs under way: by thread, what was written before they began.
    let mut syncing: HashMap<&str, HashSet<&str>> = HashMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        if is_sync_of_log(call) {
            let written = bytes.iter().filter(|(_, state)| **state == Bytes::Written);
            syncing.insert(thread, written.map(|(id, _)| *id).collect());
        }
        if is_finished_sync(call)
            && let Some(written) = syncing.remove(thread)
        {
            found.sync_count += usize::from(!bytes.is_empty());
            for id in written {
                bytes.insert(id, Bytes::Synced);
            }
        }
        if call.starts_with("pwrite") && call.contains("-wal>") {
            for id in ids(call, prefix) {
                bytes.entry(id).or_insert(Bytes::Written);
            }
        }
        if is_answer(call) {
            for id in ids(call, prefix) {
                if bytes.get(id) != Some(&Bytes::Synced) {
                    found.answered_too_early.push(id.to_owned());
                }
                found.answered.push(id.to_owned());
            }
        }
    }
    found
}

fn is_sync_of_log(call: &str) -> bool {
    (call.starts_with("fsync(") || call.starts_with("fdatasync(")) && call.contains("-wal>")
}

fn is_finished_sync(call: &str) -> bool {
    let sync = is_sync_of_log(call)
        || call.starts_with("<... fsync resumed")
        || call.starts_with("<... fdatasync resumed");
    // A delayed call says so behind its result.
    let call = call.trim_end().trim_end_matches(" (DELAYED)");
    sync && call.ends_with("= 0")
}

/// Tells whether bytes that go to a client are the answer to an admission.
fn is_answer(call: &str) -> bool {
    ["write(", "writev(", "sendto(", "sendmsg("].iter().any(|name| call.starts_with(name))
        && call.contains(r#"\"response\""#)
        && call.contains(r#"\"message.queue.add\""#)
}

/// Returns the different admission IDs in a line, in order.
fn ids<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut ids = Vec::new();
    for (start, _) in line.match_indices(prefix) {
        let digits = line[start + prefix.len()..].bytes().take_while(u8::is_ascii_digit).count();
        let id = &line[start..start + prefix.len() + digits];
        if digits > 0 && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER_1: &str = r#"11 sendto(9<socket:[1]>, "{\"type\":\"response\",\"action\":\"message.queue.add\",\"k-1\"", 9) = 9"#;

    fn early(lines: &[&str]) -> Vec<String> {
        durability_of(&lines.join("\n"), "k-").answered_too_early
    }

    #[test]
    fn an_answer_behind_the_sync_of_its_bytes_is_in_time() {
        let lines = [
            r#"12 pwrite64(7</d/usher.db-wal>, "..k-1..", 4096, 0) = 4096"#,
            "12 fsync(7</d/usher.db-wal> <unfinished ...>",
            r#"12 pwrite64(7</d/usher.db-wal>, "..k-2..", 4096, 0) = 4096"#,
            "12 <... fsync resumed>) = 0 (DELAYED)",
            ANSWER_1,
        ];
        let found = durability_of(&lines.join("\n"), "k-");
        assert_eq!(found.sync_count, 1);
        assert_eq!(found.answered, ["k-1"]);
        assert_eq!(found.answered_too_early, Vec::<String>::new());
    }

    #[test]
    fn an_answer_without_a_sync_or_during_it_or_after_a_failed_one_is_too_early() {
        let write = r#"12 pwrite64(7</d/usher.db-wal>, "..k-1..", 4096, 0) = 4096"#;
        let sync = "12 fsync(7</d/usher.db-wal>) = 0";
        assert_eq!(early(&[write, ANSWER_1]), ["k-1"]);
        assert_eq!(early(&[sync, write, ANSWER_1]), ["k-1"]);
        assert_eq!(early(&[write, "12 fsync(8</d/usher.db>) = 0", ANSWER_1]), ["k-1"]);
        assert_eq!(
            early(&[write, "12 fsync(7</d/usher.db-wal> <unfinished ...>", ANSWER_1]),
            ["k-1"]
        );
        assert_eq!(early(&[write, "12 fsync(7</d/usher.db-wal>) = -1 EIO (x)", ANSWER_1]), ["k-1"]);
        assert_eq!(early(&[ANSWER_1]), ["k-1"]);
    }

    #[test]
    fn bytes_written_after_a_sync_began_do_not_count_as_synced() {
        assert_eq!(
            early(&[
                "12 fsync(7</d/usher.db-wal> <unfinished ...>",
                r#"13 pwrite64(7</d/usher.db-wal>, "..k-1..", 4096, 0) = 4096"#,
                "12 <... fsync resumed>) = 0",
                ANSWER_1,
            ]),
            ["k-1"]
        );
    }
}
