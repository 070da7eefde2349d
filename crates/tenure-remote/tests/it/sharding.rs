//! One store per shard, and the shard of a session by rendezvous hash, as docs/SCALING.md describes it: a simulation of
//! how evenly sessions spread, and of how many move when a shard is added.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

const SESSIONS: u64 = 100_000;

/// The shard with the largest weight for this session. Only the sessions of a shard that is removed, and those that a
/// new shard wins, change their shard.
fn shard_of<'a>(session: &str, shards: &'a [String]) -> &'a str {
    let weight = |shard: &&String| xxh3_64(format!("{shard}\n{session}").as_bytes());
    shards.iter().max_by_key(weight).map_or("", String::as_str)
}

fn shards(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("postgres://shard-{number:02}.example/tenure")).collect()
}

fn sessions() -> impl Iterator<Item = String> {
    (0..SESSIONS).map(|number| format!("session-{number}"))
}

#[test]
fn sessions_spread_evenly() {
    for count in [2, 5, 16, 64] {
        let shards = shards(count);
        let mut load: HashMap<&str, u64> = HashMap::new();
        for session in sessions() {
            *load.entry(shard_of(&session, &shards)).or_default() += 1;
        }
        assert_eq!(load.len(), count, "a shard without a session");
        let fair = SESSIONS / count as u64;
        // Six standard deviations of a fair lot, so that this fails only for a hash that is not fair.
        let spread = 6 * fair.isqrt();
        for (shard, load) in load {
            assert!(load.abs_diff(fair) <= spread, "{load} sessions on {shard}, {fair} are fair");
        }
    }
}

#[test]
fn a_new_shard_takes_its_share_and_nothing_else_moves() {
    for count in [1, 4, 15] {
        let (before, after) = (shards(count), shards(count + 1));
        let mut moved = 0;
        for session in sessions() {
            let (from, to) = (shard_of(&session, &before), shard_of(&session, &after));
            if from != to {
                assert_eq!(to, after[count], "{session} moved between two old shards");
                moved += 1;
            }
        }
        let fair = SESSIONS / (count as u64 + 1);
        assert!(moved <= fair + 6 * fair.isqrt(), "{moved} sessions moved, {fair} are fair");
        assert!(moved + 6 * fair.isqrt() >= fair, "{moved} sessions moved, {fair} are fair");
    }
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let shards = shards(9);
    let reversed: Vec<_> = shards.iter().rev().cloned().collect();
    for session in sessions().take(5000) {
        assert_eq!(shard_of(&session, &shards), shard_of(&session, &reversed));
    }
}
