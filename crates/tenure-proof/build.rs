//! Copies of tenure's queue for ring 6, which runs the real source under a scheduler that it
//! controls.
//!
//! `gate.rs` and `wait.rs` are copied, with the standard library's threads, mutexes and condition
//! variables replaced by shuttle's. The core needs no seam for that and ships none. Each broken
//! copy differs in one place. If that place is gone, the ring fails, not the build.

#![expect(clippy::disallowed_methods, reason = "only the compiler reads these files")]

use std::path::Path;

/// The broken copies: name, what is replaced, by what.
const BROKEN: &[(&str, &str, &str)] = &[
    ("forgotten_wake", "        state.wake_head();\n        let unused", "        let unused"),
    (
        "kept_grant",
        "        if self.waiting.is_empty() {\n            if let Answer::Granted",
        "        if self.next_ticket == 0 {\n            if let Answer::Granted",
    ),
    (
        "kept_late_grant",
        "                _ if !state.head_wants(mode) => {",
        "                _ if state.next_ticket == 0 => {",
    ),
    ("double_handle", "        if own {", "        if own && place.ticket == u64::MAX {"),
    ("unseen_cancel", "cancel.wakes(&self);", "let _ = cancel;"),
    ("one_for_both", "any(|(_, mode)| *mode == place.mode);", "any(|_| true);"),
];

fn main() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tenure/src");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    println!("cargo::rerun-if-changed=build.rs");
    let staged = |name: &str| {
        let path = core.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        std::fs::read_to_string(&path)
            .map_or_else(|err| format!("compile_error!(\"{name}: {err}\");"), |text| stage(&text))
    };
    let write = |name: &str, text: &str| {
        std::fs::write(out.join(name), text).expect("the build directory can be written");
    };
    write("wait.rs", &staged("wait.rs"));
    let queue = format!("mod queue {{\n{}}}\n", staged("file/gate/queue.rs"));
    let gate = staged("file/gate.rs").replace("mod queue;\n", &queue);
    write("gate.rs", &gate);
    for (name, from, to) in BROKEN {
        let text = if gate.contains(from) {
            gate.replace(from, to)
        } else {
            format!("compile_error!(\"{name}: its place in gate.rs is gone; find the new one\");")
        };
        write(&format!("gate_{name}.rs"), &text);
    }
}

/// The source for `tests/models/queue.rs`, without inner documentation and tests, which cannot be
/// included.
fn stage(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().filter(|line| {
        // Shuttle's pause is not the disallowed one.
        !line.starts_with("//!") && !line.starts_with("#[expect(clippy::disallowed_methods")
    });
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    text.replace("std::sync", "shuttle::sync")
        .replace("std::thread", "shuttle::thread")
        .replace("crate::file::", "crate::")
        .replace("crate::", "crate::queue::stage::")
}
