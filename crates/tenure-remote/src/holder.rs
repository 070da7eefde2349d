//! A holder as the text that an engine keeps of it.
//!
//! The fence, the kind and the time of the hold are not in it: an engine knows them when it grants the hold.

use tenure::json::parse as parse_json;
use tenure::status::Holder;
use tenure::{Value, json};

/// Who asks, as text.
pub(crate) fn to_text(holder: &Holder) -> String {
    json!({
        "pid": holder.pid, "start": holder.start, "pid_namespace": holder.pid_namespace, "host": holder.host,
        "command": holder.command, "label": holder.label, "owner": holder.owner,
    })
    .to_string()
}

/// Reads what [`to_text`] wrote; anything else is an unknown holder.
pub(crate) fn from_text(text: &[u8]) -> Holder {
    let fields = parse_json(text).unwrap_or(Value::Null);
    let number = |name: &str| fields[name].as_u64().unwrap_or(0);
    let string = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    Holder {
        pid: number("pid").try_into().unwrap_or(0),
        start: number("start"),
        pid_namespace: number("pid_namespace"),
        host: string("host"),
        command: string("command"),
        label: string("label"),
        owner: string("owner"),
        ..Holder::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_survives_as_text() {
        let holder = Holder {
            fence: 0,
            since_us: 0,
            ..Holder::this_process("a \"label\"", "an owner \u{1F980}")
        };
        assert_eq!(from_text(to_text(&holder).as_bytes()), holder);
        assert_eq!(from_text(b"no JSON"), Holder::default());
    }
}
