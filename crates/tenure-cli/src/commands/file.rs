//! `tenure file`: files that are not JSON.

use std::path::Path;

use tenure::blob::{Blob, Content};
use tenure::outcome::Written;
use tenure::{Error, ErrorKind, LockOptions, WriteOptions, json};

use super::input;
use super::run::reap;
use crate::args::{FileCommand, FileEditArgs, FilePutArgs, FileUndoArgs};
use crate::child::{self, Ended};
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::here;
use crate::shell;

pub(super) fn run(command: &FileCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        FileCommand::Put(args) => put(args, out)?,
        FileCommand::Get(args) => {
            let content = required(&blob(&args.file)?, "read")?;
            out.raw(&content.bytes)?;
        }
        FileCommand::Version(args) => {
            let version = required(&blob(&args.file)?, "read")?.version;
            out.result(|| json!({ "version": version.to_string() }), || version.to_string())?;
        }
        FileCommand::Edit(args) => return edit(args, out),
        FileCommand::Undo(args) => undo(args, out)?,
    }
    Ok(ExitCode::Done)
}

fn blob(name: &Path) -> tenure::Result<Blob> {
    Blob::on(here().store().as_ref(), name)
}

fn required(blob: &Blob, action: &'static str) -> Result<Content> {
    blob.read()?.ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, action, "there is no such file");
        let file = shell::word(blob.path().as_os_str());
        let create = format!("`tenure file put {} < CONTENT`", file.to_string_lossy());
        error.at(blob.path()).hint(format!("check the name; {create} creates it")).into()
    })
}

fn put(args: &FilePutArgs, out: &mut Output) -> Result<()> {
    input::refuse_directory(&args.file, "write")?;
    let blob = blob(&args.file)?;
    let options = args.write.options(blob.path())?;
    let bytes = input::stdin()?;
    print(&written(&blob, blob.put(&bytes, &options))?, out)
}

fn undo(args: &FileUndoArgs, out: &mut Output) -> Result<()> {
    let blob = blob(&args.file)?;
    let options = args.write.options(blob.path())?;
    print(&written(&blob, blob.undo(&options))?, out)
}

/// An error of a guard names the file that was not written.
fn written(blob: &Blob, done: tenure::Result<Written>) -> Result<Written> {
    done.map_err(|error| Failure::from(error).in_write_to(blob.path()))
}

/// Reads under the lock, runs the command, and writes under the same lock.
fn edit(args: &FileEditArgs, out: &mut Output) -> Result<ExitCode> {
    let blob = blob(&args.file)?;
    required(&blob, "edit")?; // Without a lock: a mistyped name leaves nothing behind.
    let options = args.write.options(blob.path())?;
    let guard = here().lock(&args.file)?.acquire(&LockOptions {
        wait: options.wait,
        label: options.label.clone(),
        fence: options.fence,
        file: options.file.clone(),
        ..LockOptions::default()
    })?;
    let fence = guard.publish_fence();
    let content = required(&blob, "edit")?;
    if options.if_version.as_ref().is_some_and(|wanted| *wanted != content.version) {
        let error = Error::new(ErrorKind::Conflict, "edit", "it has another version");
        return Err(error.at(blob.path()).hint("read it again, then repeat the change").into());
    }
    let variables = environment::below(&[(blob.path(), fence, None)])?;
    let started = child::start_captured(&args.command, variables, Vec::new(), Some(content.bytes));
    let (running, captured) = started?;
    let mut bytes = Vec::new();
    captured.until_end(&running, |more| bytes.extend_from_slice(more));
    let how = reap(running)?;
    if how != Ended::Exited(0) {
        out.warn("the command failed; the file was left as it is");
        return Ok(how.exit());
    }
    let mut file = options.file.clone();
    file.lock_file = None; // This command has it.
    let if_version = Some(content.version);
    let proven = WriteOptions { fence: Some(fence), if_version, file, ..options };
    let done = written(&blob, blob.put(&bytes, &proven))?;
    guard.release().map_err(Failure::from)?;
    print(&done, out)?;
    Ok(ExitCode::Done)
}

fn print(written: &Written, out: &mut Output) -> Result<()> {
    out.committed();
    let object = || {
        json!({
            "version": written.version.to_string(),
            "changed": written.changed,
            "replayed": written.replayed,
        })
    };
    out.result(object, String::new)
}
