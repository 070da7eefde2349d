//! Which mistakes are made, and where none is made.

use super::find;
use crate::rewrite::Rewritten;

/// The mutants of a source, and the source with all of them.
fn mutated(text: &str) -> (Vec<String>, String) {
    let points = find("a.rs", text, 1).unwrap();
    let whats = points.iter().map(|point| point.what.clone()).collect();
    (whats, Rewritten::new(text, &points.iter().collect::<Vec<_>>()).text)
}

#[test]
fn every_kind_of_mistake_is_made() {
    let source = "fn f(x: &X) -> Result<()> {\n    x.sync()?;\n    if a < LIMIT && !b {\n        \
                  return Ok(());\n    }\n    x.done(true)\n}\n";
    let (whats, text) = mutated(source);
    let expected = [
        "return Ok(())",
        "`Ok(())` for `x.done(true)`",
        "without `x.sync()?;`",
        "never if `a < LIMIT && !b`",
        "always if `a < LIMIT && !b`",
        "`||` in `a < LIMIT && !b`",
        "`<=` in `a < LIMIT`",
        "`>=` in `a < LIMIT`",
        "one more than `LIMIT`",
        "without the `!` of `!b`",
        "`false` for `true`",
    ];
    assert_eq!(whats, expected);
    assert!(text.contains("if !crate::mutant::on(3) { x.sync()?; }"), "{text}");
    syn::parse_file(&text).unwrap();
}

#[test]
fn an_arm_is_left_out_only_where_the_last_takes_what_is_left() {
    let (whats, text) =
        mutated("fn f() -> X { match x { Some(y) if y => a, Some(_) => b, _ => c } }");
    let expected = [
        "return Default::default()",
        "never the arm `Some(_)`",
        "never the arm `Some(y)` if `y`",
        "always the arm `Some(y)` if `y`",
    ];
    assert_eq!(whats, expected);
    syn::parse_file(&text).unwrap();
    let (whats, _) = mutated("fn f() -> &X { match x { Some(_) => a, None => b } }");
    assert!(whats.is_empty(), "{whats:?}");
}

#[test]
fn tests_and_messages_have_no_mutants() {
    let (whats, _) = mutated(
        "#[cfg(test)] mod tests { fn f() -> bool { true } }\n\
         impl Display for X { fn fmt(&self) -> bool { true } }\n",
    );
    assert!(whats.is_empty(), "{whats:?}");
}
