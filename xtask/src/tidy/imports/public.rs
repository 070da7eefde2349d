//! The public API of the core: every name that another crate can use, one line each, compared with
//! `crates/tenure/public_api.txt`.
//!
//! Read from the source: what `lib.rs` re-exports, what its public modules define, and the public methods, fields and
//! variants of those types. Implementations of traits are not listed. `cargo xtask api --accept` writes the file.
//!
//! A name that can be reached by several paths is listed by the shortest one, and a type's methods with it: what the
//! root re-exports counts as the root's. What `#[doc(hidden)]` hides is the seam of the tests.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::{Attribute, Fields, ImplItem, Item, Signature, TraitItem, Type, UseTree, Visibility};

use super::super::assert_none;
use super::super::tree::{self, files};
use super::CORE;
use super::graph::{DEPTH, Target};
use super::source::{self, Crate, is_for_tests};
use crate::root;

const LISTING: &str = "crates/tenure/public_api.txt";

/// A module and a name in it.
type Place = (usize, String);

/// What is counted.
const TYPES: &[&str] = &["struct", "enum", "trait", "type"];
const FUNCTIONS: &[&str] = &["fn", "trait-fn"];

const ROOT: &str = "root";
const HIDDEN: &str = "hidden";

/// How many types and functions the root may have, which every user of the library meets. Lower it when it shrinks.
const ROOT_MAX: Count = Count { types: 19, functions: 96 };

/// How many names of a module are public.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    types: usize,
    functions: usize,
}

