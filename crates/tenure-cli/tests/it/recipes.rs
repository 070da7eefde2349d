//! The pages of docs/recipes, run from top to bottom as a reader would.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::TENURE;
use crate::bench::{Bench, Ran};

/// Between the outputs of two blocks.
const MARK: &str = "=== next block\n";

/// The blocks of a page: a script, and what it prints if the page says so.
fn blocks(page: &str) -> Vec<(String, Option<String>)> {
    let mut blocks: Vec<(String, Option<String>)> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| [line, "\n"])
            .collect();
        match (kind, blocks.last_mut()) {
            ("sh", _) => blocks.push((body, None)),
            ("text", Some((_, output))) => *output = Some(body),
            _ => panic!("a block of `{kind}`"),
        }
    }
    blocks
}

fn pages() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes");
    let pages = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    pages.filter(|page| !page.ends_with("README.md")).collect()
}

fn run(page: &str) {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = blocks(&text);
    assert!(!blocks.is_empty(), "{page} has no script");
    let bench = Bench::new();
    std::fs::create_dir(bench.path(".bin")).unwrap();
    symlink(TENURE, bench.path(".bin/tenure")).unwrap();
    let script = blocks.iter().map(|(script, _)| script.as_str()).collect::<Vec<_>>();
    let script = format!("set -eu\n{}", script.join(&format!("printf '{MARK}'\n")));
    let path = format!("{}:{}", bench.path(".bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(bench.path("")).env("HOME", bench.path(""));
    let ran = Ran::new(shell.env("PATH", path).output().unwrap());
    assert_eq!(ran.code, Some(0), "{page}: {ran:?}");
    let mut printed = ran.stdout.split(MARK);
    for (script, expected) in blocks {
        let printed = printed.next().unwrap();
        if let Some(expected) = expected {
            assert_eq!(printed, expected, "{page}: {script}");
        }
    }
}

#[test]
fn every_recipe_works_as_it_is_written() {
    let pages = pages();
    let index = include_str!("../../../../docs/recipes/README.md");
    for page in &pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(index.contains(&format!("]({name})")), "{name} is not in the index");
        run(page.to_str().unwrap());
    }
    assert!(pages.len() >= 6, "{pages:?}");
}
