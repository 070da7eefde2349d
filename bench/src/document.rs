//! The document that is read, changed and written: JSON with a counter, so that a lost change shows.

use std::fmt::Write;

use serde_json::Value;

use crate::row::Result;

/// The counter starts here, so that it always has the same number of digits.
const START: u64 = 1_000_000_000;

/// Before the digits of the counter, at the start of every document.
const BEFORE: &str = "{\n  \"count\": ";

/// What a contender does to the document.
pub(crate) type Change = fn(&[u8]) -> Result<Vec<u8>>;

/// A document of about `bytes` bytes, as a person would write it: indented, one entry per line.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    let mut text = format!("{BEFORE}{START},\n  \"entries\": {{\n");
    let mut number = 0;
    while text.len() + 60 < bytes || number == 0 {
        let comma = if number == 0 { "" } else { ",\n" };
        let _ = write!(text, "{comma}    \"key-{number:06}\": \"value of this entry {number:06}\"");
        number += 1;
    }
    text.push_str("\n  }\n}\n");
    text.into_bytes()
}

/// The job as an application does it: parse, add one, write JSON.
pub(crate) fn counted(text: &[u8]) -> Result<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(text)?;
    add_one(&mut document)?;
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

/// The same without JSON: the counter's digits are changed in place. What a floor does.
pub(crate) fn patched(text: &[u8]) -> Result<Vec<u8>> {
    let mut text = text.to_vec();
    let next = (count(&text)? + START + 1).to_string();
    text[BEFORE.len()..BEFORE.len() + next.len()].copy_from_slice(next.as_bytes());
    Ok(text)
}

/// Adds one to the counter of a parsed document.
fn add_one(document: &mut Value) -> Result<()> {
    let count = document["count"].as_u64().ok_or("the document has no counter")?;
    document["count"] = (count + 1).into();
    Ok(())
}

/// The same in the value that tenure hands out; `None` if there is no counter.
pub(crate) fn one_more(document: Option<&tenure::Value>) -> Option<tenure::Value> {
    let mut document = document?.clone();
    document["count"] = (document["count"].as_u64()? + 1).into();
    Some(document)
}

/// How often the document was changed.
pub(crate) fn count(text: &[u8]) -> Result<u64> {
    let digits = text.strip_prefix(BEFORE.as_bytes()).ok_or("not the document")?;
    let digits = digits.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    Ok(std::str::from_utf8(digits)?.parse::<u64>()? - START)
}

/// Fails unless every change is in the document.
pub(crate) fn check(text: &[u8], turns: u64) -> Result<()> {
    let count = count(text)?;
    if count == turns {
        Ok(())
    } else {
        Err(format!("{turns} changes were made, {count} are there").into())
    }
}

#[cfg(test)]
mod tests {
    use super::{check, count, counted, patched, text};

    #[test]
    fn both_ways_to_change_it_are_the_same_change() {
        let start = text(12_288);
        assert!((12_200..12_400).contains(&start.len()), "{}", start.len());
        assert_eq!(count(&start).unwrap(), 0);
        let once = counted(&start).unwrap();
        assert_eq!(once, patched(&start).unwrap());
        let twice = counted(&once).unwrap();
        assert!(check(&twice, 2).is_ok());
        assert!(check(&twice, 3).unwrap_err().to_string().contains("3 changes"));
    }
}
