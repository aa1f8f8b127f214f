//! The shortest schedule that still fails.

use crate::schedule::Schedule;
use crate::trace::Recording;
use crate::world::World;

/// Histories that are spent on it.
const RUNS_MAX: u32 = 2_000;

/// Leaves steps out, more and then fewer at once, for as long as what is left still fails. Returns the
/// schedule and what is wrong with it.
pub(crate) fn shrunk(mut shortest: Schedule, mut wrong: String) -> (Schedule, String) {
    let mut runs = 0;
    let mut at_once = shortest.steps.len().div_ceil(2);
    while at_once > 0 && runs < RUNS_MAX {
        let mut first = 0;
        let mut is_shorter = false;
        while first < shortest.steps.len() {
            let mut tried = shortest.clone();
            let last = (first + at_once).min(tried.steps.len());
            tried.steps.drain(first..last);
            runs += 1;
            match World::run(&tried, None, Recording::Off).wrong {
                Some(still) => (shortest, wrong, is_shorter) = (tried, still, true),
                None => first += at_once,
            }
        }
        if !is_shorter || at_once > 1 {
            at_once /= 2;
        }
    }
    (shortest, wrong)
}
