//! What can go wrong at the server, and what to do about it: repeat, connect again, or report.
//!
//! # Invariants
//!
//! 1. An error is one line: the store, the step, the reason, the next step. It never contains a password: the crate that
//!    speaks to the server shows none, and the store is named without it.
//! 2. A request whose reply was lost counts as unknown until it was repeated.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use tenure::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// The schema has another version than this client.
const CLIENT_TOO_OLD: &str = "TN001";
/// A session, or a ticket, is over.
const SESSION_ENDED: &str = "TN002";

/// A connection that is closed while it is made is made again, so often.
const FIRST_ATTEMPTS: u32 = 5;

/// Why a statement, or a connection, failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused it. Nothing was changed.
    Refused { code: SqlState, message: String },
    /// The connection broke, or no answer came in time. It may have been done.
    Lost(String),
    /// The connection was closed while it was made. Nothing was changed.
    Closed(String),
    /// No connection was made.
    Unreachable { code: Option<SqlState>, message: String },
    /// Another caller is about to change the hold that was to be proven. Nothing was changed.
    Barred,
    /// The server cannot give what the URL asks for. Nothing was changed.
    Unsafe(String),
}

/// What a caller does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Repeat it: another transaction was in the way.
    Repeat,
    /// A row could not be locked in time.
    Bar,
    /// Repeat it on another connection; it may have been done.
    Reconnect,
    /// Repeat it as one that was done.
    Again,
    /// Report it.
    Report,
}

