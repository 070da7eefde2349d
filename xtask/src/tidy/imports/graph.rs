//! Which module uses what another one defines: the arrows between the files of a crate, and their cycles.
//!
//! An arrow leads to the module that defines the name, through any re-exports on the way. To declare a
//! module, to re-export from it, or to name it on the way to something else, is no arrow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{Crate, Used};

/// Longer chains of re-exports are cycles.
pub(super) const DEPTH: usize = 32;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Module(usize),
    /// Something that this module defines.
    Item(usize),
}

/// One module uses another one, first on this line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) file: String,
    pub(super) line: usize,
    /// What it uses.
    pub(super) what: String,
}

/// The modules of a crate that are files, by name (`file::lock`), and what each uses.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) modules: BTreeSet<String>,
    arrows: BTreeMap<(String, String), Arrow>,
}

impl Graph {
    pub(super) fn new(tree: &Crate) -> Self {
        let names: Vec<_> = tree.modules.iter().map(|module| name(&module.file)).collect();
        let mut graph = Self { modules: names.iter().cloned().collect(), arrows: BTreeMap::new() };
        for (at, module) in tree.modules.iter().enumerate() {
            let private = module.bound.iter().filter(|bound| !bound.exported);
            let imports = private.map(|bound| (&bound.path, bound.name.is_none()));
            let paths = module.used.iter().map(|used| (used, false));
            for (used, all) in imports.chain(paths) {
                for target in tree.resolve(at, &used.segments, DEPTH) {
                    // `use a::*` is taken to use what `a` defines.
                    if let Target::Item(owner) | Target::Module(owner) = target
                        && (all || target == Target::Item(owner))
                    {
                        let owner = tree.modules[owner].node;
                        graph.add(&names[module.node], &names[owner], &module.file, used);
                    }
                }
            }
        }
        graph
    }

    fn add(&mut self, from: &str, to: &str, file: &str, used: &Used) {
        if from == to {
            return;
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        let arrow = Arrow {
            from: from.clone(),
            to: to.clone(),
            file: file.to_owned(),
            line: used.line,
            what: used.segments.join("::"),
        };
        let known = self.arrows.entry((from, to)).or_insert_with(|| arrow.clone());
        if arrow.line < known.line {
            *known = arrow;
        }
    }

    pub(super) fn arrows(&self) -> impl Iterator<Item = &Arrow> {
        self.arrows.values()
    }

    fn from<'a>(&'a self, module: &'a str) -> impl Iterator<Item = &'a Arrow> {
        self.arrows().filter(move |arrow| arrow.from == module)
    }

    /// The shortest way from a module back to itself; `None` if there is none.
    pub(super) fn cycle<'a>(&'a self, module: &'a str) -> Option<Vec<&'a Arrow>> {
        let mut seen = BTreeSet::new();
        let mut open = VecDeque::from([(module, Vec::new())]);
        while let Some((at, way)) = open.pop_front() {
            for arrow in self.from(at) {
                let way = [&way[..], &[arrow]].concat();
                if arrow.to == module {
                    return Some(way);
                }
                if seen.insert(&arrow.to) {
                    open.push_back((&arrow.to, way));
                }
            }
        }
        None
    }
}

/// `file/lock/mod.rs` and `file/lock.rs` are `file::lock`.
fn name(file: &str) -> String {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    stem.replace('/', "::")
}

impl Crate {
    /// What a path in module `at` leads to. Nothing if it leads out of the crate.
    pub(super) fn resolve(&self, at: usize, segments: &[String], depth: usize) -> Vec<Target> {
        let Some((first, rest)) = segments.split_first().filter(|_| depth > 0) else {
            return Vec::new();
        };
        match first.as_str() {
            "crate" => self.follow(Target::Module(0), rest, depth),
            "self" => self.follow(Target::Module(at), rest, depth),
            "super" => {
                // From a module in braces as well: its parent is the one around it.
                let parent = self.modules[at].parent;
                match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(parent, rest, depth),
                    _ => self.follow(Target::Module(parent), rest, depth),
                }
            }
            _ => {
                let found = self.look_up(at, first, rest.is_empty(), depth);
                found.into_iter().flat_map(|target| self.follow(target, rest, depth)).collect()
            }
        }
    }

    fn follow(&self, from: Target, segments: &[String], depth: usize) -> Vec<Target> {
        let (Target::Module(module), Some((first, rest))) = (from, segments.split_first()) else {
            return vec![from];
        };
        let found = self.look_up(module, first, rest.is_empty(), depth);
        if found.is_empty() {
            // A macro may have made it.
            return vec![Target::Item(module)];
        }
        found.into_iter().flat_map(|target| self.follow(target, rest, depth)).collect()
    }

    /// What a name refers to in a module. As the `last` of a path it may be an item and a module at once.
    fn look_up(&self, module: usize, name: &str, last: bool, depth: usize) -> Vec<Target> {
        let here = &self.modules[module];
        let children: Vec<_> = here
            .children
            .iter()
            .filter(|(child, _)| child == name)
            .map(|(_, index)| Target::Module(*index))
            .collect();
        if !last && !children.is_empty() {
            return children;
        }
        if here.defined.contains(name) {
            return vec![Target::Item(module)];
        }
        let bound = here.bound.iter().filter(|bound| bound.name.as_deref() == Some(name));
        let mut found: Vec<_> =
            bound.flat_map(|bound| self.resolve(module, &bound.path.segments, depth - 1)).collect();
        if found.is_empty() {
            for all in here.bound.iter().filter(|bound| bound.name.is_none()) {
                for target in self.resolve(module, &all.path.segments, depth - 1) {
                    if let Target::Module(other) = target
                        && other != module
                    {
                        found.extend(self.look_up(other, name, last, depth - 1));
                    }
                }
            }
        }
        if found.is_empty() { children } else { found }
    }
}
