//! A registry of npm packages on this machine (verdaccio), which has our packages and no others.
//!
//! # Invariants
//!
//! 1. It listens on the loopback address only, asks no other registry, and ends with the trial.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::npm::NPM;
use super::super::{Job, files, output_of, run_command};

/// How long it may take to start.
const START_MAX: Duration = Duration::from_mins(1);
/// From npm: the registry, and the last compiler that still has `moduleResolution: node`.
const TOOLS: &str = r#"{
  "private": true,
  "dependencies": { "verdaccio": "6.2.9", "typescript": "5.9.3", "@types/node": "20.19.43" },
  "overrides": { "node-fetch": "2.7.0" }
}
"#;

/// The running registry.
#[derive(Debug)]
pub(super) struct Registry {
    server: Child,
    pub(super) address: String,
    /// Settings for npm that name it, and a cache of its own.
    settings: PathBuf,
    cache: PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Installs what the trials need from npm, and says so. Returns its directory.
pub(super) fn tools(job: &Job) -> Result<PathBuf, String> {
    let dir = job.trial.join("tools/node");
    let manifest = dir.join("package.json");
    let there = dir.join("node_modules/verdaccio").is_dir();
    if there && files::read(&manifest).is_ok_and(|text| text == TOOLS) {
        println!("verdaccio and typescript are here; nothing to install");
        return Ok(dir);
    }
    println!("installing verdaccio and typescript from npm into {}", dir.display());
    files::empty(&dir)?;
    let mut npm = Command::new(NPM);
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]);
    files::write(&manifest, TOOLS)?;
    run_command(npm.current_dir(&dir))?;
    Ok(dir)
}

impl Registry {
    /// Starts it in an empty directory.
    pub(super) fn start(tools: &Path, home: &Path) -> Result<Self, String> {
        files::empty(home)?;
        let port = free_port()?;
        files::write(&home.join("config.yaml"), CONFIG)?;
        let mut server = Command::new("node");
        server.arg(tools.join("node_modules/verdaccio/bin/verdaccio"));
        server.args(["--config", "config.yaml", "--listen"]).arg(format!("127.0.0.1:{port}"));
        let log = std::fs::File::create(home.join("log")).map_err(files::failed("write", home))?;
        let errors = log.try_clone().map_err(files::failed("write", home))?;
        server.current_dir(home).stdin(Stdio::null()).stdout(log).stderr(errors);
        let server = server.spawn().map_err(|err| format!("failed to start verdaccio: {err}"))?;
        let settings = home.join("npmrc");
        // Any token will do: every user may publish.
        files::write(&settings, &format!("//127.0.0.1:{port}/:_authToken=trial\n"))?;
        let address = format!("http://127.0.0.1:{port}/");
        let mut registry = Self { server, address, settings, cache: home.join("cache") };
        registry.wait(port, &home.join("log"))?;
        Ok(registry)
    }

    /// Waits until it answers.
    fn wait(&mut self, port: u16, log: &Path) -> Result<(), String> {
        let start = Instant::now();
        let (_never, pause) = std::sync::mpsc::channel::<()>();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = self.server.try_wait().map_err(|err| format!("verdaccio: {err}"))?;
            if ended.is_some() || start.elapsed() > START_MAX {
                let log = files::read(log).unwrap_or_default();
                return Err(format!("verdaccio does not answer:\n{log}"));
            }
            let _ = pause.recv_timeout(Duration::from_millis(50));
        }
        Ok(())
    }

    /// npm, which knows this registry only.
    pub(super) fn npm(&self, dir: &Path) -> Command {
        let mut npm = super::command(Path::new(NPM), dir);
        npm.arg("--registry").arg(&self.address).arg("--userconfig").arg(&self.settings);
        npm.arg("--cache").arg(&self.cache).args(["--no-audit", "--no-fund", "--silent"]);
        npm
    }

    /// Publishes a package.
    pub(super) fn publish(&self, package: &Path) -> Result<(), String> {
        let dir = package.parent().unwrap_or(package);
        let mut npm = self.npm(dir);
        npm.args(["publish", "--access", "public"]).arg(package);
        output_of(&mut npm).map(drop)
    }
}

/// A port that is free now.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|err| format!("no free port: {err}"))
}

const CONFIG: &str = "\
storage: ./storage
auth:
  htpasswd:
    file: ./htpasswd
    max_users: -1
uplinks: {}
packages:
  '@*/*':
    access: $all
    publish: $all
  '**':
    access: $all
    publish: $all
max_body_size: 100mb
log: { type: stdout, format: pretty, level: warn }
";
