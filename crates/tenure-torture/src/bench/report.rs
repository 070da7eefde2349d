//! The figures, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use tenure::{Value, json};

/// What one operation takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) median: Duration,
    /// How many were done.
    pub(super) operations: u32,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) ours: Figure,
    /// The bare system calls, where they are known.
    pub(super) floor: Option<Figure>,
}

/// A whole run.
#[derive(Debug)]
pub(crate) struct Report {
    /// The directory, or the store.
    pub(super) place: String,
    pub(super) lines: Vec<Line>,
    /// Writing 300 bytes and waiting until the disk has them; not known of a store.
    pub(super) sync: Option<Figure>,
}

impl Report {
    /// The table.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:<36} {:>10} {:>10} {:>6}\n", "", "tenure", "floor", "ratio");
        for Line { name, ours, floor } in &self.lines {
            let ours_text = time(ours.median);
            let floor_text = floor.map_or_else(|| "-".to_owned(), |floor| time(floor.median));
            let ratio =
                floor.map_or_else(|| "-".to_owned(), |floor| format!("{:.1}", ratio(ours, &floor)));
            let _ = writeln!(text, "{name:<36} {ours_text:>10} {floor_text:>10} {ratio:>6}");
        }
        let place = &self.place;
        let _ = match self.sync {
            Some(sync) => {
                let sync = time(sync.median);
                let _ = writeln!(text, "{:<36} {:>10} {sync:>10}", "write and sync, 300 B", "");
                let floor = "The floor is the bare system calls.";
                write!(text, "\nOne process, medians, in {place}. {floor}")
            }
            None => write!(text, "\nOne process, medians, in {place}."),
        };
        text
    }

    /// The same as an object.
    pub(crate) fn json(&self) -> Value {
        let rows = self.lines.iter().map(|Line { name, ours, floor }| {
            json!({
                "name": name,
                "tenure_us": microseconds(ours.median),
                "floor_us": floor.map(|floor| microseconds(floor.median)),
                "ratio": floor.map(|floor| round(ratio(ours, &floor))),
                "operations": ours.operations,
            })
        });
        json!({
            "dir": self.place,
            "rows": rows.collect::<Vec<_>>(),
            "sync_us": self.sync.map(|sync| microseconds(sync.median)),
        })
    }
}

fn ratio(ours: &Figure, floor: &Figure) -> f64 {
    ours.median.as_secs_f64() / floor.median.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn microseconds(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e6)
}

/// To two digits: more would be noise.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn time(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    if microseconds < 1000.0 {
        return format!("{microseconds:.1} us");
    }
    format!("{:.2} ms", microseconds / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_figures_and_their_ratio() {
        let figure = |us| Figure { median: Duration::from_micros(us), operations: 9 };
        let lines = vec![
            Line { name: "lock", ours: figure(6), floor: Some(figure(4)) },
            Line { name: "read", ours: figure(2500), floor: None },
        ];
        let report = Report { place: "d".into(), lines, sync: Some(figure(1500)) };
        let text = report.text();
        let words: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["lock", "6.0", "us", "4.0", "us", "1.5"]);
        assert_eq!(words[2], ["read", "2.50", "ms", "-", "-"]);
        assert!(text.contains("1.50 ms"), "{text}");
        let json = report.json();
        assert_eq!(json["rows"][0]["ratio"].as_f64(), Some(1.5));
        assert_eq!(json["rows"][1]["floor_us"], Value::Null);
        assert_eq!(json["sync_us"].as_f64(), Some(1500.0));
    }
}
