//! Nothing outlives a test program that is killed: neither its servers nor their data.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_engines::{Etcd, until};

const CHILD: &str = "TENURE_ENGINES_CHILD";

/// The child: this test program again, which starts a server and is killed.
#[test]
fn a_child_that_waits_to_be_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let cluster = std::thread::spawn(|| Etcd::start(1)).join().expect("it starts");
    let directory = cluster.ask(0, "/v3/cluster/member/list", &serde_json::json!({}));
    directory.expect("it lives though the thread that started it has ended");
    println!("\nCHILD {} {}", cluster.address(0), cluster.directory(0).display());
    loop {
        std::thread::park();
    }
}

#[test]
fn nothing_outlives_a_killed_test() {
    if !Etcd::is_here() {
        return;
    }
    let program = std::env::current_exe().expect("it has a name");
    let mut child = Command::new(program)
        .args(["--exact", "outlive::a_child_that_waits_to_be_killed", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("CHILD ")).expect("it starts a server");
    let words: Vec<&str> = line.split(' ').collect();
    assert!(TcpStream::connect(words[1]).is_ok() && Path::new(words[2]).is_dir());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let gone = || {
        let refused = TcpStream::connect(words[1]).is_err();
        (refused && !Path::new(words[2]).exists()).then_some(())
    };
    until("server and data are gone", Duration::from_secs(20), gone);
}
