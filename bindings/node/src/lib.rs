//! The native half of the Node package `tenure`.
//!
//! It knows no JavaScript conveniences: options arrive complete and checked, documents cross as JSON
//! text, errors as JSON in a message. `lib/*.cjs` is the half that people call.
//!
//! # Invariants
//!
//! 1. Without a [`call::Call`] a function works on the thread that called it and sleeps in the kernel
//!    while it waits. With one it works on a thread of the [`crew`] and returns a promise: the event
//!    loop never waits, and no slot of libuv's pool is taken.
//! 2. What a thread of JavaScript holds or waits for ends with it (see [`environment`]).
//! 3. No panic reaches node: every function has `catch_unwind`, and so has every thread.

mod blob;
mod call;
mod collection;
mod crew;
mod document;
mod environment;
mod failure;
mod journal;
mod lease;
mod lock;
mod once;
mod options;
mod queue;
mod status;
mod store;
mod together;
mod update;
