//! Small crates, good and bad, that the checks of imports must distinguish.

use super::super::{assert_none, assert_one};
use super::graph::Graph;
use super::source::read;
use super::{cycles, upward};

/// The graph of files with these names and texts.
fn graph(files: &[(&str, &str)]) -> Graph {
    let text = |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, text)| *text);
    Graph::new(&read(text).expect("a crate that can be read"))
}

/// A crate of two modules below `lib.rs`.
fn two(root: &str, a: &str, b: &str) -> Graph {
    graph(&[("lib.rs", &format!("mod a; mod b; {root}")), ("a.rs", a), ("b.rs", b)])
}

const B: &str = "use crate::a::A; pub struct B;";

#[test]
fn a_cycle_is_noticed_however_the_name_is_reached() {
    for (root, a) in [
        ("", "use crate::b::B; pub struct A;"),
        ("", "pub struct A(crate::b::B);"),
        ("", "pub struct A; impl From<super::b::B> for A {}"),
        ("", "use super::{b::{self}}; pub struct A(b::B);"),
        ("", "use crate::b as other; pub struct A(other::B);"),
        ("", "use crate::b::*; pub struct A(B);"),
        ("", "use crate::b::B as _; pub struct A;"),
        ("", "pub struct A; fn f() { use crate::b::B; }"),
        ("", "pub struct A; fn f() { println!(\"{}\", crate::b::f()); }"),
        ("", "pub struct A; macro_rules! m { () => { $crate::b::f() } }"),
        ("", "pub struct A; mod inner { fn f() { super::super::b::f() } }"),
        ("", "pub struct A; impl A { fn f(x: impl Iterator<Item = crate::b::B>) {} }"),
        ("pub use b::B;", "pub struct A(crate::B);"),
        ("pub(crate) use self::b::*;", "use crate::B; pub struct A;"),
        ("mod c { pub use crate::b::B as D; }", "pub struct A(crate::c::D);"),
        ("pub use b::B; mod c { pub use super::B as D; }", "pub struct A(crate::c::D);"),
    ] {
        let problems = cycles(&two(root, a, B));
        assert_one(&problems, "import cycle:\n  crates/tenure/src/a.rs:1: a uses b");
        assert!(problems[0].contains("b.rs:1: b uses a (`crate::a::A`)"), "{problems:?}");
    }
}

#[test]
fn a_longer_cycle_is_shown_as_a_whole() {
    let c = ("c.rs", "\n\nfn f() { crate::a::f() }");
    let a = ("a.rs", "pub fn f() { crate::b::f() }");
    let b = ("b.rs", "pub fn f() {}\npub fn g() { crate::c::f() }");
    let problems = cycles(&graph(&[("lib.rs", "mod a; mod b; mod c;"), a, b, c]));
    assert_one(&problems, "a.rs:1: a uses b");
    assert!(problems[0].contains("b.rs:2: b uses c"), "{problems:?}");
    assert!(problems[0].contains("c.rs:3: c uses a"), "{problems:?}");
}

#[test]
fn what_is_no_cycle_is_not_called_one() {
    for (root, a) in [
        ("", "pub struct A;"),
        ("pub use a::A; pub use b::B;", "pub struct A;"),
        ("", "/// See [`crate::b::B`].\npub struct A;"),
        ("", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("", "pub struct A; #[cfg(test)] fn f() -> crate::b::B {}"),
        ("", "pub struct A; impl A { #[cfg(all(test, unix))] fn f() { crate::b::f() } }"),
        ("", "pub struct A; fn f() { let b = 1; b.b(); std::b::B; }"),
        // On the way to something else, or only to be passed on.
        ("", "pub struct A; pub(in crate::b) struct C;"),
        ("", "pub struct A; pub use crate::b::B;"),
    ] {
        assert_none(&cycles(&two(root, a, B)));
    }
}

#[test]
fn a_parent_and_its_child_are_two_modules() {
    let child = ("a/c.rs", "pub struct C(super::A);");
    let tree = |parent| graph(&[("lib.rs", "mod a;"), ("a.rs", parent), child]);
    for good in [
        "mod c; pub struct A;",
        "mod c; pub use self::c::C; pub struct A;",
        "pub mod c; pub struct A; pub(crate) use c::*;",
    ] {
        assert_none(&cycles(&tree(good)));
    }
    for bad in [
        "mod c; use self::c::C; pub struct A;",
        "mod c; pub struct A; fn f() { c::f() }",
        "mod c; pub use self::c::C; pub struct A; fn f(c: C) {}",
    ] {
        assert_one(&cycles(&tree(bad)), "a uses a::c");
    }
    let folder = [("lib.rs", "mod a;"), ("a/mod.rs", "mod c; fn f() { c::g() } pub struct A;")];
    assert_one(&cycles(&graph(&[&folder[..], &[child]].concat())), "a/mod.rs:1: a uses a::c");
}

#[test]
fn a_function_may_have_the_name_of_its_module() {
    let lib = ("lib.rs", "mod a;");
    let parent = ("a/mod.rs", "mod c; mod d; pub use self::c::c; pub struct A;");
    let other = ("a/d.rs", "fn f() { super::c(); super::c::g(); }");
    let tree = |child| graph(&[lib, parent, ("a/c.rs", child), other]);
    assert_none(&cycles(&tree("pub fn c() {}")));
    assert_one(&cycles(&tree("pub fn c() { super::d::f() }")), "a::c uses a::d");
}

#[test]
fn every_file_of_a_name_is_read() {
    let lib =
        "#[cfg_attr(unix, path = \"one.rs\")] #[cfg_attr(windows, path = \"two/mod.rs\")] mod p;";
    let lib = format!("{lib} mod a;");
    let files = [("lib.rs", lib.as_str()), ("one.rs", ""), ("two/mod.rs", "use crate::a::f;")];
    let tree = graph(&[&files[..], &[("a.rs", "pub fn f() { crate::p::g() }")]].concat());
    assert_one(&cycles(&tree), "two/mod.rs:1: two uses a");
    let missing = read(|name| (name == "lib.rs").then_some("mod a;"));
    assert_eq!(missing.unwrap_err(), "lib.rs: no file for `mod a`");
}

#[test]
fn an_arrow_upwards_is_noticed() {
    let tree = |name: &str, text| {
        let lib = format!("mod fs; mod sys; mod json; mod {name};");
        let file = format!("{name}.rs");
        let json = ("json.rs", "pub fn f() {}");
        graph(&[
            ("lib.rs", &lib),
            ("fs.rs", "pub trait Fs {}"),
            ("sys.rs", ""),
            json,
            (&file, text),
        ])
    };
    for (name, text) in [
        ("file", "use crate::json::f;"),
        ("document", "fn f() { crate::json::f() }"),
        ("error", "use crate::fs::Fs;"),
    ] {
        assert_none(&upward(&tree(name, text)));
    }
    let bad = tree("wait", "\nuse crate::json::f;");
    let told = "wait.rs:2: wait uses json (`crate::json::f`): json is above shared";
    assert_one(&upward(&bad), told);
    assert_one(&upward(&tree("misplaced", "")), "misplaced is in no layer");
}

#[test]
fn the_platform_code_implements_the_seam() {
    let files = |fs, sys| graph(&[("lib.rs", "mod fs; mod sys;"), ("fs.rs", fs), ("sys.rs", sys)]);
    assert_none(&upward(&files("pub trait Fs {}", "impl crate::fs::Fs for u8 {}")));
    let bad = upward(&files("pub fn f() { crate::sys::g() }", "pub fn g() {}"));
    assert_one(&bad, "fs uses sys");
}
