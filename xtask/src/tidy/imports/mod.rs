//! Imports of the core only point down, and never form a cycle.
//!
//! The source is read as the compiler understands it: every `crate::`, `super::` and `self::` path, every
//! path that begins with an imported name, in `use` lines, code and the words of macros; re-exports are
//! followed to where a name is defined. A folder's `mod.rs` and its children are modules of their own: a child
//! that uses its parent's items while the parent uses the child's is a cycle. A method called on a value is
//! not seen.

mod graph;
mod samples;
mod source;

use self::graph::{Arrow, Graph};
use super::assert_none;
use super::tree::files;

const CORE: &str = "crates/tenure/src/";

/// A layer: its modules use each other and what is in the layers below.
struct Layer {
    name: &'static str,
    /// The first word of a module's path; `lib` is `lib.rs` itself.
    modules: &'static [&'static str],
}

/// From top to bottom.
const LAYERS: &[Layer] = &[
    // What people call. They check, convert and ask the store.
    Layer {
        name: "nouns",
        modules: &["lib", "lock", "lease", "document", "journal", "collection", "status"],
    },
    // The store on local files: all that touches a disk.
    Layer { name: "file", modules: &["file"] },
    // What a noun needs from any engine, as a trait that `file` implements.
    Layer { name: "store", modules: &["store"] },
    // JSON as text and values, without files.
    Layer { name: "json", modules: &["json"] },
    // What all of these share. `error` names a `holder`, and `holder` asks the system who that is.
    Layer {
        name: "shared",
        modules: &[
            "advice",
            "error",
            "holder",
            "inherited",
            "options",
            "process_local",
            "random",
            "wait",
        ],
    },
    // The platform code. It implements the traits of `fs`.
    Layer { name: "sys", modules: &["sys"] },
    // The seam to the disk, and plain arithmetic.
    Layer { name: "seam", modules: &["checksum", "fs"] },
];

/// Modules in an import cycle today. The list may only shrink.
const KNOWN_CYCLES: &[&str] = &[
    "file::journal",
    "file::journal::follow",
    "file::marks",
    "file::record",
    "file::record::published",
    "file::record::slots",
    "file::target",
    "file::target::kept",
    "file::target::owner",
    "file::target::sidecar",
    "sys::attributes",
    "sys::stat",
    "sys::unix",
    "sys::windows",
    "sys::windows::handle",
    "sys::windows::machine",
    "sys::windows::names",
    "sys::windows::volume",
];

/// Imports that point up today. The list may only shrink.
const KNOWN_UPWARD: &[(&str, &str)] = &[
    ("fs", "sys::unix"),
    ("fs", "sys::windows"),
    ("sys::polling", "wait"),
    ("sys::windows", "wait"),
];

/// The layer of a module, counted from the top.
fn layer_of(module: &str) -> Option<usize> {
    let first = module.split("::").next().unwrap_or(module);
    LAYERS.iter().position(|layer| layer.modules.contains(&first))
}

fn shown(arrow: &Arrow) -> String {
    let Arrow { from, to, file, line, what } = arrow;
    format!("{CORE}{file}:{line}: {from} uses {to} (`{what}`)")
}

/// Cycles that are not on the list, and modules on the list that are in none.
fn cycles(graph: &Graph, known: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for module in &graph.modules {
        let cycle = graph.cycle(module);
        let is_known = known.contains(&module.as_str());
        match cycle {
            Some(way) if !is_known && !told.contains(&module.as_str()) => {
                told.extend(way.iter().map(|arrow| arrow.from.as_str()));
                let way: Vec<_> = way.into_iter().map(shown).collect();
                problems.push(format!("import cycle:\n  {}", way.join("\n  ")));
            }
            None if is_known => {
                problems.push(format!("{module} is in no cycle any more: remove it from the list"));
            }
            _ => {}
        }
    }
    let gone = known.iter().filter(|module| !graph.modules.contains(**module));
    problems.extend(
        gone.map(|module| format!("there is no {module} any more: remove it from the list")),
    );
    problems
}

/// Upward imports that are not on the list, and those on the list that are gone.
fn upward(graph: &Graph, known: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for module in graph.modules.iter().filter(|module| layer_of(module).is_none()) {
        problems.push(format!("{module} is in no layer: give it a place in the table"));
    }
    let is = |arrow: &Arrow, pair: &(&str, &str)| (arrow.from.as_str(), arrow.to.as_str()) == *pair;
    let points_up = |arrow: &&Arrow| layer_of(&arrow.from) > layer_of(&arrow.to);
    for arrow in graph.arrows().filter(points_up) {
        if !known.iter().any(|pair| is(arrow, pair)) {
            let layer = |module| layer_of(module).map_or("none", |layer| LAYERS[layer].name);
            let (from, to) = (layer(&arrow.from), layer(&arrow.to));
            problems.push(format!("{}: {to} is above {from}", shown(arrow)));
        }
    }
    for pair in known {
        if !graph.arrows().filter(points_up).any(|arrow| is(arrow, pair)) {
            let (from, to) = pair;
            problems.push(format!("{from} does not use {to} any more: remove it from the list"));
        }
    }
    problems
}

fn core() -> Result<Graph, String> {
    let text = |name: &str| {
        let file = files().iter().find(|file| file.path.strip_prefix(CORE) == Some(name));
        file.map(|file| file.text.as_str())
    };
    source::read(text).map(|tree| Graph::new(&tree))
}

#[test]
fn the_core_has_no_import_cycle() {
    // A known upward import is counted by the other test; with it most modules would be in one cycle.
    let graph = core().expect("the core can be read").without(KNOWN_UPWARD);
    println!("known import cycles, modules: {}", KNOWN_CYCLES.len());
    for module in KNOWN_CYCLES {
        println!("  {module}");
    }
    assert_none(&cycles(&graph, KNOWN_CYCLES));
}

#[test]
fn the_core_imports_downwards() {
    let graph = core().expect("the core can be read");
    println!("known upward imports: {}", KNOWN_UPWARD.len());
    for (from, to) in KNOWN_UPWARD {
        println!("  {from} uses {to}");
    }
    assert_none(&upward(&graph, KNOWN_UPWARD));
}
