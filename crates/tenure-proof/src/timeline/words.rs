//! The words of a timeline: split at blanks, but not inside quotes and brackets.

use std::collections::HashMap;

use serde_json::{Value, json};

/// The values of the names of a timeline.
pub(super) type Names = HashMap<String, Value>;

/// Splits a line into words.
pub(super) fn split(line: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), None);
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for (at, letter) in line.char_indices() {
        let inside = depth > 0 || quoted;
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ' ' | '\t' if !inside => {
                words.extend(start.take().map(|start: usize| &line[start..at]));
                continue;
            }
            _ => {}
        }
        start.get_or_insert(at);
    }
    words.extend(start.map(|start| &line[start..]));
    words
}

/// The value of a word: names are replaced, then it is JSON or, if it is not, itself.
pub(super) fn value(word: &str, names: &Names) -> Result<Value, String> {
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
        let (name, remaining) = after.split_at(end.unwrap_or(after.len()));
        let known = names.get(name).ok_or_else(|| format!("nothing is called ${name} yet"))?;
        text.push_str(before);
        text.push_str(&known.to_string());
        rest = remaining;
    }
    text.push_str(rest);
    Ok(serde_json::from_str(&text).unwrap_or_else(|_| json!(text)))
}

/// The field of an answer: `holder.pid`, `entries.0.line`.
pub(super) fn field<'a>(answer: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(answer, |value, part| match part.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(part),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Names, field, split, value};

    #[test]
    fn a_word_ends_at_a_blank_outside_quotes_and_brackets() {
        let line = r#" append $log lines=["a b", "c\" d"] wait=10 "#;
        assert_eq!(split(line), ["append", "$log", r#"lines=["a b", "c\" d"]"#, "wait=10"]);
    }

    #[test]
    fn names_stand_for_their_values_wherever_they_are() {
        let names = Names::from([("a".into(), json!(7)), ("doc".into(), json!("/x y"))]);
        let guards = value(r#"[{"target":$doc,"fence":$a}]"#, &names);
        assert_eq!(guards, Ok(json!([{ "target": "/x y", "fence": 7 }])));
        assert_eq!(value("forever", &names), Ok(json!("forever")));
        assert!(value("$b", &names).is_err());
    }

    #[test]
    fn fields_are_reached_by_dots() {
        let answer = json!({ "entries": [{ "line": "x" }] });
        assert_eq!(field(&answer, "entries.0.line"), Some(&json!("x")));
        assert_eq!(field(&answer, "entries.1.line"), None);
    }
}
