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
    "who",
    "doctor",
    "demo",
    "torture",
    "bench",
    "completions",
    "man",
    "doc",
    "journal",
    "lease",
    "collection",
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

#[test]
fn whoever_watches_waits_for_ever() {
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
    let bare = bench.tenure::<&str>(&[]).exits(2).complains("subcommand");
    assert!(!bare.stderr.contains("worker"), "{bare:?}");
    bench.tenure(&["jurnal"]).exits(2).complains("'journal'");
    bench.tenure(&["who", "--event"]).exits(2).complains("'--events'");
    bench.tenure(&["nonsense"]).exits(2).complains("nonsense");
    bench.tenure(&["doc", "nonsense"]).exits(2).complains("nonsense");
    bench.tenure(&["who", "--nonsense"]).exits(2).complains("--nonsense");
}

#[test]
fn completions_and_manual_pages_are_made() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bench.tenure(&["completions", shell]).ok().stdout;
        assert!(script.contains("take-over"), "{shell}");
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
