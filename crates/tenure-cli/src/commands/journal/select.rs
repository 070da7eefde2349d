//! Which entries `journal read` prints: the newest, or those since a time.

use std::path::Path;

use tenure::{Journal, Value, json};

use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Where the time of an entry is looked for.
const FIELDS: [&str; 5] = ["time", "timestamp", "ts", "at", "date"];

/// The number from which on there are `count` entries, or fewer if there are no more. Numbers of entries that
/// are gone, or were never given, do not count.
pub(super) fn first_of_last(journal: &Journal, count: usize) -> Result<u64> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let Some(last) = last_number(journal)? else { return Ok(1) };
    let mut width = count;
    loop {
        let from = last.saturating_sub(width.saturating_sub(1)).max(1);
        let mut numbers = std::collections::VecDeque::new();
        let mut entries = journal.read(from, None)?;
        loop {
            match entries.next_line() {
                Ok(Some((number, _))) => numbers.push_back(number),
                Ok(None) => break,
                Err(error) if error.gap().is_some() => {}
                Err(error) => return Err(error.into()),
            }
            if numbers.len() as u64 > count {
                numbers.pop_front(); // A writer may add to them meanwhile.
            }
        }
        if numbers.len() as u64 >= count || from == 1 {
            return Ok(numbers.front().copied().unwrap_or(from));
        }
        width = width.saturating_mul(2);
    }
}

/// The number of the newest entry, found by asking for one entry from a number on.
fn last_number(journal: &Journal) -> Result<Option<u64>> {
    let first_from = |from: u64| -> Result<Option<u64>> {
        let mut entries = journal.read(from, Some(1))?;
        loop {
            match entries.next_line() {
                Ok(found) => return Ok(found.map(|(number, _)| number)),
                Err(error) if error.gap().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
    };
    let Some(mut low) = first_from(1)? else { return Ok(None) };
    let mut step = 1_u64;
    // There is an entry at `low`, and none from `high` on.
    let mut high = loop {
        let ask = low.saturating_add(step);
        match first_from(ask)? {
            Some(found) => (low, step) = (found, step.saturating_mul(2)),
            None => break ask,
        }
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match first_from(middle)? {
            Some(found) => low = found,
            None => high = middle,
        }
    }
    Ok(Some(low))
}

/// Entries at or after a time that they name themselves.
pub(super) struct Since<'a> {
    first_us: u64,
    field: Option<&'a str>,
    /// Of the newest entry with a time.
    last_us: Option<u64>,
    without: u64,
}

impl<'a> Since<'a> {
    pub(super) fn new(first_us: u64, field: Option<&'a str>) -> Self {
        Self { first_us, field, last_us: None, without: 0 }
    }

    pub(super) fn includes(&mut self, line: &[u8]) -> bool {
        match self.time_of(line) {
            Some(us) => self.last_us = Some(us),
            None => self.without += 1,
        }
        self.last_us.is_some_and(|us| us >= self.first_us)
    }

    fn time_of(&self, line: &[u8]) -> Option<u64> {
        let value = json::parse(line).ok()?;
        let object = value.as_object()?;
        let one = |name: &str| object.get(name).and_then(time);
        self.field.map_or_else(|| FIELDS.into_iter().find_map(one), one)
    }

    /// Says what could not be compared.
    pub(super) fn report(self, path: &Path, out: &Output) -> Result<()> {
        let fields = self.field.map_or_else(|| FIELDS.join(", "), str::to_owned);
        if self.last_us.is_none() && self.without > 0 {
            let detail = format!("no entry has a time that --since could compare ({fields})");
            return Err(Failure::new(ExitCode::Failed, "not_found", "read journal", detail)
                .at(path)
                .hint("name the field with --time-field, or use --from or --last"));
        }
        if self.without > 0 {
            let count = self.without;
            out.warn(&format!(
                "{count} entries have no time; each is treated as having the time of the entry before it"
            ));
        }
        Ok(())
    }
}

/// A time as logs write it: text, or a number whose size shows its unit.
fn time(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => clock::parse(text),
        Value::Number(number) => {
            let number: f64 = number.as_str().parse().ok()?;
            let us = match number {
                number if number < 1e11 => number * 1e6,
                number if number < 1e14 => number * 1e3,
                number => number,
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            (us.is_finite() && us >= 0.0).then_some(us as u64)
        }
        _ => None,
    }
}
