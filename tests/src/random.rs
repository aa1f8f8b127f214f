//! Randomness that can be repeated.

/// A small generator of good enough numbers (the SplitMix64 of Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from the seed in the environment variable `USHER_TEST_SEED`, or from a fresh one.
    /// Print what this returns: it is what makes a failure repeatable.
    pub fn from_environment() -> (Self, u64) {
        let seed = std::env::var("USHER_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        (Self(seed), seed)
    }

    /// Starts from this seed.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
