//! Seeded dice: they decide which process is killed when, and nothing else.
//!
//! The same seed gives the same plan of kills. The kernel interleaves the processes, so a second
//! run repeats the plan, not the exact moments.

use std::hash::{BuildHasher, RandomState};

/// A small generator (splitmix64); good enough to pick victims, not for secrets.
#[derive(Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The dice of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A short seed that people can type again.
    pub fn fresh_seed() -> u64 {
        RandomState::new().hash_one("tenure demo") & 0xffff_ffff
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `low..high`; `low` if the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % high.saturating_sub(low).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn one_seed_gives_one_plan() {
        let plan = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| dice.between(3, 9)).collect::<Vec<_>>()
        };
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
        assert!(plan(7).iter().all(|number| (3..9).contains(number)));
    }
}
