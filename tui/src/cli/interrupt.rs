//! Somebody wants this program to end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGINT and SIGTERM from its making on; before that they end the program by themselves.
pub(super) struct Interrupt {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupt {
    /// Begins to listen. Needs a running tokio.
    pub(super) fn new() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
        }
    }

    /// Ends when one of them comes, or came since the last call.
    pub(super) async fn heard(&mut self) {
        tokio::select! {
            () = one(&mut self.interrupt) => {}
            () = one(&mut self.terminate) => {}
        }
    }
}

async fn one(stream: &mut Option<Signal>) {
    match stream {
        Some(stream) => {
            stream.recv().await;
        }
        // It could not be listened to, so it still ends the program by itself.
        None => pending().await,
    }
}
