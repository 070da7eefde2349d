//! `tenure torture`.

#[cfg(unix)]
pub(super) use self::unix::{run, worker};

#[cfg(not(unix))]
pub(super) use self::other::{run, worker};

#[cfg(unix)]
mod unix {
    use std::ffi::OsString;
    use std::path::Path;

    use crate::args::TortureArgs;
    use crate::exit_code::ExitCode;
    use crate::failure::{Failure, Result};
    use crate::output::Output;
    use crate::torture;

    pub(in super::super) fn run(args: &TortureArgs, out: &mut Output) -> Result<ExitCode> {
        torture::run(args, out)
    }

    #[expect(clippy::needless_pass_by_value, reason = "workers are all called alike")]
    pub(in super::super) fn worker(words: Vec<OsString>) -> Result<ExitCode> {
        let worked = torture::work(&words);
        worked.map_err(|err| Failure::io("run", Path::new("torture"), err))?;
        Ok(ExitCode::Done)
    }
}

#[cfg(not(unix))]
mod other {
    use std::ffi::OsString;

    use crate::args::TortureArgs;
    use crate::exit_code::ExitCode;
    use crate::failure::{Failure, Result};
    use crate::output::Output;

    pub(in super::super) fn run(_: &TortureArgs, _: &mut Output) -> Result<ExitCode> {
        refuse()
    }

    pub(in super::super) fn worker(_: Vec<OsString>) -> Result<ExitCode> {
        refuse()
    }

    fn refuse() -> Result<ExitCode> {
        let detail = "it needs signals, which this system does not have";
        Err(Failure::new(ExitCode::Unsupported, "unsupported", "torture", detail))
    }
}
