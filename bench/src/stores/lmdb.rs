//! LMDB by way of heed: a memory map and a lock shared by all processes.

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags};

use crate::document::Change;
use crate::row::{Ground, Part, Result, Seat};

/// For the settings of a contender.
pub(crate) const SETTINGS: &str = "heed; open environment, map size 4 GiB, otherwise as by default";

const MAP_BYTES: usize = 4 << 30;
const KEY: &[u8] = b"state";

/// An open environment and its one database.
#[derive(Debug)]
pub(crate) struct Store {
    env: Env,
    database: Database<Bytes, Bytes>,
}

impl Store {
    #[expect(unsafe_code, reason = "heed has no safe way to open a map or to leave out the sync")]
    fn open(ground: &Ground, durable: bool) -> Result<Self> {
        let dir = ground.path("store.lmdb");
        std::fs::create_dir_all(&dir)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if !durable {
            // SAFETY: without a sync a power loss may damage the store; that is what is compared.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: only LMDB itself, in processes of this program, touches the file.
        let env = unsafe { options.open(dir)? };
        let mut transaction = env.write_txn()?;
        let database = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Self { env, database })
    }

    pub(crate) fn document(&self) -> Result<Vec<u8>> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.get(&transaction, KEY)?.ok_or("no document")?.to_vec())
    }

    pub(crate) fn lines(&self) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.len(&transaction)?)
    }

    fn change(&self, change: Change) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let new = change(self.database.get(&transaction, KEY)?.ok_or("no document")?)?;
        self.database.put(&mut transaction, KEY, &new)?;
        Ok(transaction.commit()?)
    }

    fn append(&self, line: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let last = self.database.last(&transaction)?.and_then(|(key, _)| key.try_into().ok());
        let next = last.map_or(0, u64::from_be_bytes) + 1;
        let flags = PutFlags::APPEND;
        self.database.put_with_flags(&mut transaction, flags, &next.to_be_bytes(), line)?;
        Ok(transaction.commit()?)
    }
}

/// Makes the store with a document, or an empty one.
pub(crate) fn create(ground: &Ground, document: Option<&[u8]>) -> Result<()> {
    let store = Store::open(ground, true)?;
    let mut transaction = store.env.write_txn()?;
    if let Some(document) = document {
        store.database.put(&mut transaction, KEY, document)?;
    }
    transaction.commit()?;
    store.env.prepare_for_closing().wait();
    Ok(())
}

/// Opens it, looks, and closes it.
pub(crate) fn look<T>(ground: &Ground, see: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
    let store = Store::open(ground, true)?;
    let seen = see(&store);
    store.env.prepare_for_closing().wait();
    seen
}

/// A part that changes the document.
pub(crate) fn changes(seat: &Seat, durable: bool, change: Change) -> Result<Part> {
    let store = Store::open(&seat.ground, durable)?;
    Ok(Part::timed(move || store.change(change)))
}

/// A part that appends lines.
pub(crate) fn appends(seat: &Seat, durable: bool, line: Vec<u8>) -> Result<Part> {
    let store = Store::open(&seat.ground, durable)?;
    Ok(Part::timed(move || store.append(&line)))
}
