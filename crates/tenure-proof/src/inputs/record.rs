//! The record of a target, with arbitrary content.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::{Document, ErrorKind, Lease, json};

use super::plant::{Planted, plant};
use super::sums::{self, Layout, number};
use super::{DOCUMENT, Fate, an_hour, disk, fence_of, quickly};

/// The sanity limit of counts is 2^56. A record or a note with valid checksums that comes near it
/// is skipped: overflow is tested elsewhere.
pub(super) const CLAIMS_MAX: u64 = 1 << 55;
const RECORD: &str = "/d/.tenure/state.json.commit";

/// What a record says, read according to the format: a second implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing valid.
    Nothing,
    Newer,
    /// The valid slot: its fence, its ceiling, and whether it says `leased`.
    Slot {
        fence: u64,
        ceiling: u64,
        leased: bool,
    },
}

/// What the two slots of `bytes` say if every checksum is valid.
pub(super) fn said(bytes: &[u8]) -> Said {
    // Missing bytes at the end count as zeros.
    let mut whole = bytes.to_vec();
    whole.resize(whole.len().max(17_408), 0);
    let seq = |at: usize| number(&whole, at + 8);
    let order = if seq(4096) > seq(8192) { [4096, 8192] } else { [8192, 4096] };
    let major = |at: usize| number(&whole, at) >> 48;
    let ours = |at: &usize| whole[*at..].starts_with(b"tenure") && at + 1024 <= bytes.len();
    let newer = |at: &usize| ours(at) && major(*at) > 2;
    let valid = |at: &usize| {
        let counters = [8, 16, 24, 32, 160].map(|field| number(&whole, at + field));
        let [state, synced, text] = [40, 200, 248].map(|field| number(&whole, at + field));
        let fits = counters.iter().all(|counter| *counter <= 1 << 56);
        ours(at) && major(*at) == 2 && fits && state <= 2 && synced <= 2 && text <= 760
    };
    let counts = order.into_iter().find(|at| newer(at) || valid(at));
    let Some(at) = counts else { return Said::Nothing };
    if newer(&at) {
        return Said::Newer;
    }
    let leased = number(&whole, at + 40) == 2;
    Said::Slot { fence: number(&whole, at + 16), ceiling: number(&whole, at + 24), leased }
}

/// The record of a target has arbitrary content: the document is still there, and fences grow,
/// above those in a record with valid checksums.
pub fn record(bytes: &[u8]) -> Fate {
    let Some((flags, input)) = bytes.split_first() else { return Fate::Skipped };
    let (sim, fs) = disk();
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let value = json!({ "kept": [1, 2.50, "x"] });
    document.set(&value, &quickly()).expect("the first version");
    let written = sim.peek(RECORD).map_or(0, |record| sums::newest(Layout::Record, &record));
    let before = fence_of(&fs, DOCUMENT).expect("a first fence");
    let one_turn = sums::newest(Layout::Record, &sim.peek(RECORD).expect("a record")) - written;
    let planted = plant(&sim, RECORD, Layout::Record, (*flags, input), DOCUMENT);
    if planted.resealed && sums::largest_claim(Layout::Record, &planted.bytes) > CLAIMS_MAX {
        return Fate::Skipped;
    }
    let newer = match document.read() {
        Ok(read) => {
            assert_eq!(read.map(|snapshot| snapshot.value), Some(value));
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}");
            true
        }
    };
    if newer {
        assert_eq!(fence_of(&fs, DOCUMENT), Err(ErrorKind::NewerFormat), "as readers judge");
        assert!(!planted.resealed || said(&planted.bytes) == Said::Newer, "it is of this format");
        return Fate::Refused;
    }
    let next = fence_of(&fs, DOCUMENT);
    let now = sim.peek(RECORD).expect("a record");
    // The only lease here is the planted one.
    let fate = next == Err(ErrorKind::Busy) || planted.is_followed(&now, one_turn);
    if planted.resealed {
        heeded(&fs, &planted, next);
    } else {
        doubted(&fs, before, next);
    }
    Fate::seen(fate)
}

/// No checksum was fixed: the record is read as it was, or not at all.
fn doubted(fs: &Arc<dyn Fs>, before: u64, next: Result<u64, ErrorKind>) {
    // The fate reports an accepted lease with a better message.
    let Ok(next) = next else { return };
    assert!(next > before, "fence {next} after {before}");
    change(fs).expect("a change");
}

/// Every checksum is valid: the record is used, and must do no harm.
fn heeded(fs: &Arc<dyn Fs>, planted: &Planted, next: Result<u64, ErrorKind>) {
    let said = said(&planted.bytes);
    assert_ne!(said, Said::Newer, "a newer format is refused");
    let lease = Lease::open_on(fs, Path::new(DOCUMENT)).expect("a path");
    let shown = lease.show();
    let Said::Slot { fence, leased, .. } = said else {
        assert!(next.is_ok(), "{said:?}");
        return;
    };
    let shown = shown.expect("a record of this format can be shown");
    let mut next = next;
    if next == Err(ErrorKind::Busy) {
        assert!(leased && shown.is_some(), "busy without a lease: {said:?}");
        assert_eq!(change(fs), Err(ErrorKind::Busy), "a lease keeps writers out");
        let taken = lease.take_over(&an_hour(), "to go on").expect("a take-over");
        lease.release(&taken.token).expect("a release");
        next = Ok(taken.fence);
    }
    let next = next.expect("a record of this format gives fences");
    assert!(next > fence, "fence {next} after {fence}");
    change(fs).expect("a change");
}

fn change(fs: &Arc<dyn Fs>) -> Result<(), ErrorKind> {
    let document = Document::open_on(fs, Path::new(DOCUMENT)).expect("a path");
    document.set(&json!([]), &quickly()).map_err(|error| error.kind())?;
    let read = document.read().map_err(|error| error.kind())?;
    assert_eq!(read.map(|snapshot| snapshot.value), Some(json!([])), "what was just written");
    Ok(())
}
