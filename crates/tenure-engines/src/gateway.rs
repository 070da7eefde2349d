//! etcd's JSON gateway, as far as a test has to administer a cluster. It shares no code with the engine under test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A member that is alive answers much sooner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Posts to a member. HTTP/1.0: the answer ends with the connection.
pub(crate) fn post(
    member: SocketAddr,
    path: &str,
    body: &Value,
    token: Option<&str>,
) -> Result<Value, String> {
    let told = |err: std::io::Error| format!("{member}{path}: {err}");
    let mut stream = TcpStream::connect_timeout(&member, PATIENCE).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    let body = body.to_string();
    let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {member}\r\n{token}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("{member}: {answer}"))?;
    let body: Value = serde_json::from_str(body).map_err(|err| format!("{err}: {body}"))?;
    if head.split(' ').nth(1) == Some("200") { Ok(body) } else { Err(body.to_string()) }
}
