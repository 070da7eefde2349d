//! Two agents, one repository.

use std::path::Path;
use std::sync::Arc;

use super::*;

const TTL: Duration = Duration::from_secs(600);

struct Repository {
    dir: tempfile::TempDir,
    reservations: Reservations,
}

impl Repository {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let reservations = Reservations::open(&place(dir.path())).unwrap();
        Self { dir, reservations }
    }

    fn turn(&self, name: &str, files: &[&str]) -> Reserved {
        self.reserve(name, files, TTL, true)
    }

    fn reserve(&self, name: &str, files: &[&str], ttl: Duration, turn: bool) -> Reserved {
        let place = place(self.dir.path());
        let wanted: Vec<_> = files
            .iter()
            .flat_map(|file| What::parse(file, &place, place.root()).unwrap())
            .collect();
        let options =
            ReserveOptions { ttl, purpose: "refactoring".to_owned(), ends_with_turn: turn };
        self.reservations.reserve(&agent(name), &wanted, &options).unwrap()
    }

    fn held(&self) -> Vec<(String, String)> {
        let held = self.reservations.who(&[]).unwrap();
        held.into_iter().map(|held| (held.what.text().to_owned(), held.agent)).collect()
    }
}

fn place(dir: &Path) -> Place {
    Place::of_directory(dir).unwrap()
}

fn agent(name: &str) -> Agent {
    Agent::from_name(name).unwrap()
}

fn path(name: &str) -> What {
    What::Path(name.to_owned())
}

fn pattern(text: &str) -> What {
    What::Pattern(text.to_owned())
}

fn is_granted(reserved: &Reserved) -> bool {
    matches!(reserved, Reserved::Granted { .. })
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn a_file_belongs_to_one_agent_and_its_holder_is_named() {
    let repository = Repository::new();
    assert!(is_granted(&repository.turn("a", &["src/x.rs"])));
    assert!(is_granted(&repository.turn("a", &["src/x.rs"])));
    assert!(is_granted(&repository.turn("b", &["src/y.rs"])));
    let Reserved::Held(held) = repository.turn("b", &["src/x.rs"]) else { panic!("two holders") };
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].agent.as_str(), held[0].purpose.as_str()), ("a", "refactoring"));
    assert!(held[0].expires_in > TTL / 2 && held[0].ends_with_turn);
}

#[test]
fn a_subagent_is_another_agent() {
    let repository = Repository::new();
    assert!(is_granted(&repository.turn("s/one", &["x"])));
    assert!(!is_granted(&repository.turn("s", &["x"])));
    assert!(!is_granted(&repository.turn("s/two", &["x"])));
}

#[test]
fn all_or_nothing() {
    let repository = Repository::new();
    repository.turn("a", &["x"]);
    assert!(!is_granted(&repository.turn("b", &["y", "x", "z"])));
    assert_eq!(repository.held(), [pair("x", "a")]);
}

#[test]
fn patterns_and_names_exclude_each_other() {
    let repository = Repository::new();
    assert!(is_granted(&repository.reserve("a", &["src/**/*.rs"], TTL, false)));
    assert!(!is_granted(&repository.turn("b", &["src/deep/x.rs"])));
    assert!(!is_granted(&repository.reserve("b", &["src/d*/**"], TTL, false)));
    assert!(is_granted(&repository.reserve("b", &["src/**/*.{ts,tsx}"], TTL, false)));
    assert!(is_granted(&repository.turn("a", &["src/deep/x.rs"])));
}

#[test]
fn the_end_of_a_turn_leaves_what_has_a_time_of_its_own() {
    let repository = Repository::new();
    repository.turn("a", &["x"]);
    repository.reserve("a", &["y"], TTL, false);
    repository.turn("a/sub", &["z"]);
    repository.reservations.end_turn(&agent("a")).unwrap();
    assert_eq!(repository.held(), [pair("y", "a"), pair("z", "a/sub")]);
    repository.reservations.end_session(&agent("a")).unwrap();
    assert_eq!(repository.held(), []);
    assert!(is_granted(&repository.turn("b", &["x", "y", "z"])));
}

#[test]
fn an_agent_that_died_loses_its_files_when_its_time_is_over() {
    let repository = Repository::new();
    repository.reserve("a", &["x"], Duration::from_millis(50), true);
    let other = agent("b");
    let held = repository.reservations.wait(&other, &[path("x")], Wait::Forever, None).unwrap();
    assert_eq!(held, []);
    assert!(is_granted(&repository.turn("b", &["x"])));
    let Standing::Lost(Some(by)) =
        repository.reservations.standing(&agent("a"), &path("x")).unwrap()
    else {
        panic!("not noticed")
    };
    assert_eq!(by.agent, "b");
}

#[test]
fn a_time_that_is_over_harms_nothing_while_no_agent_asked() {
    let repository = Repository::new();
    repository.reserve("a", &["x"], Duration::from_millis(1), true);
    repository.reservations.wait(&agent("b"), &[path("x")], Wait::Forever, None).unwrap();
    assert_eq!(repository.reservations.standing(&agent("a"), &path("x")).unwrap(), Standing::Kept);
    // A reservation of another agent drops it, also one that has ended again since.
    repository.turn("b", &["x"]);
    repository.reservations.end_turn(&agent("b")).unwrap();
    let standing = repository.reservations.standing(&agent("a"), &path("x")).unwrap();
    assert_eq!(standing, Standing::Lost(None));
}

