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

#[expect(unsafe_code, reason = "the napi macros generate it; no file here writes any")]
mod call;
#[expect(unsafe_code, reason = "as above")]
mod collection;
mod crew;
#[expect(unsafe_code, reason = "as above")]
mod document;
mod environment;
mod failure;
#[expect(unsafe_code, reason = "as above")]
mod journal;
#[expect(unsafe_code, reason = "as above")]
mod lease;
#[expect(unsafe_code, reason = "as above")]
mod lock;
#[expect(unsafe_code, reason = "as above")]
mod options;
#[expect(unsafe_code, reason = "as above")]
mod update;
