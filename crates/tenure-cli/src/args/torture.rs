//! `tenure torture` as people type it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;

const EXAMPLES: &str = "\
Many processes work on one directory while they are killed, paused and restarted at random. Judges that
read the files themselves and share no code with tenure report two holders, fences that do not grow, lost
updates, torn reads, damaged files, files left over, and anything that hangs.

After --minutes:
  - torture waits up to two minutes for workers that may hang;
  - it then checks every file once more. A file it cannot lock is reported as \"not judged\".
Ctrl-C once: stop, check and report. Twice: skip the final check. Three times: exit at once.

Examples:
  tenure torture                             one minute, all five kinds of work, in this directory
  tenure torture /mnt/data --minutes 30 --processes 32
  tenure torture --ops lock,lease --seed 7   the same plan of kills; which process they hit is random
  tenure torture --store etcd://a:2379/test  a store that several machines share
  tenure torture --command './save.sh {} {key}'
  tenure torture --command 'jq \".[\\\"{key}\\\"]=1\" {} >{}.new && mv {}.new {}'
  tenure torture --command 'tenure doc update {} \".[\\$k]=1\" --arg k {key}'
  tenure torture --command 'echo {key} >>{}' --file log.txt --check './check.sh {}'

Your own program (--command):
  {} is the full path of the file, {key} the key that this run must add to it. Both are quoted for the shell
  where needed, so put no quotes around them. They are also in TENURE_TORTURE_FILE and TENURE_TORTURE_KEY.
  The program runs in your current directory; the file is in a separate directory.
  - Exit code 0 is a promise: the key is in the file and stays there. In a JSON file the key may be any object
    key or string. In a file that ends in .jsonl (each line is JSON), .log or .txt each line contains one key.
  - Runs start side by side. They are paused and killed with their whole process group, while others read
    the file.
  - A temporary file that a killed run left and no later run removed is reported as damage.
  - A run that takes longer than --patience is reported as a standstill, if no other run was active any more.
  - Power loss is not simulated: torture does not check whether the program syncs what it saves.

A store (--store, or TENURE_STORE):
  The processes share a lock, a lease, documents, a journal and a list of jobs in the store, below a fresh name
  that begins with /tenure-torture-. They are killed, and paused beyond the time to live of their sessions
  (2s, unless the URL has one). The server is left alone. Histories must be linearizable, fences must grow, no
  former holder may write, acknowledged entries must be there once. At the end all names are removed, or named.
  DIR, --command and --history are for local files.

Exit codes:
  0 nothing found   5 something found (the directory is kept)   1 it could not run, or did too little to judge
  128+N nothing found until signal N ended it early (130 after Ctrl-C)   101 a bug in torture itself";

/// The arguments of `tenure torture`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TortureArgs {
    /// Where to create the working directory; it is removed unless something was found
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// For how long; parts of a minute are fine
    #[arg(long, value_name = "N", default_value = "1", value_parser = minutes)]
    pub minutes: Duration,
    /// Stop soon after N operations, if that comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// What to test [default: all of it]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ops: Vec<ThingArg>,
    /// The plan of kills and of work [default: a new one]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How many processes at a time, from 2 to 64
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(2..=64))]
    pub processes: u16,
    /// Test this shell command instead of tenure: it saves {key} in the file {}
    #[arg(long, value_name = "CMD", conflicts_with_all = ["ops", "history"])]
    pub command: Option<String>,
    /// The name of the file for --command
    #[arg(long, value_name = "NAME", default_value = "state.json", requires = "command")]
    pub file: PathBuf,
    /// The initial content of the file [default: {} for JSON, empty for lines]
    #[arg(long, value_name = "TEXT", requires = "command")]
    pub init: Option<String>,
    /// A shell command that checks the file {} while nothing else runs. An exit code other than 0 is damage; so is
    /// taking longer than --patience
    #[arg(long, value_name = "CMD", requires = "command")]
    pub check: Option<String>,
    /// An undisturbed run of --command, or a --check, that takes longer than this hangs [default: 10s, or
    /// 10 times as long as the first two runs took, if that is more]
    #[arg(long, value_name = "D", requires = "command", value_parser = patience)]
    pub patience: Option<Duration>,
    /// Instead, record every call and its answer on a counter, a register with compare-and-set and a queue, one
    /// JSON object per line, for a linearizability checker; an existing file is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "ops")]
    pub history: Option<PathBuf>,
    /// Instead, other tools that append to the same journal, a second user, a full disk, or a journal that cannot
    /// be replaced; some of it takes root
    #[arg(long, hide = true, value_name = "LIST", value_delimiter = ',',
          conflicts_with_all = ["ops", "command", "history", "control", "leaky", "panics"])]
    pub load: Vec<LoadArg>,
    /// Work otherwise than through tenure: the judges must find something
    #[arg(long, hide = true, value_name = "NAME")]
    pub control: Option<ControlArg>,
    /// Let this thing hang in the end: the judges must find it
    #[arg(long, hide = true, value_name = "THING", conflicts_with = "control")]
    pub leaky: Option<ThingArg>,
    /// Panic there: it must not look like a verdict, or be lost
    #[arg(long, hide = true, value_name = "WHERE", conflicts_with_all = ["control", "leaky"])]
    pub panics: Option<PanicArg>,
}

/// Where a run panics on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PanicArg {
    /// In the parent, after the storm.
    Parent,
    /// In the final check.
    Judge,
    /// In a process of the crew.
    Crew,
}

/// Code that is known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControlArg {
    /// Without any protection.
    Naive,
    /// Protocols that shipped.
    Shipped,
    /// A lock that a process can take again while its own child holds it.
    Reused,
    /// A lock that a forked child releases for its parent.
    Unlocked,
    /// A journal whose rotation loses lines appended meanwhile.
    Rotated,
}

/// Something that can be worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the help would show it, and has no room for it")]
pub enum ThingArg {
    Lock,
    #[value(name = "doc", alias = "document")]
    Document,
    Journal,
    Lease,
    Collection,
}

/// What other programs or the system do to the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoadArg {
    /// Other tools append to the same journal.
    Foreign,
    /// A second user changes files of the first.
    Users,
    /// The disk is full.
    Full,
    /// The journal cannot be replaced.
    Stuck,
}

impl PanicArg {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Judge => "judge",
            Self::Crew => "crew",
        }
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    values::ttl(text).map_err(|_| "write a time above 0, like 500ms or 30s".to_owned())
}

fn minutes(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number of minutes from 0.001 to 500000, like 0.5 or 30".to_owned();
    let minutes: f64 = text.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| wrong())?;
    // An upper bound, small enough to be added to a clock.
    let longest = Duration::from_secs(500_000 * 60);
    // A shorter time could not be printed and repeated exactly.
    let shortest = Duration::from_millis(60);
    if time < shortest || time > longest { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::minutes;

    #[test]
    fn minutes_may_have_parts() {
        assert_eq!(minutes("0.5").map(|time| time.as_secs()), Ok(30));
        assert_eq!(minutes("2").map(|time| time.as_secs()), Ok(120));
        for wrong in ["", "0", "1e-9", "-1", "x", "nan", "5e5001", "500001", "1e99"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
