//! Exit codes: API, the same for every command.

use tenure::ErrorKind;

/// How the process ends. `run` and `lease hold` pass the command's own code on instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// 0: done.
    Done,
    /// 1: failed (I/O, not found, a filter that raised an error, and the like).
    Failed,
    /// 2: the command line or its input is wrong; nothing was changed.
    Usage,
    /// 3: a condition does not hold: `-e` saw false or null, or the version differs.
    NotMet,
    /// 4: fenced, lease lost, or compromised: stop, another process may hold it.
    Lost,
    /// 5: damaged data.
    Damaged,
    /// 6: the file system, store or format version cannot give the guarantee.
    Unsupported,
    /// 75: busy, the deadline passed (`EX_TEMPFAIL`).
    Busy,
    /// 126: the command of `run` or `hold` cannot be executed.
    NotExecutable,
    /// 127: the command of `run` or `hold` was not found.
    CommandNotFound,
    /// The command's own code, 128 + the signal that ended it, or `--busy-code`.
    Other(u8),
}

impl ExitCode {
    /// The number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotMet => 3,
            Self::Lost => 4,
            Self::Damaged => 5,
            Self::Unsupported => 6,
            Self::Busy => 75,
            Self::NotExecutable => 126,
            Self::CommandNotFound => 127,
            Self::Other(code) => code,
        }
    }
}

impl From<ErrorKind> for ExitCode {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Conflict => Self::NotMet,
            ErrorKind::Fenced | ErrorKind::LeaseLost | ErrorKind::Compromised => Self::Lost,
            ErrorKind::Damaged => Self::Damaged,
            ErrorKind::Unsupported | ErrorKind::NewerFormat => Self::Unsupported,
            ErrorKind::Invalid => Self::Usage,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_code_of_the_contract() {
        let codes: Vec<_> = ErrorKind::ALL
            .iter()
            .map(|kind| (kind.code(), ExitCode::from(*kind).number()))
            .collect();
        let expected = [
            ("busy", 75),
            ("deadlock", 1),
            ("cancelled", 1),
            ("conflict", 3),
            ("fenced", 4),
            ("lease_lost", 4),
            ("compromised", 4),
            ("damaged", 5),
            ("unsupported", 6),
            ("newer_format", 6),
            ("not_durable", 1),
            ("invalid", 2),
            ("not_found", 1),
            ("io", 1),
        ];
        assert_eq!(codes, expected);
    }
}
