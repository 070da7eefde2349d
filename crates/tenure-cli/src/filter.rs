//! jq filters: compiled once, run on JSON values.
//!
//! # Invariants
//!
//! 1. What a filter does not touch comes back as it was: key order, and the digits of every number.
//! 2. A filter cannot end the process, read input or write output; it only computes.
//! 3. Whatever it returns is a JSON document that tenure can read back; else it is an error.
//! 4. Its stack and its memory are bounded (`room`). It imports nothing: a variable is what the caller named.

mod convert;
mod library;
mod missing_path;
mod room;

use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars};
use jaq_json::Val;

use self::library::Part;
use self::room::Bounded;

pub(crate) use self::room::with_room;
pub use self::room::{memory_refused, memory_returned, memory_taken, this_is_the_first_thread};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use tenure::json::Object;
use tenure::{Value, json};

type Compiled = jaq_core::Filter<JustLut<Val>>;

/// A compiled filter and its named values.
pub(crate) struct Filter {
    code: String,
    compiled: Compiled,
    variables: Vec<Val>,
}

impl Filter {
    /// Compiles `code`, which may use `$NAME` for each of `named`, `$ENV` and `$ARGS`.
    pub(crate) fn compile(code: &str, named: &[(String, Value)]) -> Result<Self> {
        let known: Object = named.iter().cloned().collect();
        // Most filters do not look at it.
        let asked = code.contains("ENV").then(std::env::vars_os);
        let environment: Object = asked
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let mut names = vec!["$ENV".to_owned(), "$ARGS".to_owned()];
        let arguments = json!({ "positional": [], "named": known });
        let mut variables = vec![Value::Object(environment), arguments];
        for (name, value) in named {
            names.push(format!("${name}"));
            variables.push(value.clone());
        }
        let variables = variables.iter().map(convert::to_val).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut last = None;
        for part in Part::BY_SIZE {
            match compile(code, &names, part) {
                Ok(compiled) => return Ok(Self { code: code.to_owned(), compiled, variables }),
                Err(why) => last = Some(why),
            }
        }
        // If even the whole library lacks it, that is the error to report.
        Err(wrong(&last.unwrap_or_default()))
    }

    /// Gives the last of the named values another value.
    pub(crate) fn set_last(&mut self, value: &Value) {
        if let Some(last) = self.variables.last_mut() {
            *last = convert::to_val(value);
        }
    }

    /// All results of the filter on `input`. After an error there are no results.
    pub(crate) fn run(&self, input: &Value) -> Result<Vec<Value>> {
        self.results(input, drop)
    }

    /// The same; `done` gets what the engine has made once it is converted.
    fn results(&self, input: &Value, done: fn(Val)) -> Result<Vec<Value>> {
        let _bounded = Bounded::begin();
        let variables = Vars::new(self.variables.iter().cloned());
        let context = Ctx::<JustLut<Val>>::new(&self.compiled.lut, variables);
        let mut results = Vec::new();
        for result in self.compiled.id.run((context, convert::to_val(input))) {
            let value = match result.map_err(jaq_core::Exn::get_err) {
                Ok(value) => value,
                Err(Ok(error)) => return Err(self.raised(&error.to_string())),
                Err(Err(_)) => return Err(failed("a filter cannot halt tenure")),
            };
            results.push(convert::from_val(&value).map_err(|why| failed(&why))?);
            done(value);
        }
        Ok(results)
    }

    /// The filter raised an error.
    fn raised(&self, error: &str) -> Failure {
        let failure = failed(&shorten(error));
        match missing_path::advice(&self.code, error) {
            Some(advice) => failure.hint(format!("nothing was changed; {advice}")),
            None => failure,
        }
    }

    /// The one result of the filter on `input`, for a process that ends with it: taking apart what the
    /// engine has made takes longer than that is worth.
    pub(crate) fn run_once(&self, input: &Value) -> Result<Value> {
        let mut results = self.results(input, std::mem::forget)?;
        match results.len() {
            1 => Ok(results.remove(0)),
            0 => Err(failed("it has no result; a new document needs exactly one")),
            many => {
                Err(failed(&format!("it has {many} results; a new document needs exactly one")))
            }
        }
    }
}

/// Compiles `code` with a part of the library; says why it cannot be done.
fn compile(code: &str, names: &[&str], part: Part) -> Result<Compiled, String> {
    let arena = Arena::default();
    let modules = Loader::new(part.definitions())
        .load(&arena, File { code, path: () })
        .map_err(|errors| why_not_loaded(code, &errors))?;
    // `import "m" as $m` reads no module, and would shift the values of all other variables.
    load::import(&modules, |_| Err(String::new()))
        .map_err(|errors| why_not_loaded(code, &errors))?;
    Compiler::default()
        .with_funs(library::natives())
        .with_global_vars(names.iter().copied())
        .compile(modules)
        .map_err(|errors| why_not_compiled(&errors))
}

