//! The ring itself is tested: it must detect an actor that does not exclude others, and a timeline
//! that expects the wrong answer.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_proof::Tally;
use tenure_proof::puppet::{Heard, Puppet};
use tenure_proof::timeline::{Cast, Scenario, play};
use tenure_shipped::Lock;
use tenure_shipped::locks::GivesIn;

use super::{rust, scenario};

/// A puppet that locks as a shipped protocol does: it gives up, and continues without the lock.
struct Unlocked {
    lock: GivesIn,
    answer: Option<Value>,
}

impl Puppet for Unlocked {
    fn tell(&mut self, order: &Value) {
        let done = if order["op"] == "lock" { self.lock.enter() } else { self.lock.leave() };
        assert!(done.is_ok());
        self.answer = Some(json!({ "ok": { "fence": 1 } }));
    }

    fn hear_within(&mut self, _: Duration) -> Heard {
        self.answer.take().map_or(Heard::Silence, Heard::Answer)
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn knows(&self, _: &str) -> bool {
        true
    }

    fn kill(&mut self) {}

    fn stop(&self) {}

    fn resume(&self) {}
}

/// All its actors lock as that protocol does. It answers at once, so nothing here depends on time.
fn unlocked(scenario: &Scenario, directory: &Path) -> Cast {
    let puppet = || Unlocked { lock: GivesIn::open(directory), answer: None };
    let part = |actor: &str| (actor.to_owned(), Box::new(puppet()) as Box<dyn Puppet>);
    scenario.actors().into_iter().map(part).collect()
}

fn fails(scenario: &Scenario, cast: impl FnOnce(&Path) -> Cast) -> String {
    let scratch = TempDir::new().unwrap();
    let cast = cast(scratch.path());
    let played = std::panic::AssertUnwindSafe(|| play(scenario, cast, scratch.path()));
    let why = std::panic::catch_unwind(played).expect_err("it passes");
    why.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_lock_that_gives_in_is_found_out() {
    let mut tally = Tally::new("puppets", "controls");
    let exclusion = scenario("exclusion");
    let why = fails(&exclusion, |directory| unlocked(&exclusion, directory));
    assert!(why.contains("step 2 (B)"), "{why}");
    let blocks = Scenario::parse("wrong", "files: doc\n1 A lock $doc blocks\n").unwrap();
    let why = fails(&blocks, |directory| unlocked(&blocks, directory));
    assert!(why.contains("it had to wait"), "{why}");
    tally.caught("App-Store-Connect-CLI: work goes on without the lock");
}

#[test]
fn a_wrong_expectation_is_found_out() {
    let mut tally = Tally::new("puppets", "a_wrong_expectation_is_found_out");
    for (text, step) in [
        ("files: doc\n1 A lock $doc -> fence=0\n", "step 1"),
        ("files: doc\n1 A lock $doc -> fence=$a\n2 - $a > $a\n", "step 2"),
        ("files: doc\n1 A lock $doc -> ok\n2 B add $doc -> ok\n", "step 2"),
        ("files: doc\n1 A read $doc -> version=\"x\"\n", "step 1"),
        ("files: doc\n1 A lock $doc wiat=forever -> ok\n", "step 1"),
    ] {
        let scenario = Scenario::parse("wrong", text).unwrap();
        let why = fails(&scenario, |_| {
            let child = || tenure_proof::puppet::Child::start(&mut rust());
            let part = |actor: &str| (actor.to_owned(), Box::new(child()) as Box<dyn Puppet>);
            scenario.actors().into_iter().map(part).collect()
        });
        assert!(why.contains(step), "{text}: {why}");
    }
    tally.caught("a timeline that expects the wrong thing");
}
