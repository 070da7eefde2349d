//! A client of `tenure mcp`: one process for the life of an agent, one line per message.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use tenure::{Value, json};

/// The server process. It ends with its input.
pub(super) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    pub(super) fn start(root: &Path) -> io::Result<Self> {
        let mut command = super::tenure(root)?;
        let mut child = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut server = Self { child, input, output: BufReader::new(output), next: 0 };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": { "name": "tenure-demo", "version": "1" } });
        server.ask("initialize", &hello)?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// Calls a tool; its structured result. An error of the tool is an error.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<Value> {
        let mut answer =
            self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        if answer["isError"] == true {
            return Err(io::Error::other(format!("{tool}: {}", answer["content"][0]["text"])));
        }
        Ok(std::mem::take(&mut answer["structuredContent"]))
    }

    fn ask(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        self.next += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }),
        )?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::other("tenure mcp has ended"));
        }
        let mut answer = tenure::json::parse(line.as_bytes()).map_err(io::Error::other)?;
        match answer.get("result") {
            Some(_) => Ok(std::mem::take(&mut answer["result"])),
            None => Err(io::Error::other(format!("{method}: {}", answer["error"]))),
        }
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("the input is closed"))?;
        input.write_all(format!("{message}\n").as_bytes())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
