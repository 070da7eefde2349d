//! `cargo xtask picture`: runs the demo and draws its table as `docs/demo.svg`, for the README.
//!
//! The picture is the output of one run, to the letter. The rows of tenure are green, those of the protocols that
//! were shipped are red.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::pipeline::cargo;
use crate::root;

const LINE_HEIGHT: usize = 20;
const LETTER_WIDTH: usize = 9;
const MARGIN: usize = 16;

/// Runs the demo and writes the picture. Returns where it is.
#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
pub(crate) fn draw() -> Result<PathBuf, String> {
    let mut demo = cargo(&["run", "--release", "--package", "tenure-torture", "--", "demo"]);
    let output = demo.output().map_err(|err| format!("the demo cannot be run: {err}"))?;
    if !output.status.success() {
        return Err(format!("the demo failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = root().join("docs/demo.svg");
    fs::write(&path, svg(&text)).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(path)
}

/// The text as a picture, one element per line.
fn svg(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) =
        (longest * LETTER_WIDTH + 2 * MARGIN, lines.len() * LINE_HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>Output of tenure demo</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"15\" xml:space=\"preserve\">\n"
    );
    for (at, line) in lines.iter().enumerate() {
        let y = MARGIN + (at + 1) * LINE_HEIGHT - 5;
        let colour = colour_of(line);
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{line}</text>");
    }
    svg + "</g>\n</svg>\n"
}

fn colour_of(line: &str) -> &'static str {
    let is_row = line.starts_with("  ") && line.ends_with(|last: char| last.is_ascii_digit());
    match line.trim_start() {
        row if is_row && row.starts_with("tenure") => "#7ee787",
        _ if is_row => "#ff9d94",
        _ => "#e6e6e6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_the_rows_are_coloured() {
        let picture = svg("head <1>\n  theirs   3 of 4\n  tenure lock   0 of 4\nreplay: x\n");
        assert_eq!(picture.matches("<text").count(), 4);
        assert!(picture.contains("fill=\"#ff9d94\">  theirs"), "{picture}");
        assert!(picture.contains("fill=\"#7ee787\">  tenure lock"), "{picture}");
        assert!(picture.contains("head &lt;1&gt;"), "{picture}");
    }
}
