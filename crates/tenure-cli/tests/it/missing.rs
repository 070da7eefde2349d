//! Names of nothing: they are reported, and nothing is created.

use crate::bench::Bench;

/// Everything in the directory, by name.
fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path("")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_mistyped_name_is_not_found_and_nothing_is_created() {
    let bench = Bench::new();
    let verbs: &[&[&str]] = &[
        &["doc", "get"],
        &["doc", "version"],
        &["doc", "restore"],
        &["doc", "diff"],
        &["doc", "history"],
        &["doc", "history", "--keep", "2"],
        &["journal", "read"],
        &["journal", "verify"],
        &["journal", "repair"],
        &["journal", "compact", "--from", "1"],
        &["collection", "list"],
        &["collection", "prune", "--max-count", "1"],
    ];
    for verb in verbs {
        for name in ["typo", "no/such/typo"] {
            let args = [verb, &[name][..]].concat();
            bench.tenure(&args).exits(1).complains("typo`").complains("check the name");
            let error = bench.tenure(&[&args[..], &["--json"]].concat()).exits(1).error();
            assert_eq!(error["code"], "not_found", "{args:?}");
            assert!(names(&bench).is_empty(), "{args:?} left {:?}", names(&bench));
        }
    }
}

/// What is only in the log is there, although the file is gone.
#[test]
fn an_empty_journal_is_no_missing_one() {
    let bench = Bench::new();
    bench.file("empty", "");
    for verb in [&["read"][..], &["verify"], &["repair"], &["compact", "--from", "1"]] {
        bench.tenure(&[&["journal"], verb, &["empty"]].concat()).exits(0);
    }
}

/// Scripts rely on it: the first write makes room for itself, and closes it to others.
#[test]
fn a_write_creates_the_directories_above() {
    let bench = Bench::new();
    let writes: &[&[&str]] = &[
        &["doc", "set", "a/b/s.json", "1"],
        &["journal", "append", "c/d/j", "line"],
        &["lease", "acquire", "e/f/l", "--ttl", "1h", "--parents"],
        &["run", "--parents", "g/h/x", "--", "true"],
    ];
    for args in writes {
        bench.tenure(args).ok();
    }
    for dir in ["a", "a/b", "c/d", "e/f", "g/h"] {
        let mode = std::fs::metadata(bench.path(dir)).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700, "{dir}");
    }
}

/// A lock on a mistyped path excludes no other process, so it is refused.
#[test]
fn a_lock_or_lease_below_a_missing_directory_is_refused() {
    let bench = Bench::new();
    let token = "0123456789abcdef";
    let cases: &[(&[&str], &str)] = &[
        (&["run", "no/such/x", "--", "true"], "--parents"),
        (&["lease", "acquire", "no/such/x", "--ttl", "1h"], "--parents"),
        (&["lease", "take-over", "no/such/x", "--ttl", "1h", "--reason", "r"], "--parents"),
        (&["lease", "hold", "no/such/x", "--ttl", "1h", "--", "true"], "--parents"),
        (&["lease", "renew", "no/such/x", "--token", token], "check the path"),
        (&["lease", "release", "no/such/x", "--token", token], "check the path"),
    ];
    for (args, hint) in cases {
        bench.tenure(args).exits(1).complains("/no/such/x`").complains(hint);
        let error = bench.tenure(&[&["--json"], *args].concat()).exits(1).error();
        assert_eq!(error["code"], "not_found", "{args:?}");
        assert!(names(&bench).is_empty(), "{args:?} left {:?}", names(&bench));
    }
    bench.tenure(&["lease", "hold", "new/x", "--ttl", "1h", "--parents", "--", "true"]).ok();
}

#[test]
fn a_second_restore_keeps_what_the_first_set_aside() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "[1]"]).ok();
    bench.tenure(&["doc", "set", "s.json", "[2]"]).ok();
    for damage in ["[first", "[second", "[second", "[third"] {
        bench.file("s.json", damage);
        bench.tenure(&["doc", "restore", "s.json"]).exits(0);
    }
    let aside = |end: &str| bench.read(&format!(".tenure/s.json.damaged{end}"));
    assert_eq!([aside(".1"), aside(".2"), aside(".3")], ["[first", "[second", "[third"]);
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    let kinds = report["leftovers"].as_array().unwrap().iter().map(|one| one["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["damaged"; 3]);
}
