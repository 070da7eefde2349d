//! Counting passed and failed tests from the output of `cargo test`.
//!
//! # Invariants
//!
//! 1. Only the summary line of a test program counts (`test result: ok. 3 passed; 0 failed; ...`).
//! 2. Output may arrive cut anywhere; a line counts once, when its end has arrived.

/// How many tests passed and failed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    unfinished: Vec<u8>,
}

impl Tally {
    /// Takes the next piece of output.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.unfinished.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.unfinished);
                self.line(&String::from_utf8_lossy(&line));
            }
        }
    }

    fn line(&mut self, line: &str) {
        // A test that prints without a newline may stand before the summary on the same line.
        let Some((_, summary)) = line.split_once("test result: ") else { return };
        self.passed += number_before(summary, " passed");
        self.failed += number_before(summary, " failed");
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Tally;

    const OUTPUT: &str = "\
running 2 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test b says 7 passed and 8 failed ... FAILED
test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
";

    #[test]
    fn sums_the_summary_lines_wherever_the_output_is_cut() {
        for size in 1..OUTPUT.len() {
            let mut tally = Tally::default();
            OUTPUT.as_bytes().chunks(size).for_each(|piece| tally.feed(piece));
            assert_eq!((tally.passed, tally.failed), (12, 3), "pieces of {size} bytes");
        }
    }

    #[test]
    fn reads_a_coloured_summary() {
        let mut tally = Tally::default();
        tally.feed(b"test result: \x1b[32mok\x1b(B\x1b[m. 4 passed; 1 failed; 0 ignored\n");
        assert_eq!((tally.passed, tally.failed), (4, 1));
    }
}
