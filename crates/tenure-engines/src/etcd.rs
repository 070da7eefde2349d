//! An etcd cluster of one or more members.
//!
//! Each member has a second, plain address for the test's own questions, whatever clients have to prove.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, Launch};
use crate::{Host, Identity, gateway, place, port, programs, until};

/// Longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a member prints once it has joined and answers clients.
const READY: &str = "serving client traffic";

/// What differs from a plain cluster.
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    /// The servers' identity; then clients must use TLS.
    pub tls: Option<Identity>,
    /// The authority of the clients; then they must show a certificate.
    pub client_ca: Option<PathBuf>,
    /// The space for data in bytes; writes beyond it raise an alarm.
    pub quota: Option<u64>,
    /// Other arguments.
    pub arguments: Vec<String>,
    /// Where the members run, one each; fewer: the others run on loopback.
    pub hosts: Vec<Host>,
}

#[derive(Debug)]
struct Member {
    dir: PathBuf,
    host: Host,
    client: u16,
    peer: u16,
    plain: u16,
    daemon: Option<Daemon>,
}

/// A cluster. Dropping it kills its members, and removes their data.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    options: EtcdOptions,
}

impl Etcd {
    /// Whether the program is here. If not, the test fails or is reported as not run.
    pub fn is_here() -> bool {
        let works = programs::find("etcd", Some("TENURE_ETCD")).is_some();
        tenure_testkit::allows(works, "etcd", "TENURE_WITHOUT_ETCD")
    }

