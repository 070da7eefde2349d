//! A child process of a race: adds keys through one protocol and reports its acknowledgements.
//!
//! `tenure demo-worker PROTOCOL DIRECTORY NAME COUNT SEED` writes lines. Out: `ready`; then, for
//! each key, `in` (alone in the critical section, according to the lock), `two PID` (that process
//! was inside, too), and `ok KEY` (done: the promise) or `no REASON` (refused: no promise, and the
//! key is tried again). In: `go`. The end of the input ends the process, so no worker survives its
//! parent.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::claim::Claim;
use super::protocol::{Opened, Protocol};
use tenure_shipped::{Lock, state};

/// How long a refused worker waits before it tries again, as a user would.
const RETRY: Duration = Duration::from_millis(5);

/// The arguments of a worker.
#[derive(Debug)]
pub(super) struct Task {
    /// The way to work.
    pub(super) protocol: Protocol,
    /// Where the document is.
    pub(super) directory: PathBuf,
    /// The beginning of this process's keys.
    pub(super) name: String,
    /// How many keys to add.
    pub(super) count: u64,
    /// For nonces and temporary names.
    pub(super) seed: u64,
}

impl Task {
    /// The arguments that [`run`] understands.
    pub(super) fn arguments(&self) -> [OsString; 5] {
        [
            self.protocol.name().into(),
            self.directory.clone().into(),
            self.name.clone().into(),
            self.count.to_string().into(),
            self.seed.to_string().into(),
        ]
    }

    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter();
        let protocol = Protocol::parse(arguments.next()?.to_str()?)?;
        let directory = arguments.next()?.into();
        let name = arguments.next()?.into_string().ok()?;
        let count = arguments.next()?.to_str()?.parse().ok()?;
        let seed = arguments.next()?.to_str()?.parse().ok()?;
        arguments.next().is_none().then_some(Self { protocol, directory, name, count, seed })
    }
}

/// Runs `tenure demo-worker` with the arguments after that word.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    let task = Task::parse(arguments).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "only tenure demo calls this")
    })?;
    let mut opened = match task.protocol.open(&task.directory, task.seed) {
        Ok(opened) => opened,
        Err(error) => return say(&format!("no {error}")),
    };
    say("ready")?;
    if io::stdin().lock().read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    thread::Builder::new().spawn(end_with_the_input)?;
    for number in 0..task.count {
        let key = format!("{}.{number}", task.name);
        loop {
            let done = match &mut opened {
                Opened::Document(document) => document.add(&key),
                Opened::Lock(lock) => add_alone(lock.as_mut(), &task.directory, &key),
            };
            match done {
                Ok(()) => break say(&format!("ok {key}"))?,
                Err(error) => say(&format!("no {error}"))?,
            }
            thread::sleep(RETRY);
        }
    }
    Ok(())
}

/// Adds the key by hand, inside the lock.
fn add_alone(lock: &mut dyn Lock, directory: &Path, key: &str) -> io::Result<()> {
    lock.enter()?;
    let claim = Claim::stake(directory)?;
    if let Some(other) = claim.other() {
        say(&format!("two {other}"))?;
    }
    say("in")?;
    let done = rewrite(&state::path(directory), key);
    drop(claim);
    lock.leave()?;
    done
}

/// Read, add, write a temporary file, rename. One temporary name is enough for the only writer;
/// codegraph uses the same name under its lock.
fn rewrite(path: &Path, key: &str) -> io::Result<()> {
    let document = state::read(path)?;
    // A real critical section is longer than one time slice.
    thread::yield_now();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    fs::write(&temporary, serde_json::to_vec_pretty(&state::with_key(Some(&document), key))?)?;
    fs::rename(&temporary, path)
}

fn say(line: &str) -> io::Result<()> {
    // One write for the whole line: the parent must not see half an acknowledgement.
    io::stdout().lock().write_all(format!("{line}\n").as_bytes())
}

fn end_with_the_input() {
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Protocol;
    use super::Task;

    #[test]
    fn the_arguments_of_a_task_lead_back_to_it() {
        let task = Task {
            protocol: Protocol::RenameNonce,
            directory: "some where".into(),
            name: "3.1".to_owned(),
            count: 40,
            seed: 99,
        };
        let parsed = Task::parse(task.arguments()).expect("parsed");
        assert_eq!(format!("{parsed:?}"), format!("{task:?}"));
        assert!(Task::parse(task.arguments().into_iter().take(4)).is_none());
        assert!(Task::parse(task.arguments().into_iter().chain(["more".into()])).is_none());
    }
}
