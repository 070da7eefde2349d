//! A PostgreSQL server with a data directory of its own.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bouncer::Bouncer;
use crate::daemon::{Daemon, Launch};
use crate::{Host, Identity, place, port, programs, until};

/// Longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const TURN: Duration = Duration::from_millis(10);
/// Who owns everything in the database.
const SUPERUSER: &str = "tenure";
/// The user of the system that the server runs as, if this process is root: it refuses root.
const SYSTEM_USER: &str = "postgres";

/// What differs from a plain server.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// The superuser has this password, and connections by TCP must prove it (`scram-sha-256`).
    pub password: Option<String>,
    /// The server's identity; then connections by TCP must use TLS.
    pub tls: Option<Identity>,
    /// The authority of the clients; then they must show a certificate.
    pub client_ca: Option<PathBuf>,
    /// Every transaction is read-only.
    pub read_only: bool,
    /// Lines of `pg_hba.conf` for TCP, instead of those that follow from the above.
    pub hba: Vec<String>,
    /// Other settings, `name=value`.
    pub settings: Vec<String>,
    /// Where it runs.
    pub host: Host,
}

/// How a standby follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// A commit does not wait for it.
    Asynchronous,
    /// A commit waits until it has it on disk.
    Synchronous,
}

/// A server. Dropping it kills it, and removes its data.
#[derive(Debug)]
pub struct Postgres {
    dir: PathBuf,
    port: u16,
    options: PostgresOptions,
    daemon: Option<Daemon>,
}

impl Postgres {
    /// Whether the programs are here. If not, the test fails or is reported as not run.
    pub fn is_here() -> bool {
        let works = programs::postgres().is_some();
        tenure_testkit::allows(works, "PostgreSQL", "TENURE_WITHOUT_POSTGRES")
    }

    /// Whether pgbouncer is here as well.
    pub fn has_bouncer() -> bool {
        let works = programs::find("pgbouncer", None).is_some();
        Self::is_here() && tenure_testkit::allows(works, "pgbouncer", "TENURE_WITHOUT_POSTGRES")
    }

    /// The server that all tests of a program share. Each of them uses [`Self::fresh_url`].
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server without a password.
    pub fn start() -> Self {
        Self::start_with(PostgresOptions::default())
    }

    /// A server with these options.
    pub fn start_with(options: PostgresOptions) -> Self {
        let dir = place::directory("postgres");
        let data = dir.join("data");
        let copied = Command::new("cp").arg("-a").args([template(), &data]).output();
        assert!(copied.as_ref().is_ok_and(|it| it.status.success()), "cp: {copied:?}");
        let mut server = Self { dir, port: port::free(), options, daemon: None };
        server.configure();
        server.restart();
        if let Some(password) = &server.options.password {
            server.sql(&format!("alter user {SUPERUSER} password '{password}'"));
        }
        if server.options.read_only {
            server.sql("alter system set default_transaction_read_only = on");
            server.sql("select pg_reload_conf()");
        }
        server
    }

