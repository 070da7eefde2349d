//! A program that does nothing: what it costs to start one. Built by `cargo xtask bench`, on its own.

fn main() {}
