//! What a hook costs, beside `flock F true`, a program that does nothing, and the same rules in Node; and how many
//! marks of twenty calls at once are lost.
//!
//! With the other tests it takes a few turns of the build under test, and only the lost marks matter. The table is that
//! of a release build, which it is given:
//!
//! ```sh
//! cargo build --release -p tenure-cli
//! TENURE_MEASURED=$PWD/target/release/tenure cargo test -p tenure-cli --test it hook_cost -- --nocapture
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TENURE;
use crate::hook_stage::Stage;

/// Calls at once.
const CALLS: usize = 20;

/// ECC's gate as it is known: a state file, merged with the disk before it is replaced, without a lock.
const NODE: &str = r"
const fs = require('fs'), path = require('path'), crypto = require('crypto');
const data = JSON.parse(fs.readFileSync(0, 'utf8'));
const dir = process.env.NODE_GATE_DIR;
const file = path.join(dir, `state-${data.session_id.replace(/[^a-zA-Z0-9_-]/g, '_')}.json`);
const load = () => { try { return JSON.parse(fs.readFileSync(file, 'utf8')); } catch { return { checked: [] }; } };
const key = data.tool_input.file_path;
const state = load();
if (!state.checked.includes(key)) {
  const disk = load();
  const checked = [...new Set([...disk.checked, ...state.checked, key])];
  fs.mkdirSync(dir, { recursive: true });
  const temp = `${file}.tmp.${process.pid}.${crypto.randomBytes(4).toString('hex')}`;
  fs.writeFileSync(temp, JSON.stringify({ checked, last_active: Date.now() }, null, 2));
  fs.renameSync(temp, file);
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'deny' } }));
}
";

struct Contender<'a> {
    name: &'static str,
    turns: usize,
    /// The command of a turn, and its payload.
    turn: Box<dyn Fn(usize) -> (Command, Option<PathBuf>) + 'a>,
}

#[test]
fn what_a_hook_costs() {
    let measured = std::env::var_os("TENURE_MEASURED").map(PathBuf::from);
    // Turns of each contender, of Node a tenth; and how often calls come at once.
    let (turns, storms) = if measured.is_some() { (300, 10) } else { (10, 1) };
    let (stage, tenure) = (Stage::new(), measured.unwrap_or_else(|| TENURE.into()));
    let nothing = empty_program(&stage);
    let script = stage.bench.file("gate.cjs", NODE);
    let payload = |agent: &str, event: &str, file: String| {
        let text = stage.payload(agent, event, &file).to_string();
        stage.bench.file(&format!("payloads/{agent}-{event}-{}", file.replace('/', "_")), text)
    };
    let hook = |verb: &str| {
        let mut command = Command::new(&tenure);
        command
            .args(["hook", verb])
            .env_clear()
            .env("GATEGUARD_STATE_DIR", stage.bench.path("gate"));
        command
    };
    let node = || {
        let mut command = Command::new("node");
        command.arg(&script).env("NODE_GATE_DIR", stage.bench.path("node"));
        command
    };
    let flock = || {
        let mut command = Command::new("flock");
        command.arg(stage.bench.path("F")).arg("true");
        command
    };
    let same = |agent: &str, event: &str| payload(agent, event, "src/a.rs".to_owned());
    let (own, other, after) =
        (same("alice", "PreToolUse"), same("bob", "PreToolUse"), same("alice", "PostToolUse"));
    let ten = turns / 10;
    let new = |agent: &str, turn: usize| Some(payload(agent, "PreToolUse", format!("{turn}.rs")));
    let contenders = [
        contender("a program that does nothing", turns, |_| (Command::new(&nothing), None)),
        contender("flock F true", turns, |_| (flock(), None)),
        contender("hook edit: a file that the agent has", turns, |_| {
            (hook("edit"), Some(own.clone()))
        }),
        contender("hook edit: another agent has it", turns, |_| {
            (hook("edit"), Some(other.clone()))
        }),
        contender("hook edit: after the edit", turns, |_| (hook("edit"), Some(after.clone()))),
        contender("hook edit: a new file", turns, |turn| (hook("edit"), new("carol", turn))),
        contender("hook gate: asked before", turns, |_| (hook("gate"), Some(own.clone()))),
        contender("hook gate: a new file", turns, |turn| (hook("gate"), new("dave", turn))),
        contender("Node: asked before", ten, |_| (node(), Some(own.clone()))),
        contender("Node: a new file", ten, |turn| (node(), new("erin", turn))),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); contenders.len()];
    for turn in 0..turns {
        for (contender, times) in contenders.iter().zip(&mut times) {
            if turn < contender.turns {
                times.push(timed((contender.turn)(turn)));
            }
        }
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let at = |index: usize, percent: usize| times[index][times[index].len() * percent / 100];
    println!("| | p50 us | p99 us | p50 / flock F true | p50 / nothing | p50 / Node |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (index, contender) in contenders.iter().enumerate() {
        let (median, late) = (at(index, 50), at(index, 99));
        let by = |other: Duration| median.as_secs_f64() / other.as_secs_f64();
        let peer = if contender.name.ends_with("a new file") { 9 } else { 8 };
        println!(
            "| {} | {} | {} | {:.2} | {:.2} | 1/{:.0} |",
            contender.name,
            median.as_micros(),
            late.as_micros(),
            by(at(1, 50)),
            by(at(0, 50)),
            1.0 / by(at(peer, 50)),
        );
    }
    println!("lost marks of {} calls, {CALLS} at once:", CALLS * storms);
    for (name, dir) in [("hook gate", "gate"), ("Node", "node")] {
        let mut lost = 0;
        for storm in 0..storms {
            let agent = format!("storm{storm}");
            let start = |call: usize| {
                let command = if dir == "gate" { hook("gate") } else { node() };
                let file = payload(&agent, "PreToolUse", format!("{call}.rs"));
                quiet(command, Some(file)).spawn().unwrap()
            };
            let children: Vec<_> = (0..CALLS).map(start).collect();
            for mut child in children {
                assert!(child.wait().unwrap().success());
            }
            let text = stage.bench.read(&format!("{dir}/state-{agent}.json"));
            let state: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
            lost += CALLS - state["checked"].as_array().map_or(0, Vec::len);
        }
        println!("{name}: {lost}");
        assert!(lost == 0 || dir == "node", "{lost} marks were lost");
    }
}

fn contender<'a>(
    name: &'static str,
    turns: usize,
    turn: impl Fn(usize) -> (Command, Option<PathBuf>) + 'a,
) -> Contender<'a> {
    Contender { name, turns, turn: Box::new(turn) }
}

/// A whole process, from its start to its end.
fn timed((command, payload): (Command, Option<PathBuf>)) -> Duration {
    let mut command = quiet(command, payload);
    let start = Instant::now();
    let status = command.status().unwrap();
    let time = start.elapsed();
    assert!(status.success(), "{command:?}");
    time
}

fn quiet(mut command: Command, payload: Option<PathBuf>) -> Command {
    let input = payload.map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A Rust program that does nothing, linked as the default build.
fn empty_program(stage: &Stage) -> PathBuf {
    let source = stage.bench.file("nothing.rs", "fn main() {}");
    let program = stage.bench.path("nothing");
    let mut rustc = Command::new("rustc");
    rustc.args(["-O", "-C", "strip=symbols", "-o"]).arg(&program).arg(source);
    assert!(rustc.status().unwrap().success());
    assert!(Path::new(&program).exists());
    program
}
