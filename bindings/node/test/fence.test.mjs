// A fence is told when it is asked for. Until then a hold is its holder's alone, and ends without a wait.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Lock, lock, lockSync, statusSync, tryLock, tryLockSync } from '../index.mjs';
import properLockfile from '../compat/proper-lockfile.cjs';
import { scratch, script } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

/** What everybody can read: it proves nothing before the holder has told it. */
const numberOf = (path) => statusSync(path).holder.fence;

const TAKES = {
  lock: (path) => lock(path),
  lockSync: (path) => lockSync(path),
  tryLock: (path) => tryLock(path),
  tryLockSync: (path) => tryLockSync(path),
  'Lock.acquire': (path) => new Lock(path).acquire(),
  'Lock.acquireSync': (path) => new Lock(path).acquireSync(),
  'Lock.tryAcquire': (path) => new Lock(path).tryAcquire(),
  'Lock.tryAcquireSync': (path) => new Lock(path).tryAcquireSync(),
};

for (const [name, take] of Object.entries(TAKES)) {
  test(`a fence proves the hold once it was asked for: ${name}`, async (t) => {
    const path = join(scratch(t), 'state.json');
    const document = new Document(path);
    const guard = await take(path);
    const number = numberOf(path);
    await assert.rejects(document.set(1, { fence: number, waitMs: 0 }), code('fenced'));
    assert.equal(guard.fence, number);
    await document.set(2, { fence: number });
    await guard.release();
    assert.equal(guard.fence, number);
    await assert.rejects(document.set(3, { fence: guard.fence }), code('fenced'));
    assert.equal((await document.read()).value, 2);
  });
}

test('a fence that nobody asked for during the hold is a number that proves nothing', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guards = [lockSync(path)];
  guards.push((guards[0].releaseSync(), await lock(path)));
  const number = numberOf(path);
  await guards[1].release();
  assert.ok(guards[0].fence > 0 && guards[0].fence < number);
  assert.equal(guards[1].fence, number);
  for (const { fence } of guards) await assert.rejects(new Document(path).set(1, { fence }), code('fenced'));
  assert.equal(statusSync(path).held, false);
});

test('a drop-in tells the fence of its hold when it is asked for', async (t) => {
  const path = join(scratch(t), 'state.json');
  const document = new Document(path);
  document.setSync(0);
  for (const take of [properLockfile.lock, properLockfile.lockSync]) {
    const release = await take(path);
    const number = numberOf(path);
    assert.throws(() => document.setSync(1, { fence: number, waitMs: 0 }), code('fenced'));
    assert.equal(release.fence, number);
    document.setSync(2, { fence: number });
    await release();
  }
});

test('a lock that is free is taken and given back without a thread', async (t) => {
  const path = join(scratch(t), 'state.json');
  lockSync(path).releaseSync();
  const child = script(t, `
    import { readFileSync, readdirSync } from 'node:fs';
    const tasks = () => readdirSync('/proc/self/task').map((id) => readFileSync('/proc/self/task/' + id + '/comm', 'utf8').trim());
    const threads = () => tasks().filter((name) => name === 'tenure-call').length;
    const target = new tenure.Lock($1);
    for (let turn = 0; turn < 5; turn++) {
      await (await tenure.lock($1)).release();
      await (await target.acquire()).release();
      await tenure.withLock($1, async () => {});
    }
    say(threads());
    // Writes under a known fence may be under way, so this release may wait.
    const guard = await target.acquire();
    say(guard.fence > 0);
    await guard.release();
    say(threads());`, path);
  assert.equal(await child.says(), 0);
  assert.equal(await child.says(), true);
  assert.equal(await child.says(), 1);
  assert.equal((await child.ended).code, 0);
});

test('locks that need no thread let the rest of the program in', async (t) => {
  const path = join(scratch(t), 'target');
  const free = new Lock(path);
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  const started = performance.now();
  // On a busy machine they take longer than 200 ms.
  while (ticks <= 10 && performance.now() - started < 10_000) await (await free.acquire()).release();
  clearInterval(timer);
  assert.ok(ticks > 10, `${ticks} ticks in 10 s`);
});

test('a release behind a verification has released when it is done', async (t) => {
  const path = join(scratch(t), 'target');
  for (let round = 0; round < 200; round++) {
    const held = await lock(path);
    const verified = held.verify().catch(() => {});
    await held.release();
    const next = tryLockSync(path);
    assert.ok(next, `round ${round}: still held`);
    next.releaseSync();
    await verified;
  }
});
