import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import {
  appendJournalEntries,
  appendJournalEntriesAndStampHeader,
  readJournal,
  withJournalLock,
  writeJournalHeader,
} from '../../compat/changes-journal.cjs';
import { Child, PACKAGE, scratch } from '../child.mjs';

const MODULE = join(PACKAGE, 'compat/changes-journal.cjs');
const journalOf = (dir) => join(dir, 'changes.journal');
const textOf = (dir) => readFileSync(journalOf(dir), 'utf8');

/** Nothing that older programs would trip over. */
function assertClean(dir) {
  assert.deepEqual(readdirSync(dir).filter((name) => name !== '.tenure'), ['changes.journal']);
}

test('header, entries, deletions: the bytes that codegraph reads', (t) => {
  const dir = scratch(t);
  writeJournalHeader(dir, 1700000000000);
  assert.equal(textOf(dir), '# codegraph-journal v1 1700000000000\n');
  appendJournalEntries(dir, [{ file: 'a.ts' }, { file: 'b.ts', deleted: true }, { file: 'a.ts' }]);
  assert.equal(textOf(dir), '# codegraph-journal v1 1700000000000\na.ts\nDELETED b.ts\na.ts\n');
  assert.deepEqual(readJournal(dir), { valid: true, timestamp: 1700000000000, changed: ['a.ts'], removed: ['b.ts'] });
  appendJournalEntriesAndStampHeader(dir, [{ file: 'c.ts' }], 1700000000001);
  assert.equal(textOf(dir), '# codegraph-journal v1 1700000000001\na.ts\nDELETED b.ts\na.ts\nc.ts\n');
  writeJournalHeader(dir, 1700000000002);
  assert.equal(textOf(dir), '# codegraph-journal v1 1700000000002\n');
  assertClean(dir);
});

test('an append to a journal that is not there makes one that is not valid yet', (t) => {
  const dir = join(scratch(t), 'not', 'there');
  appendJournalEntries(dir, [{ file: 'a.ts' }]);
  assert.equal(textOf(dir), '# codegraph-journal v1 0\na.ts\n');
  assert.deepEqual(readJournal(dir), { valid: false });
  appendJournalEntriesAndStampHeader(dir, [], 5);
  assert.deepEqual(readJournal(dir), { valid: true, timestamp: 5, changed: ['a.ts'], removed: [] });
});

test('what is a valid journal', (t) => {
  const dir = scratch(t);
  assert.deepEqual(readJournal(dir), { valid: false });
  const cases = {
    '': false,
    'a.ts\n': false,
    '# codegraph-journal v2 1\n': false,
    '# codegraph-journal v1 x\n': false,
    '# codegraph-journal v1 0\n': false,
    '# codegraph-journal v1 -1\n': false,
    '# codegraph-journal v1 7': true,
    '# codegraph-journal v1 7\n\n# note\n  a.ts  \nb.ts': true,
  };
  for (const [text, valid] of Object.entries(cases)) {
    writeFileSync(journalOf(dir), text);
    assert.equal(readJournal(dir).valid, valid, JSON.stringify(text));
  }
  assert.deepEqual(readJournal(dir).changed, ['a.ts', 'b.ts']);
});

test('a journal that codegraph wrote goes on', (t) => {
  const dir = scratch(t);
  writeFileSync(journalOf(dir), '# codegraph-journal v1 7\na.ts');
  appendJournalEntries(dir, [{ file: 'b.ts' }]);
  assert.deepEqual(readJournal(dir), { valid: true, timestamp: 7, changed: ['a.ts', 'b.ts'], removed: [] });
  appendJournalEntriesAndStampHeader(dir, [{ file: 'c.ts' }], 8);
  // A new header writes the entries in the order of their numbers. The open line `a.ts` got its number behind `b.ts`.
  assert.deepEqual(readJournal(dir), { valid: true, timestamp: 8, changed: ['b.ts', 'a.ts', 'c.ts'], removed: [] });
  writeJournalHeader(dir, 9);
  assert.equal(textOf(dir), '# codegraph-journal v1 9\n');
});