    /// One member that all tests of a program share. Each of them uses [`Self::fresh_url`].
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Etcd> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(1))
    }

    /// A cluster without TLS and passwords.
    pub fn start(members: usize) -> Self {
        Self::start_with(members, EtcdOptions::default())
    }

    /// A cluster with these options.
    pub fn start_with(members: usize, options: EtcdOptions) -> Self {
        let member = |index: usize| Member {
            dir: place::directory("etcd"),
            host: options.hosts.get(index).cloned().unwrap_or_default(),
            client: port::free(),
            peer: port::free(),
            plain: port::free(),
            daemon: None,
        };
        let members = (0..members).map(member).collect();
        let mut cluster = Self { members, options };
        for index in 0..cluster.members.len() {
            cluster.launch(index);
        }
        for index in 0..cluster.members.len() {
            cluster.wait(index);
        }
        cluster
    }

    /// The addresses that clients use, with commas.
    pub fn addresses(&self) -> String {
        let all: Vec<String> = (0..self.members.len()).map(|index| self.address(index)).collect();
        all.join(",")
    }

    /// The address that clients use for one member.
    pub fn address(&self, index: usize) -> String {
        let member = &self.members[index];
        format!("{}:{}", member.host.address(), member.client)
    }

    /// The store's URL, without a prefix.
    pub fn url(&self) -> String {
        self.url_at(&self.addresses())
    }

    /// The same with other addresses: a proxy, or one member.
    pub fn url_at(&self, addresses: &str) -> String {
        let scheme = if self.options.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{addresses}")
    }

    /// The store's URL with a prefix that nothing else uses.
    pub fn fresh_url(&self) -> String {
        format!("{}/{}", self.url(), Self::fresh_prefix())
    }

    /// A prefix that nothing else uses.
    pub fn fresh_prefix() -> String {
        format!("t{:016x}", RandomState::new().hash_one(0))
    }

    /// How many members it has, dead or alive.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The leader. Waits until a member that runs knows one that runs.
    pub fn leader(&self) -> usize {
        until("a leader", PATIENCE, || {
            (0..self.members.len()).find(|index| {
                let status = self.ask(*index, "/v3/maintenance/status", &json!({}));
                status.is_ok_and(|status| {
                    status["leader"].is_string()
                        && status["leader"] == status["header"]["member_id"]
                })
            })
        })
    }

    /// Asks a member by its plain address, as no user.
    pub fn ask(&self, index: usize, path: &str, body: &Value) -> Result<Value, String> {
        self.ask_as(index, path, body, None)
    }

    /// Asks a member by its plain address, with the token of a user.
    pub fn ask_as(
        &self,
        index: usize,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Value, String> {
        let member = &self.members[index];
        if member.daemon.is_none() {
            return Err("it was killed".to_owned());
        }
        let address = SocketAddr::new(member.host.address(), member.plain);
        member.host.run(|| gateway::post(address, path, body, token))
    }

    /// Turns on passwords: `root` with this one, and for each of these users a password and the prefix that it may
    /// read and write. Before that, anyone may do all.
    pub fn require_passwords(&self, root: &str, users: &[(&str, &str, &str)]) {
        let done = |path: &str, body: Value| {
            self.ask(0, path, &body).unwrap_or_else(|problem| panic!("{path}: {problem}"))
        };
        done("/v3/auth/user/add", json!({ "name": "root", "password": root }));
        done("/v3/auth/role/add", json!({ "name": "root" }));
        done("/v3/auth/user/grant", json!({ "user": "root", "role": "root" }));
        for (user, password, prefix) in users {
            done("/v3/auth/user/add", json!({ "name": user, "password": password }));
            done("/v3/auth/role/add", json!({ "name": user }));
            let (from, to) = (base64(prefix.as_bytes()), base64(&after(prefix)));
            let range = json!({ "permType": "READWRITE", "key": from, "range_end": to });
            done("/v3/auth/role/grant", json!({ "name": user, "perm": range }));
            done("/v3/auth/user/grant", json!({ "user": user, "role": user }));
        }
        done("/v3/auth/enable", json!({}));
    }

    /// `kill -9` of a member.
    pub fn kill(&mut self, index: usize) {
        drop(self.members[index].daemon.take());
    }

    /// Starts a member again on its data, and waits until it answers. That takes a majority of the others.
    pub fn restart(&mut self, index: usize) {
        self.launch(index);
        self.wait(index);
    }

    /// Starts a member again without waiting until it answers.
    pub fn launch(&mut self, index: usize) {
        self.kill(index);
        let arguments = self.arguments(index);
        let member = &mut self.members[index];
        let log = member.dir.join("log");
        // Of this start: an earlier one may have said that it answers.
        let _ = std::fs::remove_file(&log);
        let program = programs::find("etcd", Some("TENURE_ETCD"));
        member.daemon = Some(Daemon::start(&Launch {
            program: &program.expect("etcd is missing: ask `Etcd::is_here` first"),
            arguments,
            user: None,
            host: &member.host,
            log,
        }));
    }

    /// Waits until a member answers.
    pub fn wait(&mut self, index: usize) {
        let daemon = self.members[index].daemon.as_mut().expect("it was started");
        until("etcd answers", PATIENCE, || {
            daemon.assert_runs();
            daemon.printed().contains(READY).then_some(())
        });
    }

    /// `SIGSTOP` of a member: connections stay, and nothing answers.
    pub fn pause(&self, index: usize) {
        self.running(index).pause();
    }

    /// Continues it.
    pub fn resume(&self, index: usize) {
        self.running(index).resume();
    }

    /// Whether a member was not killed.
    pub fn runs(&self, index: usize) -> bool {
        self.members[index].daemon.is_some()
    }

    /// Copies the data of a killed member aside, for [`Self::roll_back`].
    pub fn keep(&self, index: usize) {
        self.copy(index, "data", "kept");
    }

    /// Puts the copy of [`Self::keep`] in place of the data of a killed member, as an old backup of its disk would.
    pub fn roll_back(&self, index: usize) {
        self.copy(index, "kept", "data");
    }

    /// What a member has logged since its start.
    pub fn log(&self, index: usize) -> String {
        self.running(index).printed()
    }

    /// Where a member keeps its data.
    pub fn directory(&self, index: usize) -> &std::path::Path {
        &self.members[index].dir
    }

    fn copy(&self, index: usize, from: &str, to: &str) {
        let member = &self.members[index];
        assert!(member.daemon.is_none(), "kill it first");
        place::remove(&member.dir.join(to));
        let mut command = std::process::Command::new("cp");
        command.arg("-a").args([member.dir.join(from), member.dir.join(to)]);
        let copied = command.output();
        assert!(copied.as_ref().is_ok_and(|it| it.status.success()), "cp: {copied:?}");
    }

    fn running(&self, index: usize) -> &Daemon {
        self.members[index].daemon.as_ref().expect("the member was killed; start it first")
    }

    fn arguments(&self, index: usize) -> Vec<OsString> {
        let (member, options) = (&self.members[index], &self.options);
        let peer_url =
            |member: &Member| format!("http://{}:{}", member.host.address(), member.peer);
        let mut cluster = String::new();
        for (index, member) in self.members.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(cluster, "{comma}n{index}={}", peer_url(member));
        }
        let address: IpAddr = member.host.address();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://{address}:{}", member.client);
        let mut arguments: Vec<OsString> =
            vec!["--data-dir".into(), member.dir.join("data").into()];
        let mut add = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
        add("--name", &format!("n{index}"));
        add("--listen-client-urls", &format!("{client},http://{address}:{}", member.plain));
        add("--advertise-client-urls", &client);
        add("--listen-peer-urls", &peer_url(member));
        add("--initial-advertise-peer-urls", &peer_url(member));
        add("--initial-cluster", &cluster);
        add("--initial-cluster-token", &self.members[0].dir.to_string_lossy());
        add("--logger", "zap");
        if let Some(Identity { cert, key }) = &options.tls {
            add("--cert-file", &cert.to_string_lossy());
            add("--key-file", &key.to_string_lossy());
        }
        if let Some(ca) = &options.client_ca {
            add("--trusted-ca-file", &ca.to_string_lossy());
        }
        if let Some(quota) = options.quota {
            add("--quota-backend-bytes", &quota.to_string());
        }
        if options.client_ca.is_some() {
            arguments.push("--client-cert-auth".into());
        }
        arguments.extend(options.arguments.iter().map(OsString::from));
        arguments
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            self.kill(index);
            place::remove(&self.members[index].dir);
        }
    }
}

/// The first key behind all that begin with `prefix`.
fn after(prefix: &str) -> Vec<u8> {
    let mut bytes = prefix.as_bytes().to_vec();
    let last = bytes.last_mut().expect("a prefix");
    *last += 1;
    bytes
}

/// As the gateway wants keys.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - part.len()));
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= part.len() { char::from(DIGITS[at]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{after, base64};

    #[test]
    fn keys_are_written_as_the_gateway_wants_them() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(after("a/"), b"a0");
    }
}
