//! Commands for agents and their tools, with what must be true around each: slots, several targets, claims, once, files
//! of any kind, settings, hooks, installation and the MCP server.
//!
//! Every part is a script of the shell in a directory of its own, in which `tenure` is the command of this build. A ring
//! does something bad to `run`; the scripts after it say whether that was survived.

use std::path::Path;
use std::process::Command;

use crate::bounded::{self, Ended};

/// A command, and what must be true around it.
#[derive(Debug, Clone, Copy)]
pub struct Verb {
    /// What it is called in a finding.
    pub name: &'static str,
    /// Makes what the command works on.
    pub prepare: &'static [&'static str],
    /// The command.
    pub run: &'static str,
    /// What it must lock; empty if others cannot hold that before, or it ends with its input.
    pub lock: &'static str,
    /// How the command may end when it is repeated.
    pub again: &'static [i32],
    /// Succeeds after the command, whatever happened to it.
    pub sound: &'static str,
    /// Succeeds after the command was repeated.
    pub after: &'static str,
}

const VERB: Verb =
    Verb { name: "", prepare: &[], run: "", lock: "", again: &[0], sound: "true", after: "true" };

/// A repository, and what two agents send: before an edit of `a.rs`, and at the end of a turn.
const AGENTS: &str = r#"mkdir .git; for who in alice bob; do
    common="\"session_id\":\"$who\",\"cwd\":\"$PWD\",\"hook_event_name\""
    printf '{%s:"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"a.rs"}}' "$common" > $who
    printf '{%s:"Stop"}' "$common" > $who.stop
done"#;
const ALICE_EDITS: &str = "test -z \"$(tenure hook edit < alice)\"";
const BOB_MAY_EDIT: &str =
    "tenure hook session < alice.stop; test -z \"$(tenure hook edit < bob)\"";
/// Settings of a team, with a comment.
const SETTINGS: &str = r#"mkdir .git .claude; printf '{\n  // theirs\n  "a": 1,\n}\n' > before
    cp before .claude/settings.json"#;
const SETTINGS_STAY: &str = "grep -q '// theirs' .claude/settings.json
    backup=.claude/settings.json.tenure-backup; ! test -e $backup || cmp $backup before";
/// Not only once: nothing that is left over changes what the next installation does.
const UNINSTALLED: &str = "tenure init --uninstall; tenure init; tenure init --uninstall
    cmp .claude/settings.json before; ! ls -A . .claude | grep -e backup -e mcp.json";
const OLD_AND_NEW: &str = "echo old > f; echo new > n; echo old > o";
const OLD_OR_NEW: &str = "cmp -s f n || cmp f o";
const TASK: &str = r#"tenure claim add q '{"n":1}' --id one"#;
const TASK_STAYS: &str = r#"tenure claim list q --json > list; grep -q '"n":1' list"#;
const CLAIMED: &str = r#"tenure claim next q --ttl 1h > claimed
    (umask 077; sed 's/.*"token":"\([^"]*\)".*/\1/' claimed > token)"#;
const NEXT: &str = "tenure claim next q --ttl 1h --wait 20s";

