//! Reading the command line of a hot command without building all the others.
//!
//! Building the declaration of every command takes longer than the work of most. Here only that of the
//! one command is built, from the same structures.
//!
//! # Invariants
//!
//! 1. What is read here is what [`Cli::try_parse`](clap::Parser::try_parse) reads. What cannot be read
//!    here, like an error or a wish for help, is left to that.

use std::ffi::OsString;

use clap::{Args, FromArgMatches};

use super::{Cli, Command, DocCommand, GlobalFlags, HookCommand, JournalCommand, LeaseCommand};

/// The command line in `words`, which start with the program's name, if it is that of a hot command.
pub(crate) fn parse(words: &[OsString]) -> Option<Cli> {
    let noun = words.get(1)?.to_str()?;
    if noun == "run" {
        return one(&words[1..], Command::Run);
    }
    let rest = &words[2..];
    let doc = |command| Command::Doc(command);
    match (noun, rest.first()?.to_str()?) {
        ("doc", "get") => one(rest, |args| doc(DocCommand::Get(args))),
        ("doc", "set") => one(rest, |args| doc(DocCommand::Set(args))),
        ("doc", "update") => one(rest, |args| doc(DocCommand::Update(args))),
        ("doc", "merge") => one(rest, |args| doc(DocCommand::Merge(args))),
        ("doc", "patch") => one(rest, |args| doc(DocCommand::Patch(args))),
        ("doc", "version") => one(rest, |args| doc(DocCommand::Version(args))),
        ("journal", "append") => one(rest, |args| Command::Journal(JournalCommand::Append(args))),
        ("journal", "read") => one(rest, |args| Command::Journal(JournalCommand::Read(args))),
        ("lease", "acquire") => one(rest, |args| Command::Lease(LeaseCommand::Acquire(args))),
        ("lease", "renew") => one(rest, |args| Command::Lease(LeaseCommand::Renew(args))),
        ("lease", "release") => one(rest, |args| Command::Lease(LeaseCommand::Release(args))),
        ("hook", "edit") => one(rest, |args| Command::Hook(HookCommand::Edit(args))),
        ("hook", "gate") => one(rest, |args| Command::Hook(HookCommand::Gate(args))),
        ("hook", "session") => one(rest, |args| Command::Hook(HookCommand::Session(args))),
        ("hook", "log") => one(rest, |args| Command::Hook(HookCommand::Log(args))),
        ("hook", "mcp") => one(rest, |args| Command::Hook(HookCommand::Mcp(args))),
        _ => None,
    }
}

/// Reads `words`, which start with the verb.
fn one<A: Args>(words: &[OsString], command: impl FnOnce(A) -> Command) -> Option<Cli> {
    let mut declared = A::augment_args(GlobalFlags::augment_args(clap::Command::new("tenure")));
    let matches = declared.try_get_matches_from_mut(words).ok();
    std::mem::forget(declared); // Taking it apart takes longer than the process has left to live.
    let matches = matches?;
    let flags = GlobalFlags::from_arg_matches(&matches).ok()?;
    let args = A::from_arg_matches(&matches).ok()?;
    Some(Cli { flags, command: command(args) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        let quoted = line.split(' ').map(|word| if word == "''" { "" } else { word });
        std::iter::once("tenure").chain(quoted).map(OsString::from).collect()
    }

    #[test]
    fn a_hot_command_is_read_as_all_commands_are() {
        for line in [
            "run target -- true",
            "run --shared --wait 3s target -- sh -c x --json",
            "run --json target -- tenure doc get a",
            "doc get a.json",
            "doc get -rc a.json .x --arg k -1 --json",
            "doc set a.json -1 --if-version 7-ab",
            "doc set a.json '' --no-sync",
            "doc update a.json .x --argjson k 1 --argjson l 2 --init -5",
            "doc update --store x a.json .x --label y",
            "doc merge a.json {} --union /a --union /b --sum /c --break-link",
            "doc patch a.json [] --guard a=1 --fence 5",
            "doc version a.json",
            "journal append log",
            "journal append log a b -- --json",
            "journal append log --header h --json-lines -- -x",
            "journal read log --from 3 --limit 2 --json",
            "lease acquire s --ttl 60s --json",
            "lease renew s --ttl 60s --token abc",
            "lease release s --token-file f",
            "hook edit",
            "hook edit --ttl 5m --strict",
            "hook gate --template t.txt",
            "hook session --until session",
            "hook log --file log.jsonl",
            "hook mcp --server other --allow",
        ] {
            let words = words(line);
            let all = Cli::try_parse_from(&words).map(|cli| format!("{cli:?}"));
            let direct = parse(&words).map(|cli| format!("{cli:?}"));
            assert_eq!(direct, all.ok(), "{line}");
            assert!(direct.is_some(), "{line}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_whole_declaration() {
        for line in [
            "--json doc get a.json",
            "--version",
            "doc",
            "doc get",
            "doc get --help",
            "doc get -h a.json",
            "doc get a.json --version",
            "doc get a.json .x y",
            "doc get a.json --no-sync",
            "doc help get",
            "doc ge a.json",
            "run target true",
            "run target",
            "journal append",
            "journal append log --wait soon",
            "lease acquire s",
            "lease release s --token a --token-file f",
            "hook",
            "hook edit --ttl never",
            "hook who",
            "who",
        ] {
            assert!(parse(&words(line)).is_none(), "{line}");
        }
    }
}
