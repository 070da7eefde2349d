import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Journal, JournalGapError, TenureError, lock } from '../index.mjs';
import { puppet, scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;
const open = (t) => new Journal(join(scratch(t), 'log.jsonl'));
const lines = (entries) => entries.map(({ line }) => line);

test('a batch is appended whole and numbered', async (t) => {
  const journal = open(t);
  const { first, last } = await journal.append(['one', { two: 2 }, Buffer.from('three')]);
  assert.deepEqual([first, last], [1, 3]);
  assert.equal(journal.appendSync('four').first, 4);
  assert.equal(readFileSync(journal.path, 'utf8'), 'one\n{"two":2}\nthree\nfour\n');
  const expected = ['one', '{"two":2}', 'three', 'four'].map((line, index) => ({ seq: index + 1, line }));
  assert.deepEqual(await journal.read(), expected);
  assert.deepEqual(journal.readSync({ from: 2, limit: 2 }), expected.slice(1, 3));
  assert.deepEqual(await journal.read({ from: 9n }), []);
});

test('a batch that cannot be appended leaves nothing', async (t) => {
  const journal = open(t);
  for (const bad of [[], ['a', 'b\nc'], ['a', ' '], [undefined], [() => {}], [NaN]]) {
    await assert.rejects(journal.append(bad), code('invalid'));
    assert.throws(() => journal.appendSync(bad), code('invalid'));
  }
  await assert.rejects(journal.append(['{"a":'], { json: true }), code('invalid'));
  assert.deepEqual(await journal.read(), []);
});

test('lines that are not UTF-8 are read as bytes, or loudly not at all', async (t) => {
  const journal = open(t);
  const line = Buffer.from([0xff, 0x41]);
  await journal.append([line]);
  await assert.rejects(journal.read(), code('invalid'));
  assert.deepEqual((await journal.read({ encoding: 'buffer' }))[0].line, line);
});

test('a journal larger than one portion is read whole', async (t) => {
  const journal = open(t);
  const batch = Array.from({ length: 10_000 }, (_, n) => `line ${n} ${'x'.repeat(200)}`);
  await journal.append(batch, { noSync: true });
  assert.deepEqual(lines(await journal.read()), batch);
  let count = 0;
  for (const { seq } of journal.entriesSync()) if (seq !== ++count) assert.fail(`${seq}`);
  assert.equal(count, batch.length);
});

test('an operation is appended once; a guard and a fence are checked', async (t) => {
  const journal = open(t);
  const first = await journal.append('a', { operation: 'x' });
  const again = await journal.append('a', { operation: 'x' });
  assert.deepEqual([again.replayed, again.first], [true, first.first]);
  const guard = await lock(journal.path);
  await journal.append('b', { fence: guard.fence });
  await guard.release();
  await (await lock(journal.path)).release();
  await assert.rejects(journal.append('c', { fence: guard.fence }), code('fenced'));
});

test('race 42: appends of many processes have one order', async (t) => {
  const journal = open(t);
  const others = await Promise.all([puppet(t), puppet(t, '--async')]);
  const theirs = others.map(async (other, who) => {
    for (let n = 0; n < 20; n++) {
      const { ok } = await other.ask({ op: 'append', path: journal.path, lines: [`${who} ${n}`, 'and'], wait: 'forever' });
      assert.equal(ok.last, ok.first + 1);
    }
  });
  const mine = Array.from({ length: 20 }, (_, n) => journal.append([`me ${n}`, 'and'], { noSync: true }));
  await Promise.all([...theirs, ...mine]);
  const all = await journal.read();
  assert.deepEqual(all.map(({ seq }) => seq), Array.from({ length: 120 }, (_, n) => n + 1));
  assert.ok(all.every(({ line }, index) => (line === 'and') === (index % 2 === 1)));
  assert.equal((await journal.verify()).sound, true);
});

test('lines of others are adopted and an open tail is closed', async (t) => {
  const journal = open(t);
  await journal.append('ours');
  appendFileSync(journal.path, 'theirs\nopen');
  const done = await journal.append('ours again');
  assert.deepEqual([done.adopted, done.closedTail], [1, true]);
  // The open line is complete only with the newline of the batch, so its number comes behind.
  assert.deepEqual(lines(await journal.read()), ['ours', 'theirs', 'ours again', 'open']);
});

test('lines of other tools are pending until they have a number', async (t) => {
  const journal = open(t);
  assert.deepEqual(await journal.pending(), []);
  await journal.append('ours');
  appendFileSync(journal.path, 'theirs\nopen');
  assert.deepEqual(await journal.pending(), ['theirs', 'open']);
  assert.deepEqual(journal.pendingSync({ encoding: 'buffer' }), [Buffer.from('theirs'), Buffer.from('open')]);
  assert.equal((await journal.verify()).unadopted, 1);
  assert.deepEqual(lines(await journal.read()), ['ours']);
  // A follower that may write numbers them.
  assert.deepEqual(lines([...journal.followSync({ waitMs: 0 })]), ['ours', 'theirs']);
  assert.deepEqual(journal.pendingSync(), ['open']);
  appendFileSync(journal.path, Buffer.from([0xff]));
  await assert.rejects(journal.pending(), code('invalid'));
});

/** Two entries in an archive, two that were cut off, and one behind. */
async function withGap(t) {
  const journal = open(t);
  await journal.append(['1', '2']);
  const { archive } = await journal.rotate();
  await journal.append(['3', '4']);
  writeFileSync(journal.path, '');
  await journal.append('5');
  return [journal, archive];
}

const gap = (first, last) => (error) =>
  error instanceof JournalGapError && error instanceof TenureError && error.name === 'JournalGapError' &&
  error.code === 'damaged' && error.first === first && error.last === last;

test('a gap is thrown behind what comes before it, or reported and passed', async (t) => {
  const [journal] = await withGap(t);
  const seen = [];
  await assert.rejects(async () => {
    for await (const { line } of journal.entries()) seen.push(line);
  }, gap(3, 4));
  assert.throws(() => {
    for (const { line } of journal.entriesSync()) seen.push(line);
  }, gap(3, 4));
  assert.deepEqual(seen, ['1', '2', '1', '2']);
  await assert.rejects(journal.read(), gap(3, 4));
  const gaps = [];
  const onGap = ({ first, last }) => gaps.push([first, last]);
  assert.deepEqual(lines(await journal.read({ onGap })), ['1', '2', '5']);
  assert.deepEqual(lines(journal.readSync({ onGap })), ['1', '2', '5']);
  assert.deepEqual(lines([...journal.followSync({ onGap, waitMs: 0 })]), ['1', '2', '5']);
  const followed = [];
  for await (const { line } of journal.follow({ onGap, waitMs: 0 })) followed.push(line);
  assert.deepEqual(followed, ['1', '2', '5']);
  assert.deepEqual(gaps, Array.from({ length: 4 }, () => [3, 4]));
  await assert.rejects(journal.read({ onGap: () => { throw new RangeError('mine'); } }), RangeError);
  await assert.rejects(journal.read({ onGap: 5 }), code('invalid'));
  assert.deepEqual((await journal.verify()).lost, [{ first: 3, last: 4 }]);
  assert.equal((await journal.compact({ keep: ({ seq }) => seq !== 5 })).dropped, 1);
});

test('without a number the first entry is the oldest that is there', async (t) => {
  const journal = open(t);
  await journal.append(['1', '2']);
  unlinkSync((await journal.rotate()).archive);
  await journal.append('3');
  assert.deepEqual(lines(await journal.read()), ['3']);
  assert.deepEqual(lines(journal.readSync()), ['3']);
  assert.deepEqual(lines([...journal.followSync({ waitMs: 0 })]), ['3']);
  await assert.rejects(journal.read({ from: 1 }), gap(1, 2));
  assert.throws(() => [...journal.followSync({ from: 2, waitMs: 0 })], gap(2, 2));
});

test('damage is an error for readers too, and names the archive', async (t) => {
  const journal = open(t);
  await journal.append(['aaaa', 'bbbb']);
  const { archive } = await journal.rotate();
  await journal.append('cccc');
  writeFileSync(archive, 'aaaa\nbxbb\n');
  const named = (error) => code('damaged')(error) && error.path === archive;
  await assert.rejects(journal.read(), named);
  assert.throws(() => [...journal.followSync({ waitMs: 0 })], named);
  const { archives, damaged } = await journal.verify();
  assert.deepEqual([archives, damaged.map(({ file }) => file)], [1, [archive]]);
});

test('an edited line is accepted when asked', async (t) => {
  const journal = open(t);
  await journal.append(['aaaa', 'bbbb']);
  const { replaced } = await journal.compact({ from: 1 });
  assert.equal(readFileSync(replaced, 'utf8'), 'aaaa\nbbbb\n');
  writeFileSync(journal.path, 'aaaa\nbxbb\n');
  assert.equal((await journal.repair()).sound, false);
  const report = journal.repairSync({ accept: true });
  assert.deepEqual([report.sound, report.setAside.length], [true, 1]);
  assert.equal(readFileSync(report.quarantine, 'utf8'), 'aaaa\nbxbb\n');
  assert.deepEqual(await journal.read(), [{ seq: 1, line: 'aaaa' }, { seq: 2, line: 'bxbb' }]);
  assert.equal((await journal.repair({ accept: true })).sound, true);
});

test('damage is found', async (t) => {
  const journal = open(t);
  await journal.append(['aaaa', 'bbbb']);
  writeFileSync(journal.path, 'aaaa\nbxbb\n');
  const report = await journal.verify();
  assert.equal(report.sound, false);
  assert.equal(report.damaged.length, 1);
  assert.equal(journal.verifySync().sound, false);
});

test('follow yields entries as they appear, across a rotation', async (t) => {
  const journal = open(t);
  await journal.append(['1', '2']);
  const other = await puppet(t);
  const seen = [];
  for await (const { line } of journal.follow()) {
    seen.push(line);
    if (line === '2') await other.ask({ op: 'rotate', path: journal.path });
    if (line === '2') await other.ask({ op: 'append', path: journal.path, lines: ['3'] });
    if (line === '3') break;
  }
  assert.deepEqual(seen, ['1', '2', '3']);
  assert.deepEqual(lines([...journal.followSync({ from: 3, waitMs: 5 })]), ['3']);
  const controller = new AbortController();
  const next = journal.follow({ from: 9, signal: controller.signal }).next();
  controller.abort(new RangeError('enough'));
  await assert.rejects(next, RangeError);
});

test('rotate, compact, repair and a header', async (t) => {
  const journal = open(t);
  assert.deepEqual(await journal.rotate(), { archive: null, next: 1 });
  await journal.append(['a', 'b', 'c'], { header: { v: 1 } });
  assert.ok(readFileSync(journal.path, 'utf8').startsWith('{"v":1}\n'));
  const { kept, dropped } = await journal.compact({ keep: ({ line }) => line !== 'b' });
  assert.deepEqual([kept, dropped], [2, 1]);
  assert.deepEqual(journal.readSync().map(({ seq }) => seq), [1, 3]);
  assert.equal(journal.compactSync({ from: 3 }).kept, 1);
  await assert.rejects(journal.compact({ keep: () => { throw new RangeError('mine'); } }), RangeError);
  await assert.rejects(journal.compact({}), code('invalid'));
  assert.equal((await journal.repair()).sound, true);
  const rotated = journal.rotateSync();
  assert.equal(rotated.next, 4);
  assert.match(rotated.archive, /log\.jsonl\.\d+$/);
});
