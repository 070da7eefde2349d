//! Resources: documents and journals by address, `tenure://document/PATH` and `tenure://journal/PATH`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tenure::{Cancel, Result as Outcome, Value, json};

use crate::protocol::Fault;
use crate::root::Root;

/// A list is for people who browse: the first ones suffice.
const LISTED_MAX: usize = 200;
/// How many names are looked at for a list.
const NAMES_MAX: usize = 50_000;
/// Directories that may be large, and in which agents share nothing.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];
/// A journal is read through its tool; the resource shows its end: so many entries, and no more than so many bytes
/// unless the last entry has more.
const ENTRIES_SHOWN: usize = 1000;
const BYTES_SHOWN: usize = 1 << 20;
const DOCUMENT: &str = "tenure://document/";
const JOURNAL: &str = "tenure://journal/";

/// The documents and journals that tenure knows below the root.
pub(crate) fn list(root: &Root, cancel: &Cancel) -> Result<Value, Fault> {
    let paths = if root.store.capabilities().files {
        files(root.path(), cancel)
    } else {
        let survey = root.store.survey(root.path());
        let survey = survey.map_err(|err| Fault::params(err.to_string()))?;
        survey.targets.into_iter().map(|status| status.path).collect()
    };
    // What cannot be used is not offered: files of git and of tenure, settings of agents.
    let names = paths.iter().map(|path| root.shown(path)).filter(|name| root.may_use(name));
    let resources: Vec<Value> = names
        .filter_map(|name| {
            let (scheme, kind) = match name.rsplit('.').next() {
                Some("json") => (DOCUMENT, "application/json"),
                Some("jsonl") => (JOURNAL, "application/jsonl"),
                _ => return None,
            };
            let uri = format!("{scheme}{}", encode(&name));
            Some(json!({ "uri": uri, "name": name, "mimeType": kind }))
        })
        .take(LISTED_MAX)
        .collect();
    Ok(json!({ "resources": resources }))
}

/// The files below a directory that have a record of tenure, those of the upper directories first. A directory that
/// cannot be read hides no other one.
fn files(root: &Path, cancel: &Cancel) -> Vec<PathBuf> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut todo = VecDeque::from([root.to_path_buf()]);
    while let Some(dir) = todo.pop_front() {
        let (mut names, mut records) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked += 1;
            if looked > NAMES_MAX || cancel.is_cancelled() {
                return found;
            }
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            match entry.file_type() {
                Ok(kind) if kind.is_file() => names.push(name),
                Ok(kind) if kind.is_dir() && name.starts_with(".tenure") => records.push(path),
                Ok(kind) if kind.is_dir() && !SKIPPED.contains(&name.as_str()) => {
                    todo.push_back(path);
                }
                _ => {}
            }
        }
        let is_known = |name: &String| {
            let record = format!("{name}.commit");
            records.iter().any(|dir| dir.join(&record).is_file())
        };
        names.retain(is_known);
        names.sort_unstable();
        found.extend(names.iter().map(|name| dir.join(name)));
    }
    found
}

/// The two kinds of addresses.
pub(crate) fn templates() -> Value {
    json!({ "resourceTemplates": [
        {
            "uriTemplate": "tenure://document/{+path}", "name": "document",
            "description": "A shared JSON document", "mimeType": "application/json",
        },
        {
            "uriTemplate": "tenure://journal/{+path}", "name": "journal",
            "description": "The newest entries of a journal", "mimeType": "application/jsonl",
        },
    ] })
}

/// What a resource says.
pub(crate) fn read(root: &Root, params: &Value, cancel: &Cancel) -> Result<Value, Fault> {
    let uri = params["uri"].as_str().ok_or_else(|| Fault::params("`uri` is missing"))?;
    let missing = || Fault::resource(uri);
    let failed = |err: tenure::Error| Fault::params(err.to_string());
    let (text, kind) = if let Some(name) = uri.strip_prefix(DOCUMENT) {
        let name = decode(name).ok_or_else(missing)?;
        let found = root.document(&name).and_then(|document| document.read()).map_err(failed)?;
        let found = found.ok_or_else(missing)?;
        (String::from_utf8_lossy(&found.bytes).into_owned(), "application/json")
    } else if let Some(name) = uri.strip_prefix(JOURNAL) {
        let name = decode(name).ok_or_else(missing)?;
        (newest(root, &name, cancel).map_err(failed)?.ok_or_else(missing)?, "application/jsonl")
    } else {
        return Err(missing());
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] }))
}

/// The newest lines of a journal; `None` if it has none.
fn newest(root: &Root, name: &str, cancel: &Cancel) -> Outcome<Option<String>> {
    let journal = root.journal(name)?;
    let (mut lines, mut bytes) = (VecDeque::<String>::new(), 0);
    let mut entries = journal.read(0, None)?;
    while let Some((_, line)) = entries.next_line()?.filter(|_| !cancel.is_cancelled()) {
        let line = String::from_utf8_lossy(line).into_owned() + "\n";
        bytes += line.len();
        lines.push_back(line);
        while lines.len() > 1 && (lines.len() > ENTRIES_SHOWN || bytes > BYTES_SHOWN) {
            bytes -= lines.pop_front().map_or(0, |line| line.len());
        }
    }
    Ok((!lines.is_empty()).then(|| lines.into_iter().collect()))
}

/// A path in an address: everything but letters, digits and a few marks is `%XX`.
fn encode(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().fold(String::new(), |mut text, byte| {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}"); // Text takes everything.
        }
        text
    })
}

/// The path of an address; `None` if it is not UTF-8, or a `%` is followed by something else than two digits.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_its_address() {
        for path in ["a/b.json", "sp\u{e4}te Zeile.jsonl", "100%.json", "a b\u{1f600}"] {
            assert_eq!(decode(&encode(path)).as_deref(), Some(path));
        }
        for broken in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
