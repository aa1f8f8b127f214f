//! Holds one session of a server at a pause point of its test build (see `stop.rs` there).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

type Armed = Arc<Mutex<HashMap<String, oneshot::Sender<Hold>>>>;

/// Listens for what a server passes.
pub struct Pauses {
    place: PathBuf,
    armed: Armed,
}

/// A session that waits at its point; dropped, it goes on.
pub struct Hold {
    _waits: BufReader<UnixStream>,
}

impl Pauses {
    /// Listens in this directory, for as long as the test runs.
    pub fn listen(directory: &Path) -> Self {
        let place = directory.join("pauses.sock");
        let listener = UnixListener::bind(&place).expect("a home is short and writable");
        let armed = Armed::default();
        tokio::spawn(serve(listener, Arc::clone(&armed)));
        Self { place, armed }
    }

    /// Returns what the server finds it by: name and value of a variable.
    pub fn variable(&self) -> (&'static str, &Path) {
        ("USHER_PAUSE_AT", &self.place)
    }

    /// Holds a session the next time it passes the point, once.
    pub fn arm(&self, point: &str, session_id: &str) -> oneshot::Receiver<Hold> {
        let (held, receiver) = oneshot::channel();
        lock(&self.armed).insert(format!("{point} {session_id}"), held);
        receiver
    }
}

async fn serve(listener: UnixListener, armed: Armed) {
    while let Ok((stream, _)) = listener.accept().await {
        let armed = Arc::clone(&armed);
        tokio::spawn(async move {
            let mut waits = BufReader::new(stream);
            let mut passed = String::new();
            if waits.read_line(&mut passed).await.is_err() {
                return;
            }
            if let Some(held) = lock(&armed).remove(passed.trim_end()) {
                // Nobody who waits for it: dropped, and the session goes on.
                drop(held.send(Hold { _waits: waits }));
            }
        });
    }
}

fn lock(armed: &Armed) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Hold>>> {
    armed.lock().unwrap_or_else(PoisonError::into_inner)
}