#[test]
fn a_waiting_agent_is_woken_by_the_release() {
    let repository = Arc::new(Repository::new());
    repository.turn("a", &["x"]);
    let waiting = repository.clone();
    let waiter = std::thread::spawn(move || {
        waiting.reservations.wait(&agent("b"), &[path("x")], Wait::For(TTL), None)
    });
    assert_eq!(repository.reservations.release(&agent("b"), &[path("x")]).unwrap(), 0);
    assert_eq!(repository.reservations.release(&agent("a"), &[path("x")]).unwrap(), 1);
    assert_eq!(waiter.join().unwrap().unwrap(), []);
}

#[test]
fn a_wait_can_be_cancelled_and_ends_in_time() {
    let repository = Repository::new();
    repository.turn("a", &["x"]);
    let wait = |wait, cancel: Option<&Cancel>| {
        repository.reservations.wait(&agent("b"), &[path("x")], wait, cancel)
    };
    assert_eq!(wait(Wait::No, None).unwrap().len(), 1);
    assert_eq!(wait(Wait::For(Duration::from_millis(5)), None).unwrap().len(), 1);
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(wait(Wait::Forever, Some(&cancel)).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn names_outside_of_the_project_are_refused() {
    let repository = Repository::new();
    let place = place(repository.dir.path());
    for text in ["../x", "/etc/passwd", "a/../../x", "../*.rs", "/tmp/**", "*/../*", "/", ""] {
        let refused = What::parse(text, &place, place.root()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{text}");
    }
}

#[test]
fn a_directory_is_all_below_it() {
    let repository = Repository::new();
    std::fs::create_dir(repository.dir.path().join("src")).unwrap();
    let place = place(repository.dir.path());
    let all = [What::Pattern("src/**".to_owned())];
    let parse = |text| What::parse(text, &place, place.root()).unwrap();
    assert_eq!(parse("src"), all);
    assert_eq!(parse("src/"), all);
    assert_eq!(parse("./src/x.rs"), [path("src/x.rs")]);
}

#[test]
fn names_and_patterns_begin_in_the_given_directory() {
    let repository = Repository::new();
    std::fs::create_dir_all(repository.dir.path().join("pkg/src")).unwrap();
    let place = place(repository.dir.path());
    let parse = |text: &str| What::parse(text, &place, &place.root().join("pkg")).unwrap();
    assert_eq!(parse("src/a.rs"), [path("pkg/src/a.rs")]);
    assert_eq!(parse("src/*.{rs,ts}"), [pattern("pkg/src/*.rs"), pattern("pkg/src/*.ts")]);
    assert_eq!(parse("**"), [pattern("pkg/**")]);
    assert_eq!(parse("../*"), [pattern("*")]);
    assert_eq!(parse("."), [pattern("pkg/**")]);
    let absolute = place.root().join("lib/*.rs");
    assert_eq!(parse(absolute.to_str().unwrap()), [pattern("lib/*.rs")]);
}

#[cfg(unix)]
#[test]
fn links_before_a_pattern_and_to_directories_are_followed() {
    let repository = Repository::new();
    let root = repository.dir.path();
    std::fs::create_dir_all(root.join("src/x[1]")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    for (target, link) in
        [("src".as_ref(), "link"), (outside.path(), "out"), (outside.path(), "src/x")]
    {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    for wanted in ["link/**", "link", "{link,lib}/*.rs", "src"] {
        assert!(is_granted(&repository.reserve("a", &[wanted], TTL, false)), "{wanted}");
        assert!(!is_granted(&repository.turn("b", &["src/a.rs"])), "{wanted}");
        repository.reservations.end_agent(&agent("a")).unwrap();
    }
    let place = place(root);
    assert!(What::parse("out/*", &place, place.root()).is_err());
    // A name on the disk is no pattern.
    assert!(is_granted(&repository.reserve("a", &["src/x[1]/*.rs"], TTL, false)));
    assert!(!is_granted(&repository.turn("b", &["src/x[1]/a.rs"])));
}

/// The same agent goes on while its turn ends: the second step of the end must not drop what it reserved after the first.
#[test]
fn an_end_drops_only_what_has_ended() {
    let repository = Repository::new();
    repository.turn("a", &["x"]);
    let (reservations, a) = (&repository.reservations, agent("a"));
    let is_meant = |entry: &Entry| entry.by == a.name();
    reservations.end_holds(is_meant).unwrap();
    repository.turn("a", &["y"]);
    assert_eq!(reservations.forget_ended(is_meant).unwrap(), 0, "x went when y was reserved");
    assert_eq!(repository.held(), [pair("y", "a")]);
    assert_eq!(reservations.end_agent(&a).unwrap(), 1);
    assert_eq!(repository.held(), []);
}

#[test]
fn what_a_newer_version_wrote_is_left_alone() {
    let repository = Repository::new();
    repository.turn("a", &["x"]);
    let book = &repository.reservations.book;
    let newer = r#"{"format":2,"reservations":[],"more":1}"#;
    update_text(book, &unsynced(), |_| Ok(Some(newer.to_owned()))).unwrap();
    assert_eq!(repository.reservations.who(&[]).unwrap_err().kind(), ErrorKind::NewerFormat);
    assert!(repository.reservations.tidy().is_err());
    assert_eq!(book.read().unwrap().unwrap().bytes, newer.as_bytes());
}

#[test]
fn of_many_threads_that_want_a_file_one_gets_it() {
    let repository = Arc::new(Repository::new());
    let threads: Vec<_> = (0..16)
        .map(|number| {
            let repository = repository.clone();
            std::thread::spawn(move || {
                is_granted(&repository.turn(&format!("agent-{}", number % 8), &["x", "y"]))
            })
        })
        .collect();
    let granted = threads.into_iter().map(|thread| thread.join().unwrap());
    let granted = granted.filter(|granted| *granted).count();
    assert!((1..=2).contains(&granted), "{granted} were granted, two of each agent asked");
    assert_eq!(repository.held().len(), 2);
}
