//! `tenure init` and `tenure settings merge`: the settings of other tools keep what is theirs.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::TENURE;
use crate::bench::{Bench, Ran};

const THEIRS: &str = "\
{
  // Checked by the team.
  \"permissions\": { \"allow\": [\"Bash(ls:*)\"] },
  \"hooks\": {
    \"PreToolUse\": [
      { \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \"command\", \"command\": \"./check.sh\" }] },
    ],
  },
}
";

fn project() -> Bench {
    let bench = Bench::new();
    std::fs::create_dir(bench.path(".git")).unwrap();
    bench
}

/// With the program in the path.
fn init(bench: &Bench, args: &[&str]) -> Ran {
    init_with(bench, args, Path::new(TENURE).parent().unwrap())
}

fn init_with(bench: &Bench, args: &[&str], path: &Path) -> Ran {
    let words: Vec<_> = ["init"].iter().chain(args).collect();
    bench.command(&words).env("HOME", bench.path("home")).env("PATH", path).run()
}

#[test]
fn an_installation_is_idempotent_and_can_be_taken_back_to_the_byte() {
    let bench = project();
    bench.file(".claude/settings.json", THEIRS);
    let ran = init(&bench, &[]).ok();
    for part in [
        "changed ",
        "settings.json.tenure-backup",
        "+ ",
        "tenure hook edit",
        "created ",
        ".mcp.json",
    ] {
        assert!(ran.stdout.contains(part), "no `{part}` in {}", ran.stdout);
    }
    let installed = bench.read(".claude/settings.json");
    assert!(installed.contains("// Checked by the team.") && installed.contains("./check.sh"));
    assert_eq!(bench.read(".claude/settings.json.tenure-backup"), THEIRS);
    let servers: Value = serde_json::from_str(&bench.read(".mcp.json")).unwrap();
    assert_eq!(servers["mcpServers"]["tenure"]["command"], "tenure");
    let again = init(&bench, &["--json"]).ok().json();
    assert!(again["files"].as_array().unwrap().iter().all(|file| file["action"] == "unchanged"));
    assert_eq!(bench.read(".claude/settings.json"), installed);
    init(&bench, &["--uninstall"]).ok();
    assert_eq!(bench.read(".claude/settings.json"), THEIRS);
    assert!(!bench.path(".mcp.json").exists());
    assert!(!bench.path("home").exists(), "the user's settings are not touched");
    init(&bench, &[]).ok();
    init(&bench, &["--uninstall"]).ok();
    for left in [".mcp.json", ".mcp.json.tenure-backup", ".claude/settings.json.tenure-backup"] {
        assert!(!bench.path(left).exists(), "{left}");
    }
}

#[test]
fn a_dry_run_shows_all_and_touches_nothing() {
    let bench = project();
    let ran = init(&bench, &["--dry-run", "--gate", "--log"]).ok();
    for part in ["would create", "tenure hook gate", "tenure hook log", "tenure hook session"] {
        assert!(ran.stdout.contains(part), "no `{part}` in {}", ran.stdout);
    }
    assert!(!bench.path(".claude").exists() && !bench.path(".mcp.json").exists());
}

#[test]
fn codex_gets_its_own_file_and_the_rest_is_said() {
    let bench = project();
    std::fs::create_dir(bench.path(".codex")).unwrap();
    let ran = init(&bench, &[]).ok();
    assert!(ran.stdout.contains("[mcp_servers.tenure]"), "{}", ran.stdout);
    let hooks: Value = serde_json::from_str(&bench.read(".codex/hooks.json")).unwrap();
    let matcher = hooks["hooks"]["PreToolUse"][0]["matcher"].as_str().unwrap();
    assert!(matcher.contains("apply_patch"));
    assert!(!bench.path(".claude").exists());
    init(&bench, &["--agent", "codex", "--scope", "local"]).exits(2).complains("--scope project");
    init(&bench, &["--agent", "claude", "--scope", "user"]).ok();
    assert!(bench.path("home/.claude/settings.json").exists() && !bench.path(".claude").exists());
}

