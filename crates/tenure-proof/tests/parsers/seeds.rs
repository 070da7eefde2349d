//! The real files of the corpus: sidecars as the command writes them.
//!
//! `TENURE_WRITE_SEEDS=1` writes them into the corpus, without data of the machine and its
//! processes. Every run makes them again and passes them to the targets: a format that changed
//! without the corpus, or without the checksums in `inputs`, is noticed.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenure::Value;
use tenure_proof::inputs::{self, IN_PLACE, Layout, OURS, RESEAL};
use tenure_proof::{Tally, tenure};

use crate::corpus::directory;

/// What replaces the holder in the corpus.
const HOLDER: &[u8] = br#"{"p":4242,"s":7,"n":1,"h":"host","c":"tenure","l":"label","o":"owner"}"#;

/// A directory in which the command is run.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn run(&self, words: &[&str]) {
        let mut command = Command::new(tenure());
        command.args(words).current_dir(self.dir.path()).env_clear().env("PATH", "/usr/bin:/bin");
        let output = command.output().expect("the command can be started");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
    }

    fn read(&self, file: &str) -> Vec<u8> {
        let path = self.dir.path().join(file);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// A file of the corpus: where it goes, how it is laid out, the upper half of its first byte, itself.
struct Seed {
    name: &'static str,
    layout: Layout,
    which: u8,
    bytes: Vec<u8>,
}

fn documents(scene: &Scene, seeds: &mut Vec<Seed>) {
    let mut add = |name, layout, file: &str| {
        seeds.push(Seed { name, layout, which: 0, bytes: scene.read(file) });
    };
    let record = ".tenure/a.json.commit";
    scene.run(&["doc", "set", "a.json", "{\"a\":1}", "--op-id", "one"]);
    scene.run(&["doc", "merge", "a.json", "{\"b\":[2.50]}", "--op-id", "two"]);
    add("record/real_published", Layout::Record, record);
    scene.run(&["run", "a.json", "--label", "build", "--", "cp", record, "held"]);
    add("record/real_held", Layout::Record, "held");
    add("record/real_released", Layout::Record, record);
    scene.run(&["lease", "acquire", "a.json", "--ttl", "366d", "--owner", "me"]);
    add("record/real_leased", Layout::Record, record);
    add("hold/real", Layout::Plain, ".tenure/a.json.hold");
    let take_over = ["lease", "take-over", "a.json", "--ttl", "1s", "--reason", "it hangs"];
    scene.run(&take_over);
    scene.run(&take_over);
    add("events/real", Layout::Plain, ".tenure/a.json.events");
    scene.run(&["doc", "set", "keys/gone.json", "1"]);
    scene.run(&["run", "keys/gone.json", "--", "true"]);
    scene.run(&["collection", "prune", "keys", "--max-count", "0"]);
    add("floor/real", Layout::Record, "keys/.tenure/floor");
}

fn journals(scene: &Scene, seeds: &mut Vec<Seed>) {
    let mut add = |name, layout, which, file: &str| {
        seeds.push(Seed { name, layout, which, bytes: scene.read(file) });
    };
    let append = ["journal", "append", "log.jsonl"];
    let log = ".tenure/log.jsonl.log";
    scene.run(&[&append[..], &["{\"n\":1}", "{\"n\":2}", "--header", "{\"header\":0}"]].concat());
    scene.run(&["journal", "rotate", "log.jsonl"]);
    add("journal/real_log_rotated", Layout::Log, 3, log);
    scene.run(&[&append[..], &["{\"n\":3}", "{\"n\":4}", "--op-id", "once"]].concat());
    scene.run(&[&append[..], &["{\"n\":5}", "--no-sync"]].concat());
    add("journal/real_log", Layout::Log, 3, log);
    add("journal/real_lines", Layout::Plain, 0, "log.jsonl");
    add("journal/real_archive", Layout::Plain, 5, "log.jsonl.1");
    add("journal/real_record", Layout::Record, 2, ".tenure/log.jsonl.commit");
    add("journal/real_index_1", Layout::Index, 4, ".tenure/log.jsonl.index.1");
    add("journal/real_sync", Layout::Notes, 6, ".tenure/log.jsonl.sync0");
    add("sync/real", Layout::Notes, 0, ".tenure/log.jsonl.sync0");
    // A line of another tool, and a compaction: records of both kinds, and a file that was replaced.
    let foreign = [scene.read("log.jsonl"), b"{\"n\":6}\nno newl".to_vec()].concat();
    std::fs::write(scene.dir.path().join("log.jsonl"), foreign).expect("a foreign line");
    scene.run(&[&append[..], &["{\"n\":7}"]].concat());
    add("journal/real_log_foreign", Layout::Log, 7, log);
    scene.run(&["journal", "compact", "log.jsonl", "--from", "4"]);
    scene.run(&[&append[..], &["{\"n\":8}"]].concat());
    add("journal/real_log_compacted", Layout::Log, 3, log);
    add("journal/real_index", Layout::Index, 1, ".tenure/log.jsonl.index");
}

/// Removes the machine's data from events.
fn scrub_events(bytes: &[u8]) -> Vec<u8> {
    let mut scrubbed = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let mut event: Value = serde_json::from_slice(line).expect("an event");
        let holder = &mut event["detail"]["from"];
        (holder["pid"], holder["start"]) = (4242.into(), 7.into());
        (holder["host"], holder["command"]) = ("host".into(), "tenure".into());
        holder["pid_namespace"] = 1.into();
        scrubbed.extend(format!("{event}\n").into_bytes());
    }
    scrubbed
}

