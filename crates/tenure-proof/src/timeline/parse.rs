//! Parses a timeline. Anything unknown is an error with its line, never skipped.

use std::collections::BTreeSet;

use super::words::split;

/// A parsed timeline.
#[derive(Debug)]
pub struct Scenario {
    /// The name of its file.
    pub name: String,
    /// The scratch files.
    pub files: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One line of a timeline.
#[derive(Debug)]
pub struct Step {
    /// Its number, for people.
    pub number: u32,
    /// The actor; `-` is none.
    pub actor: String,
    /// What it does.
    pub deed: Deed,
}

/// What happens in a step.
#[derive(Debug)]
pub enum Deed {
    /// An order.
    Order {
        /// Its word.
        op: String,
        /// Positional values and `field=value`.
        words: Vec<String>,
        /// The answer; `None` if it waits.
        expected: Option<Expected>,
    },
    /// The answer to an order that waited.
    Answers(Expected),
    /// SIGKILL, and the end.
    Kill,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Resume,
    /// `LEFT > RIGHT` or `LEFT = RIGHT`.
    Compare(String, char, String),
    /// A plain program replaces the content of a file, or appends to it.
    Plain {
        /// Appends, instead of replacing the content.
        append: bool,
        /// The file.
        file: String,
        /// What it writes.
        text: String,
    },
    /// Waits until the lease of a file has expired.
    Expires(String),
}

/// The expected answer.
#[derive(Debug)]
pub struct Expected {
    /// The code of the error, unless it succeeds.
    pub error: Option<String>,
    /// Field, value, and whether a language may leave it out.
    pub fields: Vec<(String, String, bool)>,
}

impl Scenario {
    /// Parses the text of a timeline.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut scenario = Self { name: name.to_owned(), files: Vec::new(), steps: Vec::new() };
        for (at, line) in text.lines().enumerate() {
            let at = |why: String| format!("{name}:{}: {why}: {line}", at + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(files) = line.strip_prefix("files:") {
                scenario.files = files.split_whitespace().map(str::to_owned).collect();
                continue;
            }
            let step = step(line).map_err(at)?;
            let number = u32::try_from(scenario.steps.len() + 1).unwrap_or(u32::MAX);
            if step.number != number {
                return Err(at(format!("this is step {number}")));
            }
            scenario.steps.push(step);
        }
        if scenario.steps.is_empty() { Err(format!("{name}: no step")) } else { Ok(scenario) }
    }

    /// All actors.
    pub fn actors(&self) -> BTreeSet<&str> {
        let actors = self.steps.iter().map(|step| step.actor.as_str());
        actors.filter(|actor| *actor != "-").collect()
    }

    /// The orders that an actor must know.
    pub fn orders_of(&self, actor: &str) -> BTreeSet<&str> {
        let ours = self.steps.iter().filter(|step| step.actor == actor);
        ours.filter_map(|step| match &step.deed {
            Deed::Order { op, .. } => Some(op.as_str()),
            _ => None,
        })
        .collect()
    }

    /// Whether every actor must be a process: signals hit all actors of one process.
    pub fn needs_processes(&self) -> bool {
        self.steps.iter().any(|step| match &step.deed {
            Deed::Kill | Deed::Stop | Deed::Resume => true,
            Deed::Order { op, .. } => op == "fork" || op == "program",
            _ => false,
        })
    }
}

fn step(line: &str) -> Result<Step, String> {
    let words = split(line);
    let [number, actor, deed @ ..] = words.as_slice() else {
        return Err("a step has a number, an actor and a deed".into());
    };
    let number = number.parse().map_err(|_| format!("`{number}` is no number"))?;
    let deed = if *actor == "-" { nobodys(deed)? } else { somebodys(deed)? };
    Ok(Step { number, actor: (*actor).to_owned(), deed })
}

fn nobodys(words: &[&str]) -> Result<Deed, String> {
    let owned = |word: &&str| (**word).to_owned();
    match words {
        ["write", file, text] => {
            Ok(Deed::Plain { append: false, file: owned(file), text: owned(text) })
        }
        ["append", file, text] => {
            Ok(Deed::Plain { append: true, file: owned(file), text: owned(text) })
        }
        ["expires", file] => Ok(Deed::Expires(owned(file))),
        [left, ">", right] => Ok(Deed::Compare(owned(left), '>', owned(right))),
        [left, "=", right] => Ok(Deed::Compare(owned(left), '=', owned(right))),
        _ => Err("unknown step".into()),
    }
}

fn somebodys(words: &[&str]) -> Result<Deed, String> {
    let arrow = words.iter().position(|word| *word == "->");
    let (said, answer) = match arrow {
        Some(arrow) => (&words[..arrow], Some(expected(&words[arrow + 1..])?)),
        None => (words, None),
    };
    match (said, answer) {
        (["kill"], None) => Ok(Deed::Kill),
        (["stop"], None) => Ok(Deed::Stop),
        (["resume"], None) => Ok(Deed::Resume),
        (["kill" | "stop" | "resume"], Some(_)) => Err("a signal has no answer".into()),
        (["answers"], Some(expected)) => Ok(Deed::Answers(expected)),
        ([op, words @ .., "blocks"], None) => Ok(order(op, words, None)),
        ([op, words @ ..], Some(expected)) => Ok(order(op, words, Some(expected))),
        _ => Err("an order has an answer (-> ...) or blocks".into()),
    }
}

fn order(op: &str, words: &[&str], expected: Option<Expected>) -> Deed {
    let words = words.iter().map(ToString::to_string).collect();
    Deed::Order { op: op.to_owned(), words, expected }
}

fn expected(words: &[&str]) -> Result<Expected, String> {
    let (error, fields) = match words {
        ["error", code, fields @ ..] => (Some((*code).to_owned()), fields),
        ["ok", fields @ ..] | fields => (None, fields),
    };
    let field = |word: &&str| {
        let (name, value) = word.split_once('=').ok_or(format!("`{word}` is not field=value"))?;
        let optional = name.ends_with('?');
        Ok((name.trim_end_matches('?').to_owned(), value.to_owned(), optional))
    };
    Ok(Expected { error, fields: fields.iter().map(field).collect::<Result<_, String>>()? })
}

#[cfg(test)]
mod tests {
    use super::Scenario;

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for bad in [
            "1 A",
            "x A lock $doc -> ok",
            "2 A lock $doc -> ok",
            "1 A lock $doc",
            "1 A kill -> ok",
            "1 - lock $doc",
            "1 A lock $doc -> fence",
            "",
        ] {
            assert!(Scenario::parse("bad", bad).is_err(), "{bad}");
        }
        let good = "# story\nfiles: doc\n1 A lock $doc -> fence=$a\n2 A stop\n3 - $a > 0\n";
        let scenario = Scenario::parse("good", good).unwrap();
        assert_eq!((scenario.steps.len(), scenario.needs_processes()), (3, true));
        assert_eq!(scenario.actors().into_iter().collect::<Vec<_>>(), ["A"]);
    }
}
