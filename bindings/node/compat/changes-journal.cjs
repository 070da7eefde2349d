'use strict';

// The change journal of codegraph: `changes.journal`, a header with a time and one path per line. Same
// file, same synchronous calls; a batch is there completely or not at all.
//
// Lock: the kernel's, on the journal. `changes.journal.lock` is written as well and respected, for
// programs that know only that; between them and us it is as safe as it ever was, which is not very.

const { randomBytes } = require('crypto');
const fs = require('fs');
const path = require('path');
const { Journal, lockSync } = require('../index.cjs');
const { isAlive, removeIf, sleepSync, startedMs } = require('./owner.cjs');

const JOURNAL_FILENAME = 'changes.journal';
const HEADER_PREFIX = '# codegraph-journal v1 ';
const DELETED = 'DELETED ';
const LOCK_TIMEOUT_MS = 5000;
const LOCK_STALE_MS = 30_000;
const LOCK_RETRY_MS = 25;
/** How far the start of a process and the time of a file may be off. */
const CLOCK_SLACK_MS = 2000;

const headerOf = (timestamp) => `${HEADER_PREFIX}${timestamp}`;
/** The lines of entries. A name with a newline becomes two lines, as it always did; a blank one none. */
const linesOf = (entries) =>
  entries
    .flatMap(({ file, deleted }) => `${deleted ? DELETED : ''}${file}`.split('\n'))
    .filter((line) => line.trim() !== '');

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

/** Runs `act` while no other process changes the journal. Throws when that takes too long. */
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
      if (error.code !== 'EEXIST') {
        // It is a courtesy; the kernel's lock is ours.
        warn(`programs that do not use tenure are not kept out: ${error.message}`);
        return () => {};
      }
    }
    const left = look(lock);
    if (left === null) continue;
    if (left.abandoned) {
      removeIf(lock, left.text);
    } else if (Date.now() >= deadline) {
      throw new Error(`Failed to acquire journal lock at ${lock}: a program that does not use tenure holds it`);
    } else {
      sleepSync(LOCK_RETRY_MS);
    }
  }
}

/** What is in a lock file, and whether its writer is gone. One that is still empty is just being
 * written; a process that is younger than the file has the number of the one that wrote it. */
function look(lock) {
  try {
    const text = fs.readFileSync(lock, 'utf8');
    const { mtimeMs } = fs.statSync(lock);
    const pid = Number(text.split('\n')[0]);
    if (!Number.isSafeInteger(pid) || pid <= 0) return { text, abandoned: Date.now() - mtimeMs > LOCK_STALE_MS };
    const started = startedMs(pid);
    const recycled = started !== null && started > mtimeMs + CLOCK_SLACK_MS;
    return { text, abandoned: recycled || !isAlive(pid) };
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw new Error(`Failed to acquire journal lock at ${lock}: ${error.message}`, { cause: error });
  }
}

const warn = (message) => process.emitWarning(message, 'CodegraphJournal');

function leaveLegacy(lock, nonce) {
  try {
    if (fs.readFileSync(lock, 'utf8').split('\n')[1] === nonce) fs.unlinkSync(lock);
  } catch {
    // Another process removed it.
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

/** Changes the journal under the lock. A failed write is reported, not thrown. */
function change(dir, act) {
  return withJournalLock(dir, (guard) => {
    try {
      act(new Journal(path.join(dir, JOURNAL_FILENAME)), { fence: guard.fence, noSync: true });
    } catch (error) {
      warn(`the change journal could not be written: ${error.message}`);
    }
  });
}

const exists = (dir) => fs.existsSync(path.join(dir, JOURNAL_FILENAME));

/** Appends entries. A journal that is not there yet gets a header that says it is not valid. */
function appendJournalEntries(dir, entries) {
  if (entries.length === 0) return;
  change(dir, (journal, hold) => {
    const header = exists(dir) ? undefined : headerOf(0);
    journal.appendSync(linesOf(entries), { ...hold, header });
  });
}

/** Starts over at a time: a header and nothing else. */
function writeJournalHeader(dir, timestamp) {
  change(dir, (journal, hold) => {
    // The new header first: until the old entries are gone, a reader sees too many and not too few.
    journal.appendSync([], { ...hold, header: headerOf(timestamp) });
    journal.compactSync({ ...hold, keep: () => false });
  });
}

/** Appends entries and moves the header's time on, in one step. */
function appendJournalEntriesAndStampHeader(dir, entries, timestamp) {
  change(dir, (journal, hold) => {
    journal.appendSync(linesOf(entries), { ...hold, header: headerOf(timestamp) });
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
