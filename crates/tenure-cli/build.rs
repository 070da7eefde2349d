//! How the command is linked on Linux with the GNU C library: so that it starts with little work.
//!
//! What unwinds a panic is linked in, where the C compiler has that to give: else one more library is looked
//! for, mapped and linked at every start.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| var(name).is_ok_and(|found| found == wanted);
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let features = var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    // A static or cross build says how it links.
    let linked_here = var("HOST") == var("TARGET") && !features.contains("crt-static");
    if !gnu || !linked_here {
        return;
    }
    if let Some(directory) = unwinder() {
        println!("cargo::rustc-link-search=native={directory}");
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Where the C compiler has its unwinder as an archive.
fn unwinder() -> Option<String> {
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?;
    // A compiler that has none answers with the bare name.
    let path = Path::new(path.trim()).canonicalize().ok()?;
    path.parent()?.to_str().map(str::to_owned)
}
