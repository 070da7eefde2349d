//! `tenure torture` as people type it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;

const EXAMPLES: &str = "\
Many processes work on one directory while they are killed, paused and restarted at random, and judges
that read the files themselves and share no code with tenure watch: two holders, fences that do not grow,
lost updates, torn reads, damaged files, files left over, things that stand still. When the time is over
and something may stand still, that is waited for, two minutes at most; then comes a last look at all
files, also after a standstill: what does not let it in even then is called not judged.
Ctrl-C ends it with the verdict so far, and once more ends the last look; one more than that ends it at
once, without a verdict.

Examples:
  tenure torture                             one minute, all five things, in this directory
  tenure torture /mnt/data --minutes 30 --processes 32
  tenure torture --ops lock,lease --seed 7   the same plan of kills; whom they meet is chance
  tenure torture --command './save.sh {} {key}'
  tenure torture --command 'jq \".[\\\"{key}\\\"]=1\" {} >{}.new && mv {}.new {}'
  tenure torture --command 'tenure doc update {} \".[\\$k]=1\" --arg k {key}'
  tenure torture --command 'echo {key} >>{}' --file log.txt --check './check.sh {}'

Your own program (--command): {} stands for the file and {key} for the key that this run has to add
to it, quoted for the shell where that is needed: put no quotes of the shell around them. Both are also in
TENURE_TORTURE_FILE and TENURE_TORTURE_KEY. It runs in the directory you are in; the file is in a
directory of its own, and {} is its full path. Exit code 0 is a promise: the key is in the file and
stays there. For a JSON file the key may be any object key or string; for one that ends in
.jsonl (each line is JSON), .log or .txt it is looked for in the lines, once or more. Runs are started side by side, paused and killed
with their whole process group, while others read the file. A temporary file beside it that a killed run
left and that no later run removed is damage, too. A run alone after the storm that does not end
(--patience), or one that was not killed and does not end when all others are dead, is a standstill. The
power does not go: whether the program syncs what it saves is not tried.

Exit codes: 0 nothing found, 5 something found (the directory is kept), 1 it could not be run, or too
little was done to tell; 128+N nothing found until signal N ended it early (130 after
Ctrl-C); 101 a mistake in the torture itself ended it";

/// What `tenure torture` is told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TortureArgs {
    /// Where: a directory of its own is made here, and removed unless something was found
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// For how long; parts of a minute are fine
    #[arg(long, value_name = "N", default_value = "1", value_parser = minutes)]
    pub(crate) minutes: Duration,
    /// Stop soon after so many operations, if that comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: Option<u64>,
    /// What is worked on [default: all of it]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) ops: Vec<ThingArg>,
    /// The plan of kills and of work [default: a new one]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many processes at a time, from 2 to 64
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) processes: u16,
    /// Test this shell command instead of tenure: it saves {key} in the file {}
    #[arg(long, value_name = "CMD", conflicts_with_all = ["ops", "history"])]
    pub(crate) command: Option<String>,
    /// The name of the file for --command
    #[arg(long, value_name = "NAME", default_value = "state.json", requires = "command")]
    pub(crate) file: PathBuf,
    /// What is in the file at first [default: {} for JSON, nothing for lines]
    #[arg(long, value_name = "TEXT", requires = "command")]
    pub(crate) init: Option<String>,
    /// A shell command that judges the file {} whenever all is quiet; not 0 is damage, and so is one that
    /// takes longer than --patience
    #[arg(long, value_name = "CMD", requires = "command")]
    pub(crate) check: Option<String>,
    /// A run of --command that nobody disturbs, or of --check, that takes longer than this hangs [default: 10s, or
    /// 10 times as long as the first two runs took, if that is more]
    #[arg(long, value_name = "D", requires = "command", value_parser = patience)]
    pub(crate) patience: Option<Duration>,
    /// Instead, write down who called what when and was told what: of a counter, a register with
    /// compare-and-set and a queue, a JSON object per line, for a checker of linearizability; a file of that
    /// name is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "ops")]
    pub(crate) history: Option<PathBuf>,
    /// Work otherwise than through tenure: the judges must find something
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) control: Option<ControlArg>,
    /// Let this thing hang in the end: the judges must find it
    #[arg(long, hide = true, value_name = "THING", conflicts_with = "control")]
    pub(crate) leaky: Option<ThingArg>,
    /// Panic there: it must not look like a verdict, or be lost
    #[arg(long, hide = true, value_name = "WHERE", conflicts_with_all = ["control", "leaky"])]
    pub(crate) panics: Option<PanicArg>,
}

/// Where a run panics, to see what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PanicArg {
    /// In the parent, after the storm.
    Parent,
    /// In the last look.
    Judge,
    /// In one of those that work.
    Crew,
}

/// What is known to be bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControlArg {
    /// Without any protection.
    Naive,
    /// Protocols that shipped.
    Shipped,
    /// A lock that lets a process in beside its own child.
    Reused,
    /// A lock that a forked child lets go of for its parent.
    Unlocked,
    /// A journal whose rotation forgets what was appended meanwhile.
    Rotated,
}

/// Something that can be worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThingArg {
    Lock,
    #[value(name = "doc", alias = "document")]
    Document,
    Journal,
    Lease,
    Collection,
}

impl PanicArg {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
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
    // Longer than anybody waits, and short enough to be added to a clock.
    let longest = Duration::from_secs(500_000 * 60);
    // Less is not even written down so that it can be repeated.
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
