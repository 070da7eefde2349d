//! The Rust puppet: executes the orders on its input, and answers. `PUPPETS.md` has the protocol.
//!
//! Every actor has its own thread and its own handles, so that several handles of one process play
//! the same scenarios as several processes.

mod stage;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let pid = std::process::id();
    say(
        &json!({ "ready": { "language": "rust", "pid": pid, "ops": stage::OPS, "actors": true } }),
    )?;
    let mut actors: HashMap<String, Sender<Value>> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        let name = order["actor"].as_str().unwrap_or_default().to_owned();
        let actor = actors.entry(name.clone()).or_insert_with(|| enter(name));
        actor.send(order).map_err(io::Error::other)?;
    }
    // Without dropping what the actors hold: the end of the process is part of the test.
    std::process::exit(0);
}

/// A new actor, which takes orders.
fn enter(name: String) -> Sender<Value> {
    let (orders, taken) = channel::<Value>();
    std::thread::spawn(move || {
        let mut stage = stage::Stage::default();
        for order in taken {
            let mut answer = stage.perform(&order);
            if !name.is_empty() {
                answer["actor"] = json!(name);
            }
            if say(&answer).is_err() {
                break; // The driver is gone.
            }
        }
    });
    orders
}

/// One write per line, so that lines of several actors do not mix.
fn say(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}
