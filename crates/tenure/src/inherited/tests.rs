//! Holds around a program, as its variables say.

use super::*;

/// A program with these variables.
fn given(variables: &[(&str, &str)]) -> Inherited {
    Inherited::read(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

/// The variables that a program below `inherited` finds.
fn below(inherited: &Inherited, path: &str, fence: Fence, token: Option<&str>) -> Inherited {
    let variables = inherited.below(Path::new(path), fence, token).unwrap();
    Inherited::read(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.clone())
    })
}

#[test]
fn an_outer_hold_reads_back_as_it_was_written() {
    for path in ["/a/b", "/a b/c=d", "/new\nline", "/back\\slash\\n", "/tail\\", "/1:2 3"] {
        for token in [None, Some("a token:\\\n".to_owned())] {
            let hold = Outer { target: path.into(), fence: 42, token };
            let line = line(&hold).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(parse(&line), Some(hold), "{path}");
        }
    }
    for wrong in ["", "42", "x /a", "42 /a\\", "42 /a\\x"] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_program_knows_every_hold_around_it_and_no_other() {
    let outer = below(&Inherited::default(), "/a", 1, Some("token of a"));
    let inner = below(&below(&outer, "/b\nc", 2, None), "/d", 3, None);
    let fence = |path: &str| inner.fence_of(Path::new(path)).unwrap();
    assert_eq!([fence("/a"), fence("/b\nc"), fence("/d")], [Some(1), Some(2), Some(3)]);
    assert_eq!(fence("/b"), None);
    // A second hold on the same target takes the place of the first.
    let again = below(&inner, "/a", 9, None);
    assert_eq!(again.fence_of(Path::new("/a")).unwrap(), Some(9));
}

#[test]
fn a_token_belongs_to_its_target() {
    let leased = below(&Inherited::default(), "/a", 1, Some("token"));
    assert_eq!(leased.token_for(Path::new("/a")), Some("token"));
    assert_eq!(leased.token_for(Path::new("/b")), None);
    let inside = below(&leased, "/b", 2, None);
    assert_eq!(inside.token_for(Path::new("/a")), Some("token"), "of another target's hold");
    assert_eq!(inside.token_for(Path::new("/b")), None);
    let any = below(&given(&[(TOKEN, "t")]), "/b", 2, None);
    assert_eq!(any.token_for(Path::new("/c")), Some("t"));
    assert_eq!(any.fence_of(Path::new("/c")).unwrap(), None);
    assert_eq!(given(&[(TOKEN, "t")]).token_for(Path::new("/any")), Some("t"));
    assert_eq!(given(&[(TOKEN, "")]).token_for(Path::new("/any")), None);
}

#[test]
fn what_cannot_be_read_is_told_to_those_who_need_it() {
    let broken = given(&[(TARGET, "/a"), (FENCE, "many"), (WAIT, "soon")]);
    assert_eq!(broken.fence_of(Path::new("/a")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(broken.wait().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(given(&[(OUTER, "x")]).fence_of(Path::new("/a")).is_err());
    assert_eq!(given(&[]).wait().unwrap(), Wait::default());
    assert_eq!(given(&[(WAIT, "0")]).wait().unwrap(), Wait::No);
}
