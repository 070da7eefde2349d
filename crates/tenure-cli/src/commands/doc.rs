//! `tenure doc`.

mod history;

use std::path::Path;

use tenure::json::Rules;
use tenure::outcome::{Snapshot, Written};
use tenure::{Document, Error, ErrorKind, Value, WriteOptions, json};

use super::input;
use crate::args::{
    DocCommand, DocWriteFlags, GetArgs, MergeArgs, PatchArgs, RestoreArgs, SetArgs, UpdateArgs,
    VersionArgs, WatchArgs,
};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::filter::{self, Filter};
use crate::output::{Layout, Output};
use crate::place::here;
use crate::shell;
use crate::waiting::Notice;

pub(super) fn run(command: &DocCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        DocCommand::Get(args) if args.filter.is_none() => get(args, None, out),
        DocCommand::Get(args) => {
            filter::with_room(out.is_json(), || get(args, args.filter.as_deref(), out))
        }
        DocCommand::Set(args) => set(args, out),
        DocCommand::Update(args) => filter::with_room(out.is_json(), || update(args, out)),
        DocCommand::Merge(args) => merge(args, out),
        DocCommand::Patch(args) => patch(args, out),
        DocCommand::Version(args) => version(args, out),
        DocCommand::Watch(args) => filter::with_room(out.is_json(), || watch(args, out)),
        DocCommand::Diff(args) => history::diff(args, out),
        DocCommand::Undo(args) => history::undo(args, out),
        DocCommand::History(args) => history::run(args, out),
        DocCommand::Restore(args) => restore(args, out),
    }
}

fn get(args: &GetArgs, code: Option<&str>, out: &mut Output) -> Result<ExitCode> {
    let filter = code.map(|code| input::filter(code, &args.named)).transpose()?;
    let document = open(&args.file)?;
    let snapshot = document.read()?.ok_or_else(|| missing(&document))?;
    if snapshot.repaired && !out.is_json() {
        out.warn("the file was cut by a power loss; this is its last synced version");
    }
    let layout = if args.compact { Layout::Compact } else { Layout::Pretty };
    let last = show(&snapshot, filter.as_ref(), args.raw, layout, out)?;
    Ok(if args.exit_status && !last { ExitCode::NotMet } else { ExitCode::Done })
}

/// Prints a snapshot, or what the filter makes of it. True if the last value is.
fn show(
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    raw: bool,
    layout: Layout,
    out: &mut Output,
) -> Result<bool> {
    let results = filter.map(|filter| filter.run(&snapshot.value)).transpose()?;
    let values = results.as_deref().unwrap_or(std::slice::from_ref(&snapshot.value));
    let last = values.last().is_some_and(filter::is_true);
    if out.is_json() {
        let mut object = json!({
            "version": snapshot.version.to_string(),
            "repaired": snapshot.repaired,
        });
        match filter {
            Some(_) => object["values"] = values.iter().collect(),
            None => object["value"] = snapshot.value.clone(),
        }
        out.value(&object, Layout::Compact)?;
        return Ok(last);
    }
    for value in values {
        match value {
            Value::String(text) if raw => out.line(text)?,
            value => out.value(value, layout)?,
        }
    }
    Ok(last)
}

fn set(args: &SetArgs, out: &mut Output) -> Result<ExitCode> {
    let value = input::json(&args.content)?;
    write(&args.file, &args.write, out, |document, options| Ok(document.set(&value, options)?))
}

fn update(args: &UpdateArgs, out: &mut Output) -> Result<ExitCode> {
    let filter = input::filter(&args.filter, &args.named)?;
    let init = args.init.as_deref().map(input::json).transpose()?;
    write(&args.file, &args.write, out, |document, options| {
        let mut refused = None;
        let written = document.update(options, |current| {
            let computed = match current.or(init.as_ref()) {
                Some(value) => filter.run_once(value),
                None => Err(missing(document)),
            };
            computed.map(Some).map_err(|failure| {
                refused = Some(failure);
                Error::new(ErrorKind::Invalid, "run the filter", "") // Stands for `refused`.
            })
        });
        match refused {
            Some(failure) => Err(failure),
            None => Ok(written?),
        }
    })
}

