//! What this ring must find: parsers, merges and formats as people make them, with the same inputs.

use tenure::json::{Object, Rules};
use tenure::{Value, json};
use tenure_proof::{Tally, seed};
use tenure_testkit::Random;

use crate::corruption::{damage, line};
use crate::json::{Bench, number, object, operations, patches, quickly, ruled};
use crate::runs::must_break;

/// How many times a file is damaged.
const DAMAGES: usize = 200;

#[test]
fn promises_of_json_that_others_break() {
    let mut tally = Tally::new("parsers", "promises_of_json_that_others_break");
    let fault = "a number that goes through a float: its digits change";
    must_break(&mut tally, fault, number(), |text| {
        text.parse::<f64>().is_ok_and(|float| float.to_string() == text)
    });
    let fault = "a merge in which the last patch wins: the order of patches shows";
    must_break(&mut tally, fault, patches("max"), |patches| patches.first() == patches.last());
    let fault = "a merge that keeps the fields of both: what was deleted stays";
    must_break(&mut tally, fault, (ruled(), ruled()), |(base, patch)| {
        let fields = |of: &Value| of.as_object().expect("an object").clone();
        let patch = fields(&patch);
        let mut both: Object = patch.iter().filter(|(_, now)| !now.is_null()).collect();
        both.extend(fields(&base).iter());
        let deleted = patch.iter().filter(|(_, now)| now.is_null());
        deleted.map(|(name, _)| name).all(|name| both.get(name).is_none())
    });
    let fault = "a sum that is taken for idempotent: the second time shows";
    must_break(&mut tally, fault, patches("sum"), |patches| {
        let rules = Rules::new().sum("/x").expect("a rule");
        let bench = Bench::new("{}");
        let merge = |patch: &Value| bench.document.merge(patch, &rules, &quickly());
        merge(&patches[0]).expect("a merge");
        !merge(&patches[0]).expect("a merge").changed
    });
    let fault = "a patch that is applied step by step: a step that fails leaves those before it";
    must_break(&mut tally, fault, (object(), operations()), |(base, operations)| {
        let bench = Bench::new(base.to_string());
        let mut steps = operations.into_iter();
        steps.all(|step| bench.document.patch(&json!([step]), &quickly()).is_ok())
            || bench.value() == base
    });
}

/// What a reader gets that skips lines it cannot parse.
fn forgiving(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// A fence as other tools keep it: a number in a file, and 1 if there is none.
fn plain_fence(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

#[test]
fn damage_that_others_do_not_tell() {
    let test = "damage_that_others_do_not_tell";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    let lines: String = (0..24).map(|number| line(number) + "\n").collect();
    let known = forgiving(lines.as_bytes());
    let fence = 20_260_u64;
    let mut silent = 0;
    let mut back = 0;
    for _ in 0..DAMAGES {
        let (_, damaged) = damage(&mut random, lines.as_bytes(), b"");
        silent += u64::from(!forgiving(&damaged).starts_with(&known));
        let (_, damaged) = damage(&mut random, fence.to_string().as_bytes(), b"");
        back += u64::from(plain_fence(&damaged) < fence);
    }
    assert!(silent > 0, "lines that go in silence were not found out");
    tally.caught("a reader that passes over what it cannot parse: lines go in silence");
    assert!(back > 0, "a fence that goes back was not found out");
    tally.caught("a fence without a checksum: damage takes it back");
}
