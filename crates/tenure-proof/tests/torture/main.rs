//! Ring 3, torture: many processes at work, killed, paused and restarted at random, under
//! independent judges; and histories of their calls and returns, checked for linearizability.
//!
//! The engine is the command itself (`tenure torture`), so users run the same on their own disks.
//! Code that protects nothing and protocols that shipped are run through it as well (`controls`).
#![cfg(unix)]

mod checker;
mod command;
mod controls;
mod engine;
mod histories;
mod run;
