//! Containers on one volume: other PID, mount, host name and user namespaces, one directory.

use tenure_proof::bounded::Ended;
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally};

use crate::RING;
use crate::bench::Bench;

pub(crate) const CONTAINER: [&str; 7] =
    ["unshare", "--pid", "--fork", "--mount-proc", "--mount", "--uts", "--kill-child"];
const USERS: [&str; 3] = ["unshare", "--user", "--map-root-user"];

/// The name of this machine.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// A process that holds `t` in a container. One with a UTS namespace of its own gets this name; elsewhere that
/// would rename the machine.
fn holder(bench: &Bench, launcher: &[&str], name: &str) -> Live {
    let rename =
        if launcher.contains(&"--uts") { format!("hostname {name};") } else { String::new() };
    let script =
        format!("{rename} exec \"$1\" run --label {name} t -- sh -c 'echo ready; exec cat'");
    let holder = Live::start(bench.script(launcher, &script));
    assert_eq!(holder.line().as_deref(), Some("ready"), "{name}");
    holder
}

/// No message that guesses whether a process in another namespace is alive. The directory name is
/// random and could contain any word, so it is removed from the text first.
fn guesses_nothing(bench: &Bench, ended: &Ended) -> bool {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let dir = bench.path("").display().to_string();
    let said = said.replace(dir.trim_end_matches('/'), "").to_lowercase();
    !["dead", "stale", "not running", "no longer", "gone", "crashed"]
        .iter()
        .any(|word| said.contains(word))
}

#[test]
fn race_09_g1_containers_exclude_each_other_and_judge_nobody() {
    if !allows_root() {
        return;
    }
    let test = "race_09_g1_containers_exclude_each_other_and_judge_nobody";
    let mut tally = Tally::new(RING, test);
    let plain: &[&str] = &["env"];
    let machine = host_name();
    for holds in [&CONTAINER[..], &USERS, plain] {
        for comes in [&CONTAINER[..], &USERS, plain] {
            let bench = Bench::new();
            let holder = holder(&bench, holds, "box-a");
            let busy = bench.tenure(comes, &["run", "--wait", "0", "t", "--", "true"]);
            assert_eq!(busy.code, Some(75), "two holders: {busy:?}");
            assert!(busy.stderr.contains("box-a"), "it does not name the holder: {busy:?}");
            assert!(guesses_nothing(&bench, &busy), "{busy:?}");
            let who = bench.tenure(comes, &["who", "t"]);
            assert!(who.stdout.contains("box-a") && guesses_nothing(&bench, &who), "{who:?}");
            holder.kill();
            let next = bench.tenure(comes, &["run", "--wait", "10s", "t", "--", "true"]);
            assert!(next.is_done(), "death did not free it: {next:?}");
            tally.tried(1, "pairs of containers");
        }
    }
    assert_eq!(host_name(), machine, "the test renamed the machine");
}

/// Inside the lock, `mkdir` is an independent check: it fails if another process is inside.
const WITNESS: &str = r#"export TENURE_WAIT=forever; i=0; while [ $i -lt 25 ]; do i=$((i + 1))
    "$1" run t -- sh -c 'mkdir in || echo overlap; rmdir in'
    "$1" doc update d.json '.n += 1' --init '{"n":0}' || echo lost
    echo turn $i
done"#;

#[test]
fn race_09_g1_g6_containers_count_together() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_09_g1_g6_containers_count_together");
    for _ in 0..Form::asked().pick(1, 20) {
        let bench = Bench::new();
        let launchers = [&CONTAINER[..], &CONTAINER, &USERS];
        let crowd = launchers.map(|launcher| Live::start(bench.script(launcher, WITNESS)));
        for member in crowd {
            for turn in 1..=25 {
                assert_eq!(member.line(), Some(format!("turn {turn}")));
            }
        }
        let count = bench.tenure(&["env"], &["doc", "get", "d.json", ".n"]);
        assert_eq!(count.stdout, "75\n", "{count:?}");
        tally.tried(150, "turns of three containers");
    }
}
