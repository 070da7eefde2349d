//! `tenure doc diff`, `undo` and `history`: the versions before the present one.

use tenure::embed::printable;
use tenure::outcome::Earlier;
use tenure::{Document, Error, ErrorKind, Value, WriteOptions, json};

use super::{missing, open, write};
use crate::args::{DiffArgs, HistoryArgs, UndoArgs};
use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn diff(args: &DiffArgs, out: &mut Output) -> Result<ExitCode> {
    let document = open(&args.file)?;
    let earlier = version(&document, args.to)?;
    let now = document.read()?.ok_or_else(|| missing(&document))?;
    let mut changes = Vec::new();
    compare(&earlier.value, &now.value, "", &mut changes);
    if out.is_json() {
        let list: Value = changes.iter().map(Change::to_json).collect();
        let object = json!({ "to": args.to, "version": now.version.to_string(), "changes": list });
        out.result(|| object, String::new)?;
    } else {
        changes.iter().try_for_each(|change| out.line(&printable(&change.line())))?;
    }
    Ok(ExitCode::Done)
}

pub(super) fn undo(args: &UndoArgs, out: &mut Output) -> Result<ExitCode> {
    let mut said = String::new();
    let done = write(&args.file, &args.write, out, |document, options| {
        let written = document.undo(args.to, options)?;
        said = if written.changed {
            let back = match args.to {
                1 => "the version before the last durable change is back".to_owned(),
                back => format!("the version {back} durable changes ago is back"),
            };
            format!("{back}; the same command with --to 1 brings back what it replaced")
        } else {
            "the two versions are the same; nothing was changed".to_owned()
        };
        Ok(written)
    })?;
    if !out.is_json() {
        out.line(&said)?;
    }
    Ok(done)
}

pub(super) fn run(args: &HistoryArgs, out: &mut Output) -> Result<ExitCode> {
    let document = open(&args.file)?;
    if let Some(count) = args.keep {
        let options = WriteOptions { wait: args.wait.get()?, ..WriteOptions::default() };
        document.keep_versions(count, &options)?;
        out.committed();
    }
    if document.read()?.is_none() {
        return Err(missing(&document));
    }
    let (keep, versions) = (document.kept_versions()?, document.earlier()?);
    if out.is_json() {
        let one = |(index, version): (usize, &Earlier)| {
            json!({
                "to": index + 1,
                "written_us": version.written_us,
                "bytes": version.bytes.len(),
            })
        };
        let list: Value = versions.iter().enumerate().map(one).collect();
        out.result(|| json!({ "keep": keep, "versions": list }), String::new)?;
        return Ok(ExitCode::Done);
    }
    for (index, version) in versions.iter().enumerate() {
        let written = clock::date_and_time(version.written_us);
        out.line(&format!("{}  {written}  {} bytes", index + 1, version.bytes.len()))?;
    }
    if versions.is_empty() {
        out.warn("there is no earlier version yet: one is kept by the next durable change");
    }
    Ok(ExitCode::Done)
}

fn version(document: &Document, back: usize) -> Result<Earlier> {
    let versions = document.earlier()?;
    let kept = versions.len();
    if kept == 0 && document.read()?.is_none() {
        return Err(missing(document));
    }
    let found = versions.into_iter().nth(back.wrapping_sub(1));
    found.ok_or_else(|| {
        let detail = match kept {
            0 => "no earlier version was kept".to_owned(),
            kept => format!("there is no version {back}; {kept} are kept"),
        };
        let error = Error::new(ErrorKind::NotFound, "compare", detail).at(document.path());
        Failure::Core(error.hint("a durable change keeps the version that it replaces"))
    })
}

/// One difference: `None` is absent.
struct Change {
    path: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl Change {
    fn to_json(&self) -> Value {
        let mut object = json!({ "path": self.path });
        for (name, value) in [("before", &self.before), ("after", &self.after)] {
            if let Some(value) = value {
                object[name] = value.clone();
            }
        }
        object
    }

    fn line(&self) -> String {
        let path = if self.path.is_empty() { "(all)" } else { &self.path };
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("~ {path}  {before} -> {after}"),
            (Some(before), None) => format!("- {path}  {before}"),
            (None, Some(after)) => format!("+ {path}  {after}"),
            (None, None) => String::new(),
        }
    }
}

/// The differences in the order of the document; what is gone comes last. Elements of arrays are compared
/// after the part that both have at the beginning and before the part that both have at the end.
fn compare(before: &Value, after: &Value, path: &str, changes: &mut Vec<Change>) {
    let mut add = |path: String, before: Option<&Value>, after: Option<&Value>| {
        changes.push(Change { path, before: before.cloned(), after: after.cloned() });
    };
    match (before, after) {
        (before, after) if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            let pointer =
                |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            for (key, value) in new.iter() {
                match old.get(key) {
                    Some(before) => compare(before, value, &pointer(key), changes),
                    None => changes.push(Change {
                        path: pointer(key),
                        before: None,
                        after: Some(value.clone()),
                    }),
                }
            }
            for (key, value) in old.iter().filter(|(key, _)| new.get(key).is_none()) {
                let before = Some(value.clone());
                changes.push(Change { path: pointer(key), before, after: None });
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            let same = old.iter().zip(new).take_while(|(one, other)| one == other).count();
            let (old_rest, new_rest) = (&old[same..], &new[same..]);
            let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
            let tail = ends.take_while(|(one, other)| one == other).count();
            let (old_rest, new_rest) =
                (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
            for index in 0..old_rest.len().max(new_rest.len()) {
                let path = format!("{path}/{}", same + index);
                match (old_rest.get(index), new_rest.get(index)) {
                    (Some(before), Some(after)) => compare(before, after, &path, changes),
                    (before, after) => changes.push(Change {
                        path,
                        before: before.cloned(),
                        after: after.cloned(),
                    }),
                }
            }
        }
        (before, after) => add(path.to_owned(), Some(before), Some(after)),
    }
}
