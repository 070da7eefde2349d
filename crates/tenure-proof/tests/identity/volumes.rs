//! Containers that mount one volume at different paths: it is one directory, whatever its path.

use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally};

use crate::RING;
use crate::bench::Bench;
use crate::expiry::TOKEN;

/// Runs the rest in a container, in the volume at its own path there. The volume's other paths are hidden.
const AT_ONE: [&str; 10] = mounted(
    "mount --bind volume mounts/one && mount -t tmpfs none volume && cd mounts/one && exec \"$@\"",
);
const AT_TWO: [&str; 10] = mounted(
    "mount --bind volume other/two && mount -t tmpfs none volume && cd other/two && exec \"$@\"",
);

const fn mounted(script: &'static str) -> [&'static str; 10] {
    let [unshare, pid, fork, proc, uts, child] =
        ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child"];
    [unshare, "--mount", pid, fork, proc, uts, child, "sh", "-c", script]
}

/// The arguments of a launcher; the script needs a name first.
fn launcher(words: &[&'static str]) -> Vec<&'static str> {
    [words, &["sh"]].concat()
}

fn bench() -> Bench {
    let bench = Bench::new();
    for dir in ["volume", "mounts/one", "other/two"] {
        std::fs::create_dir_all(bench.path(dir)).unwrap();
    }
    bench
}

#[test]
fn g1_g3_g4_a_volume_at_two_paths_has_one_lock_one_lease_and_one_row_of_fences() {
    if !allows_root() {
        return;
    }
    let test = "g1_g3_g4_a_volume_at_two_paths_has_one_lock_one_lease_and_one_row_of_fences";
    let mut tally = Tally::new(RING, test);
    let (one, two) = (launcher(&AT_ONE), launcher(&AT_TWO));
    let bench = bench();
    let mut last = 0;
    for (holds, comes) in [(&one, &two), (&two, &one)] {
        // They are different paths of the same directory.
        let path = bench.tenure(holds, &["run", "t", "--", "pwd"]);
        assert_ne!(path, bench.tenure(comes, &["run", "t", "--", "pwd"]));
        let holder = bench.holder(holds);
        let busy = bench.tenure(comes, &["run", "--wait", "0", "t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "two holders: {busy:?}");
        holder.kill();
        let freed = bench.tenure(comes, &["run", "--wait", "10s", "t", "--", "true"]);
        assert!(freed.is_done(), "death did not free it: {freed:?}");
        for launcher in [holds, comes] {
            let fence = bench.fence(launcher);
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        last = one_lease(&bench, holds, comes, last);
        tally.tried(1, "pairs of containers with one volume at two paths");
    }
    assert!(std::fs::read_dir(bench.path("mounts/one")).unwrap().next().is_none(), "not mounted");
}

/// A lease that one makes is kept, seen, renewed, proven and released by the other. Returns its
/// fence.
fn one_lease(bench: &Bench, holds: &[&str], comes: &[&str], last: u64) -> u64 {
    let made = bench.tenure(holds, &["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN]);
    assert!(made.is_done(), "{made:?}");
    let fence = bench.lease(comes)["fence"].as_u64().unwrap();
    assert!(fence > last, "{fence} after {last}");
    let other = ["lease", "acquire", "t", "--ttl", "1s", "--wait", "0"];
    assert_eq!(bench.tenure(comes, &other).code, Some(75), "two leases");
    let proven = ["doc", "set", "t", "1", "--fence", &fence.to_string()];
    for args in [
        &["lease", "renew", "t", "--token", TOKEN][..],
        &proven,
        &["lease", "release", "t", "--token", TOKEN],
    ] {
        let ended = bench.tenure(comes, args);
        assert!(ended.is_done(), "{args:?}: {ended:?}");
    }
    assert_eq!(bench.lease(holds)["leased"], false);
    fence
}

/// Inside the lock, `mkdir` is an independent check: it fails if another process is inside.
const WITNESS: &str = r#"export TENURE_WAIT=forever; i=0; while [ $i -lt 20 ]; do i=$((i + 1))
    "$1" run t -- sh -c 'mkdir in || echo overlap; rmdir in'
    "$1" doc update d.json '.n += 1' --init '{"n":0}' || echo lost
    "$1" journal append --no-sync j.jsonl x || echo lost
    echo turn $i
done"#;

#[test]
fn g1_g6_g8_containers_with_a_volume_at_two_paths_count_together() {
    if !allows_root() {
        return;
    }
    let test = "g1_g6_g8_containers_with_a_volume_at_two_paths_count_together";
    let mut tally = Tally::new(RING, test);
    for _ in 0..Form::asked().pick(1, 10) {
        let bench = bench();
        let crowd =
            [AT_ONE, AT_TWO].map(|words| Live::start(bench.script(&launcher(&words), WITNESS)));
        for member in crowd {
            for turn in 1..=20 {
                assert_eq!(member.line(), Some(format!("turn {turn}")));
            }
            assert!(member.end().is_done());
        }
        let one = launcher(&AT_ONE);
        assert_eq!(bench.tenure(&one, &["doc", "get", "d.json", ".n"]).stdout, "40\n");
        let lines = bench.tenure(&one, &["journal", "read", "j.jsonl"]);
        assert_eq!(lines.stdout, "x\n".repeat(40));
        tally.tried(120, "turns of two containers with one volume at two paths");
    }
}
