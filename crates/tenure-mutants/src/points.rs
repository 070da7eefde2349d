//! Where a source file can be mutated, and how.
//!
//! Every mutant is one small mistake that a person could make: a check left out or inverted, a step
//! forgotten, a bound off by one, a function that does nothing. Messages are not mutated, nor is
//! code for other systems.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, Pat, Stmt, UnOp};

use crate::active::is_built;
use crate::{swaps, values};

/// One mutant.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) number: u32,
    /// The file, relative to the sources of the core.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The function it is in.
    pub(crate) within: String,
    /// The change, and to what.
    pub(crate) what: String,
    pub(crate) range: Range<usize>,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Point {
    /// The key of a mutant from run to run: by name, since numbers and lines move.
    pub(crate) fn key(&self) -> String {
        format!("{}\t{}\t{}", self.file, self.within, self.what)
    }
}

/// Finds all mutants of a file; their numbers start at `first`.
pub(crate) fn find(file: &str, text: &str, first: u32) -> Result<Vec<Point>, String> {
    let parsed = syn::parse_file(text).map_err(|err| format!("{file}: {err}"))?;
    let mut finder = Finder {
        file,
        text,
        next: first,
        within: Vec::new(),
        covered: Vec::new(),
        points: Vec::new(),
    };
    finder.visit_file(&parsed);
    // An ordinal distinguishes mutants of one kind in one function.
    let mut times = HashMap::new();
    for point in &mut finder.points {
        let seen: &mut u32 = times.entry((point.within.clone(), point.what.clone())).or_default();
        *seen += 1;
        if *seen > 1 {
            let _ = write!(point.what, " ({seen})");
        }
    }
    Ok(finder.points)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    next: u32,
    within: Vec<String>,
    /// Spans that already have an equivalent mutant.
    covered: Vec<Range<usize>>,
    points: Vec<Point>,
}

