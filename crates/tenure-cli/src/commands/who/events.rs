//! What happened to a target, in sentences.

use std::time::Duration;

use tenure::Value;
use tenure::embed::printable;

use crate::clock;

/// When it was, and what.
pub(super) fn sentence(event: &Value) -> String {
    let at = event["at_us"].as_u64().unwrap_or(0);
    let ago = clock::short(Duration::from_micros(clock::now_us().saturating_sub(at)));
    let what = what(event["event"].as_str().unwrap_or_default(), &event["detail"]);
    format!("{} ({ago} ago)  {}", clock::time(at), printable(&what))
}

fn what(name: &str, detail: &Value) -> String {
    let text = |key: &str| detail[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| detail[key].as_u64().unwrap_or(0);
    match name {
        "holder_died" => {
            let label = match text("label") {
                label if label.is_empty() => String::new(),
                label => format!(", \"{label}\""),
            };
            let (pid, host, command) = (number("pid"), text("host"), text("command"));
            let fence = number("fence");
            format!(
                "pid {pid} on {host} ({command}{label}) died while it held the lock, fence {fence}"
            )
        }
        "take_over" => {
            let from = match detail["from"]["owner"].as_str() {
                Some(owner) => format!(" from `{owner}`"),
                None => ", which was free".to_owned(),
            };
            format!("`{}` took the lease over{from}: {}", text("by"), text("reason"))
        }
        "restored" => format!(
            "the document could not be read; its {} bytes were set aside, and its last good version was restored",
            number("damaged_bytes")
        ),
        "damage_copied" => {
            format!(
                "the document could not be read; its {} bytes were copied aside",
                number("bytes")
            )
        }
        "damage_set_aside" => format!(
            "bytes {} to {} of the journal were not what was written; they were set aside",
            number("start"),
            number("end")
        ),
        "journal_adopted" => {
            let lines = match detail["lines"].as_u64() {
                Some(lines) => format!("{lines} lines got a number"),
                None => "its entries keep their numbers".to_owned(),
            };
            format!("the journal was adopted as it is, since {}; {lines}", text("why"))
        }
        "record_unreadable" => {
            "the record could not be read; a new one was started, and the data was adopted"
                .to_owned()
        }
        "operation_forgotten" => format!(
            "the id of an operation could not be kept: a repeated call with it may write again ({})",
            text("why")
        ),
        name => format!("{name}: {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name without a sentence of its own is printed with its JSON.
    #[test]
    fn every_recorded_event_has_a_sentence() {
        for name in [
            "holder_died",
            "take_over",
            "restored",
            "damage_copied",
            "damage_set_aside",
            "journal_adopted",
            "record_unreadable",
            "operation_forgotten",
        ] {
            let said = what(name, &tenure::json!({ "why": "no access" }));
            assert!(!said.starts_with(name) && !said.contains('{'), "{said}");
        }
    }
}
