//! Operation ids: which are known, and in which boot.

use std::path::PathBuf;

use super::*;
use crate::sys::disk;

struct Place {
    dir: PathBuf,
    target: Target,
}

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("tenure-operations-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = std::fs::remove_dir_all(&dir); // Of an earlier process with our number.
        std::fs::create_dir(&dir).unwrap();
        let target = Target::resolve(&disk(), &dir.join("data")).unwrap();
        target.prepare().unwrap();
        Self { dir, target }
    }

    fn alter(&self, at: u64, bytes: &[u8]) {
        let file = self.target.open_sidecar(&self.target.sidecar(SUFFIX)).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn knows(&self, id: u64) -> bool {
        find(&self.target, id).unwrap().is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

const OTHER_BOOT: [u8; 16] = [9; 16];

fn done(first: u64) -> Done {
    Done { first, lines: 2 }
}

#[test]
fn an_operation_is_found_with_what_it_did_first() {
    let place = Place::new("find");
    assert_eq!(find(&place.target, 7).unwrap(), None);
    assert!(!place.target.sidecar(SUFFIX).exists(), "looking creates nothing");
    sync(&place.target, u64::MAX).unwrap();
    assert!(!place.target.sidecar(SUFFIX).exists(), "nor does a sync of nothing");
    remember(&place.target, 7, done(1)).unwrap();
    remember(&place.target, 7, done(9)).unwrap();
    keep(&place.target, 7).unwrap().sync().unwrap();
    assert_eq!(find(&place.target, 7).unwrap(), Some(done(1)));
    assert!(!place.knows(7 + BUCKETS), "another one in the same page");
    forget(&place.target).unwrap();
    assert!(!place.knows(7));
}

/// Finding 8: eight were too few.
#[test]
fn the_4096_newest_are_known() {
    let place = Place::new("newest");
    let ids: Vec<u64> = (0..12_000).map(|number| id_of(&format!("op {number}"))).collect();
    for (number, id) in ids.iter().enumerate() {
        remember(&place.target, *id, done(number as u64)).unwrap();
    }
    for (number, id) in ids.iter().enumerate().skip(ids.len() - 4096) {
        assert_eq!(find(&place.target, *id).unwrap(), Some(done(number as u64)), "{number}");
    }
    let known = ids.iter().filter(|id| place.knows(**id)).count();
    assert_eq!(known, SLOTS * usize::try_from(BUCKETS).unwrap(), "no slot is wasted");
}

#[test]
fn the_oldest_of_a_page_goes_first() {
    let place = Place::new("oldest");
    let ids: Vec<u64> = (1..=SLOTS as u64 + 1).map(|number| number * BUCKETS).collect();
    for id in &ids {
        remember(&place.target, *id, done(1)).unwrap();
    }
    let known: Vec<bool> = ids.iter().map(|id| place.knows(*id)).collect();
    assert!(!known[0] && known[1..].iter().all(|known| *known), "{known:?}");
}

/// After a restart an id counts if it was kept: then its effect is durable.
#[test]
fn an_id_of_another_boot_counts_if_it_was_kept() {
    let place = Place::new("boots");
    remember(&place.target, 1, done(1)).unwrap();
    for kept in [false, true] {
        let slot = Slot { id: 2, done: done(5), stamp: 1, kept };
        place.alter(page_at(2), &slot.encode(OTHER_BOOT));
        assert_eq!(place.knows(2), kept);
        remember(&place.target, 2, done(8)).unwrap();
        let found = find(&place.target, 2).unwrap();
        assert_eq!(found, Some(done(if kept { 5 } else { 8 })), "it is done again if it must");
    }
}

#[test]
fn what_is_kept_is_written_again_each_time() {
    let place = Place::new("again");
    remember(&place.target, 1, done(1)).unwrap();
    let slot = || {
        let file = std::fs::read(place.target.sidecar(SUFFIX)).unwrap();
        let at = usize::try_from(page_at(1)).unwrap();
        Slot::decode(&file[at..at + SLOT_BYTES], OTHER_BOOT).map(|slot| slot.id)
    };
    assert_eq!(slot(), None, "not before it is kept");
    for _ in 0..2 {
        keep(&place.target, 1).unwrap().sync().unwrap();
        assert_eq!(slot(), Some(1));
    }
    keep(&place.target, 3).unwrap().sync().unwrap(); // It may have lost its place meanwhile.
    remember(&place.target, 1 + BUCKETS, done(1)).unwrap();
    sync(&place.target, u64::MAX).unwrap();
    assert!(place.knows(1) && place.knows(1 + BUCKETS) && !place.knows(3));
}

#[test]
fn a_torn_slot_is_free_and_takes_no_other_with_it() {
    let place = Place::new("torn");
    for id in [BUCKETS, 2 * BUCKETS, 3 * BUCKETS] {
        remember(&place.target, id, done(id)).unwrap();
    }
    for byte in 0..KEPT_AT as u64 {
        let torn = page_at(0) + SLOT_BYTES as u64 + byte;
        let file = std::fs::read(place.target.sidecar(SUFFIX)).unwrap();
        place.alter(torn, &[file[usize::try_from(torn).unwrap()] ^ 0x10]);
        assert!(place.knows(BUCKETS) && !place.knows(2 * BUCKETS) && place.knows(3 * BUCKETS));
        remember(&place.target, 2 * BUCKETS, done(4)).unwrap();
    }
    place.alter(0, &[0; HEADER_BYTES]);
    assert!(place.knows(BUCKETS), "a header that was cut");
    place.alter(page_at(0) + KEPT_AT as u64, &[7; 4]);
    assert!(place.knows(BUCKETS), "a mark that was torn");
}

#[test]
fn a_newer_format_is_refused() {
    let place = Place::new("newer");
    remember(&place.target, 1, done(1)).unwrap();
    place.alter(6, &(MAJOR + 1).to_le_bytes());
    let refused = [find(&place.target, 1).map(drop), remember(&place.target, 2, done(1))];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::NewerFormat);
    }
}
