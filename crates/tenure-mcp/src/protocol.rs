//! Messages: JSON-RPC 2.0 in the two generations of the Model Context Protocol.
//!
//! Up to 2025-11-25 a client begins with `initialize`. From 2026-07-28 on there is no handshake: every request names
//! its version in `_meta`, `server/discover` lists what the server can do, and results say that they are complete. A
//! server serves both; which one a request belongs to is visible in the request itself.
//!
//! # Invariants
//!
//! 1. Every request with an id gets exactly one response. A notification gets none, whatever is wrong with it.
//! 2. A response is one line.

use tenure::{Value, json};

/// The generation with a handshake: the versions that it may ask for, the newest first.
const WITH_HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The generation without one.
const STATELESS: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// Where results of the generation without a handshake name the server.
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// What a list says about how long it may be kept: the tools never change while the server runs.
const LIST_TTL_MS: u64 = 3_600_000;

/// Which generation a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25.
    Handshake,
    /// From 2026-07-28 on.
    Stateless,
}

/// What is wrong with a request. The codes are those of JSON-RPC and of the protocol.
#[derive(Debug, Clone)]
pub struct Fault {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Fault {
    /// The line is not JSON.
    pub fn parse(why: impl Into<String>) -> Self {
        Self { code: -32_700, message: why.into(), data: None }
    }

    /// The message is JSON, and no request.
    pub fn request(why: impl Into<String>) -> Self {
        Self { code: -32_600, message: why.into(), data: None }
    }

    /// There is no such method.
    pub fn method(method: &str) -> Self {
        Self { code: -32_601, message: format!("unknown method `{method}`"), data: None }
    }

    /// The parameters are wrong.
    pub fn params(why: impl Into<String>) -> Self {
        Self { code: -32_602, message: why.into(), data: None }
    }

    /// There is no such resource.
    pub fn resource(uri: &str) -> Self {
        let message = format!("no resource has the address `{uri}`");
        Self { data: Some(json!({ "uri": uri })), ..Self::params(message) }
    }

    /// A bug of this server.
    pub fn internal(why: impl Into<String>) -> Self {
        Self { code: -32_603, message: why.into(), data: None }
    }

    /// Too many calls are under way.
    pub fn overloaded(limit: usize) -> Self {
        let message = format!("{limit} calls are under way already; wait for one of them to end");
        Self { code: -32_000, message, data: None }
    }

