//! `tenure torture`.

#[cfg(unix)]
pub(super) use self::unix::{run, worker};

#[cfg(not(unix))]
pub(super) use self::other::{run, worker};

#[cfg(unix)]
mod unix {
    use std::path::Path;

    use crate::args::{TortureArgs, TortureWorkerArgs};
    use crate::exit_code::ExitCode;
    use crate::failure::{Failure, Result};
    use crate::output::Output;
    use crate::torture;

    pub(in super::super) fn run(args: &TortureArgs, out: &mut Output) -> Result<ExitCode> {
        torture::run(args, out)
    }

    pub(in super::super) fn worker(args: &TortureWorkerArgs) -> Result<ExitCode> {
        let worked = torture::work(&args.words);
        worked.map_err(|err| Failure::io("run", Path::new("torture"), err))?;
        Ok(ExitCode::Done)
    }
}

#[cfg(not(unix))]
mod other {
    use crate::args::{TortureArgs, TortureWorkerArgs};
    use crate::exit_code::ExitCode;
    use crate::failure::{Failure, Result};
    use crate::output::Output;

    pub(in super::super) fn run(_: &TortureArgs, _: &mut Output) -> Result<ExitCode> {
        refuse()
    }

    pub(in super::super) fn worker(_: &TortureWorkerArgs) -> Result<ExitCode> {
        refuse()
    }

    fn refuse() -> Result<ExitCode> {
        let detail = "it needs signals, which this system does not have";
        Err(Failure::new(ExitCode::Unsupported, "unsupported", "torture", detail))
    }
}
