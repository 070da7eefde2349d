//! The commands for agents under a wall clock that jumps: prepared by one clock, run by another, repeated by a third.

use tenure_proof::verbs::VERBS;
use tenure_proof::{Tally, bounded};

use crate::RING;
use crate::bench::Bench;
use crate::wall::{WallClock, YEARS, words};

#[test]
fn g1_agents_commands_under_a_wall_clock_that_jumps() {
    let mut tally = Tally::new(RING, "g1_agents_commands_under_a_wall_clock_that_jumps");
    let (bench, wall) = (Bench::new(), WallClock::new());
    let [past, future] = YEARS.map(|year| wall.at(year));
    let (here, past, future) = (vec!["env"], words(&past), words(&future));
    let dir = bench.path("work");
    let mut bad = Vec::new();
    for verb in VERBS {
        for (runs, looks) in [(&past, &here), (&future, &here), (&here, &past), (&here, &future)] {
            verb.set_up(&dir);
            let ended = bounded::run(verb.command(&dir, runs));
            let judged = verb.judge(&dir, looks, &ended);
            bad.extend(judged.err().map(|why| format!("{runs:?}, then {looks:?}: {why}")));
            tally.tried(1, "commands for agents between different wall clocks");
        }
    }
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
}
