//! How a model is checked: all states, or until its deliberate fault shows.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};
use tenure_proof::Tally;

/// Visits every state: no rule may be broken, and everything that should be possible must occur.
#[expect(clippy::print_stdout, reason = "the figures, and the way to the damage, are for people")]
pub(crate) fn holds<M>(tally: &mut Tally, what: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count() as u64;
    println!("{what}: {states} states, depth {}", checker.max_depth());
    tally.tried(states, "states of models");
}

/// Searches until `rule` is broken, and fails if it never is.
#[expect(clippy::print_stdout, reason = "the figures, and the way to the damage, are for people")]
pub(crate) fn is_refuted<M>(tally: &mut Tally, fault: &str, rule: &'static str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let wanted = HasDiscoveries::AllOf(BTreeSet::from([rule]));
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    let states = checker.unique_state_count() as u64;
    let Some(path) = checker.discovery(rule) else {
        panic!("{fault}: `{rule}` was never broken in {states} states");
    };
    let actions = path.into_actions();
    println!("{fault}: `{rule}` is broken after {} steps: {actions:?}", actions.len());
    tally.tried(states, "states of broken models");
    tally.caught(fault);
}