test('the lock file of a dead process is taken away, that of a living one is waited for', async (t) => {
  const dir = scratch(t);
  const lock = `${journalOf(dir)}.lock`;
  writeFileSync(lock, '2147483646\nnonce\n');
  appendJournalEntries(dir, [{ file: 'a.ts' }]);
  assertClean(dir);
  const other = new Child(t, ['-e', 'setInterval(() => {}, 1000)']);
  writeFileSync(lock, `${other.process.pid}\nnonce\n`);
  assert.throws(() => appendJournalEntries(dir, [{ file: 'b.ts' }]), /Failed to acquire journal lock/);
  assert.ok(existsSync(lock), 'it stays');
  await other.kill('SIGKILL');
  appendJournalEntries(dir, [{ file: 'b.ts' }]);
  assert.deepEqual(textOf(dir).split('\n').slice(1, 3), ['a.ts', 'b.ts']);
  assertClean(dir);
});

test('a lock file that somebody wrote during our turn survives it', (t) => {
  const dir = scratch(t);
  const lock = `${journalOf(dir)}.lock`;
  withJournalLock(dir, () => writeFileSync(lock, '1\nother\n'));
  assert.equal(readFileSync(lock, 'utf8'), '1\nother\n');
});

test('calls inside withJournalLock are part of it, and its result and error come out', (t) => {
  const dir = scratch(t);
  const result = withJournalLock(dir, () => {
    writeJournalHeader(dir, 3);
    appendJournalEntries(dir, [{ file: 'a.ts' }]);
    return readJournal(dir).changed;
  });
  assert.deepEqual(result, ['a.ts']);
  assert.throws(() => withJournalLock(dir, () => assert.fail('inside')), /inside/);
  appendJournalEntries(dir, [{ file: 'b.ts' }]);
  assertClean(dir);
});

test('orphans of a take-over are swept after half a minute', (t) => {
  const dir = scratch(t);
  const [old, fresh] = ['old', 'fresh'].map((name) => `${journalOf(dir)}.lock.${name}.tmp`);
  for (const file of [old, fresh]) writeFileSync(file, '');
  const then = new Date(Date.now() - 31_000);
  utimesSync(old, then, then);
  appendJournalEntries(dir, [{ file: 'a.ts' }]);
  assert.deepEqual([existsSync(old), existsSync(fresh)], [false, true]);
});

test('what cannot be written is told, not thrown', async (t) => {
  const dir = scratch(t);
  mkdirSync(journalOf(dir));
  const warned = new Promise((resolve) => process.once('warning', resolve));
  appendJournalEntries(dir, [{ file: 'a.ts' }]);
  assert.match((await warned).message, /could not be written/);
});

test('races 38 and 41: batches of several processes, headers in between, nothing lost or mixed', async (t) => {
  const dir = scratch(t);
  writeJournalHeader(dir, 1);
  const program = `const journal = require(${JSON.stringify(MODULE)});
    const [, dir, name] = process.argv;
    for (let n = 0; n < 25; n += 1) {
      const entries = [{ file: name + n + 'x' }, { file: name + n + 'y' }];
      try {
        if (n % 5) journal.appendJournalEntries(dir, entries);
        else journal.appendJournalEntriesAndStampHeader(dir, entries, n + 1);
      } catch (error) {
        if (!/^Failed to acquire journal lock/.test(error.message)) throw error;
        n -= 1; // Five seconds may be short on a busy machine; nothing was written.
      }
    }`;
  const writers = ['a', 'b', 'c', 'd'].map((name) => new Child(t, ['-e', program, dir, name]));
  for (const writer of writers) assert.deepEqual(await writer.ended, { code: 0, signal: null });
  const lines = textOf(dir).trimEnd().split('\n').slice(1);
  assert.equal(lines.length, 200);
  for (let n = 0; n < lines.length; n += 2) assert.equal(lines[n].replace(/x$/, 'y'), lines[n + 1]);
  assertClean(dir);
});

test('race 7: a lock file older than the process of its number is nobody\'s', (t) => {
  const dir = scratch(t);
  const lock = `${journalOf(dir)}.lock`;
  for (const pid of [1, process.pid]) {
    writeFileSync(lock, `${pid}\nnonce\n`);
    const before = new Date(Date.now() - 30 * 86_400_000);
    utimesSync(lock, before, before);
    appendJournalEntries(dir, [{ file: 'a.ts' }]);
    assertClean(dir);
  }
});

test('a name with a newline costs nobody else an entry', (t) => {
  const dir = scratch(t);
  writeJournalHeader(dir, 1);
  appendJournalEntries(dir, [{ file: 'a' }, { file: 'b\nc' }, { file: 'd' }]);
  assert.deepEqual(readJournal(dir).changed, ['a', 'b', 'c', 'd']);
});
