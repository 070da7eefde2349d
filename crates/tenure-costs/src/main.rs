//! Does one hot operation so many times in the current directory: `tenure-costs OPERATION COUNT`.
//!
//! `cargo xtask costs` runs it for N and for 2N operations under a tracer; the difference is what N warm
//! operations cost, and everything that is done once cancels out. So it must do nothing whose cost
//! depends on the count but the operation itself.

use std::process::ExitCode;

use tenure::options::Durability;
use tenure::{
    AppendOptions, Document, Error, ErrorKind, Journal, Lock, LockOptions, Result, WriteOptions,
    json,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match work(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "this program reports to people")]
            {
                eprintln!("tenure-costs: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn work(words: &[String]) -> Result<()> {
    let usage = || Error::new(ErrorKind::Invalid, "read the command line", "OPERATION COUNT");
    let [operation, count] = words else { return Err(usage()) };
    let count: u32 = count.parse().map_err(|_| usage())?;
    match operation.as_str() {
        "lock" => lock(count),
        "anew" => lock_anew(count),
        "append" => append(count),
        "update" => update(count),
        "read" => read(count),
        _ => Err(usage()),
    }
}

/// Takes and releases a lock whose handle is kept.
fn lock(count: u32) -> Result<()> {
    let lock = Lock::open("target")?;
    let options = LockOptions::default();
    for _ in 0..count {
        lock.acquire(&options)?.release()?;
    }
    Ok(())
}

/// Takes and releases a lock that is opened each time.
fn lock_anew(count: u32) -> Result<()> {
    let path = std::path::absolute("target")
        .map_err(|err| Error::io("find", std::path::Path::new("target"), err))?;
    for _ in 0..count {
        tenure::lock(&path)?.release()?;
    }
    Ok(())
}

/// Appends a line of 300 bytes, without waiting for the disk.
fn append(count: u32) -> Result<()> {
    let journal = Journal::open("log.jsonl")?;
    let options = AppendOptions { write: no_sync(), ..AppendOptions::default() };
    let line = [b'x'; 300];
    for _ in 0..count {
        journal.append(&[&line[..]], &options)?;
    }
    Ok(())
}

/// Counts in a small document, without waiting for the disk.
fn update(count: u32) -> Result<()> {
    let document = counter()?;
    let options = no_sync();
    for _ in 0..count {
        document.update(&options, |current| {
            let n = current.and_then(|value| value["n"].as_u64()).unwrap_or_default();
            Ok(Some(json!({ "n": n + 1 })))
        })?;
    }
    Ok(())
}

/// Reads a small document.
fn read(count: u32) -> Result<()> {
    let document = counter()?;
    for _ in 0..count {
        document.read()?;
    }
    Ok(())
}

/// A number that has as many digits after any count of operations.
fn counter() -> Result<Document> {
    let document = Document::open("counter.json")?;
    document.set(&json!({ "n": 1_000_000 }), &no_sync())?;
    Ok(document)
}

fn no_sync() -> WriteOptions {
    WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() }
}
