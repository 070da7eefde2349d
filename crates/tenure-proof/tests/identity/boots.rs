//! Other boots of the machine: the boot id is replaced for one process with a bind mount.

use tenure_proof::Tally;
use tenure_proof::machine::allows_root;

use crate::RING;
use crate::bench::Bench;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const LEASE: [&str; 7] = ["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN];

/// Runs the rest in another boot.
const NEXT: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "echo another >boot; mount --bind boot /proc/sys/kernel/random/boot_id; exec \"$@\"",
    "sh",
];
/// Runs the rest where the boot is unknown.
const UNKNOWN: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount --bind /dev/null /proc/sys/kernel/random/boot_id; exec \"$@\"",
    "sh",
];
const PLAIN: [&str; 1] = ["env"];

#[test]
fn r5_g1_another_boot_does_not_free_a_lock() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "r5_g1_another_boot_does_not_free_a_lock");
    for (holds, comes) in [(&PLAIN[..], &NEXT[..]), (&NEXT, &PLAIN), (&PLAIN, &UNKNOWN)] {
        let bench = Bench::new();
        let holder = bench.holder(holds);
        let busy = bench.tenure(comes, &["run", "--wait", "0", "t", "--", "true"]);
        let refused = if comes == UNKNOWN { 6 } else { 75 };
        assert_eq!(busy.code, Some(refused), "{busy:?}");
        assert_eq!(holder.end().code, Some(0));
        tally.tried(1, "locks seen from another boot");
    }
}

#[test]
fn r5_e1_g4_a_lease_of_another_boot_is_over_but_its_token_may_renew_it() {
    if !allows_root() {
        return;
    }
    let test = "r5_e1_g4_a_lease_of_another_boot_is_over_but_its_token_may_renew_it";
    let mut tally = Tally::new(RING, test);
    let renew = ["lease", "renew", "t", "--token", TOKEN];
    // No other process acquired it since: the token renews it, and it runs again.
    let bench = Bench::new();
    assert!(bench.tenure(&PLAIN, &LEASE).is_done());
    let old = bench.lease(&PLAIN)["fence"].as_u64().unwrap();
    assert_eq!(bench.lease(&NEXT)["leased"], false);
    assert!(bench.tenure(&NEXT, &renew).is_done());
    assert_eq!(bench.lease(&NEXT)["leased"], true);
    // Under a new fence: a power loss may have undone a grant after the old one.
    let new = bench.lease(&NEXT)["fence"].as_u64().unwrap();
    assert!(new > old, "{new} after {old}");
    for (fence, code) in [(old, 4), (new, 0)] {
        let write = ["doc", "set", "t", "1", "--fence", &fence.to_string()];
        assert_eq!(bench.tenure(&NEXT, &write).code, Some(code), "a write under {fence}");
    }
    // In the same boot it keeps its fence.
    assert!(bench.tenure(&NEXT, &renew).is_done());
    assert_eq!(bench.lease(&NEXT)["fence"], new);
    // Another process acquired it: it is lost, and the fence has grown.
    let bench = Bench::new();
    assert!(bench.tenure(&PLAIN, &LEASE).is_done());
    let old = bench.lease(&PLAIN)["fence"].as_u64().unwrap();
    let fence = bench.fence(&NEXT);
    assert!(fence > old, "{fence} after {old}");
    assert_eq!(bench.tenure(&NEXT, &renew).code, Some(4));
    let late = ["doc", "set", "t", "1", "--fence", &old.to_string()];
    assert_eq!(bench.tenure(&NEXT, &late).code, Some(4), "a write under an old fence");
    tally.tried(2, "leases of another boot");
}

#[test]
fn g4_g5_g7_documents_and_journals_go_on_in_another_boot() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g4_g5_g7_documents_and_journals_go_on_in_another_boot");
    let bench = Bench::new();
    let (mut last, rounds) = (0, 6);
    for round in 0..rounds {
        let launcher = if round % 2 == 0 { &PLAIN[..] } else { &NEXT };
        let fence = bench.fence(launcher);
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        let count = ["doc", "update", "d.json", ".n += 1", "--init", "{\"n\":0}"];
        assert!(bench.tenure(launcher, &count).is_done());
        assert!(bench.tenure(launcher, &["journal", "append", "j.jsonl", "x"]).is_done());
    }
    let count = bench.tenure(&PLAIN, &["doc", "get", "d.json", ".n"]);
    assert_eq!(count.stdout, format!("{rounds}\n"));
    let lines = bench.tenure(&PLAIN, &["journal", "read", "j.jsonl"]);
    assert_eq!(lines.stdout, "x\n".repeat(rounds));
    tally.tried(rounds as u64, "changes of boot");
}

#[test]
fn g12_where_the_boot_is_not_known_nothing_is_written() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g12_where_the_boot_is_not_known_nothing_is_written");
    let bench = Bench::new();
    assert!(bench.tenure(&PLAIN, &LEASE).is_done());
    for args in [
        &["run", "t", "--", "true"][..],
        &["lease", "acquire", "t", "--ttl", "1s", "--wait", "0"],
        &["lease", "renew", "t", "--token", TOKEN],
        &["doc", "set", "d.json", "1"],
        &["journal", "append", "j.jsonl", "1"],
    ] {
        let ended = bench.tenure(&UNKNOWN, args);
        assert_eq!(ended.code, Some(6), "{args:?}: {ended:?}");
        tally.tried(1, "commands in an unknown boot");
    }
    assert_eq!(bench.lease(&PLAIN)["leased"], true);
    assert!(!bench.path("d.json").exists() && !bench.path("j.jsonl").exists());
}
