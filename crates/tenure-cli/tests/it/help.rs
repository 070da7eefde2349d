//! Help, version, completions and manual pages.

use crate::bench::Bench;

pub(crate) const COMMANDS: &[&str] = &[
    "run",
    "doc get",
    "doc set",
    "doc update",
    "doc merge",
    "doc patch",
    "doc version",
    "doc watch",
    "doc diff",
    "doc undo",
    "doc history",
    "doc restore",
    "journal append",
    "journal read",
    "journal follow",
    "journal verify",
    "journal repair",
    "journal rotate",
    "journal compact",
    "lease acquire",
    "lease renew",
    "lease release",
    "lease show",
    "lease check",
    "lease take-over",
    "lease hold",
    "collection list",
    "collection prune",
    "collection split",
    "hook edit",
    "hook gate",
    "hook session",
    "hook log",
    "hook mcp",
    "hook who",
    "init",
    "settings merge",
    "file put",
    "file get",
    "file version",
    "file edit",
    "file undo",
    "once",
    "claim add",
    "claim next",
    "claim done",
    "claim fail",
    "claim renew",
    "claim list",
    "claim prune",
    "who",
    "doctor",
    "store init",
    "store upgrade",
    "store check",
    "copy",
    "mcp",
    "demo",
    "torture",
    "bench",
    "completions",
    "man",
    "doc",
    "journal",
    "lease",
    "collection",
    "store",
    "file",
    "claim",
    "hook",
    "settings",
];

#[test]
fn every_command_teaches_with_an_example() {
    let bench = Bench::new();
    for command in COMMANDS {
        let mut args: Vec<_> = command.split(' ').collect();
        args.push("--help");
        let help = bench.tenure(&args).ok().stdout;
        let example = help.split("Examples:").nth(1).unwrap_or_default();
        assert!(example.contains("tenure "), "{command}: {help}");
        assert!(help.contains(&format!("Usage: tenure {command}")), "{command}: {help}");
    }
    let help = bench.tenure(&["--help"]).ok().stdout;
    for part in ["Exit codes:", "TENURE_WAIT", "TENURE_OUTER", "75 busy"] {
        assert!(help.contains(part), "{part}");
    }
    let listed = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let listed = listed.lines().filter_map(|line| line.split_whitespace().next());
    for command in listed.filter(|command| *command != "help") {
        assert!(COMMANDS.contains(&command), "{command} is not tested here");
    }
    assert!(bench.tenure(&["help", "run"]).ok().stdout.contains("Usage: tenure run"));
}

