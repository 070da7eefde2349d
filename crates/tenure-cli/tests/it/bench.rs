//! The test bench: a directory, commands run in it, and their output. The tests of `tenure-lab` use
//! it, too.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::TENURE;

/// Longer than anything here takes; a test that reaches it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// A user without privileges.
const NOBODY: u32 = 65534;

/// A directory of its own, removed at the end.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// The same in another place.
    pub(crate) fn below(parent: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(parent).unwrap() }
    }

    /// The resolved path of a name in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// A file with this content.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(content.as_ref()).unwrap();
        path
    }

    /// A copy that can be run. Another process makes it: a child that another test starts meanwhile
    /// would inherit the copy open for writing, and then no process could run it.
    pub(crate) fn program(&self, name: &str, from: &Path) -> PathBuf {
        let path = self.path(name);
        let mut install = Command::new("install");
        install.args(["-D", "--mode=755", "--"]).arg(from).arg(&path);
        assert!(install.status().unwrap().success(), "{install:?}");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A `tenure` command with these arguments, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Tenure {
        self.started_as(TENURE.as_ref(), args)
    }

    /// The same with a copy of the program.
    pub(crate) fn started_as<S: AsRef<OsStr>>(&self, program: &Path, args: &[S]) -> Tenure {
        self.started_by(Command::new(program), args)
    }

    /// `tenure` with these arguments. Signals that the caller of the tests ignores (under `nohup`,
    /// say) are reset.
    pub(crate) fn unshielded<S: AsRef<OsStr>>(&self, args: &[S]) -> Tenure {
        let mut env = Command::new("env");
        env.args(["--default-signal", TENURE]);
        self.started_by(env, args)
    }

    fn started_by<S: AsRef<OsStr>>(&self, mut command: Command, args: &[S]) -> Tenure {
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        Tenure { command, input: None }
    }

    /// Runs `tenure` with these arguments to its end.
    pub(crate) fn tenure<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        self.command(args).run()
    }

    /// Runs `tenure` as an unprivileged user.
    pub(crate) fn as_nobody(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(TENURE);
        if rustix::process::geteuid().is_root() {
            // The original may be in a directory that only root can enter.
            command = Command::new(self.program("tenure", TENURE.as_ref()));
            command.uid(NOBODY).gid(NOBODY);
        }
        Ran::new(command.args(args).current_dir("/").output().unwrap())
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// Starts `tenure run` (with `flags`) on `target`; returns when its command has the lock. The
    /// command ends when the result is dropped or its input is closed.
    pub(crate) fn holder(&self, flags: &[&str], target: &str) -> Live {
        let mut args = vec!["run"];
        args.extend(flags);
        args.extend([target, "--", "sh", "-c", "echo ready; exec cat >/dev/null"]);
        let mut live = self.command(&args).start();
        assert_eq!(live.line(), "ready");
        live
    }
}

/// A command that can still be changed.
pub(crate) struct Tenure {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Tenure {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn stdin(mut self, input: impl AsRef<[u8]>) -> Self {
        self.input = Some(input.as_ref().to_vec());
        self
    }

    pub(crate) fn with_stdout(mut self, file: std::fs::File) -> Self {
        self.command.stdout(file);
        self
    }

    pub(crate) fn with_stderr(mut self, file: std::fs::File) -> Self {
        self.command.stderr(file);
        self
    }

    /// The command itself, for tests that change more of it.
    pub(crate) fn unstarted(self) -> Command {
        self.command
    }

    /// Starts it.
    pub(crate) fn spawn(mut self) -> Child {
        self.command.spawn().unwrap()
    }

    pub(crate) fn run(mut self) -> Ran {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let mut child = self.command.spawn().unwrap();
        if let Some(input) = self.input {
            // A command that is refused may end without reading it.
            let written = child.stdin.take().unwrap().write_all(&input);
            let is_unread = |err: &io::Error| err.kind() == io::ErrorKind::BrokenPipe;
            assert!(written.as_ref().err().is_none_or(is_unread), "{written:?}");
        }
        Ran::new(child.wait_with_output().unwrap())
    }

    pub(crate) fn start(mut self) -> Live {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Live { child, stdin, stdout }
    }
}

/// A running command. It ends when its standard input is closed.
pub(crate) struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Live {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Closes its input, which is how the commands of these tests end.
    pub(crate) fn let_go(&mut self) {
        drop(self.stdin.take());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The next line of its standard error.
    pub(crate) fn warning(&mut self) -> String {
        let stderr = self.child.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Waits for its end without closing its input.
    pub(crate) fn wait(mut self) -> Ran {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let code = self.child.wait().unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        drop(self.stdin.take());
        self.stdout.read_to_string(&mut stdout).unwrap();
        Ran { code: code.code(), stdout, stderr }
    }

    /// Closes its input and waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        self.let_go();
        self.wait()
    }

    /// Kills tenure itself with SIGKILL; its command lives on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It succeeded and wrote nothing to stderr.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It wrote this, and nothing else, to stdout.
    #[track_caller]
    pub(crate) fn says(self, stdout: &str) -> Self {
        assert_eq!(self.stdout.trim_end(), stdout, "{self:?}");
        self
    }

    /// One line on stderr that contains `part`.
    #[track_caller]
    pub(crate) fn complains(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "no `{part}` in {self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("tenure: "), "{self:?}");
        self
    }

    /// The object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|err| panic!("{err} in {self:?}"))
    }

    /// The object on stderr: the last line, after warnings.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|err| panic!("{err} in {self:?}"))
    }
}

/// Polls until `happened` returns true.
#[track_caller]
pub(crate) fn eventually(happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::yield_now();
    }
}

/// Until the process waits for a lock in the kernel.
#[track_caller]
pub(crate) fn must_block(target: &Path, pid: u32) {
    eventually(|| {
        let status = tenure::status::of(target).unwrap();
        status.waiters.iter().any(|waiter| waiter.pid == pid)
    });
}

/// The two ends of a pseudo-terminal: what is read, and what a command writes to.
pub(crate) fn terminal() -> (BufReader<std::fs::File>, std::fs::File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = std::fs::File::options().read(true).write(true).open(name).unwrap();
    (BufReader::new(std::fs::File::from(master)), slave)
}

/// Runs a script in a small file system of its own, which is removed at the end; `None` if that is
/// not permitted. `$T` is tenure.
pub(crate) fn in_small_disk(bench: &Bench, script: &str) -> Option<Ran> {
    let may = Command::new("unshare").args(["-m", "true"]).output();
    if !may.is_ok_and(|ran| ran.status.success()) {
        return None;
    }
    std::fs::create_dir_all(bench.path("disk")).unwrap();
    let prepare = "mount -t tmpfs -o size=256k none disk && cd disk";
    let fill = "fill() { ! head -c 1m /dev/zero >fill 2>/dev/null; }";
    let script = format!("{prepare}\n{fill}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(bench.path("")).env("T", TENURE);
    Some(Ran::new(command.output().unwrap()))
}
