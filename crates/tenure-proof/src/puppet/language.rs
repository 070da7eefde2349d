//! The languages of puppets, which of them are available, and which are required.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Child, CommandLine, Puppet, Troupe};

/// Languages that must run: `rust,cli,node,python`.
const REQUIRED: &str = "TENURE_PUPPETS";

/// What a puppet is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The library itself.
    Rust,
    /// The `tenure` command.
    CommandLine,
    /// The npm package.
    Node,
    /// The wheel.
    Python,
}

impl Language {
    const ALL: [Self; 4] = [Self::Rust, Self::CommandLine, Self::Node, Self::Python];

    /// The name in `TENURE_PUPPETS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::CommandLine => "cli",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Starts a puppet with a process of its own.
    pub fn start(self) -> Result<Box<dyn Puppet>, String> {
        match self {
            Self::CommandLine => Ok(Box::new(CommandLine::start())),
            _ => Ok(Box::new(Troupe::start(&mut self.command())?.alone())),
        }
    }

    /// The command that starts a child of this language.
    pub fn command(self) -> Command {
        let given = |name, program: &str, script: &str| {
            let script = root().join(script);
            let words = match std::env::var(name) {
                Ok(given) => given.split_whitespace().map(PathBuf::from).collect(),
                Err(_) => vec![PathBuf::from(program), script],
            };
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).current_dir(root());
            command
        };
        match self {
            Self::Rust | Self::CommandLine => Command::new(rust_child()),
            Self::Node => given("TENURE_PUPPET_NODE", "node", "bindings/node/test/puppet.mjs"),
            Self::Python => {
                given("TENURE_PUPPET_PYTHON", "python3", "bindings/python/tests/puppet.py")
            }
        }
    }

    /// Why this language cannot run here.
    fn missing(self) -> Option<String> {
        if matches!(self, Self::Rust | Self::CommandLine) {
            return None; // Built with this test.
        }
        let command = self.command();
        let script = command.get_args().map(Path::new).find(|word| word.extension().is_some());
        match script {
            Some(script) if !script.exists() => Some(format!("no {}", script.display())),
            _ => Child::try_start(self).err(),
        }
    }
}

impl Child {
    fn try_start(language: Language) -> Result<Self, String> {
        Ok(Troupe::start(&mut language.command())?.alone())
    }
}

/// The languages that can run here. Each missing one is reported once; one that `TENURE_PUPPETS`
/// requires fails instead.
pub fn languages() -> &'static [Language] {
    static THERE: OnceLock<Vec<Language>> = OnceLock::new();
    THERE.get_or_init(|| {
        let required = std::env::var(REQUIRED).unwrap_or_else(|_| "rust,cli".to_owned());
        let required: Vec<_> = required.split(',').map(str::trim).collect();
        for name in &required {
            assert!(Language::ALL.iter().any(|one| one.name() == *name), "{REQUIRED}: `{name}`?");
        }
        let there = Language::ALL.into_iter().filter(|language| match language.missing() {
            None => true,
            Some(why) => {
                let name = language.name();
                assert!(!required.contains(&name), "{REQUIRED} requires {name}: {why}");
                crate::not_run(&format!(
                    "puppets in {name}: {why} (required with {REQUIRED}={name})"
                ));
                false
            }
        });
        there.collect()
    })
}

fn root() -> &'static Path {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    ours.ancestors().nth(2).expect("the crate lies in crates/ of the repository")
}

/// Cargo builds the binaries of a package before its tests, beside `deps/`.
fn rust_child() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    let profile = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    profile.join("puppet")
}
