//! Why it failed, in the one line that the `tenure` command would print.

use std::io::Write;

use tenure::json;

/// Why it failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// Whether the change was made, as far as that is known.
    committed: Option<bool>,
}

impl Failure {
    pub(crate) fn new(message: String, committed: Option<bool>) -> Self {
        Self { message, committed }
    }

    /// For people, or for programs. Does not panic if the message cannot be written either.
    pub(crate) fn tell(&self, json: bool) {
        let Self { message, committed } = self;
        let object = json!({ "message": message, "committed": committed, "exit": 1 });
        let line = if json { object.to_string() } else { format!("tenure: {message}") };
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

impl From<tenure::Error> for Failure {
    fn from(error: tenure::Error) -> Self {
        Self::new(error.to_string(), error.is_committed())
    }
}
