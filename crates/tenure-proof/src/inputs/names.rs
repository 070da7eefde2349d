//! Keys, versions and pointers, with arbitrary text.

use std::path::Path;

use tenure::json::Rules;
use tenure::options::CollectionKind;
use tenure::{Collection, Version, json};

use super::{Fate, disk, quickly};

/// Keys, versions and pointers: refused, or safe.
pub fn names(bytes: &[u8]) -> Fate {
    let text = String::from_utf8_lossy(bytes);
    let (_, fs) = disk();
    let open = |kind| Collection::open_on(&fs, Path::new("/d"), kind).expect("a directory");
    let keys = open(CollectionKind::Documents);
    let path = keys.path_of(&text);
    let believed = path.is_ok();
    if let Ok(path) = path {
        assert_eq!(path.parent(), Some(Path::new("/d")), "a key left its directory: {text:?}");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(name.len() <= 255 && !name.starts_with('.'), "{name}");
        keys.document(&text)
            .and_then(|document| document.set(&json!(1), &quickly()))
            .expect("a key");
        assert_eq!(keys.keys().expect("keys"), [text.as_ref()], "a name leads back to its key");
        assert_ne!(open(CollectionKind::Journals).path_of(&text).ok(), Some(path));
    }
    if let Ok(version) = text.parse::<Version>() {
        assert_eq!(version.to_string(), text);
    }
    if Rules::new().union(&text).is_ok() {
        assert!(text.is_empty() || text.starts_with('/'), "{text:?} is no JSON Pointer");
    }
    Fate::seen(believed)
}
