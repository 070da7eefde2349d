//! Assignments to a path that is not there: the form that works, shown to a user of jq.
//!
//! jq creates what is missing on the way of `.checked[$k] = now`. The engine refuses to index what is
//! missing, and the addition or the product of objects is what creates it.

/// How the engine says that it was asked to index what is missing.
const MISSING: &str = "cannot use null as iterable";

/// What to write instead, if `why` is that a path is missing.
pub(super) fn advice(code: &str, why: &str) -> Option<String> {
    if !why.starts_with(MISSING) {
        return None;
    }
    let form = creating(code.trim())
        .unwrap_or_else(|| ".a += {(KEY): VALUE}` instead of `.a[KEY] = VALUE".to_owned());
    Some(format!(
        "a field on the path is missing, and assignments do not create it: write `{form}`"
    ))
}

/// `PATH = VALUE` in the form that creates the path, if the code is no more than that.
fn creating(code: &str) -> Option<String> {
    let (path, value) = code.split_once('=')?;
    let (path, value) = (path.trim_end(), value.trim());
    let is_plain = |text: &str| !text.contains(['|', ',', ';', '=', '"', '?']);
    if !is_plain(path)
        || !is_plain(value)
        || path.ends_with(['+', '-', '*', '/', '%', '<', '>', '!'])
    {
        return None;
    }
    let keys = keys_of(path)?;
    let (first, rest) = keys.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut object = value.to_owned();
    for key in rest.iter().rev() {
        object = format!("{{{key}: {object}}}");
    }
    Some(match first.as_str() {
        // Only an addition leaves the other keys of a first level alone for sure.
        name if rest.len() == 1 && !name.starts_with('(') => format!(".{name} += {object}"),
        first => format!(". * {{{first}: {object}}}"),
    })
}

/// The keys of `.name`, `.name[$key]` and so on, as an object writes them.
fn keys_of(path: &str) -> Option<Vec<String>> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(inside) = rest.strip_prefix('[') {
            let (key, behind) = inside.split_once(']')?;
            let is_variable =
                |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let name = key.trim();
            name.strip_prefix('$').filter(|name| is_variable(name))?;
            keys.push(format!("({name})"));
            rest = behind;
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            name.starts_with(begins) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        keys.push(is_name.then(|| name.to_owned())?);
        rest = behind;
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_that_creates_a_path_is_shown_for_plain_assignments() {
        for (code, form) in [
            (".checked[$k] = now", Some(".checked += {($k): now}")),
            (".a.b = 1", Some(".a += {b: 1}")),
            (".a.b[$k].c = .x", Some(". * {a: {b: {($k): {c: .x}}}}")),
            (".a = 1", None),
            (".a.b += 1", None),
            (".a.b == 1", None),
            (".a[0] = 1", None),
            (".a.b = (1 | 2)", None),
            (".a.b |= 1", None),
        ] {
            assert_eq!(creating(code).as_deref(), form, "{code}");
        }
        assert!(advice(".a[0] = 1", MISSING).is_some());
        assert_eq!(advice(".a", "something else"), None);
    }
}
