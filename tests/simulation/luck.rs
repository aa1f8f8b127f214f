//! What no step of a schedule says: delays and the like. Drawn by name instead of in turn, so that
//! leaving a step out of a schedule leaves the rest of the history as it was.

use usher_tests::random::Random;

/// What is drawn.
#[derive(Clone, Copy)]
pub(crate) enum About {
    Latency,
    Connect,
    Work,
    Tell,
    Agent,
    InFlight,
    Journal,
    End,
}

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Luck(pub(crate) u64);

impl Luck {
    /// Returns the number below `bound` that belongs to number `n` of this.
    pub(crate) fn of(self, about: About, n: u64, bound: u64) -> u64 {
        let name = (about as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let seed = self.0 ^ name ^ n.wrapping_mul(0xa076_1d64_78bd_642f);
        let mut random = Random::from_seed(seed);
        // The first number of a seed that is almost another one is almost that one's.
        random.below(u64::MAX);
        random.below(bound)
    }
}
