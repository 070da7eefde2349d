//! `tenure demo`, `torture` and `bench`, which run in another program: `tenure-lab`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::TENURE;
use crate::bench::{Bench, terminal};

/// Builds the real `tenure-lab` beside the program under test, in the same profile.
pub(crate) fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let profile = Path::new(TENURE).parent().unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", "tenure-torture", "--bin", "tenure-lab"]);
        // The directory of the `dev` profile is named `debug`.
        let name = profile.file_name().unwrap();
        cargo.arg("--profile").arg(if name == "debug" { "dev".as_ref() } else { name });
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success(), "tenure-lab cannot be built");
    });
}

/// A copy of `tenure` in `bin/`, and a script as `tenure-lab` in `dir`.
fn with_script(bench: &Bench, dir: &str, script: &str) -> PathBuf {
    let text = bench.file("text", format!("#!/bin/sh\n{script}\n"));
    bench.program(&format!("{dir}/tenure-lab"), &text);
    bench.program("bin/tenure", TENURE.as_ref())
}

#[test]
fn arguments_input_output_and_exit_code_are_passed_through() {
    let bench = Bench::new();
    let script = r#"printf '<%s>' "$@"; cat; echo complaint >&2; exit 42"#;
    let tenure = with_script(&bench, "bin", script);
    let args = ["--json", "torture", "a dir", "--command", "x  'y' {}", "--seed", "7"];
    let ran = bench.started_as(&tenure, &args).stdin("told\n").run().exits(42);
    assert_eq!(ran.stdout, "<--json><torture><a dir><--command><x  'y' {}><--seed><7>told\n");
    assert_eq!(ran.stderr, "complaint\n");
    for command in ["demo", "bench"] {
        let ran = bench.started_as(&tenure, &[command, "--quick"]).run().exits(42);
        assert_eq!(ran.stdout, format!("<{command}><--quick>"));
    }
}

/// It is the same process, so signals need no forwarding and its exit status is kept.
#[test]
fn signals_meet_the_laboratory_itself() {
    let bench = Bench::new();
    let tenure = with_script(&bench, "bin", "echo $$; exec cat");
    let mut run = bench.started_as(&tenure, &["demo"]).start();
    assert_eq!(run.line(), run.pid().to_string());
    run.signal(Signal::TERM);
    let ran = run.wait();
    assert_eq!((ran.code, ran.stderr.as_str()), (None, ""), "a signal ended it");
}

#[test]
fn the_terminal_is_passed_through() {
    let bench = Bench::new();
    let tenure = with_script(&bench, "bin", "test ! -t 1 && test -t 2");
    let (_screen, slave) = terminal();
    let mut command = bench.started_as(&tenure, &["bench"]).with_stderr(slave).unstarted();
    assert!(command.stdout(std::process::Stdio::piped()).status().unwrap().success());
}

#[test]
fn the_one_beside_tenure_comes_before_those_in_path() {
    let bench = Bench::new();
    let path =
        std::env::join_paths([bench.path("other"), "/usr/bin".into(), "/bin".into()]).unwrap();
    let tenure = with_script(&bench, "other", "echo by PATH");
    let run = || bench.started_as(&tenure, &["demo"]).env("PATH", &path).run();
    run().ok().says("by PATH");
    with_script(&bench, "bin", "echo beside");
    run().ok().says("beside");
    // A symbolic link is followed: both programs are installed where it leads.
    std::os::unix::fs::symlink(&tenure, bench.path("link")).unwrap();
    let ran = bench.started_as(&bench.path("link"), &["demo"]).env("PATH", &path).run();
    ran.ok().says("beside");
}

#[test]
fn without_it_the_error_says_what_to_do_and_help_still_works() {
    let bench = Bench::new();
    let tenure = bench.program("bin/tenure", TENURE.as_ref());
    let run = |args: &[&str]| bench.started_as(&tenure, args).env("PATH", "/nowhere").run();
    let ran = run(&["demo"]).exits(1).complains("failed to start `tenure-lab`");
    assert!(ran.stderr.contains("; install it there: cargo install --path "), "{ran:?}");
    let error = run(&["bench", "--json"]).exits(1).error();
    assert_eq!((&error["code"], &error["exit"]), (&"not_found".into(), &1.into()), "{error}");
    for command in ["demo", "torture", "bench"] {
        assert!(
            run(&[command, "--help"]).ok().stdout.contains(&format!("Usage: tenure {command}"))
        );
        assert!(run(&["--help"]).ok().stdout.contains(&format!("\n  {command} ")));
        run(&[command, "--nonsense"]).exits(2).complains("--nonsense");
    }
    bench.program("bin/tenure-lab", &bench.file("text", "#!/bin/sh\n"));
    bench.set_mode("bin/tenure-lab", 0o644);
    run(&["demo"]).exits(1).complains("Permission denied");
}

/// The programs as they are: a save through tenure passes the torture.
#[test]
fn both_programs_work_together() {
    build();
    let bench = Bench::new();
    let report = bench.tenure(&["bench", "--quick", "--json"]).ok().json();
    assert_eq!(report["rows"].as_array().unwrap().len(), 6, "{report}");
    let ours = format!("{TENURE} doc update {{}} '.[$k]=1' --arg k {{key}} --wait forever");
    let words = ["torture", "--json", "--processes", "4", "--minutes", "0.2", "--command"];
    let verdict = bench.tenure(&[&words[..], &[&ours]].concat()).ok().json();
    assert!(verdict["operations"].as_u64().unwrap() > 0, "{verdict:#}");
}

/// Real processes, hooks and MCP calls: without tenure agents collide, with it they do not.
#[test]
fn agents_with_tenure_do_not_collide() {
    build();
    let bench = Bench::new();
    let report = bench.tenure(&["demo", "agents", "--quick", "--json"]).ok().json();
    let wrong = |run: &str| {
        let counts = ["collisions", "lost_edits", "double_refreshes", "double_claims"];
        counts.map(|count| report[run][count].as_u64().unwrap())
    };
    assert_eq!(wrong("with"), [0; 4], "{report:#}");
    assert!(report["with"]["edits"].as_u64().unwrap() >= 3, "{report:#}");
    assert_ne!(wrong("without"), [0; 4], "{report:#}");
}