    fn version(asked: &str) -> Self {
        let supported: Value = std::iter::once(STATELESS).chain(WITH_HANDSHAKE).collect();
        Self {
            code: -32_022,
            message: format!("this server does not speak protocol version `{asked}`"),
            data: Some(json!({ "supported": supported, "requested": asked })),
        }
    }
}

/// One message from the client.
#[derive(Debug, Clone)]
pub struct Message {
    /// What the response is addressed to; `None` for a notification.
    pub id: Option<Value>,
    /// What is asked for.
    pub method: String,
    /// With what; an empty object if there is nothing.
    pub params: Value,
    /// In which generation.
    pub era: Era,
}

impl Message {
    /// Reads a line. The error is the id to answer to, and why.
    pub fn read(line: &[u8]) -> Result<Self, (Value, Fault)> {
        let message = tenure::json::parse(line);
        let message = message.map_err(|err| (Value::Null, Fault::parse(err.to_string())))?;
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let refuse = |fault| (id.clone().unwrap_or(Value::Null), fault);
        if message["jsonrpc"] != "2.0" {
            return Err(refuse(Fault::request("this is not a JSON-RPC 2.0 message")));
        }
        let Some(method) = message["method"].as_str() else {
            return Err(refuse(Fault::request("the message has no method")));
        };
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        if params.as_object().is_none() {
            return Err(refuse(Fault::params("`params` must be an object")));
        }
        let era = match params["_meta"][VERSION_KEY].as_str() {
            Some(STATELESS) => Era::Stateless,
            Some(asked) if id.is_some() => return Err(refuse(Fault::version(asked))),
            None if method == "server/discover" => Era::Stateless,
            _ => Era::Handshake,
        };
        Ok(Self { id, method: method.to_owned(), params, era })
    }
}

/// The answer to `initialize`: the version that was asked for if it is known, else the newest.
pub fn handshake(params: &Value, about: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let known = WITH_HANDSHAKE.iter().find(|version| **version == asked);
    json!({
        "protocolVersion": *known.unwrap_or(&WITH_HANDSHAKE[0]),
        "capabilities": about["capabilities"].clone(),
        "serverInfo": about["server"].clone(),
        "instructions": about["instructions"].clone(),
    })
}

/// The answer to `server/discover`.
pub fn discovery(about: &Value) -> Value {
    json!({
        "supportedVersions": [STATELESS],
        "capabilities": about["capabilities"].clone(),
        "instructions": about["instructions"].clone(),
        "_meta": { SERVER_KEY: about["server"].clone() },
    })
}

/// The line that answers a request.
pub fn response(id: &Value, era: Era, method: &str, outcome: Result<Value, Fault>) -> String {
    let body = match outcome {
        Ok(result) => {
            json!({ "jsonrpc": "2.0", "id": id, "result": complete(era, method, result) })
        }
        Err(Fault { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
                error.insert("data", data);
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    };
    body.to_string() + "\n"
}

/// A result as its generation wants it.
fn complete(era: Era, method: &str, mut result: Value) -> Value {
    if let (Era::Stateless, Some(fields)) = (era, result.as_object_mut()) {
        fields.insert("resultType", "complete");
        let ttl = match method {
            "tools/list" | "resources/templates/list" | "server/discover" => Some(LIST_TTL_MS),
            // Files change at any time.
            "resources/list" | "resources/read" => Some(0),
            _ => None,
        };
        if let Some(ttl) = ttl {
            fields.insert("ttlMs", ttl);
            fields.insert("cacheScope", "private");
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Message {
        Message::read(text.as_bytes()).expect("a message")
    }

    #[test]
    fn the_generation_is_visible_in_the_request() {
        let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let new = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(read(old).era, Era::Handshake);
        assert_eq!(read(new).era, Era::Stateless);
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_known_ones() {
        let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}}"#;
        let (id, fault) = Message::read(text.as_bytes()).expect_err("an unknown version");
        let answer = response(&id, Era::Stateless, "tools/list", Err(fault));
        let answer = tenure::json::parse(answer.trim_end().as_bytes()).expect("JSON");
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["error"]["code"], -32_022);
        assert_eq!(answer["error"]["data"]["requested"], "2031-01-01");
        assert_eq!(answer["error"]["data"]["supported"][0], "2026-07-28");
    }

    #[test]
    fn a_handshake_answers_with_a_version_that_both_know() {
        let about = json!({ "capabilities": {}, "server": {}, "instructions": "" });
        let old = handshake(&json!({ "protocolVersion": "2024-11-05" }), &about);
        assert_eq!(old["protocolVersion"], "2024-11-05");
        let future = handshake(&json!({ "protocolVersion": "2031-01-01" }), &about);
        assert_eq!(future["protocolVersion"], "2025-11-25");
    }

    #[test]
    fn lists_of_the_stateless_generation_say_how_long_they_may_be_kept() {
        let list = response(&json!(1), Era::Stateless, "tools/list", Ok(json!({ "tools": [] })));
        let list = tenure::json::parse(list.trim_end().as_bytes()).expect("JSON");
        assert_eq!(list["result"]["resultType"], "complete");
        assert_eq!(list["result"]["cacheScope"], "private");
        let old = response(&json!(1), Era::Handshake, "tools/list", Ok(json!({ "tools": [] })));
        assert!(!old.contains("resultType"), "{old}");
    }
}
