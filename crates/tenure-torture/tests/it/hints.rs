//! Every error line ends with what to do next.

use crate::bench::Bench;

#[test]
fn a_place_that_is_no_directory_says_what_to_do() {
    let bench = Bench::new();
    bench.file("plain", "x");
    let name = "; check the name, and that its directory is there";
    let part = "; a part of the path is no directory: name another one";
    for command in ["bench", "torture"] {
        for (place, hint) in [("none", name), ("plain", part)] {
            let ran = bench.tenure(&[command, place]).exits(1).complains(place);
            assert!(ran.stderr.trim_end().ends_with(hint), "{ran:?}");
        }
    }
}

#[test]
fn usage_errors_are_those_of_tenure() {
    let bench = Bench::new();
    let ran = bench.tenure(&["demo", "--sed", "1"]).exits(2).complains("'--seed'");
    assert!(!ran.stderr.contains("tenure-lab"), "{ran:?}");
    bench.tenure(&["doc", "get", "x"]).exits(2).complains("unrecognized subcommand 'doc'");
    let help = bench.tenure(&["torture", "--help"]).ok().stdout;
    assert!(help.contains("Usage: tenure torture"), "{help}");
}
