//! A process that uses a store, for the ring of stores: it obeys one order per line and answers each with one line, so
//! that a test can pause it, kill it, or part it from the server in between.
//!
//! `store_client URL`, then `lock NAME`, `verify`, `write NAME VALUE` (an append under the lock), `loose NAME VALUE`
//! (the mistake: an append that proves nothing), `release`.

use std::io::BufRead;
use std::time::Duration;

use tenure::{
    AppendOptions, Guard, Journal, Lock, LockGuard, LockOptions, Result, Wait, WriteOptions,
};
use tenure_remote::RemoteStore;

#[expect(clippy::print_stdout, reason = "its answers")]
fn main() {
    let url = std::env::args().nth(1).expect("the URL of a store");
    let mut client = match tenure_remote::open(&url) {
        Ok(store) => Client { store, hold: None },
        Err(error) => return println!("error {}: {error}", error.kind().code()),
    };
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        match client.obey(&line) {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {}: {error}", error.kind().code()),
        }
    }
}

struct Client {
    store: RemoteStore,
    hold: Option<(String, LockGuard)>,
}

impl Client {
    fn obey(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        match (&words[..], &self.hold) {
            (["lock", name], _) => {
                let wait = Wait::For(Duration::from_secs(60));
                let options = LockOptions { wait, ..LockOptions::default() };
                let guard = Lock::on(&self.store, name)?.acquire(&options)?;
                let fence = guard.publish_fence();
                self.hold = Some(((*name).to_owned(), guard));
                Ok(format!("held {fence}"))
            }
            (["verify"], Some((_, guard))) => guard.verify().map(|()| "held".to_owned()),
            (["write", name, value], Some((lock, guard))) => {
                let guards = vec![Guard { target: lock.into(), fence: guard.publish_fence() }];
                let write = WriteOptions { guards, ..WriteOptions::default() };
                let options = AppendOptions { write, ..AppendOptions::default() };
                let done = Journal::on(&self.store, name)?.append(&[value], &options)?;
                Ok(format!("written {}", done.last))
            }
            (["loose", name, value], _) => {
                let done =
                    Journal::on(&self.store, name)?.append(&[value], &AppendOptions::default())?;
                Ok(format!("written {}", done.last))
            }
            (["release"], Some(_)) => {
                let (_, guard) = self.hold.take().expect("it was matched");
                guard.release().map(|()| "released".to_owned())
            }
            _ => Ok(format!("unknown order: {line}")),
        }
    }
}