/// A command that has no targets refuses `--store`, so its help does not offer it.
#[test]
fn only_commands_that_take_a_store_offer_one() {
    let bench = Bench::new();
    let refuses = ["hook", "init", "settings", "completions", "man", "demo"];
    for command in COMMANDS {
        let mut args: Vec<_> = command.split(' ').collect();
        let is_refused = refuses.contains(&args[0]);
        args.push("--help");
        let help = bench.tenure(&args).ok().stdout;
        assert_eq!(help.contains("--store <URL>"), !is_refused, "{command}: {help}");
    }
    for args in [&["init"][..], &["hook", "who"], &["settings", "merge", "x", "{}"], &["man", "."]]
    {
        let ran = bench.tenure(&[args, &["--store", "postgres://h/d"]].concat());
        assert!(ran.stderr.contains("this command has no targets"), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_watcher_waits_without_a_limit() {
    let bench = Bench::new();
    for command in [["doc", "watch"], ["journal", "follow"]] {
        let help = bench.tenure(&[command[0], command[1], "--help"]).ok().stdout;
        assert!(help.contains("[default: forever]"), "{help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let bench = Bench::new();
    let expected = format!("tenure {}", env!("CARGO_PKG_VERSION"));
    bench.tenure(&["--version"]).ok().says(&expected);
}

#[test]
fn nothing_or_nonsense_is_2_and_one_line() {
    let bench = Bench::new();
    let error = bench.tenure(&["--json"]).exits(2).error();
    assert!(error["message"].as_str().unwrap().contains("command"), "{error}");
    bench.tenure(&["jurnal"]).exits(2).complains("'journal'");
    bench.tenure(&["who", "--event"]).exits(2).complains("'--events'");
    bench.tenure(&["nonsense"]).exits(2).complains("nonsense");
    bench.tenure(&["doc", "nonsense"]).exits(2).complains("nonsense");
    bench.tenure(&["who", "--nonsense"]).exits(2).complains("--nonsense");
}

/// A caller that types only the name wants the list of commands. It is no success: a script forgot something.
#[test]
fn without_a_command_the_help_is_shown() {
    let bench = Bench::new();
    let help = bench.tenure(&["--help"]).ok().stdout;
    let bare = bench.tenure::<&str>(&[]).exits(2).says("");
    assert_eq!(bare.stderr.trim_end(), help.trim_end());
    assert!(!bare.stderr.contains("worker"), "{bare:?}");
    for noun in ["doc", "journal", "lease", "collection"] {
        let bare = bench.tenure(&[noun]).exits(2).says("");
        assert!(bare.stderr.contains("Examples:"), "{bare:?}");
    }
}

#[test]
fn a_suggestion_is_about_what_was_meant() {
    let bench = Bench::new();
    for (words, meant) in [
        (&["lock", "x"][..], "'run' (hold a lock while a command runs) or 'lease'"),
        (&["unlock", "x"], "'lease release'"),
        (&["status"], "'who'"),
        (&["get", "s.json"], "'doc get'"),
        (&["append", "j", "x"], "'journal append'"),
        (&["doc", "read", "s.json"], "'doc get'?"),
        (&["journal", "tail", "j"], "'journal follow'?"),
        (&["lease", "status", "x"], "'lease show'?"),
        (&["file", "read", "a"], "'file get'?"),
        (&["store", "status"], "'store check'?"),
        (&["claim", "get", "q"], "'claim next'?"),
        (&["--json", "claim", "get", "q"], "'claim next'?"),
    ] {
        let ran = bench.tenure(words).exits(2);
        let said = format!("did you mean {meant}");
        assert!(ran.stderr.contains(&said) && ran.stderr.contains("unknown command"), "{ran:?}");
    }
    // Nothing below `doc` shows who holds it, and a slip of the finger is the parser's own tip.
    let ran = bench.tenure(&["doc", "status", "s.json"]).exits(2).complains("usage: tenure doc");
    assert!(!ran.stderr.contains("lease"), "{ran:?}");
    bench.tenure(&["doc", "updat", "s.json"]).exits(2).complains("similar").complains("'update'");
}

#[test]
fn examples_in_manual_pages_keep_their_lines() {
    let bench = Bench::new();
    bench.tenure(&["man", "."]).ok();
    for page in std::fs::read_dir(bench.path("")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let text = bench.read(&name);
        let Some((_, notes)) = text.split_once(".SH EXAMPLES AND NOTES\n") else {
            assert!(!text.contains("Examples:"), "{name}");
            continue;
        };
        assert!(notes.starts_with(".nf\n") && notes.contains("\n.fi\n"), "{name}: {notes}");
    }
    let page = bench.read("tenure.1");
    let notes = page.split(".nf\n").nth(1).unwrap().split(".fi\n").next().unwrap();
    assert!(notes.contains("\n  tenure run build.lock \\-\\- make"), "{notes}");
}

#[test]
fn completions_and_manual_pages_are_made() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bench.tenure(&["completions", shell]).ok().stdout;
        for word in ["take-over", "undo", "history", "check", "since", "parents"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("worker"), "{shell}");
    }
    bench.tenure(&["completions", "cmd"]).exits(2);
    bench.tenure(&["man", "."]).ok();
    assert!(bench.read("tenure-lease-acquire.1").contains("TENURE_TOKEN"));
    for page in ["tenure-run.1", "tenure-lease-hold.1"] {
        let page = bench.read(page);
        let synopsis = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1).unwrap();
        assert!(synopsis.contains(r"<\fITARGET\fR> \-\- <\fICMD\fR>..."), "{synopsis}");
    }
    bench.tenure(&["man", "no-such-directory"]).exits(1);
}
