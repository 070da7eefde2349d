//! What a filter must not do: store something else, crash, or take the machine's memory.

use crate::TENURE;
use crate::bench::Bench;

const DOCUMENT: &str = r#"{"name":"bob"}"#;

#[test]
fn an_import_is_refused_and_nothing_is_written() {
    let bench = Bench::new();
    bench.file("s.json", DOCUMENT);
    bench.file("m.json", "1");
    bench.file("m.jq", "def f: 1;");
    for filter in [
        r#"import "m" as $m; .name = $k"#,
        r#"import "m" as $m; import "m" as $n; .name = $k"#,
        r#"import "m" as m; .name = $k"#,
        r#"include "m"; .name = $k"#,
        r#"import "m" as $m; ["long enough for the whole library"] | map(ascii_downcase) | first"#,
    ] {
        let update = ["doc", "update", "s.json", filter, "--arg", "k", "alice"];
        bench.tenure(&update).exits(2).complains("imports");
        let get = ["--json", "doc", "get", "s.json", filter, "--arg", "k", "alice"];
        assert_eq!(bench.tenure(&get).exits(2).says("").error()["code"], "usage");
        assert_eq!(bench.read("s.json"), DOCUMENT);
    }
}

/// Each ended tenure by a signal: the stack or the memory was gone.
const BOMBS: [(&str, &str); 6] = [
    ("def f: 1 + f; f", "recurses too deeply"),
    ("def f: [f]; f", "recurses too deeply"),
    ("reduce range(4000000) as $i (0; [.]) | tojson", "recurses too deeply"),
    ("[range(1e9)]", "1 GB of memory"),
    ("\"x\" * 2000000000", "1 GB of memory"),
    ("reduce range(64) as $i (\"x\"; . + .)", "1 GB of memory"),
];

#[test]
fn stack_and_memory_of_a_filter_are_bounded() {
    let bench = Bench::new();
    bench.file("s.json", DOCUMENT);
    for (filter, why) in BOMBS {
        bench.tenure(&["doc", "update", "s.json", filter]).exits(1).complains(why);
        assert_eq!(bench.read("s.json"), DOCUMENT);
    }
    let (filter, _) = BOMBS[0];
    let error = bench.tenure(&["--json", "doc", "update", "s.json", filter]).exits(1).error();
    assert_eq!((&error["code"], &error["exit"]), (&"filter".into(), &1.into()));
    // Where the limit of the stack cannot be raised, it runs on a thread.
    let limited = format!("ulimit -s 8192; exec '{TENURE}' doc update s.json '{filter}'");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &limited]).current_dir(bench.path(".")).output().unwrap();
    crate::bench::Ran::new(output).exits(1).complains("recurses too deeply");
    // The lock is free, and the next writer has nothing to recover from.
    bench.tenure(&["run", "s.json", "--wait", "0", "--", "true"]).ok();
    bench.tenure(&["doc", "update", "s.json", ".n = 1", "--wait", "0"]).ok();
}

#[test]
fn deeply_nested_code_is_refused() {
    let bench = Bench::new();
    bench.file("s.json", DOCUMENT);
    let code = format!("{}1{}", "(".repeat(2_000_000), ")".repeat(2_000_000));
    let update = bench.command(&["doc", "update", "s.json", "-"]).stdin(code).run();
    update.exits(1).complains("too deeply");
    assert_eq!(bench.read("s.json"), DOCUMENT);
}

/// jq creates what is missing on the way; the engine does not, so the error shows what works.
#[test]
fn a_missing_path_is_an_error_that_shows_the_form_that_works() {
    let bench = Bench::new();
    bench.file("s.json", DOCUMENT);
    let update = ["doc", "update", "s.json", ".checked[$k] = 7", "--arg", "k", "a.ts"];
    let refused = bench.tenure(&update).exits(1);
    refused.complains(".checked += {($k): 7}").complains("missing");
    let shown = ["doc", "update", "s.json", ".checked += {($k): 7}", "--arg", "k", "a.ts"];
    bench.tenure(&shown).ok();
    bench.tenure(&["doc", "get", "-c", "s.json", ".checked"]).ok().says(r#"{"a.ts":7}"#);
    // Once it is there, the usual form works.
    bench.tenure(&update).ok();
}
