//! Arguments that may be `-` for standard input, and JSON in arguments.

use std::io::Read;
use std::path::Path;

use tenure::Value;

use crate::args::FilterFlags;
use crate::failure::{Failure, Result};
use crate::filter::Filter;

/// The argument itself, or all of standard input for `-`.
pub(super) fn text(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    String::from_utf8(stdin()?)
        .map_err(|_| Failure::usage("read standard input", "it is not UTF-8"))
}

/// `dir/` names a directory, also if it is not there: a file is not made in its place.
pub(super) fn refuse_directory(file: &Path, action: &'static str) -> Result<()> {
    if !file.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Ok(());
    }
    Err(Failure::usage(action, "the path ends with a slash: it names a directory")
        .at(file)
        .hint("name a file"))
}

/// What went wrong, most likely, with JSON on a command line.
const QUOTE: &str = "quote it for the shell: a JSON string needs quotes of its own";

/// All of standard input.
pub(super) fn stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|err| Failure::io("read", Path::new("standard input"), err))?;
    Ok(bytes)
}

/// A JSON argument, or standard input for `-`.
pub(super) fn json(argument: &str) -> Result<Value> {
    let hint = if argument == "-" { "it was read from standard input" } else { QUOTE };
    parse(&text(argument)?, hint)
}

fn parse(text: &str, hint: &str) -> Result<Value> {
    tenure::json::parse(text.as_bytes()).map_err(|error| Failure::from(error).hint(hint))
}

/// A filter with its named values; `-` reads it from standard input.
pub(super) fn filter(code: &str, named: &FilterFlags) -> Result<Filter> {
    Filter::compile(&text(code)?, &named_values(named)?)
}

/// The values of `--arg` and `--argjson`.
pub(super) fn named_values(named: &FilterFlags) -> Result<Vec<(String, Value)>> {
    let mut values = Vec::new();
    for pair in named.strings.chunks_exact(2) {
        values.push((pair[0].clone(), Value::String(pair[1].clone())));
    }
    for pair in named.values.chunks_exact(2) {
        values.push((pair[0].clone(), parse(&pair[1], QUOTE)?));
    }
    for (name, _) in &values {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || !name.chars().all(plain)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            let detail = format!("`{}` is not a valid name for a value", name.escape_debug());
            return Err(Failure::usage("read --arg", detail));
        }
    }
    Ok(values)
}