    /// The address that clients use.
    pub fn address(&self) -> String {
        format!("{}:{}", self.options.host.address(), self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The store's URL, as the superuser, with the password if there is one, in the default schema.
    pub fn url(&self) -> String {
        self.url_at(&self.address())
    }

    /// The same with other addresses: a proxy, or several servers.
    pub fn url_at(&self, addresses: &str) -> String {
        let password = self.options.password.as_ref().map(|word| format!(":{word}"));
        format!("postgres://{SUPERUSER}{}@{addresses}/tenure", password.unwrap_or_default())
    }

    /// The store's URL with a schema that nothing else uses.
    pub fn fresh_url(&self) -> String {
        format!("{}?schema={}", self.url(), Self::fresh_schema())
    }

    /// A name of a schema that nothing else uses.
    pub fn fresh_schema() -> String {
        format!("t{:016x}", RandomState::new().hash_one(0))
    }

    /// Runs SQL as the superuser, and returns what it prints, without headers.
    pub fn sql(&self, statement: &str) -> String {
        self.try_sql(statement).unwrap_or_else(|problem| panic!("{statement}: {problem}"))
    }

    /// Runs SQL; an error is what `psql` printed.
    pub fn try_sql(&self, statement: &str) -> Result<String, String> {
        let mut command = Command::new(bin("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", SUPERUSER]);
        command.args(["-d", "tenure", "-p", &self.port.to_string(), "-c", statement]);
        command.arg("-h").arg(&self.dir);
        let ended = command.output().map_err(|err| err.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if ended.status.success() { Ok(text(&ended.stdout)) } else { Err(text(&ended.stderr)) }
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.daemon.as_ref().map(Daemon::printed).unwrap_or_default()
    }

    /// `kill -9` of the server and all its processes.
    pub fn kill(&mut self) {
        if self.daemon.take().is_some() {
            place::remove_lock_file(&self.data().join("postmaster.pid"));
        }
    }

    /// Starts it again on its data, after a kill or a copy of the data, and waits until it answers.
    pub fn restart(&mut self) {
        self.launch();
        self.wait();
    }

    /// Starts it again without waiting until it answers.
    pub fn launch(&mut self) {
        self.kill();
        let mut arguments: Vec<OsString> = vec!["-D".into(), self.data().into()];
        let settings = [
            format!("port={}", self.port),
            format!("listen_addresses={}", self.options.host.address()),
            format!("unix_socket_directories={}", self.dir.display()),
        ];
        for setting in settings.iter().chain(&self.options.settings) {
            arguments.extend(["-c".into(), setting.into()]);
        }
        self.daemon = Some(Daemon::start(&Launch {
            program: &bin("postgres"),
            arguments,
            user: system_user(),
            host: &self.options.host,
            log: self.dir.join("log"),
        }));
    }

    /// Waits until it answers.
    pub fn wait(&mut self) {
        let end = Instant::now() + PATIENCE;
        while let Err(err) = self.try_sql("select 1") {
            self.daemon.as_mut().expect("it was started").assert_runs();
            assert!(Instant::now() < end, "PostgreSQL does not answer: {err}");
            std::thread::park_timeout(TURN);
        }
    }

    /// `SIGSTOP` of all its processes: connections stay, and nothing answers.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Continues it.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// A standby that has caught up.
    #[must_use]
    pub fn standby(&self, replication: Replication) -> Self {
        let dir = place::directory("standby");
        give_to_server(&dir);
        let mut command = as_server("pg_basebackup");
        command.args(["-U", SUPERUSER, "-p", &self.port.to_string(), "-R", "-c", "fast"]);
        command.args(["-X", "stream", "--no-sync"]).arg("-h").arg(&self.dir);
        command.arg("-D").arg(dir.join("data"));
        run(command);
        let options = self.options.clone();
        let mut standby = Self { dir, port: port::free(), options, daemon: None };
        standby.restart();
        let wanted = match replication {
            Replication::Asynchronous => "async",
            Replication::Synchronous => {
                self.sql("alter system set synchronous_standby_names = '*'");
                self.sql("select pg_reload_conf()");
                "sync"
            }
        };
        let state =
            "select string_agg(sync_state, ' ') from pg_stat_replication where state = 'streaming'";
        until("the standby follows", PATIENCE, || (self.sql(state) == wanted).then_some(()));
        standby
    }

    /// Stops what sends to the standbys: what is committed from now on does not reach them.
    pub fn stall_replication(&self) {
        let senders = self.sql("select pid from pg_stat_replication");
        for pid in senders.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            kill_process(pid, Signal::STOP).expect("it runs");
        }
    }

    /// Makes a standby the primary, and waits until it is.
    pub fn promote(&self) {
        assert_eq!(self.sql("select pg_promote(true, 60)"), "t");
        // What it took over from the primary would wait for a standby that is not there.
        self.sql("alter system reset synchronous_standby_names");
        self.sql("select pg_reload_conf()");
    }

    /// A pgbouncer before it, which gives a connection to a client for one transaction at a time.
    pub fn bouncer(&self) -> Bouncer {
        Bouncer::start(self, SUPERUSER, system_user())
    }

    /// Copies the data of the killed server aside, for [`Self::roll_back`].
    pub fn keep(&self) {
        self.copy("data", "kept");
    }

    /// Puts the copy of [`Self::keep`] in place of the data of the killed server, as an old backup would.
    pub fn roll_back(&self) {
        self.copy("kept", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        assert!(self.daemon.is_none(), "kill it first");
        place::remove(&self.dir.join(to));
        let mut command = Command::new("cp");
        command.arg("-a").args([self.dir.join(from), self.dir.join(to)]);
        run(command);
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn running(&self) -> &Daemon {
        self.daemon.as_ref().expect("the server was killed; start it first")
    }

    fn configure(&mut self) {
        let options = &mut self.options;
        let hba = if options.hba.is_empty() {
            let transport = if options.tls.is_some() { "hostssl" } else { "host" };
            let method = if options.password.is_some() { "scram-sha-256" } else { "trust" };
            let cert = if options.client_ca.is_some() { " clientcert=verify-ca" } else { "" };
            format!("{transport} all all all {method}{cert}\n")
        } else {
            options.hba.join("\n") + "\n"
        };
        let local = "local all all trust\nlocal replication all trust\n";
        place::write(&self.dir.join("data/pg_hba.conf"), &format!("{local}{hba}"));
        let settings = &mut options.settings;
        // Memory that is shared by files of the data directory goes with it, also after `kill -9`.
        let own = ["dynamic_shared_memory_type=mmap", "max_connections=200"];
        settings.extend(own.map(str::to_owned));
        if options.password.is_some() {
            settings.push("password_encryption=scram-sha-256".to_owned()); // PostgreSQL 13 has another default.
        }
        if let Some(identity) = &options.tls {
            // The server wants a key of its own user that no other can read.
            let (cert, key) = (self.dir.join("server.crt"), self.dir.join("server.key"));
            let copies = [(&identity.cert, &cert, "644"), (&identity.key, &key, "600")];
            for (from, to, mode) in copies {
                let mut command = Command::new("install");
                command.args(["-m", mode]).args([from, to]);
                run(command);
            }
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", cert.display()));
            settings.push(format!("ssl_key_file={}", key.display()));
        }
        if let Some(ca) = &options.client_ca {
            settings.push(format!("ssl_ca_file={}", ca.display()));
        }
        give_to_server(&self.dir);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        place::remove(&self.dir);
    }
}

/// A data directory as `initdb` makes it, with the database `tenure`: made once, copied for each server.
fn template() -> &'static PathBuf {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let dir = place::directory("template");
        give_to_server(&dir);
        let data = dir.join("data");
        let mut command = as_server("initdb");
        command.args([
            "-A",
            "trust",
            "-U",
            SUPERUSER,
            "--no-sync",
            "--locale=C",
            "-E",
            "UTF8",
            "-D",
        ]);
        command.arg(&data);
        run(command);
        let mut command = as_server("postgres");
        command.args(["--single", "-D"]).arg(&data).arg("postgres");
        single_user(command, "create database tenure\n");
        data
    })
}

/// Runs a statement on a data directory that no server uses.
fn single_user(mut command: Command, statement: &str) {
    use std::io::Write as _;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|err| panic!("{command:?}: {err}"));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(statement.as_bytes()).expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn bin(program: &str) -> PathBuf {
    let bin = programs::postgres();
    bin.expect("PostgreSQL is missing: ask `Postgres::is_here` first").join(program)
}

/// A program of PostgreSQL that refuses root.
fn as_server(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(user) = system_user() {
        command.args(["--reuid", user, "--regid", user, "--init-groups"]);
    }
    command.arg(bin(program)).current_dir("/");
    command
}

fn give_to_server(dir: &Path) {
    if let Some(user) = system_user() {
        place::give(dir, user);
    }
}

/// The user that servers run as, if this process is root.
fn system_user() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some(SYSTEM_USER)
}

fn run(mut command: Command) {
    let ended = command.output().unwrap_or_else(|err| panic!("{command:?}: {err}"));
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}
