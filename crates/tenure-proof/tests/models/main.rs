//! Ring 6: every state of small machines that mirror the protocols, and the real queue under every
//! schedule that a scheduler can find.
//!
//! A model names the code that it mirrors, step for step. Between two steps anything may happen: a
//! pause, a SIGKILL, a power loss, an expiry. Each has deliberately broken variants, and the checker
//! must find the way to the damage in every one: a model that passes them proves nothing.

mod check;
mod document;
mod journal;
mod lease;
mod lock;
mod old_locks;
mod queue;
mod unsynced;
