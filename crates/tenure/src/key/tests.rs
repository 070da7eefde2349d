//! Keys to names and back.

use super::*;

#[test]
fn every_key_has_a_name_of_its_own_that_stays_in_the_directory() {
    let keys = [
        "a",
        "A",
        "a.b",
        "..",
        ".",
        ".a",
        "a.",
        "a/b",
        "a\\b",
        "con",
        "con.x",
        "com1",
        "%41",
        "caf\u{e9}",
        "cafe\u{301}",
        "new\nline",
        "-rf",
        "~",
        "session 1",
        "\u{1F600}",
    ];
    let mut names: Vec<_> = keys.iter().map(|key| to_name(key).unwrap()).collect();
    for (key, name) in keys.iter().zip(&names) {
        assert_eq!(from_name(name).as_deref(), Some(*key));
        assert!(!name.starts_with('.') && !name.contains(['/', '\\']), "{name}");
        assert_eq!(name.to_lowercase().to_uppercase(), name.to_uppercase());
    }
    for name in &mut names {
        name.make_ascii_lowercase();
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), keys.len(), "no two keys share a name, whatever the case");
}

#[test]
fn empty_and_overlong_keys_and_foreign_names_are_refused() {
    assert!(to_name("").is_err());
    assert!(to_name(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
    for name in ["A", "%4", "%zz", "%61", ".a", "state (copy)"] {
        assert_eq!(from_name(name), None, "{name}");
    }
}
