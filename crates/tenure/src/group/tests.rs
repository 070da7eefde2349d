//! The shared sync by itself: writes are only numbers, and a sync ends as it is told to.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::notes::*;
use super::*;
use crate::fs::{Access, disk};

/// A target in a directory of its own, and the file with its notes.
struct Place {
    dir: PathBuf,
    target: Target,
    file: Arc<dyn Handle>,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-group-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = std::fs::remove_dir_all(&dir); // Of an earlier process with our number.
        std::fs::create_dir(&dir).unwrap();
        let target = Target::resolve(&disk(), &dir.join("data")).unwrap();
        target.prepare().unwrap();
        Self { file: target.open_sidecar(&target.sidecar("sync0")).unwrap(), dir, target }
    }

    fn sync(&self, mine: u64, writes: &Writes<'_>) -> Result<u64> {
        sync(&self.target, mine, writes)
    }

    fn sync_alone(&self, mine: u64, writes: &Writes<'_>) -> Result<u64> {
        sync_alone(&self.target, self.file.as_ref(), mine, writes)
    }

    fn notes(&self) -> Notes {
        read(&self.target, self.file.as_ref()).unwrap()
    }

    /// The leader's note.
    fn note(&self) -> Note {
        match self.notes().leader {
            Found::Note(note) => note,
            Found::Unreadable { .. } => panic!("unreadable"),
        }
    }

    fn put(&self, offsets: [u64; 2], note: Note) {
        let mut note = Note { boot: self.target.fs.boot_id(), ..note };
        write(&self.target, self.file.as_ref(), offsets, &mut note).unwrap();
    }

    /// Both notes of the leader as a kill in the wrong moments leaves them, begun in these boots.
    fn tear(&self, boots: [[u8; 16]; 2]) {
        for (offset, boot) in NOTE_OFFSETS.into_iter().zip(boots) {
            self.file.write_all_at(&[0xff; NOTE_BYTES], offset).unwrap();
            self.file.write_all_at(&boot, offset).unwrap();
        }
    }

    /// Whether somebody has this sidecar locked for itself alone.
    fn is_locked(&self, suffix: &str) -> bool {
        let file = disk().open(&self.target.sidecar(suffix), Access::Create(0o600)).unwrap();
        !file.try_lock(Mode::Shared).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Writes up to `newest`, and what their syncs were told.
struct Writes<'a> {
    place: &'a Place,
    newest: u64,
    fails: Option<fn() -> io::Error>,
    /// Of each sync: whether an earlier one is in doubt, and how many sync on their own.
    syncs: RefCell<Vec<(bool, u64)>>,
    finished: RefCell<Vec<u64>>,
    /// Which locks were held when the newest was asked for.
    locked: RefCell<Vec<[bool; 2]>>,
}

impl<'a> Writes<'a> {
    fn up_to(newest: u64, place: &'a Place) -> Self {
        let (syncs, finished) = (RefCell::default(), RefCell::default());
        Self { place, newest, fails: None, syncs, finished, locked: RefCell::default() }
    }

    fn failing(newest: u64, place: &'a Place, fails: fn() -> io::Error) -> Self {
        Self { fails: Some(fails), ..Self::up_to(newest, place) }
    }

    fn doubts(&self) -> Vec<bool> {
        self.syncs.borrow().iter().map(|(doubt, _)| *doubt).collect()
    }
}

impl Shared for Writes<'_> {
    fn newest(&self) -> Result<u64> {
        self.locked.borrow_mut().push(["sync0", "sync1"].map(|lock| self.place.is_locked(lock)));
        Ok(self.newest)
    }

    fn sync(&self, doubt: bool) -> io::Result<()> {
        self.syncs.borrow_mut().push((doubt, self.place.notes().late.began));
        self.fails.map_or(Ok(()), |fails| Err(fails()))
    }

    fn finish(&self, reach: u64) {
        self.finished.borrow_mut().push(reach);
    }
}

/// A device that does not answer: `EREMOTEIO`, and `ERROR_SEM_TIMEOUT` on Windows.
fn broken() -> io::Error {
    io::Error::from_raw_os_error(121)
}

fn no_descriptor() -> io::Error {
    io::Error::from_raw_os_error(24)
}

