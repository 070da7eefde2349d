//! One operation each on the lock, the lease, a document, a journal or a collection.
//!
//! The outer result is about the pipe to the parent; the inner one about the operation.

mod collection;
mod document;
mod journal;
mod lease;
mod lock;

use std::io;

use super::finding::Thing;
use super::subject::Answer;
use super::worker::Worker;

pub(super) use self::collection::{DIRECTORY as COLLECTION, own_key, shared_key};
pub(super) use self::document::FILE as DOCUMENT;
pub(super) use self::journal::FILE as JOURNAL;
pub(super) use self::lease::FILE as LEASE;

/// Does one operation on `thing`.
pub(super) fn run(thing: Thing, worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    match thing {
        Thing::Lock => lock::run(worker),
        Thing::Lease => lease::run(worker),
        Thing::Document => document::run(worker),
        Thing::Journal => journal::run(worker),
        Thing::Collection => collection::run(worker),
        Thing::History => super::history::operation(worker),
        Thing::Command | Thing::Foreign | Thing::Users | Thing::Full | Thing::Stuck => Ok(Ok(())),
    }
}

/// Reports why an operation was not done.
macro_rules! attempt {
    ($answer:expr) => {
        match $answer {
            Ok(done) => done,
            Err(refused) => return Ok(Err(refused)),
        }
    };
}
pub(super) use attempt;
