//! The smaller files below `.tenure/`: notes of the shared sync, a directory's floor, events, holds.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::options::{CollectionKind, Prune};
use tenure::{
    AppendOptions, Collection, Document, ErrorKind, Journal, Lease, Lock, LockOptions, Value, Wait,
    json,
};

use super::plant::plant;
use super::record::{CLAIMS_MAX, Said, said};
use super::sums::{self, Layout};
use super::{DOCUMENT, Fate, an_hour, disk, durably, fence_of, quickly};

const JOURNAL: &str = "/d/log.jsonl";
const FLOOR: &str = "/d/.tenure/floor";
/// A removal writes the floor, and records that it is durable.
const WRITES_OF_A_REMOVAL: u64 = 2;
/// Events are kept up to this length.
const EVENTS_MAX: usize = 64 * 1024;

/// The notes of a journal's shared sync have arbitrary content: a durable append is done, or is
/// done and reports that it may not be durable. It is never refused, and never waits for a missing
/// leader.
pub fn sync(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let journal = Journal::open_on(&fs, Path::new(JOURNAL)).expect("a path");
    let options = AppendOptions { write: durably(), ..AppendOptions::default() };
    let file = ["/d/.tenure/log.jsonl.sync0", "/d/.tenure/log.jsonl.sync1"];
    let file = file[usize::from(flags >> 4) % 2];
    let turn = || sums::newest(Layout::Notes, &sim.peek(file).unwrap_or_default());
    journal.append(&["{\"n\":0}"], &options).expect("the first line");
    let first = turn();
    journal.append(&["{\"n\":1}"], &options).expect("the second line");
    let one_turn = turn() - first;
    let planted = plant(&sim, file, Layout::Notes, (*flags, input), JOURNAL);
    if planted.resealed && sums::largest_claim(Layout::Notes, &planted.bytes) > CLAIMS_MAX {
        return Fate::Skipped;
    }
    for line in ["{\"n\":2}", "{\"n\":3}"] {
        if let Err(error) = journal.append(&[line], &options) {
            assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
            assert_eq!(error.is_committed(), Some(true), "{error}");
        }
    }
    let read = journal.read(1, None).expect("readable").map(|entry| entry.expect("an entry").line);
    assert_eq!(read.count(), 4, "what was committed is there");
    Fate::seen(planted.is_followed(&sim.peek(file).expect("notes"), 2 * one_turn))
}

/// The floor of a directory has arbitrary content: a key that was removed and created again has a
/// larger fence than before, and than a floor with valid checksums says.
pub fn floor(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let keys = Collection::open_on(&fs, Path::new("/d"), CollectionKind::Documents);
    let keys = keys.expect("a directory");
    let all = Prune { max_count: Some(0), ..Prune::default() };
    let set = || keys.document("key").and_then(|document| document.set(&json!(1), &quickly()));
    set().expect("a key");
    let before = fence_of(&fs, "/d/key.json").expect("a fence");
    keys.prune(&all, &quickly()).expect("a removal");
    let planted = plant(&sim, FLOOR, Layout::Record, (*flags, input), "/d/none");
    let claim = sums::largest_claim(Layout::Record, &planted.bytes);
    if planted.resealed && claim > CLAIMS_MAX {
        return Fate::Skipped;
    }
    let said = if planted.resealed { said(&planted.bytes) } else { Said::Nothing };
    let after = match fence_of(&fs, "/d/key.json") {
        Ok(after) => after,
        Err(kind) => {
            assert_eq!(kind, ErrorKind::NewerFormat);
            assert!(!planted.resealed || said == Said::Newer, "{said:?}");
            return Fate::Refused;
        }
    };
    assert_ne!(said, Said::Newer, "a newer floor is refused");
    match said {
        Said::Slot { ceiling, .. } => {
            assert!(after > ceiling, "fence {after} under the floor {ceiling}");
        }
        _ => assert!(planted.resealed || after > before, "fence {after} after {before}"),
    }
    set().expect("the key again");
    keys.prune(&all, &quickly()).expect("a removal again");
    let now = sim.peek(FLOOR).expect("a floor");
    let again = fence_of(&fs, "/d/key.json").expect("a fence");
    assert!(again > after, "fence {again} after {after}");
    Fate::seen(planted.is_followed(&now, WRITES_OF_A_REMOVAL))
}

/// The events of a target have arbitrary content: readable events are returned, and a take-over is
/// recorded where it can be read again.
pub fn events(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let lease = Lease::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let leased = lease.take_over(&an_hour(), "the first").expect("a lease");
    let file = "/d/.tenure/state.json.events";
    let planted = plant(&sim, file, Layout::Plain, (*flags, input), DOCUMENT);
    let before = lease.events().unwrap_or_default();
    let lines = planted.bytes.split(|byte| *byte == b'\n');
    let known = lines.filter(|line| serde_json::from_slice::<Value>(line).is_ok()).count();
    assert!(before.len() <= known, "{} events of {known} lines", before.len());
    lease.take_over(&an_hour(), "the second").expect("a take-over");
    let after = lease.events().unwrap_or_default();
    let told = after.last().is_some_and(|event| event["detail"]["reason"] == "the second");
    assert!(told, "a take-over that cannot be read: {:?} of {}", after.last(), after.len());
    let kept = sim.peek(file).expect("the events").len();
    assert!(kept <= EVENTS_MAX.max(planted.bytes.len()), "{kept} bytes of events");
    assert!(lease.renew(&leased.token, None).is_err(), "the first lease is over");
    Fate::seen(!before.is_empty())
}

/// The hold file has arbitrary content, which decides nothing (L2).
pub fn hold(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    document.set(&json!(1), &quickly()).expect("a value");
    let before = fence_of(&fs, DOCUMENT).expect("a fence");
    let file = "/d/.tenure/state.json.hold";
    let planted = plant(&sim, file, Layout::Plain, (*flags, input), DOCUMENT);
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let lock = Lock::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let guard = lock.acquire(&options).expect("it is free");
    assert_eq!(guard.publish_fence(), before + 1, "the fence after {before}");
    other_is_kept_out(&sim.another_process().shared());
    guard.release().expect("a release");
    assert_eq!(fence_of(&sim.another_process().shared(), DOCUMENT), Ok(before + 2));
    assert_eq!(sim.peek(file), Some(planted.bytes), "a hold file is never written");
    // It was held in spite of its content.
    Fate::Believed
}

fn other_is_kept_out(fs: &Arc<dyn Fs>) {
    assert_eq!(fence_of(fs, DOCUMENT), Err(ErrorKind::Busy), "two holders");
    let document = Document::open_on(fs, Path::new(DOCUMENT)).expect("a path");
    let refused = document.set(&json!(2), &quickly()).expect_err("it is held");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
}