/// To write again what is in doubt takes the commit lock, and somebody has it for longer than anybody waits.
fn busy() -> io::Error {
    io::Error::other(Error::new(ErrorKind::Busy, "lock", "somebody has it"))
}

fn outcome(done: Result<u64>) -> std::result::Result<u64, (ErrorKind, Option<bool>)> {
    done.map_err(|error| (error.kind(), error.is_committed()))
}

const NOT_DURABLE: std::result::Result<u64, (ErrorKind, Option<bool>)> =
    Err((ErrorKind::NotDurable, Some(true)));

#[test]
fn s1_one_sync_serves_everybody_it_reaches_and_nobody_else() {
    let place = Place::new();
    let writes = Writes::up_to(10, &place);
    assert_eq!(outcome(place.sync(5, &writes)), Ok(10));
    assert_eq!(outcome(place.sync(8, &writes)), Ok(10));
    assert_eq!(outcome(place.sync(10, &writes)), Ok(10));
    assert_eq!(writes.doubts(), [false], "one sync");
    let note = place.note();
    assert_eq!((note.generation, note.synced, note.began), (1, 10, 0));
    assert_eq!(outcome(place.sync(11, &writes)), Ok(11), "its own write is complete, too");
    assert_eq!(outcome(place.sync(12, &Writes::up_to(20, &place))), Ok(20));
    assert_eq!((place.note().generation, place.note().synced), (3, 20));
    assert_eq!(writes.doubts(), [false, false]);
    assert_eq!(*writes.finished.borrow(), [10, 11]);
}

#[test]
fn s4_a_leader_leads_alone_by_the_lock_of_its_generation() {
    let place = Place::new();
    for generation in 0..4 {
        let writes = Writes::up_to(0, &place);
        place.sync(generation + 1, &writes).unwrap();
        let first = generation % 2 == 0;
        assert_eq!(*writes.locked.borrow(), [[first, !first]], "generation {generation}");
    }
}

#[test]
fn race_54_s2_a_failed_sync_is_told_to_everybody_it_was_for() {
    for fails in [broken as fn() -> io::Error, || io::Error::other("the network is gone")] {
        let place = Place::new();
        place.sync(10, &Writes::up_to(10, &place)).unwrap();
        let writes = Writes::failing(20, &place, fails);
        for mine in [15, 11, 20] {
            assert_eq!(outcome(place.sync(mine, &writes)), NOT_DURABLE, "{mine}");
        }
        assert_eq!(outcome(place.sync(10, &writes)), Ok(10), "the sync before was fine");
        assert_eq!(writes.doubts(), [false], "asking again changes nothing");
        assert!(writes.finished.borrow().is_empty());
        let writes = Writes::up_to(21, &place);
        assert_eq!(outcome(place.sync(21, &writes)), Ok(21));
        assert_eq!(outcome(place.sync(22, &writes)), Ok(22));
        assert_eq!(writes.doubts(), [true, false], "pages that failed are not relied on");
        assert_eq!(outcome(place.sync(15, &writes)), NOT_DURABLE, "for ever");
    }
}

#[test]
fn s2_one_range_holds_all_failures() {
    let mut note = Note::default();
    assert!(!note.has_failed(1));
    note.add_failed(30, 40);
    note.add_failed(10, 20);
    note.add_failed(32, 35);
    let failed: Vec<u64> = (0..50).filter(|number| note.has_failed(*number)).collect();
    assert_eq!(failed, (10..=40).collect::<Vec<_>>());
}

#[test]
fn s3_a_leader_that_follows_a_dead_one_is_in_doubt() {
    let place = Place::new();
    place.put(NOTE_OFFSETS, Note { began: 1, ..Note::default() });
    let writes = Writes::up_to(5, &place);
    assert_eq!(outcome(place.sync(5, &writes)), Ok(5));
    assert_eq!(writes.doubts(), [true]);
    assert_eq!(*writes.locked.borrow(), [[true, false]], "it leads, it does not follow");
    place.sync(6, &writes).unwrap();
    assert_eq!(writes.doubts(), [true, false]);
}

