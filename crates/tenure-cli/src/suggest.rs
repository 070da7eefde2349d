//! What was meant by a command that there is not: by its meaning first, by its letters else.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const RUN: &str = "'run' (hold a lock while a command runs) or 'lease' (hold it beyond a process)";
const UNLOCK: &str = "'lease release'; a lock of 'run' ends with its command";
const WHO: &str = "'who' (who holds what)";

/// Words of other tools, and what does that here.
const MEANT: [(&[&str], &str); 14] = [
    (&["lock", "flock", "mutex", "exec", "with", "trylock", "try-lock"], RUN),
    (&["unlock", "free"], UNLOCK),
    (&["status", "ps", "ls", "list", "holders", "locks"], WHO),
    (&["get", "cat", "jq", "query"], "'doc get' or 'journal read'"),
    (&["read"], "'doc get' or 'journal read'"),
    (&["set", "put", "write", "save"], "'doc set' or 'journal append'"),
    (&["update", "edit", "modify", "change"], "'doc update'"),
    (&["merge", "patch", "undo", "diff", "history", "restore", "watch"], "'doc'"),
    (&["append", "log", "add", "push"], "'journal append'"),
    (&["tail", "follow"], "'journal follow'"),
    (&["acquire", "renew", "release", "take-over", "takeover", "hold"], "'lease'"),
    (&["check", "verify", "fsck", "repair"], "'doctor', 'journal verify' or 'lease check'"),
    (&["rotate", "compact"], "'journal'"),
    (&["completion", "autocomplete"], "'completions'"),
];

/// The same below `doc`, `journal` and `lease`.
const MEANT_BELOW: [(&[&str], &str); 8] = [
    (
        &["read", "cat", "show", "print"],
        "'get' (of a document), 'read' (of a journal) or 'show' (of a lease)",
    ),
    (&["write", "put", "save", "create"], "'set' (of a document) or 'append' (of a journal)"),
    (&["edit", "modify", "change", "jq"], "'update'"),
    (&["revert", "rollback", "redo"], "'undo'"),
    (&["tail", "watch", "follow"], "'watch' (of a document) or 'follow' (of a journal)"),
    (&["add", "push", "log"], "'append'"),
    (&["status", "who", "get"], "'show' (of a lease)"),
    (&["lock", "take", "grab", "steal"], "'acquire' or 'take-over'"),
];

/// The unknown command of a usage error, and what may have been meant, if that is known.
pub(crate) fn for_command(error: &clap::Error) -> Option<(String, String)> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_below = ["doc", "journal", "lease", "collection"]
        .iter()
        .any(|noun| usage.contains(&format!("tenure {noun} ")));
    let known: &[(&[&str], &str)] = if is_below { &MEANT_BELOW } else { &MEANT };
    let meant = known.iter().find(|(words, _)| words.contains(&word.as_str()));
    meant.map(|(_, meant)| (word.clone(), (*meant).to_owned()))
}
