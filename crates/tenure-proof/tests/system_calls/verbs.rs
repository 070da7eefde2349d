//! The commands for agents, killed at their system calls and on full disks.

use std::path::Path;

use rustix::mount::{MountFlags, mount_remount};
use rustix::process::{Pid, Signal, kill_process_group};
use tenure_proof::live::Live;
use tenure_proof::machine::{allows_root, mount_memory, own_mounts};
use tenure_proof::strace::{Case, Fault, Traced};
use tenure_proof::verbs::{VERBS, Verb};
use tenure_proof::{Form, Tally, bounded, seed, strace};
use tenure_testkit::Random;

use super::cases::{Sample, cases};
use super::sweep::RING;
use super::trouble::{fill_names, fill_pages, log_of};

/// Deaths at some calls of each kind that changes something.
const KILLS: Sample = Sample { kills: 1, others: 0, anything: false, moments: 0, only: &[] };
/// Space for every command; little, since it is filled up each time.
const DISK: &str = "size=1m,nr_inodes=200";

/// The calls of the command at which it is killed.
fn kills(traced: &Traced<'_>, random: &mut Random) -> Vec<Case> {
    let mut cases = cases(&traced.calls(), KILLS, random);
    cases.retain(|case| case.fault == Fault::Kill);
    cases
}

#[test]
fn g10_agents_commands_killed_at_any_call() {
    if !strace::available() {
        return;
    }
    let test = "g10_agents_commands_killed_at_any_call";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().canonicalize().unwrap().join("work");
    let mut bad = Vec::new();
    for verb in VERBS {
        let words = verb.words(&dir);
        let args: Vec<_> = words[1..].iter().map(String::as_str).collect();
        let log = log_of(&dir);
        let program = Path::new(&words[0]);
        let traced = Traced { program, args: &args, dir: &dir, lacks: None, log: &log };
        verb.set_up(&dir);
        for case in kills(&traced, &mut random) {
            verb.set_up(&dir);
            let struck = traced.with_fault(&case);
            let judged = verb.judge(&dir, &[], &struck.ended);
            bad.extend(judged.err().map(|why| format!("{case:?}: {why}")));
            tally.tried(u64::from(struck.came_about), "kills of a command for agents at a call");
        }
    }
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
    assert!(tally.cases() > 5 * VERBS.len() as u64, "too little to tell: {tally:?}");
}

fn stop_group(pid: u32) {
    let group = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
}

/// A holder that is stopped keeps its lock. The others get a `busy` in time, and nothing is lost; an agent goes on.
#[test]
fn g10_agents_commands_behind_a_paused_holder() {
    let mut tally = Tally::new(RING, "g10_agents_commands_behind_a_paused_holder");
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let behind = |(number, verb): (usize, &Verb)| {
        let dir = root.join(number.to_string());
        verb.set_up(&dir);
        let holder = Live::start(verb.holder(&dir));
        assert_eq!(holder.line().as_deref(), Some("ready"), "{}", verb.name);
        stop_group(holder.pid());
        let ended = bounded::run(verb.command(&dir, &[]));
        let expected = if verb.name.starts_with("hook ") { 0 } else { 75 };
        if ended.code != Some(expected) || !ended.stderr.contains("is held by") {
            return Err(format!("{}: {ended:?}", verb.name));
        }
        holder.kill();
        verb.judge(&dir, &[], &ended)
    };
    // All at once: each of them waits.
    let behind = &behind;
    let bad: Vec<_> = std::thread::scope(|scope| {
        let verbs = VERBS.iter().enumerate().filter(|(_, verb)| !verb.lock.is_empty());
        let running: Vec<_> = verbs.map(|verb| scope.spawn(move || behind(verb))).collect();
        tally.tried(running.len() as u64, "commands for agents behind a paused holder");
        running.into_iter().filter_map(|verb| verb.join().unwrap().err()).collect()
    });
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
}

/// Runs the command on disks with a few free pages, and with a few free names.
fn on_full_disks(verb: &Verb, dir: &Path, tally: &mut Tally) -> Vec<String> {
    let mut bad = Vec::new();
    for (fill, what) in [(fill_pages as fn(&Path, usize) -> _, "pages"), (fill_names, "names")] {
        for left in (0..=Form::asked().pick(8, 20)).step_by(Form::asked().pick(2, 1)) {
            verb.set_up(dir);
            let fillers: Vec<std::path::PathBuf> = fill(dir, left);
            let ended = bounded::run(verb.command(dir, &[]));
            for filler in fillers {
                std::fs::remove_file(filler).unwrap();
            }
            let judged = verb.judge(dir, &[], &ended);
            bad.extend(judged.err().map(|why| format!("{left} {what} left: {why}")));
            let felt = !ended.is_done() || !ended.stderr.is_empty();
            tally.tried(u64::from(felt), "commands for agents on a full disk");
        }
    }
    bad
}

/// A home that cannot be written: a clear error, or a warning of a hook, and afterwards all is as before.
#[test]
fn g10_agents_commands_on_a_read_only_disk() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g10_agents_commands_on_a_read_only_disk");
    own_mounts();
    let root = tempfile::tempdir().unwrap();
    mount_memory(root.path(), DISK);
    let dir = root.path().canonicalize().unwrap().join("work");
    let mut bad = Vec::new();
    for verb in VERBS {
        verb.set_up(&dir);
        mount_remount(root.path(), MountFlags::RDONLY, "").unwrap();
        let ended = bounded::run(verb.command(&dir, &[]));
        mount_remount(root.path(), MountFlags::empty(), "").unwrap();
        let told = format!("{}{}", ended.stdout, ended.stderr);
        if !told.to_lowercase().contains("read-only") {
            bad.push(format!("{}: it does not say why: {ended:?}", verb.name));
        }
        bad.extend(verb.judge(&dir, &[], &ended).err());
        tally.tried(1, "commands for agents on a read-only disk");
    }
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn g10_race_43_agents_commands_on_a_full_disk() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g10_race_43_agents_commands_on_a_full_disk");
    own_mounts();
    let root = tempfile::tempdir().unwrap();
    mount_memory(root.path(), DISK);
    let dir = root.path().canonicalize().unwrap().join("work");
    let mut found = |verb| on_full_disks(verb, &dir, &mut tally);
    let bad: Vec<_> = VERBS.iter().flat_map(&mut found).collect();
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
    // An installer that writes in place loses the settings.
    let broken = Verb {
        name: "an installer that writes in place",
        run: "{ head -c 20000 /dev/zero; cat before; } > .claude/settings.json",
        ..VERBS.iter().find(|verb| verb.name == "init").copied().unwrap()
    };
    let lost = found(&broken);
    assert!(lost.iter().any(|why| why.contains("not sound")), "not found out: {lost:?}");
    tally.caught("an installer that writes in place, on a full disk");
    assert!(tally.cases() > 2 * VERBS.len() as u64, "too little to tell: {tally:?}");
}
