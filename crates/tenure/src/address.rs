//! How a target is named outside of its store: in `TENURE_TARGET`, in a guard, on a command line.
//!
//! A file is named by its path. A target of another store has an address: `STORE#NAME`, where `STORE` is the URL of the
//! store without its password.
//!
//! # Invariants
//!
//! 1. A store never takes the address of another store's target for a name of its own: it is `invalid`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// The address of the target `name` (resolved). `store` is the name of its store; `None` is the local files.
pub fn address<'a>(store: Option<&str>, name: &'a Path) -> Cow<'a, Path> {
    match store {
        None => name.into(),
        Some(store) => {
            let mut address = std::ffi::OsString::from(store);
            address.push("#");
            address.push(name);
            PathBuf::from(address).into()
        }
    }
}

/// The name in a store that `given` stands for: a name, or the address of a target of this store.
pub fn name_in<'a>(store: Option<&str>, given: &'a Path) -> Result<&'a Path> {
    let Some((scheme, _)) = given.to_str().and_then(|text| text.split_once("://")) else {
        return Ok(given);
    };
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Ok(given);
    }
    let own = store.and_then(|store| given.to_str()?.strip_prefix(store)?.strip_prefix('#'));
    own.map(Path::new).ok_or_else(|| {
        let (detail, hint) = match store {
            None => {
                ("it is a target of a store, not a file", "name the store, and the target in it")
            }
            Some(_) => ("it is a target of another store", "use a target of the same store"),
        };
        // Not quoted: it may contain a password.
        Error::new(ErrorKind::Invalid, "use the target", detail).hint(hint).committed(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "postgres://me:***@host:5432/db";

    #[test]
    fn an_address_leads_back_to_its_name_in_its_own_store_only() {
        let name = Path::new("/sessions/a#b.json");
        let outside = address(Some(STORE), name);
        assert_eq!(name_in(Some(STORE), &outside).unwrap(), name);
        for other in [None, Some("postgres://me:***@host:5432/d"), Some("etcd://host:2379")] {
            let error = name_in(other, &outside).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!error.to_string().contains("host"), "{error}");
        }
    }

    #[test]
    fn a_name_stays_what_it_is() {
        assert_eq!(address(None, Path::new("/a/b")), Path::new("/a/b"));
        for name in ["/a/b", "a#b", "dir/://x", "Name://x", "://"] {
            for store in [None, Some(STORE)] {
                assert_eq!(name_in(store, Path::new(name)).unwrap(), Path::new(name));
            }
        }
    }
}