#[test]
fn s6_a_sync_that_cannot_begin_leaves_the_note_as_it_was() {
    for (began, why) in [(0, no_descriptor as fn() -> _), (3, no_descriptor), (3, busy)] {
        let place = Place::new();
        place.put(NOTE_OFFSETS, Note { began, generation: 6, synced: 2, ..Note::default() });
        let writes = Writes::failing(5, &place, why);
        assert_eq!(outcome(place.sync(5, &writes)), Err((ErrorKind::Io, Some(true))));
        let note = Note { turn: 0, boot: Default::default(), ..place.note() };
        assert_eq!(note, Note { began, generation: 6, synced: 2, ..Note::default() });
        assert_eq!(writes.doubts(), [began > 0]);
        assert!(writes.finished.borrow().is_empty());
    }
}

#[test]
fn s4_who_syncs_alone_says_so_before_and_takes_it_back_after() {
    let place = Place::new();
    place.put(LATE_OFFSETS, Note { began: 3, ..Note::default() });
    let writes = Writes::up_to(5, &place);
    assert_eq!(outcome(place.sync_alone(2, &writes)), Ok(2));
    let failing = Writes::failing(5, &place, no_descriptor);
    assert_eq!(outcome(place.sync_alone(2, &failing)), Err((ErrorKind::Io, Some(true))));
    for writes in [writes, failing] {
        assert_eq!(
            *writes.syncs.borrow(),
            [(true, 4)],
            "it relies on nobody, and one more is at it"
        );
    }
    assert_eq!(place.notes().late.began, 3);
    assert!(!place.notes().late.has_failed(2));
    let leader = Writes::up_to(5, &place);
    place.sync(5, &leader).unwrap();
    assert_eq!(*leader.syncs.borrow(), [(true, 3)], "somebody died in it");
}

#[test]
fn race_54_s4_a_sync_alone_that_fails_is_told_to_everybody_since_the_last_good_one() {
    for readable in [true, false] {
        let place = Place::new();
        place.sync(10, &Writes::up_to(10, &place)).unwrap();
        if !readable {
            place.tear([place.target.fs.boot_id(); 2]);
        }
        let writes = Writes::failing(20, &place, broken);
        assert_eq!(outcome(place.sync_alone(15, &writes)), NOT_DURABLE);
        let late = place.notes().late;
        let from = if readable { 11 } else { 1 };
        assert_eq!((late.failed_from, late.failed_to, late.began), (from, 20, 1));
        if readable {
            let leader = Writes::up_to(30, &place);
            assert_eq!(outcome(place.sync(11, &leader)), NOT_DURABLE);
            assert_eq!(outcome(place.sync(20, &leader)), NOT_DURABLE);
            assert_eq!(outcome(place.sync(21, &leader)), Ok(30));
            assert_eq!(leader.doubts(), [true], "its pages are not relied on");
        }
    }
}

#[test]
fn s4_the_second_note_is_written_under_the_commit_lock() {
    let place = Place::new();
    let noted = note_late(&place.target, place.file.as_ref(), |late| {
        late.began = 7;
        assert!(place.is_locked("commit"));
    });
    noted.unwrap();
    assert_eq!(place.notes().late.began, 7);
    let commit_file = place.target.commit_file();
    place.target.fs.rename(commit_file, &place.dir.join("moved")).unwrap();
    std::fs::create_dir(commit_file).unwrap();
    let writes = Writes::up_to(5, &place);
    let error = place.sync_alone(5, &writes).unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "what it should sync is visible: {error}");
    assert!(writes.doubts().is_empty(), "nobody could be told of it");
}

#[test]
fn s5_a_torn_note_of_this_boot_may_have_told_of_a_failure() {
    let place = Place::new();
    place.tear([place.target.fs.boot_id(); 2]);
    let writes = Writes::up_to(5, &place);
    assert_eq!(outcome(place.sync(3, &writes)), NOT_DURABLE);
    assert_eq!(*writes.locked.borrow(), [[true, true]], "by somebody who holds both locks");
    assert_eq!(outcome(place.sync(1, &writes)), NOT_DURABLE);
    assert_eq!(outcome(place.sync(5, &writes)), NOT_DURABLE);
    assert!(writes.doubts().is_empty());
    assert_eq!(outcome(place.sync(6, &writes)), Ok(6));
}

