//! The raw record: every heat of every contender, with its histogram.

use serde_json::{Value, json};

use crate::round::Heat;
use crate::run::{ContenderResult, GoalResult, Problem, RaceResult, RowResult};

/// A row as JSON. Times are nanoseconds.
pub(super) fn json(row: &RowResult) -> Value {
    json!({
        "row": row.name,
        "title": row.title,
        "races": row.races.iter().map(race).collect::<Vec<_>>(),
    })
}

fn race(race: &RaceResult) -> Value {
    json!({
        "race": race.name,
        "measure": race.measure.words(),
        "contenders": race.contenders.iter().map(|one| contender(race, one)).collect::<Vec<_>>(),
        "goals": race.goals.iter().map(goal).collect::<Vec<_>>(),
    })
}

fn contender(race: &RaceResult, one: &ContenderResult) -> Value {
    let problem = one.problem.as_ref().map(|problem| match problem {
        Problem::NotHere(why) => json!({ "not_here": why }),
        Problem::Failed(why) => json!({ "failed": why }),
    });
    json!({
        "name": one.name,
        "settings": one.settings,
        "problem": problem,
        "rounds": one.heats.iter().map(|one| heat(race, one)).collect::<Vec<_>>(),
    })
}

fn heat(race: &RaceResult, heat: &Heat) -> Value {
    json!({
        "cost": heat.cost(race.measure),
        "turns": heat.turns,
        "turns_inside": heat.turns_inside,
        "window": heat.window_ns,
        "cpu": heat.cpu_ns,
        "memory_bytes": heat.memory_bytes,
        "mean": heat.mean(),
        "p50": heat.quantile(0.5),
        "p99": heat.quantile(0.99),
        "p999": heat.quantile(0.999),
        "longest": heat.longest(),
        "histogram": heat.histogram(),
    })
}

fn goal(goal: &GoalResult) -> Value {
    let value = goal.value.map(|(median, least, most)| json!([median, least, most]));
    json!({
        "goal": goal.words,
        "unit": goal.unit,
        "median_least_most": value,
        "reached": goal.reached(),
    })
}
