//! Plays a timeline with puppets.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::parse::{Deed, Expected, Scenario, Step};
use super::words::{Names, field, value};
use crate::puppet::{FAR_TOO_LONG, Puppet};

/// The puppet of every actor.
pub type Cast = HashMap<String, Box<dyn Puppet>>;

/// Plays `scenario` with `cast` on files in `directory`. Panics with the step that failed.
pub fn play(scenario: &Scenario, cast: Cast, directory: &Path) {
    let path = |name: &String| (name.clone(), json!(directory.join(name)));
    let names = scenario.files.iter().map(path).collect();
    let mut performance = Performance { cast, names };
    for step in &scenario.steps {
        if let Err(why) = performance.step(step) {
            panic!("{}, step {} ({}): {why}", scenario.name, step.number, step.actor);
        }
    }
}

struct Performance {
    cast: Cast,
    names: Names,
}

impl Performance {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.deed {
            Deed::Order { op, words, expected } => {
                let order = self.order(op, words)?;
                let puppet = self.puppet(&step.actor)?;
                if let Some(expected) = expected {
                    let answer = puppet.say(&order);
                    self.compare(&step.actor, &answer, expected)?;
                } else {
                    puppet.tell(&order);
                    puppet.is_silent();
                }
            }
            Deed::Answers(expected) => {
                let answer = self.puppet(&step.actor)?.hear();
                self.compare(&step.actor, &answer, expected)?;
            }
            Deed::Kill => self.puppet(&step.actor)?.kill(),
            Deed::Stop => self.puppet(&step.actor)?.stop(),
            Deed::Resume => self.puppet(&step.actor)?.resume(),
            Deed::Compare(left, sign, right) => {
                let (left, right) = (value(left, &self.names)?, value(right, &self.names)?);
                let holds = match sign {
                    '>' => left.as_u64() > right.as_u64() && right.is_u64(),
                    _ => left == right,
                };
                if !holds {
                    return Err(format!("not {left} {sign} {right}"));
                }
            }
            Deed::Plain { append, file, text } => self.plain(*append, file, text)?,
            Deed::Expires(file) => self.expires(file)?,
        }
        Ok(())
    }

    fn puppet(&mut self, actor: &str) -> Result<&mut dyn Puppet, String> {
        match self.cast.get_mut(actor) {
            Some(puppet) => Ok(puppet.as_mut()),
            None => Err("no puppet for this actor".into()),
        }
    }

    /// The order of these words. The first value without a field is the path or the name of a hold.
    fn order(&self, op: &str, words: &[String]) -> Result<Value, String> {
        let mut order = Map::from_iter([("op".to_owned(), json!(op))]);
        for word in words {
            let is_field = |name: &&str| name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
            let pair = word.split_once('=').filter(|(name, _)| is_field(name));
            let (name, word) = match pair {
                Some(pair) => pair,
                None if ["release", "verify", "next", "fork"].contains(&op) => {
                    ("as", word.as_str())
                }
                None => ("path", word.as_str()),
            };
            order.insert(name.to_owned(), value(word, &self.names)?);
        }
        Ok(order.into())
    }

    fn compare(&mut self, actor: &str, answer: &Value, wanted: &Expected) -> Result<(), String> {
        let pid = self.puppet(actor)?.pid();
        self.names.insert(format!("{actor}.pid"), json!(pid));
        let (part, code) = match &wanted.error {
            Some(code) => (&answer["error"], answer["error"]["code"] == code.as_str()),
            None => (&answer["ok"], answer["ok"].is_object()),
        };
        if !code {
            return Err(format!("the answer is {answer}"));
        }
        for (name, word, optional) in &wanted.fields {
            let told = match field(part, name) {
                Some(told) => told,
                None if *optional => continue,
                None => return Err(format!("no `{name}` in {answer}")),
            };
            let new = word.strip_prefix('$').filter(|name| !self.names.contains_key(*name));
            if let Some(new) = new {
                self.names.insert(new.to_owned(), told.clone());
                continue;
            }
            let wanted = value(word, &self.names)?;
            if *told != wanted {
                return Err(format!("`{name}` is {told}, not {wanted}, in {answer}"));
            }
        }
        Ok(())
    }

    fn path(&self, word: &str) -> Result<String, String> {
        let path = value(word, &self.names)?;
        path.as_str().map(str::to_owned).ok_or_else(|| format!("{path} is no path"))
    }

    fn plain(&self, append: bool, file: &str, text: &str) -> Result<(), String> {
        let text = value(text, &self.names)?;
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        let mut options = OpenOptions::new();
        options.create(true).append(append).write(true).truncate(!append);
        let file = options.open(self.path(file)?);
        let done = file.and_then(|mut file| file.write_all(text.as_bytes()));
        done.map_err(|err| err.to_string())
    }

    fn expires(&self, file: &str) -> Result<(), String> {
        let lease = tenure::Lease::open(self.path(file)?).map_err(|err| err.to_string())?;
        let started = Instant::now();
        while started.elapsed() < FAR_TOO_LONG {
            match lease.show().map_err(|err| err.to_string())? {
                Some(info) if info.expires_in.is_some() => std::thread::yield_now(),
                _ => return Ok(()),
            }
        }
        Err("it runs still".into())
    }
}
