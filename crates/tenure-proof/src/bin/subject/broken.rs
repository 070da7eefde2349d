//! Programs that are broken on purpose: a ring that does not find their faults would find nothing
//! at all.

use std::fs::{self, File};
use std::io::{self, Read};

use tenure::{Document, Value};

use super::failure::Failure;
use super::patient;

/// Runs the broken program of that name.
pub(crate) fn run(args: &[&str]) -> Result<(), Failure> {
    match *args {
        ["broken-in-place", file, value] => in_place(file, value),
        ["broken-unchecked", file, value] => {
            unchecked(file, value);
            Ok(())
        }
        ["broken-pid-file", file] => pid_file(file),
        ["broken-left-over", file, value] => left_over(file, value),
        ["broken-committed", file, value] => committed(file, value),
        ["broken-marker", file, value] => marker(file, value),
        ["broken-panic", file, value] => panics(file, value),
        ["broken-unsaid", file, value] => {
            unsaid(file, value);
            Ok(())
        }
        ["broken-impatient", file, value] => impatient(file, value),
        ["broken-record", file, value] => record(file, value),
        ["broken-resumed", file, value] => resumed(file, value),
        ["broken-lock", file, value] => lock(file, value),
        _ => Err(Failure::new(format!("failed to understand {args:?}"), None)),
    }
}

/// The correct way, for the parts that are not broken.
fn set(file: &str, value: &str) -> Result<(), Failure> {
    let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
    Document::open(file)?.set(&value, &patient())?;
    Ok(())
}

fn failed(action: &str, file: &str, committed: bool) -> impl FnOnce(io::Error) -> Failure {
    let told = format!("failed to {action} `{file}`");
    move |error| Failure::new(format!("{told}: {error}"), Some(committed))
}

/// How many tools save: truncate, then write. A process that dies in between leaves half a file.
/// Its error quotes something, but not where it happened.
fn in_place(file: &str, value: &str) -> Result<(), Failure> {
    let told = |err| Failure::new(format!("failed to `write` the file: {err}"), None);
    fs::write(file, value).map_err(told)
}

/// Renames the temporary file even if its write failed: a full disk replaces good data with half of
/// the new.
fn unchecked(file: &str, value: &str) {
    let temp = format!("{file}.new");
    let _ = fs::write(&temp, value);
    let _ = fs::rename(&temp, file);
}

/// The old way to lock: a file with a pid; a process that finds it checks whether that pid is
/// alive. Prints `mine` and waits for the end of its input, or prints `busy`.
fn pid_file(file: &str) -> Result<(), Failure> {
    let told = |err: io::Error| Failure::new(err.to_string(), None);
    let owner = fs::read_to_string(file).unwrap_or_default();
    let alive = !owner.is_empty() && fs::exists(format!("/proc/{owner}")).unwrap_or(false);
    if alive && owner != std::process::id().to_string() {
        println!("busy");
        return Ok(());
    }
    fs::write(file, std::process::id().to_string()).map_err(told)?;
    println!("mine");
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(told)?;
    Ok(())
}

/// Leaves a file of its own beside the document if it cannot remove it itself.
fn left_over(file: &str, value: &str) -> Result<(), Failure> {
    let own = format!("{file}.{}", std::process::id());
    fs::write(&own, value).map_err(failed("write", file, false))?;
    set(file, value)?;
    fs::remove_file(own).map_err(failed("clean up", file, true))
}

/// Reads the document again after the change, and reports a failed read as a failed change.
fn committed(file: &str, value: &str) -> Result<(), Failure> {
    set(file, value)?;
    let looked = File::open(file).and_then(|_| File::open(file));
    looked.map(drop).map_err(failed("look at", file, false))
}

/// Locks by a file that must not exist, and that a dead process leaves behind.
fn marker(file: &str, value: &str) -> Result<(), Failure> {
    let marker = format!("{file}.busy");
    File::create_new(&marker).map_err(failed("lock", file, false))?;
    set(file, value)?;
    fs::remove_file(marker).map_err(failed("unlock", file, true))
}

/// Assumes that a file can be read.
fn panics(file: &str, value: &str) -> Result<(), Failure> {
    let _ = fs::read(file).expect("it can be read");
    set(file, value)
}

/// Ignores a failure.
fn unsaid(file: &str, value: &str) {
    let _ = set(file, value);
}

/// Reads once, without repeating the call after a signal.
fn impatient(file: &str, value: &str) -> Result<(), Failure> {
    let mut byte = [0];
    let read = File::open(file).and_then(|mut file| file.read(&mut byte));
    let _ = read.map_err(failed("read", file, false))?;
    set(file, value)
}

/// Removes the record of the document for a while.
fn record(file: &str, value: &str) -> Result<(), Failure> {
    set(file, value)?;
    away(&format!(".tenure/{file}.commit"), file, || Ok(()))
}

/// Behaves differently if it finds leftovers of a dead process.
fn resumed(file: &str, value: &str) -> Result<(), Failure> {
    let own = format!("{file}.busy");
    if fs::remove_file(&own).is_ok() {
        return set(file, "\"resumed\"");
    }
    fs::write(&own, value).map_err(failed("write", file, false))?;
    set(file, value)?;
    fs::remove_file(own).map_err(failed("clean up", file, true))
}

/// Writes in its own way, and blocks all others meanwhile.
fn lock(file: &str, value: &str) -> Result<(), Failure> {
    let write = || {
        let temp = format!("{file}.damaged");
        fs::write(&temp, value)?;
        fs::rename(temp, file)
    };
    let place = format!(".tenure/{file}.hold");
    if fs::metadata(&place).is_ok_and(|found| found.is_dir()) {
        return write().map_err(failed("write", file, false));
    }
    away(&place, file, write)
}

/// Replaces a sidecar by a directory while `work` runs.
fn away(place: &str, file: &str, work: impl FnOnce() -> io::Result<()>) -> Result<(), Failure> {
    let aside = format!("{place}.damaged");
    let there = || fs::rename(place, &aside).and_then(|()| fs::create_dir(place));
    let back = || fs::remove_dir(place).and_then(|()| fs::rename(&aside, place));
    there().and_then(|()| work()).and_then(|()| back()).map_err(failed("move", file, true))
}
