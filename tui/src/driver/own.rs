//! The user's own server: is there one, and how to start it.
//!
//! Clients that start at the same moment may all start a server; the server's lock on its data
//! directory lets one of them live, and every client connects to that one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::paths::{Paths, PathsError};

/// How long a server may take until it answers. A large database is checked first.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether a server that somebody else started answers.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// A log beyond this size is put aside when a server starts.
const LOG_BYTES_MAX: u64 = 10_485_760;
/// What the server holds locked while it runs, in its data directory.
const LOCK_FILE: &str = "usherd.lock";
/// Where the server writes its process id, in its data directory.
const PID_FILE: &str = "usherd.pid";

/// Why the own server is not there.
#[derive(Debug, thiserror::Error)]
pub enum OwnServerError {
    /// A folder cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The program could not be started.
    #[error("the server could not be started")]
    Spawn(#[source] io::Error),
    /// It was started, and ended or stayed silent.
    #[error("the server did not come up; see {log}")]
    Silent {
        /// Where its log is.
        log: PathBuf,
    },
}

/// Sees to it that the own server answers, and starts it if nobody does.
///
/// # Errors
/// If it cannot be started or does not answer in time.
pub async fn ensure_server(paths: &Paths) -> Result<(), OwnServerError> {
    paths.check_socket_dir()?;
    if answers(paths).await {
        return Ok(());
    }
    paths.prepare()?;
    let announced = start(paths)?;
    let patience = tokio::time::timeout(START_PATIENCE, async {
        // An answer: ours serves. Nothing: ours ended, because another one was faster.
        let ours = announced.await.is_ok();
        while !answers(paths).await {
            if !ours && running(&paths.data_dir) == Running::No {
                return false;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        true
    });
    match patience.await {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(OwnServerError::Silent { log: log_file(paths) }),
    }
}

/// Tells whether somebody takes connections at the own server's socket.
pub async fn answers(paths: &Paths) -> bool {
    UnixStream::connect(&paths.socket).await.is_ok()
}

/// Whether a server holds a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// None does.
    No,
    /// One does, and this is its process.
    As(Pid),
    /// One does, and has not said yet which process it is.
    Unnamed,
}

/// Looks whether a server holds this data directory. The lock decides; the number alone could be
/// an old one.
pub fn running(data_dir: &Path) -> Running {
    let Ok(lock) = File::open(data_dir.join(LOCK_FILE)) else {
        return Running::No;
    };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return Running::No,
    }
    let written = fs::read_to_string(data_dir.join(PID_FILE)).unwrap_or_default();
    let number = written.trim().parse().ok().filter(|number| *number > 0);
    number.and_then(Pid::from_raw).map_or(Running::Unnamed, Running::As)
}

/// Where the own server logs.
pub fn log_file(paths: &Paths) -> PathBuf {
    paths.log_dir.join("usherd.log")
}

/// Starts this program as a server that outlives it. The channel gives a value when the server
/// says that it serves, and closes if it ends before.
fn start(paths: &Paths) -> Result<oneshot::Receiver<()>, OwnServerError> {
    let program = std::env::current_exe().map_err(OwnServerError::Spawn)?;
    let mut child = Command::new(program)
        .args(["serve", "--detached"])
        // Not to hold the directory of whoever happened to start it.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open_log(&log_file(paths)).map_err(OwnServerError::Spawn)?)
        .spawn()
        .map_err(OwnServerError::Spawn)?;
    let (announced, announcement) = oneshot::channel();
    // Waiting for a line and for an end of a process blocks; it ends with the server or with us.
    std::thread::spawn(move || {
        let mut line = String::new();
        let stdout = child.stdout.take().map(BufReader::new);
        let read = stdout.map(|mut stdout| stdout.read_line(&mut line));
        if matches!(read, Some(Ok(bytes)) if bytes > 0) && says_listening(&line) {
            let _ = announced.send(());
        } else {
            drop(announced);
        }
        let _ = child.wait();
    });
    Ok(announcement)
}

fn says_listening(line: &str) -> bool {
    let said: Option<serde_json::Value> = serde_json::from_str(line).ok();
    said.is_some_and(|said| said["event"] == "listening")
}

fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_held_lock_means_that_a_server_runs() {
        let root = tempfile::tempdir().unwrap();
        let data_dir = root.path();
        assert_eq!(running(data_dir), Running::No);
        fs::write(data_dir.join(PID_FILE), "4194304\n").unwrap();
        let lock = File::create(data_dir.join(LOCK_FILE)).unwrap();
        assert_eq!(running(data_dir), Running::No);
        lock.lock().unwrap();
        let pid = Pid::from_raw(4_194_304).unwrap();
        assert_eq!(running(data_dir), Running::As(pid));
        for text in ["", "-1", "0", "x", "99999999999999999999"] {
            fs::write(data_dir.join(PID_FILE), text).unwrap();
            assert_eq!(running(data_dir), Running::Unnamed, "{text:?}");
        }
        lock.unlock().unwrap();
        assert_eq!(running(data_dir), Running::No);
    }

    #[test]
    fn only_the_announcement_counts_as_one() {
        assert!(says_listening(
            r#"{"event":"listening","urls":["unix:/s"],"pid":1,"version":"0.1.0"}"#
        ));
        for line in ["", "listening", "[]", r#"{"event":"other"}"#] {
            assert!(!says_listening(line), "{line:?}");
        }
    }

    #[test]
    fn a_large_log_is_put_aside() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("usherd.log");
        File::create(&path).unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
        open_log(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert!(root.path().join("usherd.log.old").exists());
    }
}
