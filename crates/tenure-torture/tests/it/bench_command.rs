//! `tenure bench`: figures, and nothing left behind.

use rustix::process::Signal;

use crate::bench::{Bench, eventually};

fn entries(bench: &Bench) -> usize {
    std::fs::read_dir(bench.path(".")).unwrap().count()
}

#[test]
fn every_row_has_a_figure_and_a_floor_and_nothing_is_left() {
    let bench = Bench::new();
    let report = bench.tenure(&["bench", "--quick", "--json"]).ok().json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "{report}");
    for row in rows {
        for field in ["tenure_us", "floor_us", "ratio", "operations"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert!(report["sync_us"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(entries(&bench), 0);
    let text = bench.tenure(&["bench", "--quick"]).ok().stdout;
    for part in ["tenure", "floor", "lock and unlock", "write and sync"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let bench = Bench::new();
    let running = bench.command(&["bench"]).start();
    eventually(|| entries(&bench) == 1);
    running.signal(Signal::INT);
    running.wait().exits(1).complains("interrupted");
    assert_eq!(entries(&bench), 0);
}
