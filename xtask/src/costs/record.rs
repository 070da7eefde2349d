//! The costs on record, and what they were counted with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

use super::count::{Cost, ran};
use crate::prove::failed;

/// What the number of instructions depends on besides the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tools {
    pub(super) processor: String,
    compiler: String,
    library: String,
    counter: String,
}

/// Everything on record.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    pub(super) tools: Tools,
    pub(super) costs: BTreeMap<String, Cost>,
}

impl Tools {
    /// Those of this machine.
    pub(super) fn here() -> Result<Self, String> {
        let first_line = |words: &[&str]| {
            let output = ran(Command::new(words[0]).args(&words[1..]))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok::<_, String>(text.lines().next().unwrap_or_default().trim().to_owned())
        };
        Ok(Self {
            processor: std::env::consts::ARCH.to_owned(),
            compiler: first_line(&["rustc", "--version"])?,
            library: first_line(&["ldd", "--version"])?,
            counter: first_line(&["valgrind", "--version"])?,
        })
    }

    fn to_json(&self) -> Value {
        let fields = [
            ("compiler", &self.compiler),
            ("counter", &self.counter),
            ("library", &self.library),
            ("processor", &self.processor),
        ];
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Value::from(value.as_str())))
            .collect()
    }
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.compiler, self.library, self.counter)
    }
}

impl Record {
    /// Reads it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(failed("read", path))?;
        let wrong = |what: &str| format!("{}: {what}", path.display());
        let record: Value = serde_json::from_str(&text).map_err(|err| wrong(&err.to_string()))?;
        Self::from_json(&record).ok_or_else(|| wrong("this is no record of costs"))
    }

    /// Replaces it. Keys are in the order of the alphabet, so that a change shows as one.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the repository; git has the old version"
    )]
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(&self.to_json()).map_err(|err| err.to_string())?;
        std::fs::write(path, text + "\n").map_err(failed("write", path))?;
        println!("on record now: {}", path.display());
        Ok(())
    }

    fn to_json(&self) -> Value {
        let numbers = |calls: &BTreeMap<String, f64>| -> Value {
            calls.iter().map(|(name, count)| (name.clone(), number(*count))).collect()
        };
        let costs: Map<_, _> = self
            .costs
            .iter()
            .map(|(name, cost)| {
                let fields =
                    [("calls", numbers(&cost.calls)), ("instructions", number(cost.instructions))];
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                (name.clone(), fields.collect())
            })
            .collect();
        let parts = [("costs", Value::Object(costs)), ("tools", self.tools.to_json())];
        parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn from_json(record: &Value) -> Option<Self> {
        let text = |name: &str| record["tools"][name].as_str().map(str::to_owned);
        let tools = Tools {
            processor: text("processor")?,
            compiler: text("compiler")?,
            library: text("library")?,
            counter: text("counter")?,
        };
        let mut costs = BTreeMap::new();
        for (name, cost) in record["costs"].as_object()? {
            let calls = cost["calls"].as_object()?.iter();
            let calls = calls.map(|(name, count)| Some((name.clone(), count.as_f64()?)));
            let calls = calls.collect::<Option<_>>()?;
            let instructions = cost["instructions"].as_f64()?;
            costs.insert(name.clone(), Cost { instructions, calls });
        }
        Some(Self { tools, costs })
    }
}

/// A whole number without a point.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole and far below the limit"
        )]
        return (value as i64).into();
    }
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let text = || "x 1.2".to_owned();
        let (processor, compiler) = (text(), text());
        let tools = Tools { processor, compiler, library: text(), counter: text() };
        let calls = [("flock".to_owned(), 2.0), ("pwrite64".to_owned(), 0.25)];
        let cost = Cost { instructions: 8e6, calls: calls.into_iter().collect() };
        let record = Record { tools, costs: [("lock".to_owned(), cost)].into_iter().collect() };
        assert_eq!(Record::from_json(&record.to_json()), Some(record));
        assert_eq!(Record::from_json(&Value::Null), None);
    }
}
