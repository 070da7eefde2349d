//! `tenure doctor`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::bench::Bench;

#[test]
fn a_fine_directory_is_0_and_untouched() {
    let bench = Bench::new();
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert_eq!(report["file_system"]["trusted"], true);
    for check in ["lock", "rename", "sync"] {
        assert_eq!(report["file_system"]["checks"][check], "ok", "{check}");
    }
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 0);
    let text = bench.tenure(&["doctor"]).ok().stdout;
    assert!(text.contains("trusted"), "{text}");
    bench.tenure(&["doctor", "no-such-directory"]).exits(1);
}

#[test]
fn a_dead_temp_is_removed_only_when_asked_and_only_when_no_process_can_own_it() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "1"]).ok();
    let temp = bench.file(".tenure/s.json.tmp.0123456789abcdef", "half");
    let lock = bench.path(".tenure/s.json.hold");
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["kind"], "temp");
    assert_eq!(report["leftovers"][0]["removable"], true);
    assert!(temp.exists());
    let holder = bench.holder(&[], "s.json");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], false);
    assert!(temp.exists());
    holder.end().ok();
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], true);
    assert!(!temp.exists() && lock.exists());
    bench.tenure(&["doc", "get", "s.json"]).ok().says("1");
}

/// It can be the last version that was synced, or one that was never read: the next change decides.
#[test]
fn race_50_the_temporary_file_of_a_document_is_never_removed_by_a_doctor() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "1"]).ok();
    let temp = bench.file(".tenure/s.json.tmp.0000000000000000", "2");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    let found = &report["leftovers"][0];
    assert_eq!((&found["removable"], &found["removed"]), (&false.into(), &false.into()), "{found}");
    assert!(temp.exists());
    bench.tenure(&["doc", "set", "s.json", "3"]).ok();
    assert!(!temp.exists());
}

/// It can be all entries of the journal, if a rotation died before it named them: a repair decides.
#[test]
fn the_temporary_file_of_a_journal_is_removed_by_its_repair() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one"]).ok();
    let temp = bench.file(".tenure/j.tmp.0000000000000003", "half a compaction");
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removable"], true);
    assert!(temp.exists());
    let holder = bench.holder(&[], "j");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], false, "{report}");
    holder.end().ok();
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], true, "{report}");
    assert!(!temp.exists());
    bench.tenure(&["journal", "read", "j"]).ok().says("one");
}

#[test]
fn damaged_data_is_5() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "{}"]).ok();
    bench.file("s.json", "{");
    let report = bench.tenure(&["doctor", "--json"]).exits(5).json();
    let path = report["damaged"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("s.json"));
    assert_eq!(report["exit"], 5);
    let text = bench.tenure(&["doctor"]).exits(5).stdout;
    assert!(text.contains("DAMAGED"), "{text}");
}

#[test]
fn lock_files_of_other_systems_are_explained_and_left_alone() {
    let bench = Bench::new();
    let files = [
        ("a/session.jsonl.lock", "{\"pid\":2147483646,\"createdAt\":\"x\"}", "openclaw"),
        ("b/changes.journal.lock", "2147483646\n2147483646-aa\n", "codegraph"),
        ("c/state-abc.json.tmp.12.ff", "{", "ecc"),
        (".gateguard/x.claim.12.ff", "", "ecc"),
        ("d/session.json.tmp", "{", "cli-anything"),
        ("e/db.lock/x", "", "proper-lockfile"),
    ];
    for (name, content, _) in files {
        bench.file(name, content);
    }
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    let mut found: Vec<_> = report["foreign"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["system"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    let mut expected = files.map(|(_, _, system)| system);
    expected.sort_unstable();
    assert_eq!(found, expected);
    for (name, content, _) in files {
        assert_eq!(bench.read(name), content);
    }
}

#[test]
fn a_network_file_system_would_be_6() {
    // The verdict comes from the core's list; here only that the command asks for it.
    let bench = Bench::new();
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert!(report["file_system"]["verdict"].as_str().unwrap().contains("trusted"));
}

#[test]
fn what_cannot_be_tried_out_is_said_and_is_not_fine() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("d")).unwrap();
    bench.set_mode(".", 0o755);
    bench.set_mode("d", 0o555);
    let dir = bench.path("d");
    let dir = dir.to_str().unwrap();
    let report = bench.as_nobody(&["doctor", dir, "--json"]).exits(1).json();
    assert_eq!(report["file_system"]["probed"], false);
    for check in ["lock", "rename", "exchange", "sync"] {
        let check_text = report["file_system"]["checks"][check].as_str().unwrap();
        assert!(check_text.starts_with("could not be tested"), "{check}: {check_text}");
    }
    assert_eq!(report["exit"], 1);
    let text = bench.as_nobody(&["doctor", dir]).exits(1).complains("could not be tested").stdout;
    assert!(text.contains("the self-test could not run here"), "{text}");
    bench.set_mode("d", 0o755);
    bench.tenure(&["doctor", "d"]).ok();
}