/// All of them.
pub const VERBS: &[Verb] = &[
    Verb {
        name: "a slot",
        run: "exec tenure run --slots 2 t -- true",
        lock: "t",
        sound: "tenure run t -- true",
        ..VERB
    },
    Verb {
        name: "several locks",
        run: "exec tenure run a b c -- true",
        lock: "b",
        sound: "tenure run c b a -- true",
        ..VERB
    },
    Verb {
        name: "several leases",
        run: "exec tenure lease acquire a b --ttl 1h --token 0123456789abcdef0123456789abcdef",
        lock: "b",
        after: "tenure lease release a b --token 0123456789abcdef0123456789abcdef
            tenure run a b -- true",
        ..VERB
    },
    Verb {
        name: "claim add",
        run: r#"exec tenure claim add q '{"n":1}' --id one"#,
        sound: "! test -d q || { tenure claim list q --json > list; ! grep -q damaged list; }",
        after: r#"test "$(tenure claim list q --json | grep -o '"id"' | wc -l)" = 1"#,
        ..VERB
    },
    Verb {
        name: "claim next",
        prepare: &[TASK],
        // A claim whose token was not printed expires.
        run: "exec tenure claim next q --ttl 50ms --wait 20s",
        sound: TASK_STAYS,
        after: NEXT,
        ..VERB
    },
    Verb {
        name: "claim done",
        prepare: &[TASK, CLAIMED],
        run: "exec tenure claim done q one --token-file token",
        sound: TASK_STAYS,
        after: r#"tenure claim list q --json | grep -q '"state":"done"'"#,
        ..VERB
    },
    Verb {
        name: "claim fail",
        prepare: &[TASK, CLAIMED],
        run: "exec tenure claim fail q one --token-file token --delay 50ms",
        lock: "",
        // The task is back, and the claim has ended.
        again: &[0, 4],
        sound: TASK_STAYS,
        after: NEXT,
    },
    Verb {
        name: "once",
        run: "exec tenure once t --ttl 1h -- echo out",
        lock: "t~once",
        after: "test \"$(tenure once t --ttl 1h -- echo out)\" = out",
        ..VERB
    },
    Verb {
        name: "file put",
        prepare: &[OLD_AND_NEW],
        run: "exec tenure file put f < n",
        lock: "f",
        sound: OLD_OR_NEW,
        after: "cmp f n",
        ..VERB
    },
    Verb {
        name: "file edit",
        prepare: &[OLD_AND_NEW],
        run: "exec tenure file edit f -- sed s/old/new/",
        lock: "f",
        sound: OLD_OR_NEW,
        after: "cmp f n",
        ..VERB
    },
    Verb {
        name: "file undo",
        prepare: &[OLD_AND_NEW, "rm f; tenure file put f < o; tenure file put f < n"],
        run: "exec tenure file undo f",
        lock: "f",
        sound: OLD_OR_NEW,
        after: OLD_OR_NEW,
        ..VERB
    },
    Verb {
        name: "settings merge",
        prepare: &[SETTINGS],
        run: r#"exec tenure settings merge .claude/settings.json '{"b":{"c":2}}'"#,
        lock: ".claude/settings.json",
        sound: SETTINGS_STAY,
        after: r#"tenure settings merge .claude/settings.json '{"b":{"c":2}}' --remove
            cmp .claude/settings.json before"#,
        ..VERB
    },
    Verb {
        name: "init",
        prepare: &[SETTINGS],
        run: "exec tenure init",
        lock: ".claude/settings.json",
        sound: SETTINGS_STAY,
        after: UNINSTALLED,
        ..VERB
    },
    Verb {
        name: "init --uninstall",
        prepare: &[SETTINGS, "tenure init"],
        run: "exec tenure init --uninstall",
        lock: ".claude/settings.json",
        sound: SETTINGS_STAY,
        after: UNINSTALLED,
        ..VERB
    },
    Verb {
        name: "hook edit",
        prepare: &[AGENTS],
        run: "exec tenure hook edit < alice",
        lock: ".git/tenure/reservations.json",
        // Another agent is denied, or has the file until its turn ends.
        sound: "tenure hook edit < bob; tenure hook session < bob.stop",
        after: BOB_MAY_EDIT,
        ..VERB
    },
    Verb {
        name: "hook session",
        prepare: &[AGENTS, ALICE_EDITS],
        run: "exec tenure hook session < alice.stop",
        lock: ".git/tenure/reservations.json",
        after: BOB_MAY_EDIT,
        ..VERB
    },
    Verb {
        name: "hook gate",
        prepare: &[AGENTS],
        run: "GATEGUARD_STATE_DIR=gate exec tenure hook gate < alice",
        lock: "gate/state-alice.json",
        // The file is asked about at most once more.
        sound: "export GATEGUARD_STATE_DIR=gate
            tenure hook gate < alice; test -z \"$(tenure hook gate < alice)\"",
        ..VERB
    },
    Verb {
        name: "hook log",
        prepare: &[AGENTS, "tenure hook log < alice"],
        run: "exec tenure hook log < alice",
        lock: ".git/tenure/log.jsonl",
        sound: "tenure journal read .git/tenure/log.jsonl > lines; grep -q alice lines",
        after: "tenure journal verify .git/tenure/log.jsonl",
        ..VERB
    },
    Verb {
        name: "mcp",
        prepare: &[r#"arguments='{"path":"d.json","value":{"n":1}}'
            call="{\"name\":\"write_document\",\"arguments\":$arguments}"
            printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}\n' "$call" > request"#],
        run: "exec tenure mcp --root . < request",
        sound: "! test -e d.json || tenure doc get d.json",
        after: "test \"$(tenure doc get d.json --compact)\" = '{\"n\":1}'",
        ..VERB
    },
];