/// A crate with the text of its items.
struct Reader<'a> {
    tree: Crate,
    /// By module: its file's text and its items.
    items: Vec<(&'a str, Vec<Item>)>,
    /// The inherent implementations of each type.
    methods: BTreeMap<Place, Vec<(&'a str, ImplItem)>>,
    /// What is listed already, by a shorter path.
    listed: BTreeSet<Place>,
    /// We are in a module that is hidden from the documentation.
    hidden: bool,
    lines: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn new(text: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let tree = source::read(&text)?;
        let mut items: Vec<(&str, Vec<Item>)> = Vec::new();
        for (index, module) in tree.modules.iter().enumerate() {
            let source = text(&module.file).ok_or_else(|| format!("{} is missing", module.file))?;
            let own = if module.node == index {
                syn::parse_file(source).map_err(|err| format!("{}: {err}", module.file))?.items
            } else {
                let parent = &tree.modules[module.parent].children;
                let name = parent.iter().find(|(_, child)| *child == index);
                let name = name.map(|(name, _)| name.clone()).unwrap_or_default();
                in_braces(&items[module.parent].1, &name)
            };
            items.push((source, own));
        }
        let mut reader = Self {
            tree,
            items,
            methods: BTreeMap::new(),
            listed: BTreeSet::new(),
            hidden: false,
            lines: BTreeSet::new(),
        };
        reader.find_methods();
        Ok(reader)
    }

    fn find_methods(&mut self) {
        for (at, (source, items)) in self.items.iter().enumerate() {
            for item in items {
                let Item::Impl(item) = item else { continue };
                let Type::Path(path) = item.self_ty.as_ref() else { continue };
                if item.trait_.is_some() || is_for_tests(&item.attrs) {
                    continue;
                }
                let segments = &path.path.segments;
                let segments: Vec<_> = segments.iter().map(|one| one.ident.to_string()).collect();
                let name = segments.last().cloned().unwrap_or_default();
                for target in self.tree.resolve(at, &segments, DEPTH) {
                    if let Target::Item(owner) = target {
                        let known = self.methods.entry((owner, name.clone())).or_default();
                        known.extend(item.items.iter().map(|item| (*source, item.clone())));
                    }
                }
            }
        }
    }

    /// Lists what a public module offers under this name: its own names first, then its modules, the hidden ones last.
    fn module(&mut self, at: usize, path: &str) {
        let (source, items) = self.items[at].clone();
        let mut modules = Vec::new();
        for item in &items {
            match item {
                Item::Mod(module) if is_public(&module.vis) && !is_for_tests(&module.attrs) => {
                    modules.push((is_hidden(&module.attrs), module.ident.to_string()));
                }
                Item::Use(item) if is_public(&item.vis) => {
                    self.within(is_hidden(&item.attrs), |reader| {
                        for (segments, name) in leaves(&item.tree, &mut Vec::new()) {
                            reader.export(at, &segments, &format!("{path}::{name}"));
                        }
                    });
                }
                item => {
                    let name = name_of(item).unwrap_or_default();
                    self.item(at, source, item, &format!("{path}::{name}"));
                }
            }
        }
        if at == 0 {
            self.macros();
        }
        modules.sort();
        for (is_hidden, name) in modules {
            let children = self.tree.modules[at].children.clone();
            for (_, child) in children.into_iter().filter(|(child, _)| *child == name) {
                self.within(is_hidden, |reader| reader.module(child, &format!("{path}::{name}")));
            }
        }
    }

    /// Lists something that is hidden, if it says so or what is around it does.
    fn within(&mut self, is_hidden: bool, list: impl FnOnce(&mut Self)) {
        let around = self.hidden;
        self.hidden |= is_hidden;
        list(self);
        self.hidden = around;
    }

    fn export(&mut self, at: usize, segments: &[String], shown: &str) {
        let name = segments.last().cloned().unwrap_or_default();
        for target in self.tree.resolve(at, segments, DEPTH) {
            match target {
                Target::Module(module) => self.module(module, shown),
                Target::Item(owner) => {
                    let (source, items) = self.items[owner].clone();
                    for item in items.iter().filter(|item| name_of(item) == Some(name.clone())) {
                        self.item(owner, source, item, shown);
                    }
                }
            }
        }
    }

    fn macros(&mut self) {
        for (_, items) in &self.items {
            for item in items {
                let Item::Macro(item) = item else { continue };
                let exported =
                    item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
                if let Some(name) = item.ident.as_ref().filter(|_| exported) {
                    self.lines.insert(format!("macro tenure::{name}!"));
                }
            }
        }
    }

    fn item(&mut self, owner: usize, source: &str, item: &Item, shown: &str) {
        let Some(name) = name_of(item) else { return };
        if !self.listed.insert((owner, name.clone())) {
            return;
        }
        match item {
            Item::Fn(item) if is_public(&item.vis) => {
                self.add("fn", &item.attrs, &signed(shown, source, &item.sig));
            }
            Item::Const(item) if is_public(&item.vis) => self.add("const", &item.attrs, shown),
            Item::Type(item) if is_public(&item.vis) => self.add("type", &item.attrs, shown),
            Item::Struct(item) if is_public(&item.vis) => {
                self.add("struct", &item.attrs, shown);
                self.fields(source, &item.fields, shown);
                self.of_type(&(owner, name), shown);
            }
            Item::Enum(item) if is_public(&item.vis) => {
                self.add("enum", &item.attrs, shown);
                for variant in &item.variants {
                    self.add("variant", &variant.attrs, &format!("{shown}::{}", variant.ident));
                }
                self.of_type(&(owner, name), shown);
            }
            Item::Trait(item) if is_public(&item.vis) => {
                self.add("trait", &item.attrs, shown);
                for item in &item.items {
                    if let TraitItem::Fn(function) = item {
                        let shown = format!("{shown}::{}", function.sig.ident);
                        let signed = signed(&shown, source, &function.sig);
                        self.add("trait-fn", &function.attrs, &signed);
                    }
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, source: &str, fields: &Fields, shown: &str) {
        for field in fields.iter().filter(|field| is_public(&field.vis)) {
            let name = field.ident.as_ref().map_or_else(|| "0".to_owned(), ToString::to_string);
            let kind = on_one_line(source, field.ty.span());
            self.add("field", &field.attrs, &format!("{shown}::{name}: {kind}"));
        }
    }

    /// The public functions and constants of a type.
    fn of_type(&mut self, place: &Place, shown: &str) {
        for (source, item) in self.methods.get(place).cloned().unwrap_or_default() {
            match item {
                ImplItem::Fn(item) if is_public(&item.vis) && !is_for_tests(&item.attrs) => {
                    let shown = format!("{shown}::{}", item.sig.ident);
                    self.add("fn", &item.attrs, &signed(&shown, source, &item.sig));
                }
                ImplItem::Const(item) if is_public(&item.vis) => {
                    self.add("const", &item.attrs, &format!("{shown}::{}", item.ident));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, kind: &str, attributes: &[Attribute], shown: &str) {
        let kind = if self.hidden || is_hidden(attributes) { HIDDEN } else { kind };
        self.lines.insert(format!("{kind} {shown}"));
    }
}

/// The items of a module in braces.
fn in_braces(items: &[Item], name: &str) -> Vec<Item> {
    let found = items.iter().find_map(|item| match item {
        Item::Mod(module) if module.ident == name => module.content.as_ref(),
        _ => None,
    });
    found.map(|(_, items)| items.clone()).unwrap_or_default()
}

/// The paths that a `use` ends in, and the name of each.
fn leaves(tree: &UseTree, before: &mut Vec<String>) -> Vec<(Vec<String>, String)> {
    let path = |last: &syn::Ident, before: &[String]| {
        before.iter().cloned().chain([last.to_string()]).collect::<Vec<_>>()
    };
    match tree {
        UseTree::Path(part) => {
            before.push(part.ident.to_string());
            let found = leaves(&part.tree, before);
            before.pop();
            found
        }
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, before)).collect(),
        UseTree::Name(name) => vec![(path(&name.ident, before), name.ident.to_string())],
        UseTree::Rename(name) => vec![(path(&name.ident, before), name.rename.to_string())],
        UseTree::Glob(_) => vec![(before.clone(), "*".to_owned())],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "hidden")
    })
}

/// A function under its full name, with what it takes and returns.
fn signed(shown: &str, source: &str, signature: &Signature) -> String {
    let text = on_one_line(source, signature.span());
    let name = signature.ident.to_string();
    let rest = text.split_once(&format!("fn {name}")).map_or("", |(_, rest)| rest);
    format!("{shown}{rest}")
}

/// A part of the source on one line, as if it had been written there.
fn on_one_line(source: &str, span: proc_macro2::Span) -> String {
    let text = source.get(span.byte_range()).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("( ", "(").replace(", )", ")").replace(" )", ")")
}

fn list<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Result<Vec<String>, String> {
    let mut reader = Reader::new(text)?;
    reader.module(0, "tenure");
    Ok(reader.lines.into_iter().collect())
}

/// The module that a line belongs to.
fn module_of(path: &str) -> &str {
    let path = path.strip_prefix("tenure::").unwrap_or(path);
    let is_module = |name: &&str| name.chars().all(|letter| letter.is_lowercase() || letter == '_');
    path.split_once("::").map(|(first, _)| first).filter(is_module).unwrap_or(ROOT)
}

/// The types and functions of each module.
fn counts(lines: &[String]) -> BTreeMap<&str, Count> {
    let mut counts = BTreeMap::<_, Count>::new();
    for (kind, path) in lines.iter().filter_map(|line| line.split_once(' ')) {
        if kind == HIDDEN {
            continue;
        }
        let count = counts.entry(module_of(path)).or_default();
        count.types += usize::from(TYPES.contains(&kind));
        count.functions += usize::from(FUNCTIONS.contains(&kind));
    }
    counts
}

/// The counts of the root, of its modules, and of what is hidden.
fn summary(lines: &[String]) -> String {
    let mut counts: Vec<_> = counts(lines).into_iter().collect();
    counts.sort_by_key(|(module, _)| *module != ROOT);
    let shown = counts.iter().map(|(module, count)| {
        let Count { types, functions } = count;
        let whose = if *module == "store" { " (for authors of stores)" } else { "" };
        format!("{module}{whose}: {types} types, {functions} functions")
    });
    let hidden = lines.iter().filter(|line| line.starts_with(HIDDEN)).count();
    shown.chain([format!("hidden: {hidden} names")]).collect::<Vec<_>>().join("; ")
}

/// Lines that are in one list and not in the other.
fn differences(listed: &[&str], found: &[String]) -> Vec<String> {
    let new = found.iter().filter(|line| !listed.contains(&line.as_str()));
    let gone = listed.iter().filter(|line| !found.iter().any(|found| found == *line));
    let new = new.map(|line| format!("{LISTING}: is not listed: {line}"));
    new.chain(gone.map(|line| format!("{LISTING}: is gone: {line}"))).collect()
}

/// The root has grown.
fn too_large(found: &[String], most: Count) -> Option<String> {
    let Count { types, functions } = counts(found).get(ROOT).copied().unwrap_or_default();
    let has_grown = types > most.types || functions > most.functions;
    has_grown.then(|| {
        format!(
            "{LISTING}: the root has {types} types and {functions} functions, at most {} and {} are wanted: put \
             what few programs need into a module",
            most.types, most.functions
        )
    })
}

#[test]
fn public_api_is_as_listed() {
    let text = |name: &str| {
        let file = files().iter().find(|file| file.path.strip_prefix(CORE) == Some(name));
        file.map(|file| file.text.as_str())
    };
    let found = list(text).expect("the core can be read");
    println!("public API of tenure: {}", summary(&found));
    if std::env::var_os("TENURE_ACCEPT_API").is_some() {
        let head = format!(
            "# The public API of the crate `tenure`, written by `cargo xtask api --accept`.\n# {}\n",
            summary(&found)
        );
        let text = found.iter().fold(head, |text, line| text + line + "\n");
        #[expect(clippy::disallowed_methods, reason = "a file of the repository")]
        std::fs::write(root().join(LISTING), text).expect("the listing is written");
        return;
    }
    let listed = tree::text(LISTING).expect("the listing is there");
    let listed: Vec<_> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    let mut problems = differences(&listed, &found);
    problems.extend(too_large(&found, ROOT_MAX));
    if !problems.is_empty() {
        problems.push("if this is intended: cargo xtask api --accept".to_owned());
    }
    assert_none(&problems);
}

#[test]
fn every_public_name_is_listed_by_its_public_path() {
    let files = [
        (
            "lib.rs",
            "mod a; pub mod b; #[doc(hidden)] pub mod d { pub use crate::a::A; pub fn seam() {} } \
             mod c { pub struct Not; } pub use self::a::{A, f, T as U}; \
             pub(crate) use a::Inner; #[cfg(test)] mod tests { pub fn g() {} }",
        ),
        (
            "a.rs",
            "pub struct A { pub x: Vec<u8>, y: u8 } impl A { pub fn new(x: u8,\n y: u8) -> Self {} \
             fn own(&self) {} #[doc(hidden)] pub fn secret(&self) {} pub(crate) fn inner(&self) {} } \
             pub fn f() {} pub trait T { fn t(&self); } pub struct Inner; \
             impl Inner { pub fn i(&self) {} } #[macro_export] macro_rules! m { () => {} }",
        ),
        (
            "b.rs",
            "use crate::a::A; impl A { pub const K: u8 = 1; pub fn more(&self) {} } \
             pub enum E { One, Two } impl Clone for E { fn clone(&self) -> Self {} } \
             pub type X = u8; fn not() {} pub(super) fn nor() {} pub use crate::a::f;",
        ),
    ];
    let text = |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, text)| *text);
    let found = list(text).expect("a crate that can be read");
    let wanted = [
        "const tenure::A::K",
        "enum tenure::b::E",
        "field tenure::A::x: Vec<u8>",
        "fn tenure::A::more(&self)",
        "fn tenure::A::new(x: u8, y: u8) -> Self",
        "fn tenure::f()",
        "hidden tenure::A::secret(&self)",
        "hidden tenure::d::seam()",
        "macro tenure::m!",
        "struct tenure::A",
        "trait tenure::U",
        "trait-fn tenure::U::t(&self)",
        "type tenure::b::X",
        "variant tenure::b::E::One",
        "variant tenure::b::E::Two",
    ];
    assert_eq!(found, wanted);
    let summed = "root: 2 types, 4 functions; b: 2 types, 0 functions; hidden: 2 names";
    assert_eq!(summary(&found), summed);
    assert_eq!(too_large(&found, Count { types: 2, functions: 4 }), None);
    assert!(too_large(&found, Count { types: 2, functions: 3 }).is_some());
    assert!(too_large(&found, Count { types: 1, functions: 4 }).is_some());
    let other = ["struct tenure::A", "struct tenure::Gone"];
    let problems = differences(&other, &found[9..11]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("trait tenure::U") && problems[1].contains("Gone"));
}
