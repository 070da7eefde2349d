//! Hosts with their own network: namespaces, joined by a bridge in one more namespace.
//!
//! Nothing of it is visible outside. A namespace lives as long as a process in it, and those die with this process, so
//! nothing has to be removed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::daemon;

/// No host has it: what is sent to it is lost.
const NOWHERE: &str = "02:00:00:00:00:01";

/// A host: the machine itself, by loopback, or one of a [`Network`].
#[derive(Debug, Clone, Default)]
pub struct Host {
    own: Option<(Arc<Namespace>, IpAddr)>,
}

impl Host {
    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.own.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |(_, address)| *address)
    }

    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        match &self.own {
            None => Command::new(program),
            Some((namespace, _)) => namespace.command(program),
        }
    }

    /// Runs `job` there, in a thread of its own. Threads that it starts run there as well.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        if self.own.is_none() {
            return job();
        }
        let there = || {
            self.enter();
            job()
        };
        let done = std::thread::scope(|scope| scope.spawn(there).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Moves the calling thread there for ever, and the threads that it starts from now on.
    pub fn enter(&self) {
        if let Some((namespace, _)) = &self.own {
            let file = File::open(namespace.path()).expect("its process lives");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).expect("root may enter");
        }
    }
}

/// Hosts that reach each other.
#[derive(Debug)]
pub struct Network {
    switch: Namespace,
    hosts: Vec<Host>,
}

impl Network {
    /// Whether networks can be made here. If not, the test fails or is reported as not run.
    pub fn is_here() -> bool {
        let tried = Command::new("unshare")
            .args(["--net", "ip", "link", "add", "tenure0", "type", "bridge"])
            .output();
        let works = tried.is_ok_and(|tried| tried.status.success());
        let what = "root, and network namespaces (unshare, ip)";
        tenure_testkit::allows(works, what, "TENURE_WITHOUT_NETWORKS")
    }

    /// This many hosts.
    pub fn new(hosts: usize) -> Self {
        let switch = Namespace::new();
        switch.shell("ip link add bridge0 type bridge; ip link set bridge0 up");
        let hosts = (0..hosts).map(|index| {
            let namespace = Namespace::new();
            let pid = namespace.process.id();
            switch.shell(&format!(
                "ip link add port{index} type veth peer name eth0 netns {pid}; \
                 ip link set port{index} master bridge0; ip link set port{index} up"
            ));
            let last = u8::try_from(index + 1).expect("few hosts");
            let address = IpAddr::V4(Ipv4Addr::new(10, 77, 0, last));
            namespace.shell(&format!(
                "ip link set lo up; ip address add {address}/24 dev eth0; ip link set eth0 up"
            ));
            Host { own: Some((Arc::new(namespace), address)) }
        });
        let hosts = hosts.collect();
        Self { switch, hosts }
    }

    /// A host.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// Pulls the cable of a host.
    pub fn unplug(&self, index: usize) {
        self.switch.shell(&format!("ip link set port{index} down"));
    }

    /// Plugs it in again.
    pub fn plug(&self, index: usize) {
        self.switch.shell(&format!("ip link set port{index} up"));
    }

    /// Loses all that these two send to each other. Their other connections go on.
    pub fn part(&self, one: usize, other: usize) {
        self.lose(one, other);
        self.lose(other, one);
    }

    /// Loses what `from` sends to `to`, and not what comes back.
    pub fn lose(&self, from: usize, to: usize) {
        let address = self.hosts[to].address();
        let lost = format!("ip neigh replace {address} lladdr {NOWHERE} nud permanent dev eth0");
        self.namespace(from).shell(&lost);
    }

    /// Ends [`Self::part`] and [`Self::lose`] of these two.
    pub fn heal(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let address = self.hosts[to].address();
            // There is no entry if only the other way was lost.
            let forget = format!("ip neigh del {address} dev eth0 2>/dev/null || true");
            self.namespace(from).shell(&forget);
        }
    }

    /// Parts every host of the one side from every host of the other.
    pub fn split(&self, one_side: &[usize], other_side: &[usize]) {
        for one in one_side {
            for other in other_side {
                self.part(*one, *other);
            }
        }
    }

    /// Ends all partings.
    pub fn heal_all(&self) {
        for one in 0..self.hosts.len() {
            for other in 0..one {
                self.heal(one, other);
            }
        }
    }

    fn namespace(&self, index: usize) -> &Namespace {
        let (namespace, _) = self.hosts[index].own.as_ref().expect("a host of this network");
        namespace
    }
}

/// A network namespace, kept by a process that sleeps in it.
#[derive(Debug)]
struct Namespace {
    process: Child,
}

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "setpriv", "--pdeathsig", "KILL"]);
        command.args(["sh", "-c", "echo inside; exec sleep infinity"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = daemon::spawn(command);
        let mut said = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut said).expect("it says that it is there");
        assert_eq!(said, "inside\n");
        Self { process }
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.process.id())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    fn shell(&self, script: &str) {
        let ended = self.command("sh").args(["-ec", script]).output();
        let ended = ended.unwrap_or_else(|err| panic!("{script}: {err}"));
        assert!(ended.status.success(), "{script}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