#[test]
fn agents_without_hooks_get_the_mcp_server_alone() {
    let bench = project();
    let theirs = "{\n  \"theme\": \"dark\", // mine\n  \"mcpServers\": { \"x\": { \"command\": \"x\" } }\n}\n";
    bench.file(".gemini/settings.json", theirs);
    std::fs::create_dir(bench.path(".cursor")).unwrap();
    init(&bench, &["--gate"]).ok();
    for file in [".gemini/settings.json", ".cursor/mcp.json"] {
        let text = bench.read(file);
        assert!(text.contains("\"tenure\"") && !text.contains("hooks"), "{file}: {text}");
    }
    assert!(!bench.path(".claude").exists());
    init(&bench, &["--uninstall"]).ok();
    assert_eq!(bench.read(".gemini/settings.json"), theirs);
    assert!(!bench.path(".cursor/mcp.json").exists());
    for agent in ["cursor", "gemini"] {
        init(&bench, &["--agent", agent, "--scope", "local"]).exits(2);
        init(&bench, &["--agent", agent, "--scope", "user"]).ok();
    }
    assert!(bench.path("home/.cursor/mcp.json").exists());
    assert!(bench.path("home/.gemini/settings.json").exists());
}

#[test]
fn a_program_that_is_not_in_the_path_is_said() {
    for flag in ["--dry-run", "--json", "--no-mcp"] {
        let bench = project();
        std::fs::create_dir_all(bench.path("bin/tenure")).unwrap();
        let ran = init_with(&bench, &[flag], &bench.path("bin")).exits(0);
        assert!(ran.stdout.contains(".claude/settings.json"), "{ran:?}");
        assert!(ran.stderr.contains("no `tenure` in PATH") && ran.stderr.contains("install it"));
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        // What is taken out needs no program.
        init_with(&bench, &["--uninstall"], &bench.path("bin")).ok();
    }
}

/// An uninstallation leaves the sidecars of the lock.
#[test]
fn an_agent_that_was_uninstalled_is_not_taken_for_present() {
    let files = |ran: Ran| ran.ok().json()["files"].to_string();
    for (agent, dir, next, its) in [
        ("claude", ".claude", "cursor", ".cursor/mcp.json"),
        ("codex", ".codex", "claude", ".claude/settings.json"),
        ("cursor", ".cursor", "claude", ".claude/settings.json"),
        ("gemini", ".gemini", "claude", ".claude/settings.json"),
    ] {
        let bench = project();
        init(&bench, &["--agent", agent]).ok();
        init(&bench, &["--agent", agent, "--uninstall"]).ok();
        let left: Vec<_> = std::fs::read_dir(bench.path(dir)).unwrap().collect();
        assert!(left.len() == 1 && bench.path(dir).join(".tenure").is_dir(), "{left:?}");
        std::fs::create_dir(bench.path(&format!(".{next}"))).unwrap();
        let found = files(init(&bench, &["--dry-run", "--json"]));
        assert!(found.contains(its) && !found.contains(dir), "{agent}: {found}");
        // But an uninstallation looks there, too: it may have been interrupted.
        let found = files(init(&bench, &["--uninstall", "--dry-run", "--json"]));
        assert!(found.contains(its) && found.contains(dir), "{agent}: {found}");
    }
}

#[test]
fn settings_that_are_no_json_are_reported_and_left_alone() {
    let bench = project();
    bench.file(".claude/settings.json", "{ \"hooks\": ");
    init(&bench, &[]).exits(2).complains("the settings cannot be read");
    assert_eq!(bench.read(".claude/settings.json"), "{ \"hooks\": ");
    assert!(!bench.path(".claude/settings.json.tenure-backup").exists());
}

#[test]
fn if_one_file_cannot_be_changed_none_is() {
    for text in ["[]", "{ \"mcpServers\": ", "{ \"mcpServers\": [] }"] {
        for args in [&[][..], &["--dry-run"], &["--json"]] {
            let bench = project();
            bench.file(".mcp.json", text);
            let ran = init(&bench, args).exits(2).says("");
            assert!(ran.stderr.contains(".mcp.json"), "{ran:?}");
            assert!(ran.stderr.contains("nothing was changed"), "{ran:?}");
            assert!(!bench.path(".claude").exists(), "{text} {args:?}");
            assert_eq!(bench.read(".mcp.json"), text);
        }
    }
}

#[test]
fn a_change_is_reported_also_if_the_next_file_is_locked() {
    for (args, part) in [(&[][..], "tenure hook edit"), (&["--json"], "\"action\":\"created\"")] {
        let bench = project();
        let _holder = bench.holder(&[], ".mcp.json");
        let ran = init(&bench, &[&["--wait", "0"], args].concat()).exits(75);
        assert!(bench.read(".claude/settings.json").contains("tenure hook edit"));
        assert!(ran.stdout.contains(part) && ran.stdout.contains("settings.json"), "{ran:?}");
        assert!(!ran.stdout.contains(".mcp.json") && ran.stderr.contains(".mcp.json"), "{ran:?}");
    }
}

