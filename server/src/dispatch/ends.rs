//! Tells those who wait for turns to end that one did.

use tokio::sync::watch;

/// Counts the turns that ended here.
pub struct TurnEnds {
    count: watch::Sender<u64>,
}

impl Default for TurnEnds {
    fn default() -> Self {
        Self { count: watch::Sender::new(0) }
    }
}

impl TurnEnds {
    /// Notes that a turn has ended. Never waits.
    pub fn note(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns a watch that sees every end from here on.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}
