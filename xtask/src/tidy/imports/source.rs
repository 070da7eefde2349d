//! The modules of a crate as its source declares them: children, names, and paths that the code uses.
//!
//! A file is a module; a module in braces belongs to its file. What is only there for tests
//! (`#[cfg(test)]`) is left out: a test may use everything.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprLit, Item, ItemMod, ItemUse, Lit, Macro, Meta, Path, UseTree, Visibility,
};

/// A path in the source, and its line.
#[derive(Debug, Clone)]
pub(super) struct Used {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// A name that a `use` brings into a module; `None` for `*`.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) name: Option<String>,
    pub(super) path: Used,
    /// Others can reach it here: a re-export.
    pub(super) exported: bool,
}

/// One module.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The file as the tree names it.
    pub(super) file: String,
    /// The module of that file: this one, or the one that contains it.
    pub(super) node: usize,
    pub(super) parent: usize,
    /// A name may refer to several files, one per platform.
    pub(super) children: Vec<(String, usize)>,
    pub(super) defined: BTreeSet<String>,
    pub(super) bound: Vec<Bound>,
    pub(super) used: Vec<Used>,
}

/// Everything below `lib.rs`, which is the first.
#[derive(Debug)]
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
}

/// Reads the crate; `text` gives a file's text by its path from the directory of `lib.rs`.
pub(super) fn read<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Result<Crate, String> {
    let mut tree = Crate { modules: Vec::new() };
    // Files that are declared and not read yet.
    let mut open = vec![("lib.rs".to_owned(), None)];
    while let Some((file, parent)) = open.pop() {
        let source = text(&file).ok_or_else(|| format!("{file}: is declared and missing"))?;
        let parsed = syn::parse_file(source).map_err(|err| format!("{file}: {err}"))?;
        let index = tree.modules.len();
        let parent_index = parent.as_ref().map_or(index, |(parent, _)| *parent);
        let module =
            Module { file: file.clone(), node: index, parent: parent_index, ..Module::default() };
        tree.modules.push(module);
        if let Some((parent, name)) = parent {
            tree.modules[parent].children.push((name, index));
        }
        let directory = children_directory(&file);
        let mut reader = Reader { tree: &mut tree, at: index, directory, declared: Vec::new() };
        reader.items(&parsed.items);
        for (parent, name, candidates) in reader.declared {
            let there: Vec<_> =
                candidates.into_iter().filter(|file| text(file).is_some()).collect();
            if there.is_empty() {
                return Err(format!("{file}: no file for `mod {name}`"));
            }
            open.extend(there.into_iter().map(|file| (file, Some((parent, name.clone())))));
        }
    }
    Ok(tree)
}

/// Where the files of a file's modules are, with a `/` at its end.
fn children_directory(file: &str) -> String {
    let (directory, name) = file.rsplit_once('/').map_or(("", file), |(dir, name)| (dir, name));
    let slash = if directory.is_empty() { "" } else { "/" };
    match name {
        "lib.rs" | "mod.rs" => format!("{directory}{slash}"),
        name => format!("{directory}{slash}{}/", name.trim_end_matches(".rs")),
    }
}

/// Reads one file, and the modules in braces inside.
struct Reader<'t> {
    tree: &'t mut Crate,
    at: usize,
    directory: String,
    /// `mod NAME;`: the parent, the name, and which files it may mean.
    declared: Vec<(usize, String, Vec<String>)>,
}

impl Reader<'_> {
    fn here(&mut self) -> &mut Module {
        &mut self.tree.modules[self.at]
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            if let Some(name) = name_of(item) {
                self.here().defined.insert(name);
            }
            self.visit_item(item);
        }
    }

    fn note(&mut self, segments: Vec<String>, line: usize) {
        self.here().used.push(Used { segments, line });
    }

    fn bind(&mut self, tree: &UseTree, before: &mut Vec<String>, line: usize, exported: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.bind(&path.tree, before, line, exported);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.bind(tree, before, line, exported));
            }
            UseTree::Glob(_) => self.bound(None, before.clone(), line, exported),
            UseTree::Name(name) => self.leaf(&name.ident, &name.ident, before, exported),
            UseTree::Rename(rename) => self.leaf(&rename.ident, &rename.rename, before, exported),
        }
    }

    fn leaf(&mut self, item: &syn::Ident, name: &syn::Ident, before: &[String], exported: bool) {
        let mut segments = before.to_vec();
        let line = item.span().start().line;
        if item == "self" {
            // `use a::{self}` binds `a`.
            let name =
                if name == "self" { segments.last().cloned() } else { Some(name.to_string()) };
            return self.bound(name, segments, line, exported);
        }
        segments.push(item.to_string());
        self.bound(Some(name.to_string()), segments, line, exported);
    }

    fn bound(&mut self, name: Option<String>, segments: Vec<String>, line: usize, exported: bool) {
        self.here().bound.push(Bound { name, path: Used { segments, line }, exported });
    }

    /// Paths in the words of a macro, which the parser does not read.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let colons = |at: usize| {
            matches!((tokens.get(at), tokens.get(at + 1)), (Some(TokenTree::Punct(a)), Some(TokenTree::Punct(b)))
                if a.as_char() == ':' && b.as_char() == ':')
        };
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Ident(first) if !is_field(&tokens, at) => {
                    let mut segments = vec![first.to_string()];
                    while colons(at + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        segments.push(next.to_string());
                        at += 3;
                    }
                    self.note(segments, first.span().start().line);
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Whether the word comes after a dot.
fn is_field(tokens: &[TokenTree], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    matches!(before, Some(TokenTree::Punct(punct)) if punct.as_char() == '.')
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if is_for_tests(&module.attrs) {
            return;
        }
        let name = module.ident.to_string();
        let Some((_, items)) = &module.content else {
            let mut files = named_files(&module.attrs, &self.directory);
            if files.is_empty() {
                let base = format!("{}{name}", self.directory);
                files = vec![format!("{base}.rs"), format!("{base}/mod.rs")];
            }
            self.declared.push((self.at, name, files));
            return;
        };
        let (outer, index) = (self.at, self.tree.modules.len());
        let (file, node) = (self.here().file.clone(), self.here().node);
        self.tree.modules.push(Module { file, node, parent: outer, ..Module::default() });
        self.here().children.push((name.clone(), index));
        let directory = format!("{}{name}/", self.directory);
        let directory = std::mem::replace(&mut self.directory, directory);
        self.at = index;
        self.items(items);
        (self.at, self.directory) = (outer, directory);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            let exported = !matches!(item.vis, Visibility::Inherited);
            let line = item.use_token.span.start().line;
            self.bind(&item.tree, &mut Vec::new(), line, exported);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Vec<_> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        if let Some(first) = path.segments.first().filter(|_| path.leading_colon.is_none()) {
            self.note(segments, first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        visit::visit_macro(self, called);
        self.scan(called.tokens.clone());
    }

    /// Comments and derives import nothing.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg")
            && list.is_ok_and(|list| {
                let condition = list.tokens.to_string().replace(' ', "");
                condition == "test" || condition.starts_with("all(test,")
            })
    })
}

/// The files of `#[path = "..."]`, also inside of `#[cfg_attr(..)]`.
fn named_files(attributes: &[Attribute], directory: &str) -> Vec<String> {
    let names = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            let text = list.tokens.to_string();
            let (_, rest) = text.split_once("path = \"")?;
            rest.split('"').next().map(str::to_owned)
        }
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Some(name.value()),
            _ => None,
        },
        _ => None,
    });
    names.map(|name| format!("{directory}{name}")).collect()
}

/// The name that an item defines in its module.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
