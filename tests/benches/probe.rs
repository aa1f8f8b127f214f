//! What is measured, and what the disk can do meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a probe of the disk takes.
const PROBE: Duration = Duration::from_millis(500);

/// Durations of single operations.
pub(crate) struct Sample {
    took: Vec<Duration>,
    over: Duration,
}

impl Sample {
    /// Takes operations that ran one after the other, or beside each other, for `over`.
    pub(crate) fn new(mut took: Vec<Duration>, over: Duration) -> Self {
        took.sort_unstable();
        Self { took, over }
    }

    /// Returns how many there were in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.took.len() as f64 / self.over.as_secs_f64()
    }

    /// Returns what so many percent of them did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(index).copied().unwrap_or_default()
    }
}

/// Appends and syncs 4 KiB at a time.
pub(crate) fn probe(path: &Path) -> io::Result<Sample> {
    let file = File::create(path)?;
    let block = [7; 4_096];
    let mut took = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < PROBE {
        let start = Instant::now();
        file.write_all_at(&block, took.len() as u64 * block.len() as u64)?;
        file.sync_data()?;
        took.push(start.elapsed());
    }
    Ok(Sample::new(took, begin.elapsed()))
}

/// Prints a line of the table.
#[expect(clippy::print_stdout, reason = "the table is what these programs are for")]
pub(crate) fn print(line: &str) {
    println!("{line}");
}