impl Finder<'_> {
    /// Adds a mutant around `range`; `#` is replaced by the check whether it is on.
    fn add(&mut self, at: Span, range: Range<usize>, what: String, before: &str, after: &str) {
        let question = format!("crate::mutant::on({})", self.next);
        self.points.push(Point {
            number: self.next,
            file: self.file.to_owned(),
            line: at.start().line,
            within: self.within.join("::"),
            what,
            range,
            before: before.replacen('#', &question, 1),
            after: after.replacen('#', &question, 1),
        });
        self.next += 1;
    }

    /// Replaces this expression by another.
    fn instead(&mut self, expr: &impl Spanned, other: &str, what: String) {
        let range = expr.span().byte_range();
        let before = format!("(if # {{ {other} }} else {{ ");
        self.add(expr.span(), range, what, &before, " })");
    }

    /// The source of a part, on one line and shortened, for messages.
    fn told(&self, part: &impl Spanned) -> String {
        let source = self.source(part);
        let words: Vec<&str> = source.split_whitespace().collect();
        let line = words.join(" ").replace("( ", "(").replace(", )", ")");
        match line.char_indices().nth(60) {
            Some((cut, _)) => format!("`{}...`", &line[..cut]),
            None => format!("`{line}`"),
        }
    }

    fn source(&self, part: &impl Spanned) -> &str {
        &self.text[part.span().byte_range()]
    }

    fn is_covered(&self, part: &impl Spanned) -> bool {
        self.covered.contains(&part.span().byte_range())
    }

    fn function(&mut self, signature: &syn::Signature, block: &Block) {
        if signature.constness.is_some() {
            return;
        }
        self.within.push(signature.ident.to_string());
        let start = block.span().byte_range().start + 1;
        for value in values::of(&signature.output) {
            let before = format!(" if # {{ return {value}; }}");
            self.add(signature.ident.span(), start..start, format!("return {value}"), &before, "");
        }
        match &block.stmts[..] {
            [only] => self.covered.push(only.span().byte_range()),
            [.., Stmt::Expr(last, None)]
                if values::is_unit_result(&signature.output) && is_call(last) =>
            {
                self.instead(last, "Ok(())", format!("`Ok(())` for {}", self.told(last)));
            }
            _ => {}
        }
        visit::visit_block(self, block);
        self.within.pop();
    }

    /// The condition of a branch: never true, and always.
    fn condition(&mut self, condition: &Expr, keyword: &str) {
        let (range, told) = (condition.span().byte_range(), self.told(condition));
        if matches!(condition, Expr::Let(_)) {
            self.add(condition.span(), range, format!("never {keyword} {told}"), "!# && ", "");
            return;
        }
        let never = format!("never {keyword} {told}");
        self.add(condition.span(), range.clone(), never, "(!# && (", "))");
        if keyword == "if" {
            self.add(condition.span(), range.clone(), format!("always if {told}"), "(# || (", "))");
        }
        self.covered.push(range);
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        // Inverting the whole condition of a branch is what `never` and `always` do.
        let whole = self.is_covered(binary);
        let (left, right) = (self.source(&binary.left), self.source(&binary.right));
        let turned = |other: &str| format!("({left}) {other} ({right})");
        let mut others = swaps::operators(&binary.op);
        if whole && !matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
            others.retain(|other| !swaps::is_opposite(&binary.op, other));
        }
        let told = self.told(binary);
        let turned: Vec<_> = others.iter().map(|other| (*other, turned(other))).collect();
        for (other, text) in turned {
            self.instead(binary, &text, format!("`{other}` in {told}"));
        }
    }

    fn method(&mut self, call: &syn::ExprMethodCall) {
        let (whole, name) = (call.span().byte_range(), call.method.span().byte_range());
        let told = self.told(call);
        let method = call.method.to_string();
        if let Some(other) = swaps::method(&method) {
            let (before, after) =
                (&self.text[whole.start..name.start], &self.text[name.end..whole.end]);
            let text = format!("{before}{other}{after}");
            self.instead(call, &text, format!("`{other}` in {told}"));
        } else if swaps::is_question(&method) && !self.is_covered(call) {
            let text = format!("!({})", self.source(call));
            self.instead(call, &text, format!("not {told}"));
        }
    }

    fn path(&mut self, path: &syn::ExprPath) {
        let told = self.told(path);
        let name = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let shouted =
            |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
        if let Some(other) = swaps::mode(self.source(path)) {
            self.instead(path, &other, format!("`{other}`"));
        } else if name.len() > 1 && name.chars().all(shouted) {
            let text = format!("{} + 1", self.source(path));
            self.instead(path, &text, format!("one more than {told}"));
        }
    }

    fn literal(&mut self, literal: &syn::ExprLit) {
        match &literal.lit {
            syn::Lit::Bool(value) => {
                let other = (!value.value).to_string();
                self.instead(literal, &other, format!("`{other}` for `{}`", value.value));
            }
            syn::Lit::Int(_) => {
                let text = format!("{} + 1", self.source(literal));
                self.instead(literal, &text, format!("one more than {}", self.told(literal)));
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Fn(function) if is_built(&function.attrs) => {
                self.function(&function.sig, &function.block);
            }
            syn::Item::Impl(block) if is_built(&block.attrs) && !only_for_people(block) => {
                self.within.push(name_of(&block.self_ty));
                visit::visit_item_impl(self, block);
                self.within.pop();
            }
            syn::Item::Mod(module) if is_built(&module.attrs) => {
                visit::visit_item_mod(self, module);
            }
            syn::Item::Trait(definition) if is_built(&definition.attrs) => {
                self.within.push(definition.ident.to_string());
                visit::visit_item_trait(self, definition);
                self.within.pop();
            }
            // Constants are mutated where they are used.
            _ => {}
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if let syn::ImplItem::Fn(function) = item
            && is_built(&function.attrs)
        {
            self.function(&function.sig, &function.block);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if let syn::TraitItem::Fn(function) = item
            && let Some(block) = &function.default
        {
            self.function(&function.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let droppable = match statement {
            Stmt::Expr(expr, Some(_)) => is_call(expr) || is_jump(expr),
            Stmt::Local(local) => matches!(local.pat, Pat::Wild(_)) && local.attrs.is_empty(),
            _ => false,
        };
        if droppable && !self.is_covered(statement) {
            let what = format!("without {}", self.told(statement));
            self.add(statement.span(), statement.span().byte_range(), what, "if !# { ", " }");
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(syn::LocalInit { diverge: Some((_, other)), .. }) = &local.init
            && let Expr::Block(syn::ExprBlock { block, .. }) = &**other
        {
            // The body must not return.
            self.covered.extend(block.stmts.last().map(|last| last.span().byte_range()));
        }
        visit::visit_local(self, local);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let told = self.told(&arm.pat);
        if let Some((_, guard)) = &arm.guard {
            let (at, range) = (guard.span(), guard.span().byte_range());
            let told = format!("{told} if {}", self.told(guard));
            self.add(at, range.clone(), format!("never the arm {told}"), "(!# && (", "))");
            self.add(at, range.clone(), format!("always the arm {told}"), "(# || (", "))");
            self.covered.push(range);
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_match(&mut self, choice: &'ast syn::ExprMatch) {
        let takes_all = |arm: &Arm| arm.guard.is_none() && matches!(arm.pat, Pat::Wild(_));
        // Only if the last arm matches the rest.
        if choice.arms.last().is_some_and(takes_all) {
            for arm in choice.arms.iter().filter(|arm| arm.guard.is_none() && !takes_all(arm)) {
                let end = arm.pat.span().byte_range().end;
                let what = format!("never the arm {}", self.told(&arm.pat));
                self.add(arm.pat.span(), end..end, what, " if !#", "");
            }
        }
        visit::visit_expr_match(self, choice);
    }

    fn visit_expr_if(&mut self, branch: &'ast syn::ExprIf) {
        self.condition(&branch.cond, "if");
        if let (None, [only]) = (&branch.else_branch, &branch.then_branch.stmts[..]) {
            self.covered.push(only.span().byte_range());
        }
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_while(&mut self, repeated: &'ast syn::ExprWhile) {
        self.condition(&repeated.cond, "while");
        visit::visit_expr_while(self, repeated);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr); // The length is a constant.
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::MethodCall(call) => self.method(call),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) && !self.is_covered(unary) => {
                let text = self.source(&unary.expr).to_owned();
                self.instead(unary, &text, format!("without the `!` of {}", self.told(unary)));
            }
            Expr::Macro(call) if call.mac.path.is_ident("matches") && !self.is_covered(call) => {
                let text = format!("!{}", self.source(call));
                self.instead(call, &text, format!("not {}", self.told(call)));
            }
            Expr::Path(path) => self.path(path),
            Expr::Lit(literal) => self.literal(literal),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Whether an implementation only produces text.
fn only_for_people(block: &syn::ItemImpl) -> bool {
    let name = block.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
    name.is_some_and(|name| name.ident == "Debug" || name.ident == "Display")
}

fn name_of(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Path(path) => {
            path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// A statement with an effect.
fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Try(inner) => is_call(&inner.expr),
        Expr::Call(call) => !matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Ok")),
        Expr::MethodCall(_) | Expr::Assign(_) => true,
        Expr::Binary(binary) => swaps::assigns(&binary.op),
        _ => false,
    }
}

fn is_jump(expr: &Expr) -> bool {
    matches!(expr, Expr::Return(_) | Expr::Continue(_) | Expr::Break(_))
}

#[cfg(test)]
mod tests;