/// Whether jq counts a value as true.
pub(crate) fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn wrong(why: &str) -> Failure {
    Failure::usage("compile the filter", why).hint("filters are jq; quote them for the shell")
}

fn failed(why: &str) -> Failure {
    Failure::new(ExitCode::Failed, "filter", "run the filter", why).hint(HINT)
}

/// What to do about a filter that failed.
const HINT: &str =
    "nothing was changed; fix the filter: `tenure doc get FILE FILTER` tries it without a change";

/// An error message may quote the whole document, newlines and all.
fn shorten(text: &str) -> String {
    const LETTERS_MAX: usize = 300;
    let mut letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut short: String = letters.by_ref().take(LETTERS_MAX).collect();
    if letters.next().is_some() {
        short.push_str("...");
    }
    short
}

fn why_not_loaded(code: &str, errors: &load::Errors<&str, ()>) -> String {
    let at = |part: &str| {
        let found = if part.is_empty() { "the end" } else { part };
        let found: String = found.chars().take(20).collect();
        format!("at character {} (`{found}`)", load::span(code, part).start + 1)
    };
    match errors.first().map(|(_, error)| error) {
        Some(load::Error::Lex(errors)) if !errors.is_empty() => {
            format!("expected {} {}", errors[0].0.as_str(), at(errors[0].1))
        }
        Some(load::Error::Parse(errors)) if !errors.is_empty() => {
            format!("expected {} {}", errors[0].0.as_str(), at(errors[0].1))
        }
        Some(load::Error::Io(_)) => {
            "it imports a module or a file, and a filter of tenure cannot".to_owned()
        }
        _ => "it cannot be read".to_owned(),
    }
}

fn why_not_compiled(errors: &jaq_core::compile::Errors<&str, ()>) -> String {
    let first = errors.first().and_then(|(_, errors)| errors.first());
    first.map_or_else(
        || "it cannot be compiled".to_owned(),
        |(name, kind)| format!("undefined {}: {name}", kind.as_str()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        text.parse().unwrap()
    }

    fn run(code: &str, input: &str) -> Vec<String> {
        let filter = Filter::compile(code, &[]).unwrap();
        let results = filter.run(&parse(input)).unwrap();
        results.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_not_touched_keeps_its_order_and_its_digits() {
        let text = r#"{"z":1.10,"a":123456789012345678901234567890,"m":-0,"e":1e400,"k":-0.0,"big":18446744073709551616,"f":0.1000000000000000055511151231257827,"s":"\u0000\ud83d\ude00"}"#;
        let kept = parse(text).to_string();
        for same in [".", ".new = 1 | del(.new)"] {
            assert_eq!(run(same, text).concat(), kept);
        }
    }

    #[test]
    fn computed_numbers_look_like_those_of_jq() {
        assert_eq!(
            run("6 / 2, 1 / 4, 1e3, 10000000000000000000 + 1", "null"),
            ["3", "0.25", "1e3", "10000000000000000001"]
        );
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        for code in ["nan", "infinite", "[nan]", "\"a\" | tobytes", "{(\"a\"|tobytes): 1}"] {
            let filter = Filter::compile(code, &[]).unwrap();
            assert!(filter.run(&Value::Null).is_err(), "{code}");
        }
    }

    #[test]
    fn deep_results_are_refused_without_a_crash() {
        let nest = |levels| format!("reduce range({levels}) as $i (0; [.])");
        assert_eq!(run(&nest(127), "null").len(), 1);
        with_room(false, || {
            for levels in [128, 100_000] {
                let filter = Filter::compile(&nest(levels), &[])?;
                assert!(filter.run(&Value::Null).is_err(), "{levels}");
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn named_values_and_the_environment_are_known() {
        let named = [("k".to_owned(), parse("[1]"))];
        let filter = Filter::compile("$k, $ARGS.named.k, ($ENV | type)", &named).unwrap();
        let results = filter.run(&Value::Null).unwrap();
        assert_eq!(results, [parse("[1]"), parse("[1]"), parse("\"object\"")]);
    }

    #[test]
    fn errors_say_where() {
        for (code, part) in [
            (".a |", "expected term at character 5"),
            (".a + )", "at character 6"),
            ("nonsense", "undefined filter: nonsense"),
            ("$x", "undefined variable: $x"),
            ("input", "undefined filter: input"),
        ] {
            let Err(failure) = Filter::compile(code, &[]) else { panic!("{code} compiled") };
            assert_eq!(failure.exit(), ExitCode::Usage);
            let message = failure.message().unwrap();
            assert!(message.contains(part), "{message}");
        }
        for code in [".a.b", "error(\"no\")", "halt", "halt_error"] {
            let filter = Filter::compile(code, &[]).unwrap();
            let failure = filter.run(&parse("{\"a\":1}")).unwrap_err();
            assert_eq!(failure.exit(), ExitCode::Failed);
        }
    }
}
