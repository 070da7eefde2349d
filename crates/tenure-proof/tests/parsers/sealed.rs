//! Files that are wrong and have fitting checksums: damage that no checksum finds, or a tenure that
//! wrote nonsense. It may be believed; nothing may panic, hang or lose what is there.

use std::time::Duration;

use tenure_proof::inputs::{self, Check, EDITS, IN_PLACE, MEND, OURS};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::runs::within;

/// The targets whose files have checksums, and of a hundred inputs how many must be believed.
const SEALED: &[(&str, Check, u64)] = &[
    ("record", inputs::record, 20),
    ("journal", inputs::journal, 20),
    ("sync", inputs::sync, 20),
    ("floor", inputs::floor, 5),
];

/// Numbers at which something changes.
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

/// An input that edits the file as it is: a few fields, each of them to a number.
fn edits(random: &mut Random) -> Vec<u8> {
    let which = random.index(16).to_le_bytes()[0];
    let mut input = vec![MEND | EDITS | IN_PLACE | OURS | which << 4];
    if random.index(6) == 0 {
        input[0] ^= [IN_PLACE, OURS, IN_PLACE | OURS][random.index(3)];
    }
    for _ in 0..=random.index(4) {
        let structure = random.index(8).to_le_bytes()[0];
        let fields = if random.coin() { 16 } else { 80 };
        let at = 8 * random.index(fields);
        let [low, high, ..] = at.to_le_bytes();
        let value = number(random).to_le_bytes();
        // Often the same in all slots: otherwise another one counts.
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
    for (target, check, percent) in SEALED {
        let mut believed = 0;
        for _ in 0..cases {
            let input = edits(&mut random);
            let shown = format!("{target} with {input:?}");
            let told = shown.clone();
            let check = *check;
            believed += u64::from(within(Duration::from_secs(20), &shown, move || {
                let checked = std::panic::catch_unwind(|| check(&input));
                checked.unwrap_or_else(|panic| {
                    println!("input: {told}");
                    std::panic::resume_unwind(panic)
                })
            }));
        }
        println!("{target}: {believed} of {cases} inputs got past the checksums and were believed");
        assert!(believed * 100 >= cases * percent, "{target}: only {believed} of {cases} believed");
        tally.tried(cases, "wrong files with fitting checksums");
    }
}

/// The control: the same inputs with the checksums left as they were are never believed.
#[test]
fn without_fitting_checksums_nothing_is_believed() {
    let test = "without_fitting_checksums_nothing_is_believed";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    for (target, check, _) in SEALED {
        for _ in 0..40 {
            let mut input = edits(&mut random);
            input[0] = input[0] & 0x0f & !MEND | if *target == "journal" { 3 << 4 } else { 0 };
            assert!(!check(&input), "{target} believed {input:?}");
        }
    }
    tally.caught("inputs whose checksums nobody mended: no code behind a checksum is reached");
}
