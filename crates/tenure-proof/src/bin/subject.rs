//! What the rings attack besides the `tenure` command: calls of the library that have no command,
//! and deliberately broken writers, which every ring must find out.
//!
//! `subject WHAT FILE...`; one line on standard error and exit code 1 if it fails.
#![expect(clippy::print_stdout, reason = "it is a command")]
#![expect(clippy::disallowed_methods, reason = "the broken writers do what one must not do")]

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use tenure::{AppendOptions, Collection, CollectionKind, Document, Journal, Wait, WriteOptions};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Without a panic where that cannot be written either.
            let _ = writeln!(std::io::stderr(), "tenure: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), String> {
    match *args {
        ["lock", target] => lock(target).map_err(|error| error.to_string()),
        ["update-and-append", document, journal, operation] => {
            update_and_append(document, journal, operation).map_err(|error| error.to_string())
        }
        ["collection-set", dir, key, value] => {
            collection_set(dir, key, value).map_err(|error| error.to_string())
        }
        ["broken-in-place", file, value] => broken_in_place(file, value),
        ["broken-unchecked", file, value] => {
            broken_unchecked(file, value);
            Ok(())
        }
        ["broken-pid-file", file] => broken_pid_file(file),
        _ => Err(format!("failed to understand {args:?}")),
    }
}

fn patient() -> WriteOptions {
    WriteOptions { wait: Wait::For(std::time::Duration::from_secs(2)), ..WriteOptions::default() }
}

fn lock(target: &str) -> tenure::Result<()> {
    tenure::lock(target)?.release()
}

fn update_and_append(document: &str, journal: &str, operation: &str) -> tenure::Result<()> {
    let (document, journal) = (Document::open(document)?, Journal::open(journal)?);
    let write = WriteOptions { operation: Some(operation.to_owned()), ..patient() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let count = |value: Option<&Value>| {
        let n = value.and_then(|value| value["n"].as_u64()).unwrap_or(0);
        Ok(Some(json!({ "n": n + 1 })))
    };
    tenure::update_and_append(
        &document,
        &journal,
        &["{\"event\":1}", "{\"event\":2}"],
        &options,
        count,
    )?;
    Ok(())
}

fn collection_set(dir: &str, key: &str, value: &str) -> tenure::Result<()> {
    let collection = Collection::open(dir, CollectionKind::Documents)?;
    let value = serde_json::from_str(value).unwrap_or(Value::Null);
    collection.document(key)?.set(&value, &patient())?;
    Ok(())
}

/// How many tools save: truncate, then write. Whoever dies in between leaves half a file. Its error quotes
/// something, but not where it happened.
fn broken_in_place(file: &str, value: &str) -> Result<(), String> {
    std::fs::write(file, value).map_err(|err| format!("failed to `write` the file: {err}"))
}

/// Renames whatever became of the temporary file: a full disk replaces good data by half of the new.
fn broken_unchecked(file: &str, value: &str) {
    let temp = format!("{file}.new");
    let _ = std::fs::write(&temp, value);
    let _ = std::fs::rename(&temp, file);
}

/// The old way to lock: a file with a pid; who finds it asks whether that process lives. Says `mine`
/// and waits for the end of its input, or says `busy`.
fn broken_pid_file(file: &str) -> Result<(), String> {
    let owner = std::fs::read_to_string(file).unwrap_or_default();
    let alive = !owner.is_empty() && std::fs::exists(format!("/proc/{owner}")).unwrap_or(false);
    if alive && owner != std::process::id().to_string() {
        println!("busy");
        return Ok(());
    }
    std::fs::write(file, std::process::id().to_string()).map_err(|err| err.to_string())?;
    println!("mine");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(|err| err.to_string())?;
    Ok(())
}
