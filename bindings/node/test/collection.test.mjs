import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { Collection, lock } from '../index.mjs';
import { scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('keys have documents of their own and cannot leave the directory', async (t) => {
  const sessions = new Collection(join(scratch(t), 'sessions'));
  assert.deepEqual(await sessions.keys(), []);
  for (const key of ['plain', '../../etc/passwd', 'UPPER', '.hidden', 'a/b']) {
    assert.equal(dirname(sessions.pathOf(key)), sessions.path);
    await sessions.document(key).set({ key }, { noSync: true });
  }
  assert.deepEqual(sessions.keysSync(), ['../../etc/passwd', '.hidden', 'UPPER', 'a/b', 'plain']);
  assert.deepEqual(sessions.document('a/b').readSync().value, { key: 'a/b' });
  assert.throws(() => sessions.journal('x'), code('invalid'));
  assert.throws(() => sessions.document(''), code('invalid'));
  assert.throws(() => sessions.document(5), code('invalid'));
});

test('a collection can be of journals', async (t) => {
  const logs = new Collection(scratch(t), { kind: 'journals' });
  await logs.journal('one').append('line');
  assert.deepEqual(await logs.keys(), ['one']);
  assert.throws(() => logs.document('one'), code('invalid'));
  assert.throws(() => new Collection('x', { kind: 'others' }), code('invalid'));
});

test('prune removes what is due and skips what is held', async (t) => {
  const sessions = new Collection(scratch(t));
  for (const key of ['a', 'b', 'c', 'd']) sessions.document(key).setSync(key, { noSync: true });
  const guard = await lock(sessions.pathOf('a'));
  await assert.rejects(sessions.prune({}), code('invalid'));
  const dry = sessions.pruneSync({ maxCount: 0, dryRun: true });
  assert.equal(dry.removed.length, 4);
  const { removed, skipped, remaining } = await sessions.prune({ maxCount: 0, keep: ['b'] });
  assert.deepEqual([removed.sort(), skipped, remaining], [['c', 'd'], ['a'], 2]);
  await guard.release();
  assert.equal((await sessions.prune({ maxAgeMs: 3_600_000 })).remaining, 2);
});

test('an index file is split into documents', async (t) => {
  const dir = scratch(t);
  const index = join(dir, 'sessions.json');
  writeFileSync(index, '{"a": {"n": 1}, "b": {"n": 12345678901234567890}}');
  const split = await Collection.split(index, join(dir, 'sessions'));
  assert.deepEqual(split, { created: ['a', 'b'], present: [], differing: [] });
  assert.deepEqual(Collection.splitSync(index, join(dir, 'sessions')).present, ['a', 'b']);
  await assert.rejects(Collection.split(join(dir, 'none.json'), join(dir, 'other')), code('not_found'));
  assert.equal(existsSync(join(dir, 'other')), false);
});
