//! P11: what tenure adds to a short program in another language.

use crate::kit;
use crate::row::{Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat};

pub(crate) const ROW: Row = Row { name: "P11", title: "cold start in other languages", races };

/// One change of a small document.
const UPDATE: &str = "\
const { Document } = require('tenure');
new Document('state.json').updateSync((state) => { state.count += 1; }, { noSync: true, init: { count: 0 } });
";

fn races(form: Form) -> Vec<Race> {
    let race = |name, contenders, goal| Race {
        name,
        measure: Measure::Median,
        length: Length::Turns(form.pick(5, 10)),
        rounds: form.pick(5, 15),
        contenders,
        goals: vec![goal],
    };
    let over = |words, ours: &'static str, bare: &'static str| {
        Goal::at_most(8.0, "ms", words, move |round| {
            Some((round.cost(ours)? - round.cost(bare)?) / 1e6)
        })
    };
    vec![
        race(
            "Node",
            vec![
                Contender::ours("tenure, Node", |seat| node(seat, &["update.cjs"]))
                    .settings(
                        "node update.cjs: require('tenure'), one updateSync without a sync, exit",
                    )
                    .prepare(|ground| {
                        kit::part("node/node_modules/tenure")?;
                        kit::file(&ground.path("update.cjs"), UPDATE)
                    })
                    .check(counted),
                Contender::floor("bare node", |seat| node(seat, &["-e", "0"]))
                    .settings("node -e 0")
                    .prepare(|_| kit::node().map(|_| ())),
            ],
            over("require, update and exit: <= 8 ms over bare node", "tenure, Node", "bare node"),
        ),
        race(
            "Python",
            vec![
                Contender::ours("tenure, Python", |seat| python(seat, "import tenure"))
                    .settings("python3 -c 'import tenure'")
                    .prepare(|_| kit::part("python/tenure").map(|_| ())),
                Contender::floor("bare python", |seat| python(seat, "0"))
                    .settings("python3 -c 0")
                    .prepare(|_| kit::python().map(|_| ())),
            ],
            over("import: <= 8 ms over bare python", "tenure, Python", "bare python"),
        ),
    ]
}

fn node(seat: &Seat, words: &[&str]) -> Result<Part> {
    let mut command = kit::node()?;
    command.args(words).current_dir(seat.dir());
    Ok(Part::timed(move || kit::run(&mut command)))
}

fn python(seat: &Seat, code: &str) -> Result<Part> {
    let mut command = kit::python()?;
    command.args(["-c", code]).current_dir(seat.dir());
    Ok(Part::timed(move || kit::run(&mut command)))
}

fn counted(ground: &Ground, turns: u64) -> Result<()> {
    let text = std::fs::read_to_string(ground.path("state.json"))?;
    let count = serde_json::from_str::<serde_json::Value>(&text)?["count"].as_u64();
    if count == Some(turns) {
        return Ok(());
    }
    Err(format!("{turns} changes were made, {count:?} are there").into())
}
