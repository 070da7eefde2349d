//! A work bench: a directory, commands in it, and what they said.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
/// Longer than anything here takes; a test that needs it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Somebody who may not do everything.
const NOBODY: u32 = 65534;

/// A directory of its own, removed at the end.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// In memory where there is such a place: nothing waits for a disk that others keep busy.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
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

    /// A copy that can be run. Not made by this process: a child that another test starts meanwhile
    /// would have the copy open for writing, and nobody could run it.
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
        self.started_by(Command::new(TENURE), args)
    }

    /// The same, without what the caller of the tests (`nohup`, say) made them ignore.
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

    /// Runs `tenure` as a user to whom a closed file is closed.
    pub(crate) fn as_nobody(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(TENURE);
        if rustix::process::geteuid().is_root() {
            // The original may be in a directory of root's.
            command = Command::new(self.program("tenure", TENURE.as_ref()));
            command.uid(NOBODY).gid(NOBODY);
        }
        Ran::new(command.args(args).current_dir("/").output().unwrap())
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// Starts `tenure run` (with `flags`) on `target`; returns when the command below has the lock.
    /// It ends when the result is dropped or told to.
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

    /// The command itself, for a test that wants more of it.
    pub(crate) fn unstarted(self) -> Command {
        self.command
    }

    /// Starts it with what was given.
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
            child.stdin.take().unwrap().write_all(&input).unwrap();
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

/// A command that runs. Its standard input stays open until it is told to end.
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

    /// The next line of its complaints.
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

/// What a command said and how it ended.
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

    /// It succeeded and complained about nothing.
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

    /// It said this, and nothing else, on stdout.
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

/// Looks until `happened` is true.
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
        let status = tenure::status(target).unwrap();
        status.waiters.iter().any(|waiter| waiter.pid == pid)
    });
}
