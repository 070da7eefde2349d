//! A progress bar on standard error, on a terminal only.

use std::io::{self, IsTerminal, Write};

const WIDTH: usize = 30;

/// The bar. It is wiped away when it is dropped.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// A bar that shows nothing yet.
    #[expect(clippy::new_without_default, reason = "it looks at the terminal")]
    pub fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    /// Draws the bar at `part` of 1, with a word about what runs.
    pub fn show(&self, part: f64, what: &str) {
        if self.shown {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a part of a narrow bar"
            )]
            let full = (part.clamp(0.0, 1.0) * WIDTH as f64) as usize;
            let (done, left) = ("#".repeat(full), ".".repeat(WIDTH - full));
            // A terminal that went away is no reason to stop.
            let _ = write!(io::stderr(), "\r[{done}{left}] {what:<40}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r{:width$}\r", "", width = WIDTH + 43);
        }
    }
}
