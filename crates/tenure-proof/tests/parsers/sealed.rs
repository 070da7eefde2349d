//! Wrong files with valid checksums: damage that no checksum detects, or a defect in tenure's
//! writer.
//!
//! # Invariants
//!
//! 1. They may be accepted; nothing may panic, hang, use unbounded memory or lose existing data.
//! 2. Without valid checksums the same inputs are never accepted.

use std::time::Duration;

use tenure_proof::inputs::{self, Check, EDITS, Fate, IN_PLACE, OURS, RESEAL};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::corruption::{MEMORY_MAX_KIB, peak_memory_kib};
use crate::runs::within;

/// A target whose files have checksums.
struct Sealed {
    name: &'static str,
    check: Check,
    /// The files that are tried, and those in which acceptance shows: the upper half of the first
    /// byte.
    files: &'static [u8],
    telling: &'static [u8],
    /// Of a hundred inputs, this many must be accepted.
    percent: u64,
}

const SEALED: &[Sealed] = &[
    // Every sidecar; its log is the one that shows.
    Sealed {
        name: "journal",
        check: inputs::journal,
        files: &[1, 2, 3, 3, 4, 6, 7, 7, 8, 8, 9, 9, 10],
        telling: &[3],
        percent: 3,
    },
    Sealed { name: "sync", check: inputs::sync, files: &[0, 1], telling: &[0], percent: 10 },
    Sealed { name: "record", check: inputs::record, files: &[0], telling: &[0], percent: 15 },
    Sealed { name: "floor", check: inputs::floor, files: &[0], telling: &[0], percent: 60 },
];

/// Of a hundred inputs, this many stay below the sanity limit, and are tried.
const TRIED: u64 = 75;
/// The control draws this many.
const CONTROLS: u64 = 200;

/// Numbers near limits.
fn number(random: &mut Random) -> u64 {
    let near = (random.index(5) as u64).wrapping_sub(2);
    match random.index(6) {
        0 => random.index(4) as u64,
        1 => random.index(300) as u64,
        2 => (1 << random.index(64)) + near % 3,
        3 => 12_288_u64.wrapping_add(near.wrapping_mul(64)),
        4 => near,
        _ => random.bits(),
    }
}

/// An input that edits the existing file: a few fields, each set to a number.
fn edits(random: &mut Random, files: &[u8]) -> Vec<u8> {
    let which = files[random.index(files.len())];
    let mut input = vec![RESEAL | EDITS | IN_PLACE | OURS | which << 4];
    if random.index(6) == 0 {
        input[0] ^= [IN_PLACE, OURS, IN_PLACE | OURS][random.index(3)];
    }
    for _ in 0..=random.index(4) {
        let structure = random.index(8).to_le_bytes()[0];
        let fields = if random.coin() { 16 } else { 80 };
        let at = 8 * random.index(fields);
        let [low, high, ..] = at.to_le_bytes();
        let value = number(random).to_le_bytes();
        // Often the same in all slots: otherwise another slot is used.
        let all = random.coin();
        for structure in if all { 0..4 } else { structure..structure + 1 } {
            input.extend([structure, low, high, 8]);
            input.extend(value);
        }
    }
    input
}

#[test]
fn wrong_files_with_fitting_checksums_are_survived() {
    let test = "wrong_files_with_fitting_checksums_are_survived";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    let cases = Form::asked().pick(300, 20_000);
    for Sealed { name: target, check, files, percent, .. } in SEALED {
        let mut fates = Vec::new();
        for _ in 0..cases {
            let input = edits(&mut random, files);
            let shown = format!("{target} with {input:?}");
            let told = shown.clone();
            let check = *check;
            fates.push(within(Duration::from_secs(20), &shown, move || {
                let checked = std::panic::catch_unwind(|| check(&input));
                checked.unwrap_or_else(|panic| {
                    println!("input: {told}");
                    std::panic::resume_unwind(panic)
                })
            }));
        }
        let count = |fate| fates.iter().filter(|it| **it == fate).count() as u64;
        let (believed, tried) = (count(Fate::Believed), cases - count(Fate::Skipped));
        println!("{target}: {believed} of {tried} inputs were believed, {cases} were drawn");
        assert!(believed * 100 >= tried * percent, "{target}: only {believed} of {tried} believed");
        assert!(tried * 100 >= cases * TRIED, "{target}: only {tried} of {cases} tried");
        tally.tried(tried, "wrong files with fitting checksums");
    }
    let peak = peak_memory_kib();
    assert!(peak < MEMORY_MAX_KIB, "{peak} KiB of memory at the worst moment");
}

/// The control: the same inputs with the checksums left as they were are never accepted. With valid
/// ones some of them are, by the same signs.
#[test]
fn without_fitting_checksums_nothing_is_believed() {
    let test = "without_fitting_checksums_nothing_is_believed";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    for Sealed { name: target, check, telling, percent, .. } in SEALED {
        let mut believed = 0;
        for _ in 0..CONTROLS {
            let mut input = edits(&mut random, telling);
            believed += u64::from(check(&input) == Fate::Believed);
            input[0] &= !RESEAL;
            assert_eq!(check(&input), Fate::Refused, "{target} with {input:?}");
        }
        println!("{target}: {believed} of {CONTROLS} would be believed");
        assert!(believed * 100 >= CONTROLS * percent, "{target}: only {believed} of {CONTROLS}");
    }
    tally.caught("inputs with wrong checksums: no code behind a checksum is reached");
}
