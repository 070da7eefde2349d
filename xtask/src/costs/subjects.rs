//! The hot paths whose costs are on record.

use super::count::{Cost, count, ran};
use super::scratch::Scratch;
use crate::prove::failed;

/// How often a warm operation is done; twice as often in the second run.
const WARM: u32 = 200;
/// As many keys as a big session of an assistant.
const KEYS: u32 = 500;

/// One hot path.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    how: How,
    /// Whether it looks at names more often the longer it takes.
    pub(super) looks_by_the_clock: bool,
}

#[derive(Debug)]
enum How {
    /// The whole process of the `tenure` command with these arguments.
    Cold(&'static [&'static str]),
    /// One operation of many in a process of `tenure-costs`.
    Warm(&'static str),
}

use self::How::{Cold, Warm};

/// A new one is a new line. `state.json` is a document of [`KEYS`] keys.
pub(super) const SUBJECTS: &[Subject] = &[
    Subject::new("cold version", Cold(&["--version"])),
    Subject::new("cold doc get", Cold(&["doc", "get", "state.json"])),
    Subject::new(
        "cold doc update",
        Cold(&["doc", "update", "--no-sync", "state.json", ".key_007 = \"other\""]),
    ),
    Subject::new(
        "cold doc merge",
        Cold(&["doc", "merge", "--no-sync", "state.json", "{\"key_007\":\"other\"}"]),
    ),
    Subject::new(
        "cold journal append",
        Cold(&["journal", "append", "--no-sync", "log.jsonl", "{\"event\":\"start\"}"]),
    )
    .looking_by_the_clock(),
    Subject::new("warm lock and unlock", Warm("lock")),
    Subject::new("lock opened anew", Warm("anew")),
    Subject::new("warm journal append", Warm("append")).looking_by_the_clock(),
    Subject::new("warm document update", Warm("update")),
    Subject::new("warm document read", Warm("read")),
];

impl Subject {
    const fn new(name: &'static str, how: How) -> Self {
        Self { name, how, looks_by_the_clock: false }
    }

    const fn looking_by_the_clock(self) -> Self {
        Self { looks_by_the_clock: true, ..self }
    }

    /// What it costs once.
    pub(super) fn count(&self, scratch: &Scratch) -> Result<Cost, String> {
        match self.how {
            Cold(words) => count(scratch, "tenure", words, || used(scratch)),
            Warm(operation) => {
                let fresh = || scratch.clear();
                let times =
                    |n: u32| count(scratch, "tenure-costs", &[operation, &n.to_string()], fresh);
                let (once, twice) = (times(WARM)?, times(2 * WARM)?);
                Ok(twice.less(&once).divided_by(WARM))
            }
        }
    }
}

/// A directory in which tenure has worked before: sidecars are there, as they are most of the time.
#[expect(clippy::disallowed_methods, reason = "a scratch file that is not needed after a crash")]
fn used(scratch: &Scratch) -> Result<(), String> {
    const BEFORE: &[&[&str]] = &[
        &["doc", "merge", "--no-sync", "state.json", "{\"key_007\":\"first\"}"],
        &["doc", "merge", "--no-sync", "state.json", "{\"key_007\":\"second\"}"],
        &["journal", "append", "--no-sync", "log.jsonl", "{\"event\":\"first\"}"],
    ];
    scratch.clear()?;
    let path = scratch.work().join("state.json");
    std::fs::write(&path, document()).map_err(failed("write", &path))?;
    BEFORE.iter().try_for_each(|words| {
        ran(scratch.command(scratch.program("tenure")).args(*words)).map(|_| ())
    })
}

fn document() -> String {
    let fields: Vec<_> = (0..KEYS).map(|n| format!("  \"key_{n:03}\": \"value_{n:03}\"")).collect();
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}
