//! Rows of the server as the words of the engine.

use std::time::Duration;

use tenure::Version;
use tenure::status::{HoldKind, Holder};
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use super::failure::Failure;
use crate::holder;

/// Columns by name. A column that is missing or has another type is a schema that this client does not know.
pub(super) trait Columns {
    fn column<T: FromSqlOwned>(&self, name: &str) -> Result<T, Failure>;

    /// A number that is never negative.
    fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        Ok(self.column::<Option<i64>>(name)?.map(unsigned))
    }

    /// A time in milliseconds.
    fn time(&self, name: &str) -> Result<Option<Duration>, Failure> {
        Ok(self.number(name)?.map(Duration::from_millis))
    }

    /// A holder in the columns `r_holder`, `r_fence`, `r_since` and `r_kind`.
    fn holder(&self) -> Result<Option<Holder>, Failure> {
        let Some(text) = self.column::<Option<String>>("r_holder")? else { return Ok(None) };
        let hold = match self.column::<Option<i16>>("r_kind")? {
            Some(1) => HoldKind::Lock,
            Some(2) => HoldKind::Lease,
            _ => HoldKind::Unknown,
        };
        Ok(Some(Holder {
            fence: self.number("r_fence")?.unwrap_or(0),
            since_us: self.number("r_since")?.unwrap_or(0),
            hold,
            ..holder::from_text(text.as_bytes())
        }))
    }
}

impl Columns for Row {
    fn column<T: FromSqlOwned>(&self, name: &str) -> Result<T, Failure> {
        self.try_get(name).map_err(|err| Failure::of_statement(&err))
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A number for the server. Ours are below 2^53.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time for the server.
pub(super) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

/// The version of a document.
pub(super) fn version(number: u64) -> Version {
    Version::new(format!("p{number:x}"))
}

/// The number of a version; -1, which no document has, for one of another store.
pub(super) fn version_number(version: &Version) -> i64 {
    let text = version.to_string();
    let digits = text.strip_prefix('p').and_then(|digits| i64::from_str_radix(digits, 16).ok());
    digits.unwrap_or(-1)
}
