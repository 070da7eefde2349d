'use strict';

// The change journal of codegraph: `changes.journal`, a header with a time and one path per line. Same
// file, same synchronous calls; a batch is there completely or not at all.
//
// Lock: the kernel's, on the journal. `changes.journal.lock` is written as well and respected, for
// programs that know only that; between them and us it is as safe as it ever was, which is not very.

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { Journal, lockSync } = require('../index.cjs');
const { isAlive, removeSync, sleepSync } = require('./owner.cjs');

const JOURNAL_FILENAME = 'changes.journal';
const HEADER_PREFIX = '# codegraph-journal v1 ';
const DELETED = 'DELETED ';
const LOCK_TIMEOUT_MS = 5000;
const LOCK_STALE_MS = 30_000;
const LOCK_RETRY_MS = 25;

const headerOf = (timestamp) => `${HEADER_PREFIX}${timestamp}`;
const lineOf = (entry) => (entry.deleted ? `${DELETED}${entry.file}` : entry.file);

/** The time in a header line; null if it is none. */
function timestampOf(line) {
  if (!line?.startsWith(HEADER_PREFIX)) return null;
  const timestamp = Number(line.slice(HEADER_PREFIX.length).trim());
  return Number.isFinite(timestamp) && timestamp > 0 ? timestamp : null;
}

/** What has changed since the header's time. Takes no lock. */
function readJournal(dir) {
  let text;
  try {
    text = fs.readFileSync(path.join(dir, JOURNAL_FILENAME), 'utf8');
  } catch {
    return { valid: false };
  }
  const [first, ...lines] = text.split('\n');
  const timestamp = timestampOf(first);
  if (timestamp === null) return { valid: false };
  const [changed, removed] = [new Set(), new Set()];
  for (const line of lines.map((each) => each.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    if (line.startsWith(DELETED)) removed.add(line.slice(DELETED.length).trim());
    else changed.add(line);
  }
  removed.delete('');
  return { valid: true, timestamp, changed: [...changed], removed: [...removed] };
}

/** Guards of this thread, by journal: a call inside `withJournalLock` is part of it. */
const held = new Map();

/** Runs `act` while nobody else changes the journal. Throws when that takes too long. */
function withJournalLock(dir, act) {
  fs.mkdirSync(dir, { recursive: true });
  const file = path.join(fs.realpathSync(dir), JOURNAL_FILENAME);
  const outer = held.get(file);
  if (outer) return act(outer);
  const deadline = Date.now() + LOCK_TIMEOUT_MS;
  const guard = acquire(file);
  try {
    const leave = enterLegacy(`${file}.lock`, deadline);
    try {
      held.set(file, guard);
      return act(guard);
    } finally {
      held.delete(file);
      leave();
    }
  } finally {
    guard.releaseSync();
  }
}

function acquire(file) {
  try {
    return lockSync(file, { waitMs: LOCK_TIMEOUT_MS, label: 'codegraph journal' });
  } catch (error) {
    if (error.code !== 'busy') throw error;
    throw new Error(`Failed to acquire journal lock at ${file}.lock: ${error.message}`, { cause: error });
  }
}

/** Writes the lock file that older programs look for. Returns what takes it away again. */
function enterLegacy(lock, deadline) {
  sweep(lock);
  const nonce = `${process.pid}-${randomBytes(8).toString('hex')}`;
  for (;;) {
    try {
      fs.writeFileSync(lock, `${process.pid}\n${nonce}\n`, { flag: 'wx' });
      return () => leaveLegacy(lock, nonce);
    } catch (error) {
      if (error.code !== 'EEXIST') return () => {}; // It is a courtesy; the kernel's lock is ours.
    }
    if (isAbandoned(lock)) {
      removeSync(lock);
    } else if (Date.now() >= deadline) {
      throw new Error(`Failed to acquire journal lock at ${lock}: a program that does not use tenure holds it`);
    } else {
      sleepSync(LOCK_RETRY_MS);
    }
  }
}

/** Whether whoever wrote the lock file is gone. One that is still empty is just being written. */
function isAbandoned(lock) {
  try {
    const pid = Number(fs.readFileSync(lock, 'utf8').split('\n')[0]);
    const known = Number.isSafeInteger(pid) && pid > 0;
    if (known) return pid === process.pid || !isAlive(pid);
    return Date.now() - fs.statSync(lock).mtimeMs > LOCK_STALE_MS;
  } catch (error) {
    return error.code === 'ENOENT';
  }
}

function leaveLegacy(lock, nonce) {
  try {
    if (fs.readFileSync(lock, 'utf8').split('\n')[1] === nonce) fs.unlinkSync(lock);
  } catch {
    // Somebody took it away.
  }
}

/** Temporary files that a killed program left while it took the lock over. */
function sweep(lock) {
  const [dir, prefix] = [path.dirname(lock), `${path.basename(lock)}.`];
  for (const name of fs.readdirSync(dir)) {
    if (!name.startsWith(prefix) || !name.endsWith('.tmp')) continue;
    try {
      const file = path.join(dir, name);
      if (Date.now() - fs.statSync(file).mtimeMs > LOCK_STALE_MS) fs.unlinkSync(file);
    } catch {
      // Another sweep was faster.
    }
  }
}

/** Changes the journal under the lock. What fails while writing is told, not thrown. */
function change(dir, act) {
  return withJournalLock(dir, (guard) => {
    try {
      act(new Journal(path.join(dir, JOURNAL_FILENAME)), { fence: guard.fence, noSync: true });
    } catch (error) {
      process.emitWarning(`the change journal could not be written: ${error.message}`, 'CodegraphJournal');
    }
  });
}

const exists = (dir) => fs.existsSync(path.join(dir, JOURNAL_FILENAME));

/** Appends entries. A journal that is not there yet gets a header that says it is not valid. */
function appendJournalEntries(dir, entries) {
  if (entries.length === 0) return;
  change(dir, (journal, proof) => {
    const header = exists(dir) ? undefined : headerOf(0);
    journal.appendSync(entries.map(lineOf), { ...proof, header });
  });
}

/** Starts over at a time: a header and nothing else. */
function writeJournalHeader(dir, timestamp) {
  change(dir, (journal, proof) => {
    // The new header first: until the old entries are gone, a reader sees too many and not too few.
    journal.appendSync([], { ...proof, header: headerOf(timestamp) });
    journal.compactSync({ ...proof, keep: () => false });
  });
}

/** Appends entries and moves the header's time on, in one step. */
function appendJournalEntriesAndStampHeader(dir, entries, timestamp) {
  change(dir, (journal, proof) => {
    journal.appendSync(entries.map(lineOf), { ...proof, header: headerOf(timestamp) });
  });
}

module.exports = {
  JOURNAL_FILENAME,
  appendJournalEntries,
  appendJournalEntriesAndStampHeader,
  readJournal,
  withJournalLock,
  writeJournalHeader,
};
