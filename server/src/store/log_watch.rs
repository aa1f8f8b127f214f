//! Decides what is to be done about the size of the write-ahead log.

/// A checkpoint is asked for every so many pages (16 MiB).
const CHECKPOINT_PAGES: u32 = 4_096;
/// The writer itself restarts a log that grew to this (64 MiB).
const RESTART_PAGES: u32 = 16_384;

/// What is to be done after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogCare {
    /// Nothing.
    Nothing,
    /// Copy it into the database in the background.
    Copy,
    /// Let no commit add to it before it was copied and begins anew.
    Restart,
}

/// Sees how the log grows.
///
/// A long reader, such as a backup, keeps a log from beginning anew. Then another restart is tried
/// only after the log has grown further: commits go on, and the log is bounded again when the
/// reader has gone.
#[derive(Debug)]
pub(super) struct LogWatch {
    cared_at: u32,
    restart_at: u32,
}

impl LogWatch {
    pub(super) const fn new() -> Self {
        Self { cared_at: 0, restart_at: RESTART_PAGES }
    }

    /// Takes the size of the log after a commit, in pages.
    pub(super) fn after_commit(&mut self, pages: u32) -> LogCare {
        if pages < self.cared_at {
            *self = Self::new();
        }
        let care = if pages >= self.restart_at {
            self.restart_at = pages.saturating_add(CHECKPOINT_PAGES);
            LogCare::Restart
        } else if pages - self.cared_at >= CHECKPOINT_PAGES {
            LogCare::Copy
        } else {
            return LogCare::Nothing;
        };
        self.cared_at = pages;
        care
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes after commits of 1,024 pages each, and what was done.
    fn cares(watch: &mut LogWatch, sizes: std::ops::RangeInclusive<u32>) -> Vec<(u32, LogCare)> {
        let sizes = sizes.map(|size| size * 1_024);
        sizes
            .map(|size| (size / 1_024, watch.after_commit(size)))
            .filter(|(_, care)| *care != LogCare::Nothing)
            .collect()
    }

    #[test]
    fn a_log_that_begins_anew_in_time_is_never_restarted() {
        let mut watch = LogWatch::new();
        for _ in 0..3 {
            let found = cares(&mut watch, 1..=9);
            assert_eq!(found, [(4, LogCare::Copy), (8, LogCare::Copy)]);
        }
    }

    #[test]
    fn a_log_that_a_reader_holds_is_tried_again_only_after_it_grew() {
        let mut watch = LogWatch::new();
        let found = cares(&mut watch, 1..=25);
        let (copy, restart) = (LogCare::Copy, LogCare::Restart);
        assert_eq!(
            found,
            [(4, copy), (8, copy), (12, copy), (16, restart), (20, restart), (24, restart)]
        );
        assert_eq!(cares(&mut watch, 1..=5), [(4, copy)], "the reader has gone");
    }
}
