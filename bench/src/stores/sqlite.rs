//! SQLite, as its documentation recommends it for several processes: WAL, `BEGIN IMMEDIATE`, a busy
//! timeout, prepared statements, an open connection. Everything else is its default.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::document::Change;
use crate::row::{Ground, Part, Result, Seat};

/// For the settings of a contender.
pub(crate) const SETTINGS: &str = "rusqlite, bundled SQLite; open connection, journal_mode=WAL, BEGIN IMMEDIATE, \
    busy_timeout 60 s, prepared statements, page size and checkpoints as by default";

/// `PRAGMA synchronous`
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sync {
    /// Never syncs.
    Off,
    /// Syncs at checkpoints only.
    Normal,
    /// Every commit is durable.
    Full,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

impl Store {
    pub(crate) fn open(path: &Path, sync: Sync) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_mins(1))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        let level = match sync {
            Sync::Off => "off",
            Sync::Normal => "normal",
            Sync::Full => "full",
        };
        connection.pragma_update(None, "synchronous", level)?;
        Ok(Self { connection })
    }

    pub(crate) fn create(&self, document: &[u8]) -> Result<()> {
        self.connection.execute_batch(
            "create table documents (name text primary key, body blob) without rowid;
             create table lines (number integer primary key, line blob);",
        )?;
        let sql = "insert into documents values ('state', ?1)";
        self.connection.execute(sql, [document])?;
        Ok(())
    }

    pub(crate) fn document(&self) -> Result<Vec<u8>> {
        let mut select =
            self.connection.prepare_cached("select body from documents where name = 'state'")?;
        Ok(select.query_row([], |row| row.get(0))?)
    }

    pub(crate) fn lines(&self) -> Result<u64> {
        let sql = "select count(*) from lines";
        let count: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(count.try_into()?)
    }

    fn change(&mut self, change: Change) -> Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut select =
                transaction.prepare_cached("select body from documents where name = 'state'")?;
            let new = select.query_row([], |row| Ok(change(row.get_ref(0)?.as_blob()?)))??;
            let mut update = transaction
                .prepare_cached("update documents set body = ?1 where name = 'state'")?;
            update.execute([new])?;
        }
        Ok(transaction.commit()?)
    }

    fn append(&mut self, line: &[u8]) -> Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.prepare_cached("insert into lines (line) values (?1)")?.execute([line])?;
        Ok(transaction.commit()?)
    }
}

fn path(ground: &Ground) -> std::path::PathBuf {
    ground.path("store.sqlite")
}

/// Makes the store with a document.
pub(crate) fn create(ground: &Ground, document: &[u8]) -> Result<()> {
    Store::open(&path(ground), Sync::Full)?.create(document)
}

/// Opens it to look.
pub(crate) fn look(ground: &Ground) -> Result<Store> {
    Store::open(&path(ground), Sync::Full)
}

/// A part that changes the document.
pub(crate) fn changes(seat: &Seat, sync: Sync, change: Change) -> Result<Part> {
    let mut store = Store::open(&path(&seat.ground), sync)?;
    Ok(Part::timed(move || store.change(change)))
}

/// A part that appends lines.
pub(crate) fn appends(seat: &Seat, sync: Sync, line: Vec<u8>) -> Result<Part> {
    let mut store = Store::open(&path(&seat.ground), sync)?;
    Ok(Part::timed(move || store.append(&line)))
}