impl Verb {
    /// Makes `dir` anew, as it is before the command.
    pub fn set_up(&self, dir: &Path) {
        if dir.exists() {
            std::fs::remove_dir_all(dir).expect("the directory of an earlier case is removed");
        }
        std::fs::create_dir(dir).expect("a directory can be made");
        for script in self.prepare {
            let ended = bounded::run(shell(dir, &[], script));
            assert!(ended.is_done(), "{}: {ended:?}", self.name);
        }
    }

    /// The command, started by `launcher` (a program and its arguments that come before it).
    pub fn command(&self, dir: &Path, launcher: &[&str]) -> Command {
        shell(dir, launcher, self.run)
    }

    /// A process that has what the command must lock, and prints a line when it has it.
    pub fn holder(&self, dir: &Path) -> Command {
        let script = format!(
            "mkdir -p \"$(dirname '{0}')\"; exec tenure run '{0}' -- sh -c 'echo ready; exec cat'",
            self.lock
        );
        shell(dir, &[], &script)
    }

    /// The words of the command, for a tracer.
    pub fn words(&self, dir: &Path) -> Vec<String> {
        words(dir, self.run)
    }

    /// Whether the command, which may have been cut short, ended as it may and left nothing bad behind: what it worked on
    /// is whole, and the same command works at once. The checks run under `launcher`.
    pub fn judge(&self, dir: &Path, launcher: &[&str], ended: &Ended) -> Result<(), String> {
        let told = |what: &str, how: &Ended| {
            Err(format!("{}: {what}: {how:?}, after {ended:?}", self.name))
        };
        if ended.stderr.contains("panicked") {
            return told("a panic", ended);
        }
        let is_hook = self.name.starts_with("hook ");
        match ended.code {
            Some(0) | None => {}
            Some(_) if is_hook => return told("a hook must not fail", ended),
            // The command that it started died of the fault.
            Some(126..) => {}
            Some(_) if ended.stderr.trim().is_empty() => return told("it does not say why", ended),
            Some(_) => {}
        }
        let sound = bounded::run(shell(dir, launcher, self.sound));
        if !sound.is_done() {
            return told("not sound", &sound);
        }
        let again = bounded::run(self.command(dir, launcher));
        if !again.code.is_some_and(|code| self.again.contains(&code)) {
            return told("it cannot be repeated", &again);
        }
        let after = bounded::run(shell(dir, launcher, self.after));
        if after.is_done() { Ok(()) } else { told("wrong when repeated", &after) }
    }
}

/// A script in `dir`, started by `launcher`.
fn shell(dir: &Path, launcher: &[&str], script: &str) -> Command {
    let words = words(dir, script);
    let mut words = launcher.iter().copied().chain(words.iter().map(String::as_str));
    let mut command = Command::new(words.next().unwrap_or("sh"));
    command.args(words).current_dir(dir);
    command
}

/// The program and arguments that run a script up to its first failure, with `tenure` in its path, and nothing of the agent
/// that runs the tests in its environment.
fn words(dir: &Path, script: &str) -> Vec<String> {
    let tenure = crate::tenure().parent().unwrap_or(dir).display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let unset = ["CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "ECC_SESSION_ID", "ECC_GATEGUARD"];
    let mut words = vec!["env".to_owned()];
    words.extend(unset.iter().map(|name| format!("--unset={name}")));
    words.extend([format!("PATH={tenure}:{path}"), format!("HOME={}", dir.display())]);
    words.extend(["sh", "-eu", "-c", script].map(str::to_owned));
    words
}
