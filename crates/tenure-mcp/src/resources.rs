//! Resources: documents and journals by address, `tenure://document/PATH` and `tenure://journal/PATH`.

use std::fmt::Write as _;

use tenure::{Result as Outcome, Value, json};

use crate::protocol::Fault;
use crate::root::Root;

/// A list is for people who browse: the first ones suffice.
const LISTED_MAX: usize = 200;
/// A journal is read through its tool; the resource shows its end.
const ENTRIES_SHOWN: u64 = 1000;
const DOCUMENT: &str = "tenure://document/";
const JOURNAL: &str = "tenure://journal/";

/// The targets that tenure knows below the root.
pub(crate) fn list(root: &Root) -> Result<Value, Fault> {
    let survey = root.store.survey(root.path()).map_err(|err| Fault::params(err.to_string()))?;
    // What cannot be read is not offered: files of git and of tenure, and locks whose file does not exist.
    let on_files = root.store.capabilities().files;
    let is_there =
        |name: &String| root.may_use(name) && (!on_files || root.path().join(name).is_file());
    let shown = survey.targets.iter().map(|status| root.shown(&status.path)).filter(is_there);
    let resources: Vec<Value> = shown
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
pub(crate) fn read(root: &Root, params: &Value) -> Result<Value, Fault> {
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
        (newest(root, &name).map_err(failed)?.ok_or_else(missing)?, "application/jsonl")
    } else {
        return Err(missing());
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] }))
}

/// The newest lines of a journal; `None` if it has none.
fn newest(root: &Root, name: &str) -> Outcome<Option<String>> {
    let journal = root.journal(name)?;
    let mut lines = std::collections::VecDeque::new();
    let mut entries = journal.read(0, None)?;
    while let Some((_, line)) = entries.next_line()? {
        if lines.len() as u64 == ENTRIES_SHOWN {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(line).into_owned() + "\n");
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
