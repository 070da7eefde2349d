//! Ring 2: scenarios, played by puppets in every language, in mixed languages, and by several
//! handles of one process.
//!
//! The scenarios are the timelines in `scenarios/`; `PUPPETS.md` has the protocol of the puppets.
//! This code knows nothing about their content.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tenure_proof::puppet::{Language, Troupe, languages};
use tenure_proof::timeline::{Cast, Scenario, play};
use tenure_proof::{Form, Tally};

mod controls;

/// One test per timeline.
macro_rules! scenarios {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                perform(stringify!($name));
            }
        )*
    };
}

scenarios! {
    cancel_storm
    compare_and_set
    exclusion
    fence_order
    fork_and_exec
    kill_while_holding
    lease_expiry
    lost_update
    nested_by_fence
    operation_replay
    paused_holder
    paused_lease
    rotation_while_following
    shared_and_exclusive
    take_over
    torn_tail
    writer_under_a_hold
}

/// What a language cannot do in a scenario: its name, the scenario, the orders. An actor that needs
/// one of them is not played in that language; all others are.
const CANNOT: &[(&str, &str, &[&str])] = &[
    // A command cannot keep a guard for a forked child, and starts no program by itself.
    ("cli", "fork_and_exec", &["fork", "program", "verify"]),
    // Node has no fork.
    ("node", "fork_and_exec", &["fork"]),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn scenario(name: &str) -> Scenario {
    let text = std::fs::read_to_string(directory().join(format!("{name}.txt"))).unwrap();
    Scenario::parse(name, &text).unwrap()
}

#[test]
fn every_timeline_is_played() {
    let entries = std::fs::read_dir(directory()).unwrap();
    let names = entries.map(|entry| entry.unwrap().path());
    let there: BTreeSet<_> =
        names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let played: BTreeSet<_> = NAMES.iter().map(ToString::to_string).collect();
    assert_eq!(there, played);
    let excepted = CANNOT.iter().find(|(_, scenario, _)| !played.contains(*scenario));
    assert_eq!(excepted, None, "no such scenario");
}

/// A language that knows fewer orders than it should fails.
fn check_exceptions(scenario: &Scenario, languages: &[Language]) {
    for language in languages {
        let puppet = language.start().unwrap();
        let orders = scenario.actors().into_iter().flat_map(|actor| scenario.orders_of(actor));
        let lacks: BTreeSet<_> = orders.filter(|op| !puppet.knows(op)).collect();
        let ours = CANNOT
            .iter()
            .filter(|(name, of, _)| (*name, *of) == (language.name(), scenario.name.as_str()));
        let allowed: BTreeSet<_> = ours.flat_map(|(_, _, orders)| orders.iter().copied()).collect();
        assert_eq!(lacks, allowed, "what {} cannot do of {}", language.name(), scenario.name);
    }
}

/// Plays a scenario in each language, in mixtures of them, and in one process.
fn perform(name: &str) {
    let scenario = scenario(name);
    let mut tally = Tally::new("puppets", name);
    let languages = languages();
    check_exceptions(&scenario, languages);
    for spoken in casts(languages, u32::try_from(scenario.actors().len()).unwrap()) {
        run(&scenario, &spoken, &mut tally);
    }
    if !scenario.needs_processes() {
        // Every command is a process: two actors cannot share one.
        let commands = |language: &&Language| **language == Language::CommandLine;
        for language in languages.iter().filter(|language| !commands(language)) {
            run_in_one_process(&scenario, *language, &mut tally);
        }
    }
}

/// Plays it once; all actors are in one process, each with handles of its own.
#[expect(clippy::print_stdout, reason = "a failure report needs the cast")]
fn run_in_one_process(scenario: &Scenario, language: Language, tally: &mut Tally) {
    println!("{} in one process of {}", scenario.name, language.name());
    let scratch = TempDir::new().unwrap();
    let troupe = Troupe::start(&mut language.command()).unwrap();
    assert!(troupe.takes_actors(), "{} cannot play several", language.name());
    let part = |actor: &str| (actor.to_owned(), Box::new(troupe.actor(actor)) as Box<_>);
    play(scenario, scenario.actors().into_iter().map(part).collect(), scratch.path());
    tally.tried(1, &format!("scenarios between handles of one process in {}", language.name()));
}

/// The casts: each language alone, and each actor once in each language while the others use other
/// languages; in the long form, every actor in every language beside every other.
fn casts(languages: &[Language], actors: u32) -> Vec<Vec<Language>> {
    let count = languages.len();
    let spoken = |nth: usize| languages[nth % count];
    if Form::asked() == Form::Long {
        let part = |cast: usize, actor| spoken(cast / count.pow(actor));
        let casts = 0..count.pow(actors);
        return casts.map(|cast| (0..actors).map(|actor| part(cast, actor)).collect()).collect();
    }
    let alone = (0..count).map(|nth| (0..actors).map(|_| spoken(nth)).collect());
    let turned = (0..count).map(|first| (first..).map(spoken).take(actors as usize).collect());
    alone.chain(turned.filter(|_| count > 1)).collect()
}

/// Plays it once; each actor uses its language.
#[expect(clippy::print_stdout, reason = "a failure report needs the cast")]
fn run(scenario: &Scenario, spoken: &[Language], tally: &mut Tally) {
    let mut cast = Cast::new();
    let mut names = Vec::new();
    for (actor, language) in scenario.actors().into_iter().zip(spoken) {
        let puppet = language.start().unwrap();
        if let Some(op) = scenario.orders_of(actor).into_iter().find(|op| !puppet.knows(op)) {
            println!("not for {} as {actor}: {} needs `{op}`", language.name(), scenario.name);
            return;
        }
        names.push(format!("{actor} {}", language.name()));
        cast.insert(actor.to_owned(), puppet);
    }
    println!("{} with {}", scenario.name, names.join(", "));
    let scratch = TempDir::new().unwrap();
    play(scenario, cast, scratch.path());
    let what = match spoken {
        [one, others @ ..] if others.iter().all(|other| other == one) => {
            format!("scenarios in {}", one.name())
        }
        _ => "scenarios in mixed languages".to_owned(),
    };
    tally.tried(1, &what);
}

fn rust() -> Command {
    Language::Rust.command()
}
