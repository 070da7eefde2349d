//! P2: a whole process that changes one document, as a hook does at every event.

use std::process::Command;

use serde_json::{Map, Value, json};

use crate::kit;
use crate::row::{Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat};

pub(crate) const ROW: Row = Row { name: "P2", title: "cold `tenure doc update`", races };

/// The document has this many keys, 12 KB together.
const KEYS: usize = 500;

const UPDATE: &[&str] = &["doc", "update", "--no-sync", "state.json", ".count += 1"];
const MERGE: &[&str] =
    &["doc", "merge", "--no-sync", "state.json", "{\"count\":1}", "--sum", "/count"];

/// A hook as people write it in JavaScript: a lock file, read, parse, change, write beside, rename.
const HOOK: &str = "\
const fs = require('fs');
fs.closeSync(fs.openSync('state.lock', 'wx'));
const state = JSON.parse(fs.readFileSync('state.json', 'utf8'));
state.count += 1;
fs.writeFileSync('state.new', JSON.stringify(state, null, 2));
fs.renameSync('state.new', 'state.json');
fs.unlinkSync('state.lock');
";

fn races(form: Form) -> Vec<Race> {
    let race = |name, turns, contenders, goals| Race {
        name,
        measure: Measure::Median,
        length: Length::Turns(turns),
        rounds: form.pick(5, 15),
        contenders,
        goals,
    };
    let dynamic = |seat: &Seat| tenure(seat, "tenure", UPDATE);
    let fixed = |seat: &Seat| tenure(seat, "tenure-static", UPDATE);
    let update = pair(dynamic, fixed, "doc update --no-sync state.json '.count += 1'");
    let merge = pair(
        |seat| tenure(seat, "tenure", MERGE),
        |seat| tenure(seat, "tenure-static", MERGE),
        "doc merge --no-sync state.json '{\"count\":1}' --sum /count",
    );
    let hook = vec![
        Contender::ours("tenure, static", fixed)
            .settings("doc update --no-sync state.json '.count += 1'")
            .prepare(for_static)
            .check(counted),
        Contender::peer("Node hook", node_hook)
            .settings("node hook.js: lock file, read, JSON.parse, change, write, rename, unlink; not synced")
            .prepare(|ground| {
                kit::program("node")?;
                kit::file(&ground.path("hook.js"), HOOK)?;
                document(ground)
            })
            .check(counted),
    ];
    vec![
        race("with a filter", form.pick(20, 60), update, goals()),
        race("with a patch", form.pick(20, 60), merge, goals()),
        race(
            "beside a Node hook",
            form.pick(4, 10),
            hook,
            vec![Goal::speed_at_least(50.0, "tenure, static", "Node hook")],
        ),
    ]
}

/// Both builds of the command, beside what it is compared with.
fn pair(
    dynamic: fn(&Seat) -> Result<Part>,
    fixed: fn(&Seat) -> Result<Part>,
    words: &str,
) -> Vec<Contender> {
    let ours = |name, part, prepare: fn(&Ground) -> Result<()>| {
        Contender::ours(name, part).settings(words).prepare(prepare).check(counted)
    };
    vec![
        ours("tenure", dynamic, for_dynamic),
        ours("tenure, static", fixed, for_static),
        Contender::floor("nothing", |_| Ok(starts(Command::new(kit::part("nothing")?))))
            .settings("a Rust program that does nothing, linked as the default build")
            .prepare(|_| kit::part("nothing").map(|_| ())),
        Contender::floor("nothing, static", |_| {
            Ok(starts(Command::new(kit::part("nothing-static")?)))
        })
        .settings("a Rust program that does nothing, linked statically")
        .prepare(|_| kit::part("nothing-static").map(|_| ())),
        Contender::peer("flock F true", |seat| {
            let mut command = kit::program("flock")?;
            command.args(["F", "true"]).current_dir(seat.dir());
            Ok(starts(command))
        })
        .settings("flock(1) of this machine: two processes, one lock, no document")
        .prepare(|_| kit::program("flock").map(|_| ())),
    ]
}