#[test]
fn s5_a_torn_note_of_another_boot_says_nothing() {
    // In every boot the outcome of the first sync is the second note.
    let (this, other) = (disk().boot_id(), [7; 16]);
    for boots in [[other, other], [this, other], [other, this]] {
        let place = Place::new();
        place.tear(boots);
        let writes = Writes::up_to(5, &place);
        assert_eq!(outcome(place.sync(3, &writes)), Ok(5));
        assert_eq!(writes.doubts(), [false]);
    }
}

#[test]
fn s5_one_torn_note_leaves_the_other_one() {
    let place = Place::new();
    let mut note = Note { boot: place.target.fs.boot_id(), ..Note::default() };
    for turn in 1..=6 {
        note.synced = 10 + turn;
        write(&place.target, place.file.as_ref(), NOTE_OFFSETS, &mut note).unwrap();
        assert_eq!(note.turn, turn);
        // The next one goes over the older one, and that write is cut.
        let next = NOTE_OFFSETS[usize::from(turn % 2 == 0)];
        place.file.write_all_at(&[0xff; 40], next).unwrap();
        assert_eq!(place.note(), note);
    }
}

#[test]
fn s5_whoever_cannot_get_both_locks_leaves_a_torn_note_to_others() {
    let place = Place::new();
    place.tear([[7; 16]; 2]);
    let writes = Writes::up_to(5, &place);
    let anew = || {
        let now = Deadline::after(Wait::No);
        write_anew(&place.target, place.file.as_ref(), 5, &writes, now)
    };
    for suffix in ["sync0", "sync1"] {
        let other = disk().open(&place.target.sidecar(suffix), Access::Create(0o600)).unwrap();
        assert!(other.try_lock(Mode::Exclusive).unwrap());
        anew().unwrap();
        assert_eq!(place.notes().leader, Found::Unreadable { this_boot: false }, "{suffix}");
    }
    std::fs::remove_file(place.target.sidecar("sync1")).unwrap();
    std::fs::create_dir(place.target.sidecar("sync1")).unwrap();
    assert!(anew().is_err(), "what is not busy is an error");
}

#[test]
fn s5_a_note_of_another_boot_tells_only_how_far_it_was() {
    let place = Place::new();
    let ends = Note { failed_from: 2, failed_to: 3, began: 5, ..Note::default() };
    let mut note = Note { boot: [7; 16], turn: 5, generation: 4, synced: 9, ..ends };
    for offsets in [NOTE_OFFSETS, LATE_OFFSETS] {
        write(&place.target, place.file.as_ref(), offsets, &mut note.clone()).unwrap();
    }
    note = Note { turn: 6, generation: 4, ..Note::default() };
    assert_eq!(place.notes(), Notes { leader: Found::Note(note), late: note });
    let writes = Writes::up_to(3, &place);
    assert_eq!(outcome(place.sync(3, &writes)), Ok(3));
    assert_eq!(writes.doubts(), [false]);
    assert_eq!((place.note().turn, place.note().generation), (8, 5));
}

/// Waits until somebody waits for this sidecar, and not only for a glance.
fn wait_for_waiter(place: &Place, suffix: &str) {
    let id = disk().stat(&place.target.sidecar(suffix)).unwrap().id;
    let patience = Deadline::after(Wait::For(Duration::from_secs(60)));
    let mut seen = 0;
    while seen < 100 {
        seen = if gate::waiting_for(id) > 0 { seen + 1 } else { 0 };
        assert!(!patience.has_passed(), "nobody waits for {suffix}");
        std::thread::yield_now();
    }
}

#[test]
fn s4_whoever_gets_the_lock_of_a_generation_that_is_over_does_not_lead() {
    let place = Place::new();
    let mut locks = ["sync0", "sync1"].map(|suffix| {
        let now = Request::until(Deadline::after(Wait::No));
        let file = place.target.sidecar(suffix);
        Some(gate::take(&place.target, &file, Mode::Exclusive, now).unwrap())
    });
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let writes = Writes::up_to(5, &place);
            (outcome(place.sync(5, &writes)), writes.locked.take())
        });
        wait_for_waiter(&place, "sync0");
        // The leader was paused, and another one has led meanwhile; it does not know of our write.
        place.put(NOTE_OFFSETS, Note { generation: 1, ..Note::default() });
        locks[0] = None;
        wait_for_waiter(&place, "sync1");
        locks[1] = None;
        assert_eq!(late.join().unwrap(), (Ok(5), vec![[false, true]]));
    });
}
