//! Markdown files: one title each, and links that lead somewhere.

use super::tree::{check_each, files};
use super::{assert_none, assert_one, numbered};

/// Lines that are not in a fenced code block, with their numbers.
pub(super) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (number, line) in numbered(text) {
        let start = line.trim_start();
        match fence {
            Some(marker) if start.starts_with(marker) => fence = None,
            Some(_) => {}
            None => match fence_marker(start) {
                Some(marker) => fence = Some(marker),
                None => lines.push((number, line)),
            },
        }
    }
    lines
}

fn fence_marker(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(first).len();
    (length >= 3).then(|| &line[..length])
}

fn title(path: &str, text: &str) -> Vec<String> {
    let titles = prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with("# ") || line.contains("<h1"))
        .count();
    let problem = format!("{path}: {titles} titles (`# `) instead of one");
    (titles != 1).then_some(problem).into_iter().collect()
}

fn links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in prose(text) {
        for link in targets(&without_code(line)) {
            let outside = link.contains("://") || link.starts_with("mailto:");
            let file = link.split(['#', '?']).next().unwrap_or_default();
            if outside || file.is_empty() || exists(&resolve(path, file)) {
                continue;
            }
            problems.push(format!("{path}:{number}: nothing at `{link}`"));
        }
    }
    problems
}

/// The line without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Every link target of a line: `[a](b)`, `[a]: b`, `src="b"`, `href="b"`.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (before, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (at, _) in line.match_indices(before) {
            let rest = &line[at + before.len()..];
            found.push(&rest[..rest.find(end).unwrap_or(rest.len())]);
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.push(target);
    }
    // A title may follow the target; angle brackets may surround it.
    found
        .into_iter()
        .filter_map(|link| link.split_whitespace().next())
        .map(|link| link.trim_start_matches('<').trim_end_matches('>'))
        .collect()
}

/// A link in the document `path`, as a path from the top.
fn resolve(path: &str, link: &str) -> String {
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let start = if link.starts_with('/') { "" } else { dir };
    let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether `path` is a file of the repository or a directory with one in it.
fn in_repository(path: &str) -> bool {
    let below = format!("{path}/");
    path.is_empty() || files().iter().any(|file| file.path == path || file.path.starts_with(&below))
}

#[test]
fn every_document_has_one_title() {
    assert_none(&check_each(&["md"], title));
    assert_none(&title("a.md", "# A\n```sh\n# a comment\n```\n## B\n"));
    assert_one(&title("a.md", "# A\n# B\n"), "2 titles");
    assert_one(&title("a.md", "```\n# not a title\n```\n"), "0 titles");
}

#[test]
fn links_lead_somewhere() {
    assert_none(&check_each(&["md"], |path, text| links(path, text, in_repository)));
}

#[test]
fn broken_links_are_noticed() {
    let exists = |path: &str| path == "docs/b.md";
    for good in [
        "[b](b.md), [b](./b.md#part \"title\"), [b](../docs/b.md), [b](/docs/b.md)",
        "[x](https://example.com) [y](#here) `[z](gone.md)` [m](mailto:a@b.c)",
        "```\n[b](gone.md)\n```",
        "[b]: b.md",
    ] {
        assert_none(&links("docs/a.md", good, exists));
    }
    for bad in ["x [b](gone.md) y", "[b]: <gone.md>", "<img src=\"gone.md\">", "![b](../gone.md)"] {
        assert_one(&links("docs/a.md", bad, exists), "gone.md");
    }
    assert!(in_repository("xtask/src") && !in_repository("xtask/sr"));
}
