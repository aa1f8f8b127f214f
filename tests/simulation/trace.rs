//! What happened, line by line: kept for a failure that is replayed, digested to compare two runs.

use sha2::{Digest, Sha256};

/// What becomes of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Off,
    Digest,
    Lines,
}

/// See the module.
pub(crate) struct Trace {
    recording: Recording,
    digest: Sha256,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(recording: Recording) -> Self {
        Self { recording, digest: Sha256::new(), lines: Vec::new() }
    }

    pub(crate) fn note(&mut self, now: u64, line: impl FnOnce() -> String) {
        if self.recording == Recording::Off {
            return;
        }
        let line = format!("{now:>8} {}", line());
        self.digest.update(&line);
        if self.recording == Recording::Lines {
            self.lines.push(line);
        }
    }

    pub(crate) fn digest(self) -> String {
        self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}
