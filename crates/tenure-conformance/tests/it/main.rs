//! The suite on each store, and the controls: wrong stores that must fail a test of it.

mod controls;
mod file;
mod memory;
mod simulated;
