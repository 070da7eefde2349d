//! Imports of the core only point down, and never form a cycle.
//!
//! The source is read as the compiler understands it: every `crate::`, `super::` and `self::` path, every
//! path that begins with an imported name, in `use` lines, code and the words of macros; re-exports are
//! followed to where a name is defined. A folder's `mod.rs` and its children are modules of their own: a child
//! that uses its parent's items while the parent uses the child's is a cycle. A method called on a value is
//! not seen.

mod graph;
mod public;
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
        modules: &[
            "lib",
            "lock",
            "lease",
            "document",
            "journal",
            "collection",
            "embed",
            "outcome",
            "status",
            "blob",
            "once",
            "queue",
            "several",
            "slots",
            "update_and_append",
        ],
    },
    // The store on local files: all that touches a disk.
    Layer { name: "file", modules: &["file"] },
    // What a noun needs from any engine, as a trait that `file` implements, and what it gets back.
    Layer { name: "store", modules: &["store", "results"] },
    // JSON as text and values, without files.
    Layer { name: "json", modules: &["json"] },
    // What all of these share. `error` names a `holder`, and `holder` asks the system who that is.
    Layer {
        name: "shared",
        modules: &[
            "address",
            "advice",
            "error",
            "holder",
            "inherited",
            "key",
            "options",
            "printable",
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

/// The layer of a module, counted from the top.
fn layer_of(module: &str) -> Option<usize> {
    let first = module.split("::").next().unwrap_or(module);
    LAYERS.iter().position(|layer| layer.modules.contains(&first))
}

fn shown(arrow: &Arrow) -> String {
    let Arrow { from, to, file, line, what } = arrow;
    format!("{CORE}{file}:{line}: {from} uses {to} (`{what}`)")
}

/// Every import cycle, once.
fn cycles(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    for module in &graph.modules {
        if reported.contains(&module.as_str()) {
            continue;
        }
        if let Some(way) = graph.cycle(module) {
            reported.extend(way.iter().map(|arrow| arrow.from.as_str()));
            let way: Vec<_> = way.into_iter().map(shown).collect();
            problems.push(format!("import cycle:\n  {}", way.join("\n  ")));
        }
    }
    problems
}

/// Imports that point up, and modules without a layer.
fn upward(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for module in graph.modules.iter().filter(|module| layer_of(module).is_none()) {
        problems.push(format!("{module} is in no layer: give it a place in the table"));
    }
    let points_up = |arrow: &&Arrow| layer_of(&arrow.from) > layer_of(&arrow.to);
    for arrow in graph.arrows().filter(points_up) {
        let layer = |module| layer_of(module).map_or("none", |layer| LAYERS[layer].name);
        let (from, to) = (layer(&arrow.from), layer(&arrow.to));
        problems.push(format!("{}: {to} is above {from}", shown(arrow)));
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
    assert_none(&cycles(&core().expect("the core can be read")));
}

#[test]
fn the_core_imports_downwards() {
    assert_none(&upward(&core().expect("the core can be read")));
}