#[test]
fn what_a_person_changed_in_our_hooks_stays() {
    let bench = project();
    bench.file(".claude/settings.json", THEIRS);
    init(&bench, &["--gate"]).ok();
    for (file, ours, theirs) in [
        (".claude/settings.json", "tenure hook edit", "tenure hook edit --ttl 30m --strict"),
        (".mcp.json", "\"mcp\"", "\"mcp\", \"--root\", \"pkg\""),
    ] {
        bench.file(file, bench.read(file).replace(ours, theirs));
    }
    let (settings, servers) = (bench.read(".claude/settings.json"), bench.read(".mcp.json"));
    init(&bench, &["--gate"]).ok();
    assert_eq!((bench.read(".claude/settings.json"), bench.read(".mcp.json")), (settings, servers));
    init(&bench, &[]).ok();
    let settings = bench.read(".claude/settings.json");
    assert!(!settings.contains("hook gate") && settings.contains("--ttl 30m"), "{settings}");
    init(&bench, &["--uninstall"]).ok();
    assert_eq!(bench.read(".claude/settings.json"), THEIRS);
}

#[test]
fn a_read_only_home_is_a_clear_error() {
    let bench = project();
    bench.file("home/.claude", "a file");
    let ran = init(&bench, &["--scope", "user", "--agent", "claude"]);
    assert!(ran.code == Some(1) && ran.stderr.contains(".claude"), "{ran:?}");
}

/// The scripts of the document, each with what it prints; `...` stands for what is left out.
#[test]
fn the_samples_of_the_document_print_what_it_says() {
    let page = include_str!("../../../../docs/AGENTS.md");
    let samples: Vec<_> = page.split("```sh\n").skip(1).collect();
    assert_eq!(samples.len(), 2);
    for sample in samples {
        let (script, rest) = sample.split_once("```").unwrap();
        let (_, output) = rest.split_once("```text\n").unwrap();
        let (expected, _) = output.split_once("\n```").unwrap();
        let bench = project();
        let path = Path::new(TENURE).parent().unwrap().to_str().unwrap();
        let path = format!("{path}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(bench.path("")).env("PATH", path);
        let ran = Ran::new(shell.env_remove("CLAUDE_PROJECT_DIR").output().unwrap()).ok();
        assert_eq!(ran.stdout.lines().count(), expected.lines().count(), "{ran:?}");
        for (line, expected) in ran.stdout.lines().zip(expected.lines()) {
            let mut rest = line;
            for part in expected.split("...").map(str::trim) {
                let at = rest.find(part).unwrap_or_else(|| panic!("no `{part}` in {rest}"));
                rest = &rest[at + part.len()..];
            }
            assert!(rest.is_empty() || expected.ends_with("..."), "more in {line}");
        }
    }
}

#[test]
fn a_merge_keeps_comments_and_a_removal_takes_it_out() {
    let bench = Bench::new();
    bench.file("s.json", THEIRS);
    let merge = |args: &[&str]| {
        let patch = r#"{"env":{"CI":"1"},"permissions":{"allow":["Bash(ls:*)","Read"]}}"#;
        bench.tenure(&[&["settings", "merge", "s.json", patch], args].concat())
    };
    assert!(merge(&["--dry-run"]).ok().stdout.starts_with("would change "));
    assert_eq!(bench.read("s.json"), THEIRS);
    merge(&[]).ok();
    let merged = bench.read("s.json");
    assert!(
        merged.contains("// Checked by the team.") && merged.contains("\"CI\": \"1\""),
        "{merged}"
    );
    assert_eq!(merge(&["--json"]).ok().json()["changed"], json!(false));
    merge(&["--remove"]).ok();
    // It takes out what a merge adds, also what was there before: a list has each element once.
    assert!(!bench.read("s.json").contains("CI"));
    bench.tenure(&["settings", "merge", "s.json", "[1]"]).exits(2).complains("not a JSON object");
    bench.tenure(&["settings", "merge", "s.json", "{\"hooks\":7}"]).exits(2).complains("/hooks");
}