fn goals() -> Vec<Goal> {
    let over = |ours: &'static str, nothing: &'static str| {
        let words = format!("{ours}: <= 0.35 ms over {nothing}");
        Goal::at_most(0.35, "ms", &words, move |round| {
            Some((round.cost(ours)? - round.cost(nothing)?) / 1e6)
        })
    };
    let memory = "tenure, static: peak memory <= 6 MB";
    vec![
        Goal::cost_at_most(0.8, "tenure", "flock F true"),
        Goal::cost_at_most(0.5, "tenure, static", "flock F true"),
        over("tenure", "nothing"),
        over("tenure, static", "nothing, static"),
        Goal::at_most(6.0, "MB", memory, |_| peak_memory()),
    ]
}

fn tenure(seat: &Seat, program: &str, words: &[&str]) -> Result<Part> {
    let mut command = Command::new(kit::part(program)?);
    command.args(words).current_dir(seat.dir());
    Ok(starts(command))
}

fn node_hook(seat: &Seat) -> Result<Part> {
    let mut command = kit::program("node")?;
    command.arg("hook.js").current_dir(seat.dir());
    Ok(starts(command))
}

/// Every turn is one process, with an empty environment, from its start to its end.
fn starts(command: Command) -> Part {
    let mut command = kit::quiet(command);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    Part::timed(move || kit::run(&mut command))
}

fn for_dynamic(ground: &Ground) -> Result<()> {
    kit::part("tenure")?;
    document(ground)
}

fn for_static(ground: &Ground) -> Result<()> {
    kit::part("tenure-static")?;
    document(ground)
}

fn document(ground: &Ground) -> Result<()> {
    let mut fields = Map::new();
    fields.insert("count".into(), 0.into());
    for number in 1..KEYS {
        fields.insert(format!("key_{number:03}"), json!(format!("value_{number:03}")));
    }
    let text = serde_json::to_string_pretty(&Value::Object(fields))?;
    kit::file(&ground.path("state.json"), &text)
}

fn counted(ground: &Ground, turns: u64) -> Result<()> {
    let text = std::fs::read_to_string(ground.path("state.json"))?;
    let count = serde_json::from_str::<Value>(&text)?["count"].as_u64();
    if count == Some(turns) {
        return Ok(());
    }
    Err(format!("{turns} changes were made, {count:?} are there").into())
}

/// The largest resident set of one change, in megabytes, as GNU time reports it.
fn peak_memory() -> Option<f64> {
    let dir = std::env::temp_dir().join(format!("tenure-bench-memory-{}", std::process::id()));
    std::fs::create_dir(&dir).ok()?;
    let measured = measure_memory(&Ground { dir: dir.clone(), size: 0, form: Form::Quick });
    let _ = std::fs::remove_dir_all(&dir);
    measured.ok()
}

fn measure_memory(ground: &Ground) -> Result<f64> {
    document(ground)?;
    let command = kit::part("tenure-static")?;
    let output = Command::new("/usr/bin/time")
        .args(["--format", "%M"])
        .arg(command)
        .args(UPDATE)
        .current_dir(&ground.dir)
        .output()?;
    let kilobytes: f64 = String::from_utf8(output.stderr)?.trim().parse()?;
    Ok(kilobytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_as_large_as_it_is_called() {
        let dir = std::env::temp_dir().join(format!("tenure-bench-test-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let ground = Ground { dir: dir.clone(), size: 0, form: Form::Quick };
        document(&ground).unwrap();
        let bytes = std::fs::metadata(ground.path("state.json")).unwrap().len();
        assert!((11_000..14_000).contains(&bytes), "{bytes}");
        assert!(counted(&ground, 0).is_ok() && counted(&ground, 1).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
