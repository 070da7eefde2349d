//! How an input becomes a file on the simulated disk.
//!
//! Its first byte says what is done with the rest: bits 0 to 3 are the constants below, the others are
//! left to the target.

use std::ops::Range;
use std::path::Path;

use tenure::fs::{Access, Extent};
use tenure_testkit::SimFs;

use super::sums::{self, Layout};

/// Every checksum is made valid.
pub const RESEAL: u8 = 1;
/// The file keeps its inode, with other bytes.
pub const IN_PLACE: u8 = 2;
/// Boot, inode and birth are set to those of the file itself, so that the structure is bound to it.
pub const OURS: u8 = 4;
/// The rest is not the file but edits of the existing one: the structure, a place in it, how many
/// bytes, and the bytes. So a short input can change a file of many pages.
pub const EDITS: u8 = 8;

/// What was planted.
#[derive(Debug)]
pub(super) struct Planted {
    layout: Layout,
    /// What was there.
    before: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    /// All checksums are valid, so the content may be accepted.
    pub(super) resealed: bool,
}

/// Replaces `path` by the input; `journal` is the file that a log and an index belong to.
pub(super) fn plant(
    sim: &SimFs,
    path: &str,
    layout: Layout,
    (flags, input): (u8, &[u8]),
    journal: &str,
) -> Planted {
    let before = sim.peek(path).unwrap_or_default();
    let mut bytes = input.to_vec();
    if flags & EDITS != 0 {
        bytes.clone_from(&before);
        edit(&mut bytes, layout, input);
    }
    if flags & IN_PLACE == 0 || sim.peek(path).is_none() {
        sim.add_file(path, &bytes);
    }
    if flags & OURS != 0 {
        bind(sim, path, layout, &mut bytes, journal);
    }
    let resealed = flags & RESEAL != 0;
    if resealed {
        sums::reseal(layout, &mut bytes);
    }
    let file = sim.shared().open(Path::new(path), Access::ReadWrite).expect("a file");
    file.set_len(bytes.len() as u64).expect("a length");
    file.write_all_at(&bytes, 0).expect("a write");
    Planted { layout, before, bytes, resealed }
}

impl Planted {
    /// Whether every slot has changed: a caller that uses any slot has accepted planted bytes.
    pub(super) fn replaces_all(&self) -> bool {
        // A log's header binds its slots.
        let header: &[usize] = if self.layout == Layout::Log { &[0] } else { &[] };
        let slots = [sums::slots(self.layout), header].concat();
        let mut counts = sums::structures(self.layout, &self.bytes);
        counts.retain(|(place, written)| *written && slots.contains(&place.start));
        let is_new =
            |place: &Range<usize>| self.bytes.get(place.clone()) != self.before.get(place.clone());
        !counts.is_empty() && counts.iter().all(|(place, _)| is_new(place))
    }

    /// Whether the slot that is there `now` was written after a planted one: its number follows
    /// theirs by this much. If slots are refused, numbers start again.
    pub(super) fn is_followed(&self, now: &[u8], by: u64) -> bool {
        let newest = sums::newest(self.layout, &self.bytes);
        let now = sums::newest(self.layout, now);
        self.replaces_all() && newest > 0 && newest.checked_add(by) == Some(now)
    }
}

fn edit(bytes: &mut [u8], layout: Layout, mut edits: &[u8]) {
    let mut places = sums::places(layout, bytes);
    if places.is_empty() {
        places.push(0..bytes.len());
    }
    while let [which, low, high, len, rest @ ..] = edits {
        let place = &places[usize::from(*which) % places.len()];
        let at = usize::from(u16::from_le_bytes([*low, *high])) % place.len().max(1);
        let (new, behind) = rest.split_at(rest.len().min(usize::from(*len)));
        for (to, from) in bytes.iter_mut().skip(place.start + at).zip(new) {
            *to = *from;
        }
        edits = behind;
    }
}

fn extent(sim: &SimFs, path: &str) -> Option<Extent> {
    sim.shared().extent(Path::new(path)).ok()
}

/// Writes the file's identity where its structures have one.
fn bind(sim: &SimFs, path: &str, layout: Layout, bytes: &mut [u8], journal: &str) {
    let Some(own) = extent(sim, path) else { return };
    let id = |file: Extent| [file.id.dev.to_le_bytes(), file.id.ino.to_le_bytes()].concat();
    let of_journal = extent(sim, journal).map_or_else(|| vec![0; 16], id);
    let boot = sim.shared().boot_id().to_vec();
    let born = own.born_us.to_le_bytes().to_vec();
    let fields: Vec<(usize, Vec<u8>)> = match layout {
        Layout::Record => vec![(80, boot.clone()), (96, id(own)), (112, born), (208, boot)],
        Layout::Log | Layout::Notes => vec![(8, boot)],
        Layout::Index | Layout::Operations | Layout::Plain => Vec::new(),
    };
    let slots = sums::slots(layout).iter().map(|slot| (*slot, &fields[..]));
    let title = match layout {
        Layout::Log => vec![(16, id(own)), (32, of_journal)],
        _ => Vec::new(),
    };
    for (start, fields) in slots.chain([(0, &title[..])]) {
        // Structures that were never written stay so.
        if bytes.iter().skip(start).take(24).all(|byte| *byte == 0) {
            continue;
        }
        for (at, field) in fields {
            for (to, from) in bytes.iter_mut().skip(start + at).zip(field) {
                *to = *from;
            }
        }
    }
}