fn merge(args: &MergeArgs, out: &mut Output) -> Result<ExitCode> {
    type Declare = fn(Rules, &str) -> tenure::Result<Rules>;
    let declared: [(&[String], Declare); 5] = [
        (&args.union, Rules::union),
        (&args.max, Rules::max),
        (&args.min, Rules::min),
        (&args.sum, Rules::sum),
        (&args.last, Rules::last),
    ];
    let mut rules = Rules::new();
    for (pointers, declare) in declared {
        for pointer in pointers {
            rules = declare(rules, pointer)?;
        }
    }
    if !args.replace {
        rules = rules.keep_kinds();
    }
    let value = input::json(&args.patch)?;
    write(&args.file, &args.write, out, |document, options| {
        Ok(document.merge(&value, &rules, options)?)
    })
}

fn patch(args: &PatchArgs, out: &mut Output) -> Result<ExitCode> {
    let operations = input::json(&args.operations)?;
    write(&args.file, &args.write, out, |document, options| {
        Ok(document.patch(&operations, options)?)
    })
}

fn restore(args: &RestoreArgs, out: &mut Output) -> Result<ExitCode> {
    let mut outcome = String::new();
    let done = write(&args.file, &args.write, out, |document, options| {
        let was_there = document.path().symlink_metadata().is_ok();
        let written = document.restore(options)?;
        outcome = if written.changed && was_there {
            format!("restored version {}; the damaged file is kept aside", written.version)
        } else if written.changed {
            format!("restored version {}; there was no document", written.version)
        } else {
            "it is not damaged; nothing was changed".to_owned()
        };
        Ok(written)
    })?;
    if !out.is_json() {
        out.result(|| Value::Null, || outcome)?;
    }
    Ok(done)
}

fn version(args: &VersionArgs, out: &mut Output) -> Result<ExitCode> {
    let document = open(&args.file)?;
    let version = document.read()?.ok_or_else(|| missing(&document))?.version.to_string();
    out.result(|| json!({ "version": version }), || version.clone())?;
    Ok(ExitCode::Done)
}

fn watch(args: &WatchArgs, out: &mut Output) -> Result<ExitCode> {
    let code = args.filter.as_deref();
    let filter = code.map(|code| input::filter(code, &args.named)).transpose()?;
    let wait = args.wait.get();
    let mut watch = open(&args.file)?.watch()?;
    let mut left = args.count;
    while left != Some(0) {
        let Some(snapshot) = watch.next(wait)? else {
            return Failure::no_news(&args.file, left);
        };
        show(&snapshot, filter.as_ref(), args.raw, Layout::Compact, out)?;
        out.flush()?;
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::Done)
}

/// What every change has in common: options, the notice while waiting, and the result.
fn write(
    file: &Path,
    flags: &DocWriteFlags,
    out: &mut Output,
    act: impl FnOnce(&Document, &WriteOptions) -> Result<Written>,
) -> Result<ExitCode> {
    let document = open(file)?;
    let options = flags.options(document.path())?;
    let written = {
        let _notice = Notice::start(document.path(), options.wait, out.is_json());
        act(&document, &options)
            .map_err(|failure| failure.in_write_to(document.path()).about_file(document.path()))?
    };
    out.committed();
    let object = || {
        json!({
            "version": written.version.to_string(),
            "changed": written.changed,
            "replayed": written.replayed,
        })
    };
    out.result(object, String::new)?;
    Ok(ExitCode::Done)
}

/// The document at a path that names a file.
fn open(file: &Path) -> Result<Document> {
    input::refuse_directory(file, "open document")?;
    Ok(here().document(file)?)
}

fn missing(document: &Document) -> Failure {
    let error = Error::new(ErrorKind::NotFound, "read document", "there is none");
    let file = shell::word(document.path().as_os_str());
    let create =
        format!("`tenure doc set {} JSON`, or `doc update --init`", file.to_string_lossy());
    Failure::Core(error.at(document.path()).hint(format!("check the name, or create it: {create}")))
}
