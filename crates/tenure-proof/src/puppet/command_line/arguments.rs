//! An order as the arguments of the `tenure` command.

use serde_json::Value;

use super::HOLD;

/// The orders that the command can do.
pub(super) const KNOWN: &[&str] = &[
    "lock",
    "release",
    "read",
    "set",
    "add",
    "merge",
    "append",
    "entries",
    "check",
    "rotate",
    "follow",
    "next",
    "acquire",
    "renew",
    "end",
    "take_over",
    "show",
    "storm",
];

/// The arguments after `tenure --json`.
pub(super) fn arguments(order: &Value) -> Result<Vec<String>, String> {
    let path = text(&order["path"]);
    let value = || order["value"].to_string();
    let words: &[&str] = match order["op"].as_str().unwrap_or_default() {
        "lock" => &["run", &path],
        "read" => &["doc", "get", &path],
        "set" => &["doc", "set", &path, &value()],
        "merge" => &["doc", "merge", &path, &value()],
        "add" => &["doc", "update", &path, ".n += 1", "--init", "{\"n\":0}"],
        "append" => &["journal", "append", &path],
        "entries" => &["journal", "read", &path],
        "check" => &["journal", "verify", &path],
        "rotate" => &["journal", "rotate", &path],
        "follow" => &["journal", "follow", &path, "--wait", "forever"],
        "acquire" => &["lease", "acquire", &path],
        "renew" => &["lease", "renew", &path],
        "end" => &["lease", "release", &path],
        "take_over" => &["lease", "take-over", &path],
        "show" => &["lease", "show", &path],
        other => return Err(format!("the command cannot {other}")),
    };
    let mut arguments: Vec<String> = words.iter().map(ToString::to_string).collect();
    options(order, &mut arguments)?;
    match order["op"].as_str() {
        Some("lock") => arguments.extend(["--", "sh", "-c", HOLD].map(String::from)),
        Some("append") => {
            arguments.push("--".into());
            arguments.extend(order["lines"].as_array().into_iter().flatten().map(text));
        }
        _ => {}
    }
    Ok(arguments)
}

/// The options, by the fields of the order. The wait is always given: the command's default is not
/// used.
fn options(order: &Value, arguments: &mut Vec<String>) -> Result<(), String> {
    let op = order["op"].as_str().unwrap_or_default();
    let writes = ["set", "add", "merge", "append", "rotate"].contains(&op);
    if writes && order["sync"] != true {
        arguments.push("--no-sync".into());
    }
    if writes || ["lock", "acquire", "take_over"].contains(&op) {
        arguments.extend(["--wait".into(), duration(&order["wait"])]);
    }
    for (name, value) in order.as_object().into_iter().flatten() {
        let option = match name.as_str() {
            "op" | "path" | "value" | "lines" | "wait" | "as" | "sync" | "times" | "token" => {
                continue;
            }
            "shared" if *value == true => {
                arguments.push("--shared".into());
                continue;
            }
            "ttl" => {
                arguments.extend(["--ttl".into(), duration(value)]);
                continue;
            }
            "guards" => {
                for guard in value.as_array().into_iter().flatten() {
                    let proof = format!("{}={}", text(&guard["target"]), guard["fence"]);
                    arguments.extend(["--guard".into(), proof]);
                }
                continue;
            }
            "owner" if op == "lock" => continue, // `run` has no owner.
            "fence" | "label" | "owner" | "reason" | "from" => name.clone(),
            "if_version" => "if-version".into(),
            "op_id" => "op-id".into(),
            other => return Err(format!("the command has no {other} for {op}")),
        };
        arguments.extend([format!("--{option}"), text(value)]);
    }
    Ok(())
}

fn duration(wait: &Value) -> String {
    match wait {
        Value::Number(ms) => format!("{ms}ms"),
        wait if wait == "forever" => "forever".into(),
        _ => "0".into(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
