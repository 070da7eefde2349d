//! What the rings attack besides the `tenure` command: library calls that have no command, programs
//! that are broken on purpose, and a lock that shipped. Every ring must find the faults of the last
//! two.
//!
//! `subject [--json] WHAT FILE...`; one line on standard error and exit code 1 if it fails.
#![expect(clippy::print_stdout, reason = "it is a command")]
#![expect(clippy::disallowed_methods, reason = "the broken programs do what one must not do")]

mod broken;
mod failure;
mod shipped;

use std::process::ExitCode;

use tenure::options::CollectionKind;
use tenure::{AppendOptions, Collection, Document, Journal, Value, Wait, WriteOptions, json};

use self::failure::Failure;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (json, args) = match *args {
        ["--json", ref args @ ..] => (true, args),
        ref args => (false, args),
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(json);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Failure> {
    match *args {
        ["lock", target] => Ok(tenure::lock(target)?.release()?),
        ["update-and-append", document, journal, operation] => {
            Ok(update_and_append(document, journal, operation)?)
        }
        ["session-lock", dir] => {
            shipped::session_lock(dir).map_err(|error| Failure::new(error.to_string(), None))
        }
        ["collection-set", dir, key, value] => Ok(collection_set(dir, key, value)?),
        _ => broken::run(args),
    }
}

fn patient() -> WriteOptions {
    WriteOptions { wait: Wait::For(std::time::Duration::from_secs(2)), ..WriteOptions::default() }
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
