//! Ring 6: every state of small models of the protocols, and the real queue under many schedules of
//! a controlled scheduler.
//!
//! A model names the code that it mirrors, step for step. Between two steps anything may happen: a
//! pause, a SIGKILL, a power loss, an expiry. Each has deliberately broken variants, and the
//! checker must find a path to the damage in every one: a model that passes them proves nothing.

mod check;
mod document;
mod journal;
mod lease;
mod lock;
mod old_locks;
mod queue;
mod unsynced;
