// Slots, and several locks at once.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { lock, lockAll, lockAllSync, lockSync, status, tryLock, tryLockSync } from '../index.mjs';
import { isFree, puppet, scratch, script } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('at most so many callers have a slot, and a slot excludes the lock', async (t) => {
  const path = join(scratch(t), 'gpu');
  const first = await lock(path, { slots: 2 });
  const second = lockSync(path, { slots: 2 });
  assert.equal(first.fence, 0);
  assert.equal(await tryLock(path, { slots: 2 }), null);
  assert.equal(await tryLock(path), null);
  await assert.rejects(lock(path, { slots: 2, waitMs: 1 }), code('busy'));
  const waiting = lock(path, { slots: 2 });
  await first.release();
  const third = await waiting;
  assert.equal(third.held, true);
  second.releaseSync();
  await third.release();
  assert.ok(isFree(path));
});

test('the death of a holder in another process frees its slot', async (t) => {
  const path = join(scratch(t), 'gpu');
  const mine = await lock(path, { slots: 2 });
  const child = script(t, "await tenure.lock($1, { slots: 2 }); say('held'); setInterval(() => {}, 1e6);", path);
  assert.equal(await child.says(), 'held');
  assert.equal(tryLockSync(path, { slots: 2 }), null);
  const waiting = lock(path, { slots: 2 });
  await child.kill('SIGKILL');
  await (await waiting).release();
  await mine.release();
});

test('a wait for a slot can be cancelled', async (t) => {
  const path = join(scratch(t), 'gpu');
  const held = await lock(path, { slots: 1 });
  const abort = new AbortController();
  const waiting = lock(path, { slots: 1, waitMs: Infinity, signal: abort.signal });
  abort.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await held.release();
});

test('a number of slots that cannot be is refused', async (t) => {
  const path = join(scratch(t), 'gpu');
  for (const slots of [0, 65, 1.5, -1, '2', null]) await assert.rejects(lock(path, { slots }), code('invalid'));
  await assert.rejects(lock(path, { slots: 2, reentrant: true, owner: 'me' }), code('invalid'));
});

test('several locks are taken together, in one order, and released together', async (t) => {
  const dir = scratch(t);
  const [a, b] = [join(dir, 'a'), join(dir, 'b')];
  const all = await lockAll([b, a, b]);
  assert.deepEqual(all.guards.map(({ path }) => path), [a, b]);
  assert.ok(all.held && all.guards.every(({ fence }) => fence > 0));
  await all.verify();
  assert.equal(await tryLock(a), null);
  assert.equal(await tryLock(b), null);
  await all.release();
  assert.equal(all.held, false);
  await all.release();
  const again = lockAllSync([a, b], { waitMs: 0 });
  again.verifySync();
  again.releaseSync();
  assert.ok(isFree(a) && isFree(b));
});

test('if one of several is held by another process, none is taken, until that process dies', async (t) => {
  const dir = scratch(t);
  const [a, b] = [join(dir, 'a'), join(dir, 'b')];
  const holder = await puppet(t);
  await holder.ask({ op: 'lock', path: b });
  await assert.rejects(lockAll([a, b], { waitMs: 1 }), code('busy'));
  assert.throws(() => lockAllSync([a, b], { waitMs: 0 }), code('busy'));
  assert.ok(isFree(a));
  const abort = new AbortController();
  const cancelled = lockAll([a, b], { waitMs: Infinity, signal: abort.signal });
  abort.abort(new Error('enough'));
  await assert.rejects(cancelled, /enough/);
  const waiting = lockAll([b, a]);
  await holder.kill('SIGKILL');
  await (await waiting).release();
});

test('callers that name the same targets in another order do not wait for each other', async (t) => {
  const dir = scratch(t);
  const [a, b] = [join(dir, 'a'), join(dir, 'b')];
  const turns = Array.from({ length: 20 }, async (_, index) => {
    const all = await lockAll(index % 2 ? [a, b] : [b, a]);
    await all.release();
  });
  await Promise.all(turns);
  assert.equal((await status(a)).held, false);
});

test('what cannot be the names of several targets is refused', async (t) => {
  const path = join(scratch(t), 'a');
  for (const paths of [[], path, undefined, [path, 5]]) await assert.rejects(lockAll(paths), code('invalid'));
  for (const option of ['fence', 'lockFile', 'maxHold']) {
    await assert.rejects(lockAll([path], { [option]: 1 }), code('invalid'));
  }
});
