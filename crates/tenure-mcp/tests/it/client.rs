//! A client: a server on a thread, and two pipes.

use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tenure::file::FileStore;
use tenure::{Value, json};

/// No answer takes this long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    input: Option<PipeWriter>,
    answers: Receiver<Value>,
    server: Option<JoinHandle<tenure::Result<()>>>,
    next: u64,
}

impl Client {
    pub(crate) fn new(root: &Path) -> Self {
        let (read, input) = io::pipe().expect("a pipe");
        let (output, write) = io::pipe().expect("a pipe");
        let options = tenure_mcp::Options {
            store: Arc::new(FileStore::local()),
            root: root.to_path_buf(),
            directory: root.to_path_buf(),
            version: "1.2.3".to_owned(),
        };
        let server = thread::spawn(move || tenure_mcp::serve(options, BufReader::new(read), write));
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let answer = tenure::json::parse(line.as_bytes()).expect("an answer is JSON");
                if send.send(answer).is_err() {
                    break;
                }
            }
        });
        Self { input: Some(input), answers, server: Some(server), next: 0 }
    }

    /// Sends a line as it is.
    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).expect("sent");
    }

    /// Sends a request, and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&line.to_string());
        id
    }

    /// The next answer, whichever request it is for.
    pub(crate) fn answer(&self) -> Value {
        self.answers.recv_timeout(LONG).expect("an answer")
    }

    /// Whether an answer came within this time.
    pub(crate) fn answers_within(&self, time: Duration) -> Option<Value> {
        self.answers.recv_timeout(time).ok()
    }

    /// A request and its answer.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool; the result, or the error of the tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        if result["isError"] == true {
            return Err(result["content"][0]["text"].as_str().unwrap_or_default().to_owned());
        }
        Ok(result["structuredContent"].clone())
    }

    /// Ends the input, and waits for the server.
    pub(crate) fn close(mut self) {
        self.input = None;
        self.server
            .take()
            .map(|server| server.join().expect("no panic"))
            .transpose()
            .expect("ended");
    }
}
