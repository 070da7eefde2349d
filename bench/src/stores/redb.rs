//! redb: a store for one process.

use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};

use crate::document::Change;
use crate::row::{Ground, Part, Result, Seat};

/// For the settings of a contender.
pub(crate) const SETTINGS: &str = "open database, one process only, otherwise as by default";

const DOCUMENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("documents");
const LINES: TableDefinition<u64, &[u8]> = TableDefinition::new("lines");

fn open(ground: &Ground) -> Result<Database> {
    Ok(Database::create(ground.path("store.redb"))?)
}

/// Makes the store with a document.
pub(crate) fn create(ground: &Ground, document: &[u8]) -> Result<()> {
    let transaction = open(ground)?.begin_write()?;
    transaction.open_table(DOCUMENTS)?.insert("state", document)?;
    transaction.open_table(LINES)?;
    Ok(transaction.commit()?)
}

/// The document in it.
pub(crate) fn document(ground: &Ground) -> Result<Vec<u8>> {
    let table = open(ground)?.begin_read()?.open_table(DOCUMENTS)?;
    Ok(table.get("state")?.ok_or("no document")?.value().to_vec())
}

/// How many lines are in it.
pub(crate) fn lines(ground: &Ground) -> Result<u64> {
    Ok(open(ground)?.begin_read()?.open_table(LINES)?.len()?)
}

/// A part that changes the document.
pub(crate) fn changes(seat: &Seat, durability: Durability, change: Change) -> Result<Part> {
    let database = open(&seat.ground)?;
    Ok(Part::timed(move || {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(durability)?;
        {
            let mut table = transaction.open_table(DOCUMENTS)?;
            let new = change(table.get("state")?.ok_or("no document")?.value())?;
            table.insert("state", new.as_slice())?;
        }
        Ok(transaction.commit()?)
    }))
}

/// A part that appends lines.
pub(crate) fn appends(seat: &Seat, durability: Durability, line: Vec<u8>) -> Result<Part> {
    let database = open(&seat.ground)?;
    let mut next = lines_in(&database)?;
    Ok(Part::timed(move || {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(durability)?;
        transaction.open_table(LINES)?.insert(next, line.as_slice())?;
        next += 1;
        Ok(transaction.commit()?)
    }))
}

fn lines_in(database: &Database) -> Result<u64> {
    Ok(database.begin_read()?.open_table(LINES)?.len()?)
}
