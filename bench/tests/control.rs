//! The benchmark finds contenders that do not do their job, and says so.

use std::process::Command;

#[test]
fn contenders_that_must_fail_fail() {
    let dir = std::env::temp_dir().join(format!("tenure-bench-control-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_tenure-bench"));
    bench.arg("--on").arg(&dir).arg("--runs").arg(dir.join("runs")).arg("control");
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert_eq!(output.status.code(), Some(1), "a contender failed, so the run did");
    let says = |name: &str, what: &str| {
        let found = text.lines().any(|line| line.contains(name) && line.contains(what));
        assert!(found, "{name}: {what}");
    };
    says("changes without a lock: FAILED", "changes were made");
    says("fails at the start: FAILED", "no part");
    says("fails in a turn: FAILED", "no turn");
    says("dies: FAILED", "without a word");
    says("not here: NOT RUN", "no such machine");
    says("not here at the start: NOT RUN", "no such part");
    says("MISSED", "a millisecond");
    says("not measured", "the cost of dies");
    assert!(text.contains("goals: 0 reached, 1 missed, 1 not measured"));

    let record = std::fs::read_dir(dir.join("runs")).unwrap().next().unwrap().unwrap().path();
    for name in ["summary.md", "settings.json", "control.json", "control.svg"] {
        assert!(record.join(name).metadata().unwrap().len() > 100, "{name}");
    }
    let left: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["runs"], "nothing is left behind");
    std::fs::remove_dir_all(dir).unwrap();
}
