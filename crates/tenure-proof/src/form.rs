//! How much a run does, and the seed that repeats it.

use std::hash::{BuildHasher, RandomState};

/// Set to `long` for the long form.
const FORM: &str = "TENURE_PROOF";
/// Set to the seed that a failing run printed.
const SEED: &str = "TENURE_SEED";
/// The seed of quick runs. It is fixed, so that a new failure comes from a change of the code.
const QUICK_SEED: u64 = 20_260;

/// How much a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A sample, with all the other tests.
    Quick,
    /// Everything, by `cargo xtask prove`.
    Long,
}

impl Form {
    /// The requested form.
    pub fn asked() -> Self {
        match std::env::var(FORM) {
            Err(_) => Self::Quick,
            Ok(form) if form == "long" => Self::Long,
            Ok(other) => panic!("{FORM} is `{other}`; set it to `long` or not at all"),
        }
    }

    /// One of two amounts.
    pub fn pick<T>(self, quick: T, long: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Long => long,
        }
    }
}

/// The seed of `test` in `ring`; prints the command that repeats it. Quick runs have a fixed seed,
/// long runs a fresh one.
#[expect(clippy::print_stdout, reason = "a failure report needs it")]
pub fn seed(ring: &str, test: &str) -> u64 {
    let form = Form::asked();
    let seed = match std::env::var(SEED) {
        Ok(given) => given.parse().unwrap_or_else(|_| panic!("{SEED} is `{given}`, not a number")),
        Err(_) => form.pick(QUICK_SEED, RandomState::new().hash_one(test) & 0xffff_ffff),
    };
    let form = form.pick("", "TENURE_PROOF=long ");
    println!(
        "seed {seed}; repeat with: {form}{SEED}={seed} cargo test -p tenure-proof --test {ring} -- {test} --nocapture"
    );
    seed
}