/// Removes the machine's data from a record: the text of its holder.
fn scrub(bytes: &mut [u8], layout: Layout) {
    if layout == Layout::Record {
        for slot in [4096, 8192, 12288, 16384] {
            if bytes.get(slot..slot + 6) == Some(b"tenure") && bytes[slot + 248] != 0 {
                bytes[slot + 256..slot + 1016].fill(0);
                bytes[slot + 256..slot + 256 + HOLDER.len()].copy_from_slice(HOLDER);
                let len = HOLDER.len() as u64;
                bytes[slot + 248..slot + 256].copy_from_slice(&len.to_le_bytes());
            }
        }
        inputs::reseal(layout, bytes);
    }
}

fn path_of(seed: &Seed) -> PathBuf {
    let (target, name) = seed.name.split_once('/').expect("a target and a name");
    directory(target).join(name)
}

#[test]
fn what_the_command_writes_is_laid_out_like_the_corpus() {
    let mut tally = Tally::new("parsers", "what_the_command_writes_is_laid_out_like_the_corpus");
    let scene = Scene { dir: tempfile::tempdir().expect("a directory") };
    let mut seeds = Vec::new();
    documents(&scene, &mut seeds);
    journals(&scene, &mut seeds);
    for seed in &seeds {
        let mut resealed = seed.bytes.clone();
        inputs::reseal(seed.layout, &mut resealed);
        assert!(resealed == seed.bytes, "{}: tenure writes other checksums", seed.name);
        let path = path_of(seed);
        if std::env::var_os("TENURE_WRITE_SEEDS").is_some() {
            write(&path, seed);
        }
        let known = std::fs::read(&path).unwrap_or_default();
        let known = known.get(1..).unwrap_or_default();
        let [now, then] = [&seed.bytes, known].map(|bytes| inputs::structures(seed.layout, bytes));
        assert_eq!(now, then, "{}: write it anew with TENURE_WRITE_SEEDS=1", seed.name);
    }
    tally.tried(seeds.len() as u64, "fresh files of the command");
}

fn write(path: &Path, seed: &Seed) {
    let is_events = seed.name.starts_with("events/");
    let mut bytes = if is_events { scrub_events(&seed.bytes) } else { seed.bytes.clone() };
    scrub(&mut bytes, seed.layout);
    if seed.layout == Layout::Log {
        // The zeros after the records are unused space.
        let ends = inputs::structures(seed.layout, &bytes);
        let len = ends.iter().map(|(range, _)| range.end).max().unwrap_or(0);
        bytes.truncate(len.next_multiple_of(8));
    }
    bytes.insert(0, RESEAL | IN_PLACE | OURS | seed.which << 4);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, bytes).expect("a file of the corpus");
}