impl Failure {
    /// A statement failed.
    pub(super) fn of_statement(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refusal) => {
                let (code, message) = (refusal.code().clone(), refusal.message().to_owned());
                Self::Refused { code, message }
            }
            None => Self::Lost(said(error)),
        }
    }

    /// A connection could not be made.
    pub(super) fn of_connection(host: &str, error: &tokio_postgres::Error) -> Self {
        let message = match error.as_db_error() {
            Some(refusal) => refusal.message().to_owned(),
            None => said(error),
        };
        if is_closed(error) {
            return Self::Closed(format!("{host}: {message}"));
        }
        Self::Unreachable { code: error.code().cloned(), message: format!("{host}: {message}") }
    }

    /// No answer in time.
    pub(super) fn timed_out(after: Duration) -> Self {
        Self::Lost(format!("the server did not answer within {after:?}"))
    }

    pub(super) fn remedy(&self) -> Remedy {
        let code = match self {
            Self::Barred => return Remedy::Repeat,
            Self::Unsafe(_) => return Remedy::Report,
            Self::Unreachable { code: None, message } if message.contains("certificate") => {
                return Remedy::Report;
            }
            Self::Lost(_) | Self::Closed(_) | Self::Unreachable { code: None, .. } => {
                return Remedy::Reconnect;
            }
            Self::Refused { code, .. } | Self::Unreachable { code: Some(code), .. } => code,
        };
        if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) {
            Remedy::Repeat
        } else if *code == SqlState::LOCK_NOT_AVAILABLE {
            Remedy::Bar
        } else if *code == SqlState::UNIQUE_VIOLATION {
            Remedy::Again // Only a receipt is inserted without a look.
        } else if code.code().starts_with("57P")
            || code.code().starts_with("08")
            || *code == SqlState::TOO_MANY_CONNECTIONS
            || self.is_read_only()
        {
            Remedy::Reconnect
        } else {
            Remedy::Report
        }
    }

    /// How often a server that was never reached is tried until this is reported. One that refuses the connection is not
    /// there. One that closes it is there, or something in between is. One that is starting says so.
    pub(super) fn first_attempts(&self) -> u32 {
        match self {
            Self::Unreachable { code: Some(code), .. } if *code == SqlState::CANNOT_CONNECT_NOW => {
                u32::MAX
            }
            Self::Closed(_) => FIRST_ATTEMPTS,
            _ => 1,
        }
    }

    /// Whether the statement may have been done.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            // The server was stopped: perhaps behind the commit, while it waited for a standby.
            Self::Refused { code, .. } => code.code().starts_with("57P"),
            Self::Closed(_) | Self::Unreachable { .. } | Self::Barred | Self::Unsafe(_) => false,
        }
    }

    /// Whether the server cannot be written to. A standby refuses to say where its log ends, before it refuses a write.
    pub(super) fn is_read_only(&self) -> bool {
        let states =
            [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE];
        matches!(self, Self::Refused { code, .. } if states.contains(code))
    }

    /// The error for a caller. If it is `unknown` whether the request was done, it says neither.
    pub(super) fn into_error(
        self,
        store: &str,
        step: &'static str,
        name: Option<&str>,
        unknown: bool,
    ) -> Error {
        let (code, message) = match &self {
            Self::Refused { code, message } => (Some(code), message),
            Self::Unreachable { code, message } => (code.as_ref(), message),
            Self::Lost(message) | Self::Closed(message) | Self::Unsafe(message) => (None, message),
            Self::Barred => (None, &String::new()),
        };
        let (kind, why, next) = match code.map(SqlState::code) {
            Some(CLIENT_TOO_OLD) => {
                (ErrorKind::NewerFormat, message.clone(), "upgrade tenure".to_owned())
            }
            Some(SESSION_ENDED) => {
                (ErrorKind::LeaseLost, message.clone(), "acquire it again".to_owned())
            }
            // The schema, a table or a function is not there.
            Some("3F000" | "42P01" | "42883" | "P0002") => (
                ErrorKind::NotFound,
                "the database has no tables of this version of tenure".to_owned(),
                if store.contains(":***@") {
                    format!("run: tenure store init {store}, with the password")
                } else {
                    format!("run: tenure store init {store}")
                },
            ),
            Some("3D000") => {
                (ErrorKind::NotFound, message.clone(), "create the database first".to_owned())
            }
            Some("42501") => (
                ErrorKind::Unsupported,
                message.clone(),
                format!("ask the owner for the rights that `tenure store init {store}` prints"),
            ),
            Some("28P01" | "28000") => {
                (ErrorKind::Io, message.clone(), "check the user and the password".to_owned())
            }
            Some("25006" | "55000") => (
                ErrorKind::Unsupported,
                "the database is read-only".to_owned(),
                "name the primary, or all servers, in the URL".to_owned(),
            ),
            Some("53300") => (
                ErrorKind::Io,
                message.clone(),
                "raise max_connections, or put pgbouncer between".to_owned(),
            ),
            Some("53100" | "53200" | "54000") => {
                (ErrorKind::Io, message.clone(), "make room at the server".to_owned())
            }
            _ if matches!(self, Self::Barred) => (
                ErrorKind::Busy,
                "another caller is about to change the hold".to_owned(),
                "try again".to_owned(),
            ),
            _ if matches!(self, Self::Unsafe(_)) => (
                ErrorKind::Unsupported,
                message.clone(),
                "set synchronous_standby_names at the server, or leave out failover=sync"
                    .to_owned(),
            ),
            _ if message.contains("certificate") => (
                ErrorKind::Io,
                message.clone(),
                "check sslrootcert, sslcert and sslkey, and the name in the certificate".to_owned(),
            ),
            _ if message.contains("password missing") => {
                (ErrorKind::Io, message.clone(), "put the user's password into the URL".to_owned())
            }
            _ => (
                ErrorKind::Io,
                message.clone(),
                "check that the server runs and can be reached".to_owned(),
            ),
        };
        let mut error = Error::new(kind, step, format!("{why} (store {store})")).hint(next);
        if let Some(name) = name {
            error = error.at(Path::new(name));
        }
        if unknown { error } else { error.committed(false) }
    }
}

/// Whether a connection was made and ended before it could be used. The crate shows it by its words only.
fn is_closed(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.to_string().starts_with("error communicating with the server")
}

/// The reason below the crate's own words.
fn said(error: &tokio_postgres::Error) -> String {
    let mut words = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let more = cause.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        below = cause.source();
    }
    words.replace(['\n', '\r'], " ")
}
