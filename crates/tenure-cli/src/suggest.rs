//! What was meant by an unknown command, if its word is one that other tools use for something that tenure has.
//!
//! A word that is only misspelled is not listed here: for that the argument parser has a tip of its own.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const RUN: &str = "'run' (hold a lock while a command runs) or 'lease' (hold it beyond a process)";
const UNLOCK: &str = "'lease release'; a lock of 'run' ends with its command";
const WHO: &str = "'who' (who holds what)";

/// A noun (empty at the top), words of other tools, and what does that here.
type Meant = (&'static str, &'static [&'static str], &'static str);

const MEANT: &[Meant] = &[
    ("", &["lock", "flock", "mutex", "exec", "with", "trylock", "try-lock"], RUN),
    ("", &["unlock", "free"], UNLOCK),
    ("", &["status", "ps", "ls", "list", "holders", "locks"], WHO),
    ("", &["cat", "read", "get"], "'doc get', 'file get' or 'journal read'"),
    ("", &["jq", "query"], "'doc get'"),
    ("", &["set", "put", "write", "save"], "'doc set', 'file put' or 'journal append'"),
    ("", &["update", "edit", "modify", "change"], "'doc update' or 'file edit'"),
    ("", &["merge", "patch", "undo", "diff", "history", "restore", "watch"], "'doc'"),
    ("", &["append", "log", "add", "push"], "'journal append'"),
    ("", &["tail", "follow"], "'journal follow'"),
    ("", &["acquire", "renew", "release", "take-over", "takeover", "hold"], "'lease'"),
    ("", &["queue", "task", "tasks", "next"], "'claim'"),
    ("", &["check", "verify", "fsck", "repair"], "'doctor', 'journal verify' or 'lease check'"),
    ("", &["rotate", "compact"], "'journal'"),
    ("", &["completion", "autocomplete"], "'completions'"),
    ("doc", &["read", "cat", "show", "print", "jq", "query"], "'doc get'"),
    ("doc", &["write", "put", "save", "create"], "'doc set'"),
    ("doc", &["edit", "modify", "change"], "'doc update'"),
    ("doc", &["revert", "rollback", "redo"], "'doc undo'"),
    ("doc", &["tail", "follow"], "'doc watch'"),
    ("doc", &["repair"], "'doc restore'"),
    ("doc", &["append", "add", "push", "log"], "'doc update' or 'journal append'"),
    ("journal", &["get", "cat", "show", "print"], "'journal read'"),
    (
        "journal",
        &["add", "push", "log", "write", "put", "set", "save", "create"],
        "'journal append'",
    ),
    ("journal", &["tail", "watch"], "'journal follow'"),
    ("journal", &["check", "fsck"], "'journal verify'"),
    ("journal", &["restore", "fix"], "'journal repair'"),
    ("journal", &["prune", "trim", "truncate"], "'journal compact'"),
    ("lease", &["status", "who", "get", "read", "cat"], "'lease show'"),
    ("lease", &["lock", "take", "grab"], "'lease acquire'"),
    ("lease", &["steal", "force", "break"], "'lease take-over'"),
    ("lease", &["unlock", "end", "drop", "free"], "'lease release'"),
    ("lease", &["extend", "refresh", "heartbeat"], "'lease renew'"),
    ("lease", &["run", "exec"], "'lease hold'"),
    ("collection", &["ls", "keys", "show"], "'collection list'"),
    ("collection", &["gc", "clean", "rm", "remove", "delete"], "'collection prune'"),
    ("file", &["read", "cat", "show", "print"], "'file get'"),
    ("file", &["write", "set", "save", "create", "replace"], "'file put'"),
    ("file", &["update", "modify", "change"], "'file edit'"),
    ("file", &["revert", "rollback", "redo", "restore"], "'file undo'"),
    ("claim", &["get", "take", "pop", "pull", "acquire"], "'claim next'"),
    ("claim", &["put", "push", "append", "create"], "'claim add'"),
    ("claim", &["ack", "complete", "finish", "release"], "'claim done'"),
    ("claim", &["nack", "reject", "retry"], "'claim fail'"),
    ("claim", &["extend", "heartbeat"], "'claim renew'"),
    ("claim", &["ls", "status", "show", "read"], "'claim list'"),
    ("store", &["status", "doctor", "verify", "ping"], "'store check'"),
    ("store", &["create", "setup", "prepare"], "'store init'"),
    ("store", &["migrate", "update"], "'store upgrade'"),
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
    let noun = usage.split_once("tenure ").and_then(|(_, rest)| rest.split(' ').next())?;
    let noun = if noun.starts_with(['[', '<']) { "" } else { noun };
    let meant = MEANT.iter().find(|(of, words, _)| *of == noun && words.contains(&word.as_str()));
    meant.map(|(_, _, meant)| (word.clone(), (*meant).to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn what_is_suggested_exists_and_what_exists_is_not_replaced() {
        let tenure = Cli::command();
        for (noun, words, meant) in MEANT {
            for suggested in meant.split('\'').skip(1).step_by(2) {
                let found = suggested
                    .split(' ')
                    .try_fold(&tenure, |above, word| above.find_subcommand(word));
                assert!(found.is_some(), "{noun} {words:?}: there is no '{suggested}'");
            }
            let above =
                if noun.is_empty() { &tenure } else { tenure.find_subcommand(noun).unwrap() };
            for word in *words {
                assert!(above.find_subcommand(word).is_none(), "{noun} {word} is a command");
            }
        }
    }
}