#[test]
fn what_cannot_be_looked_at_is_said_and_is_not_fine() {
    let bench = Bench::new();
    bench.file("d/closed/x", "");
    bench.tenure(&["doc", "set", "d/s.json", "1"]).ok();
    bench.set_mode(".", 0o755);
    bench.set_mode("d", 0o777);
    for (name, mode) in [("d/closed", 0), ("d/s.json", 0), ("d/.tenure", 0o755)] {
        bench.set_mode(name, mode);
    }
    for entry in std::fs::read_dir(bench.path("d/.tenure")).unwrap() {
        std::fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(0o644)).unwrap();
    }
    let dir = bench.path("d");
    let dir = dir.to_str().unwrap();
    let report = bench.as_nobody(&["doctor", dir, "--json"]).exits(1).json();
    let unseen: Vec<_> = report["unseen"].as_array().unwrap().iter().collect();
    let names: Vec<_> = unseen.iter().map(|one| one["path"].as_str().unwrap()).collect();
    let expected = ["d/closed", "d/s.json"].map(|name| bench.path(name).display().to_string());
    assert_eq!(names, expected);
    assert!(unseen.iter().all(|one| one["why"].as_str().unwrap().contains("denied")));
    let text =
        bench.as_nobody(&["doctor", dir]).exits(1).complains("2 files or directories").stdout;
    assert!(text.contains("NOT SEEN") && text.contains(", 2 not seen"), "{text}");
    bench.set_mode("d/closed", 0o755);
}

#[test]
fn a_record_that_cannot_be_read_does_not_hide_the_others() {
    let bench = Bench::new();
    for name in ["d/a", "d/b", "d/c"] {
        bench.tenure(&["lease", "acquire", name, "--ttl", "1h", "--parents"]).ok();
    }
    bench.set_mode(".", 0o755);
    bench.set_mode("d", 0o777);
    bench.set_mode("d/.tenure", 0o755);
    for (name, mode) in [("a", 0o644), ("b", 0), ("c", 0o644)] {
        bench.set_mode(&format!("d/.tenure/{name}.commit"), mode);
    }
    let dir = bench.path("d");
    let dir = dir.to_str().unwrap();
    let report = bench.as_nobody(&["doctor", dir, "--json"]).exits(1).json();
    let names = |list: &str, field: &str| -> Vec<String> {
        let all = report[list].as_array().unwrap().iter();
        all.map(|one| one[field].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names("targets", "target"), ["a", "c"]);
    assert_eq!(names("unseen", "path"), ["b"]);
    let ran = bench.as_nobody(&["doctor", dir]).exits(1).complains("could not be read");
    assert!(ran.stdout.contains("NOT SEEN") && ran.stdout.contains("denied"), "{ran:?}");
}

/// Race 63: the lock is where `who` and `doctor` say, beside the data, whatever way leads there.
#[test]
fn race_63_who_and_doctor_show_where_the_lock_is() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "d/s.json", "1"]).ok();
    std::os::unix::fs::symlink("d", bench.path("link")).unwrap();
    for name in ["d/s.json", "link/s.json", "d/../d/s.json"] {
        let who = bench.tenure(&["who", name, "--json"]).ok().json();
        let sidecars = std::path::PathBuf::from(who["targets"][0]["sidecars"].as_str().unwrap());
        assert_eq!(sidecars, bench.path("d").canonicalize().unwrap().join(".tenure"), "{name}");
    }
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert!(report["targets"][0]["sidecars"].as_str().unwrap().ends_with("d/.tenure"), "{report}");
}

#[test]
fn race_50_locks_of_names_without_a_file_are_counted_and_removed_when_asked() {
    let bench = Bench::new();
    for name in ["a", "b", "c", "there"] {
        bench.tenure(&["run", name, "--", "true"]).ok();
    }
    bench.file("there", "data");
    bench.tenure(&["lease", "acquire", "leased", "--ttl", "1h"]).ok();
    let holder = bench.holder(&[], "held");
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    let found = &report["leftovers"][0];
    assert_eq!((&found["kind"], &found["count"]), (&"locks".into(), &3.into()), "{report}");
    assert!(bench.path(".tenure/a.hold").exists());
    let text = bench.tenure(&["doctor"]).ok().stdout;
    assert!(text.contains("3 unused, can be removed with --fix"), "{text}");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    let found = &report["leftovers"][0];
    assert_eq!((&found["count"], &found["removed"]), (&3.into(), &true.into()), "{report}");
    for name in ["a.hold", "a.commit", "b.hold", "c.commit"] {
        assert!(!bench.path(&format!(".tenure/{name}")).exists(), "{name}");
    }
    for name in ["there.hold", "there.commit", "leased.hold", "leased.commit", "held.hold"] {
        assert!(bench.path(&format!(".tenure/{name}")).exists(), "{name}");
    }
    bench.tenure(&["run", "--wait", "0", "held", "--", "true"]).exits(75);
    holder.end().ok();
}
