//! Ring 9: the same suite on every file system that this kernel can mount.
//!
//! Each test is one file system; what it tried is one row of the table in `docs/PLATFORM.md`, which is
//! made from the records of this ring. What a file system cannot give must be refused (G12).

mod layered;
mod plain;
mod processes;
mod read_only;
mod suite;

/// The name of this ring.
const RING: &str = "file_systems";
