import assert from 'node:assert/strict';
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Lock, lock, lockSync, tryLock, tryLockSync, withLock, withLockSync } from '../index.mjs';
import { puppet, scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('a lock is held until it is released, and its fences grow', async (t) => {
  const path = join(scratch(t), 'state.json');
  const first = await lock(path);
  assert.equal(first.held, true);
  assert.equal(await tryLock(path), null);
  assert.equal(tryLockSync(path), null);
  await first.release();
  assert.equal(first.held, false);
  const second = lockSync(path);
  assert.ok(second.fence > first.fence);
  second.releaseSync();
});

test('releasing twice does nothing to the next holder', async (t) => {
  const path = join(scratch(t), 'state.json');
  const first = await lock(path);
  await first.release();
  const second = await lock(path);
  await first.release();
  first.releaseSync();
  await second.verify();
  assert.equal(tryLockSync(path), null);
});

test('a guard that was released cannot be verified', async (t) => {
  const guard = await lock(join(scratch(t), 'x'));
  await guard.release();
  await assert.rejects(guard.verify(), code('invalid'));
  assert.throws(() => guard.verifySync(), code('invalid'));
});

test('race 18: a sync wait for a lock of the same thread fails at once, an async one waits', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  assert.throws(() => lockSync(path, { waitMs: Infinity }), code('deadlock'));
  assert.throws(() => new Document(path).setSync(1, { waitMs: Infinity }), code('deadlock'));
  const waiting = lock(path, { waitMs: Infinity });
  await guard.release();
  await (await waiting).release();
});

test('a busy error names the holder in another process', async (t) => {
  const path = join(scratch(t), 'state.json');
  const holder = await puppet(t);
  const { ok } = await holder.ask({ op: 'lock', path, label: 'for a test', owner: 'alice' });
  await assert.rejects(lock(path, { waitMs: 1 }), (error) => {
    const { pid, label, owner, fence } = error.holder;
    assert.deepEqual({ pid, label, owner, fence }, { pid: holder.pid, label: 'for a test', owner: 'alice', fence: ok.fence });
    return code('busy')(error);
  });
  assert.throws(() => lockSync(path, { waitMs: 20 }), code('busy'));
});

test('shared holders are together and keep writers out', async (t) => {
  const path = join(scratch(t), 'state.json');
  const readers = await Promise.all([lock(path, { shared: true }), lock(path, { shared: true })]);
  assert.equal(readers[0].fence, 0);
  assert.equal(await tryLock(path), null);
  await Promise.all(readers.map((reader) => reader.release()));
  await (await lock(path)).release();
});

test('race 17: only the same owner comes in again, and only if it asks', async (t) => {
  const path = join(scratch(t), 'state.json');
  const mine = { owner: 'me', reentrant: true, waitMs: 0 };
  const outer = await lock(path, mine);
  const inner = await lock(path, mine);
  assert.equal(inner.fence, outer.fence);
  await assert.rejects(lock(path, { owner: 'you', reentrant: true, waitMs: 0 }), code('busy'));
  await outer.release();
  assert.equal(await tryLock(path), null);
  await inner.release();
  await (await lock(path)).release();
});

test('a fence proves the hold to writes and nested locks', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  const document = new Document(path);
  await document.set({ turn: 1 }, { fence: guard.fence });
  document.setSync({ turn: 2 }, { fence: BigInt(guard.fence) });
  const nested = lockSync(path, { fence: guard.fence });
  nested.releaseSync();
  await guard.release();
  await (await lock(path)).release();
  await assert.rejects(document.set({ turn: 3 }, { fence: guard.fence }), code('fenced'));
});

test('a lock that is kept is taken again and again, and excludes everybody else', async (t) => {
  const dir = scratch(t);
  const target = new Lock(join(dir, 'x', '..', 'state.json'));
  assert.equal(target.path, join(dir, 'state.json'));
  const other = await puppet(t);
  for (let turn = 0; turn < 3; turn++) {
    const guard = turn === 1 ? await target.acquire({ label: 'kept' }) : target.acquireSync();
    assert.equal(guard.path, target.path);
    assert.equal(await target.tryAcquire(), null);
    assert.equal(new Lock(target.path).tryAcquireSync(), null);
    assert.throws(() => target.acquireSync(), code('deadlock'));
    const { error } = await other.ask({ op: 'lock', path: target.path, wait: 0 });
    assert.deepEqual([error.code, error.holder.pid], ['busy', process.pid]);
    const waiting = target.acquire({ waitMs: Infinity });
    guard.releaseSync();
    await (await waiting).release();
  }
  await other.ask({ op: 'lock', path: target.path, as: 'theirs' });
  await assert.rejects(target.acquire({ waitMs: 0 }), (error) => error.code === 'busy' && error.holder.pid === other.pid);
  await other.kill('SIGKILL');
  const guard = await target.acquire();
  assert.equal(guard.recoveredFrom.pid, other.pid);
  guard.releaseSync();
});

test('a lock that is kept notices that its files were removed', async (t) => {
  const dir = scratch(t);
  const target = new Lock(join(dir, 'state.json'));
  await (await target.acquire()).release();
  rmSync(join(dir, '.tenure'), { recursive: true });
  const guard = await target.acquire();
  assert.equal(tryLockSync(target.path), null);
  await guard.verify();
  await guard.release();
});

test('the scope ends the hold, also by a throw', async (t) => {
  const path = join(scratch(t), 'state.json');
  assert.equal(await withLock(path, async (guard) => guard.held), true);
  await assert.rejects(withLock(path, { label: 'x' }, () => Promise.reject(new RangeError('mine'))), RangeError);
  assert.equal(withLockSync(path, () => 5), 5);
  assert.throws(() => withLockSync(path, async () => {}), code('invalid'));
  const guard = lockSync(path);
  guard[Symbol.dispose]();
  await (await lock(path))[Symbol.asyncDispose]();
  assert.ok(tryLockSync(path));
});

test('a signal ends the wait with its reason, and nothing is left behind', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  const controller = new AbortController();
  let called = 0;
  controller.signal.onabort = () => called++;
  const waiting = Array.from({ length: 20 }, () => lock(path, { waitMs: Infinity, signal: controller.signal }));
  const reason = new RangeError('enough');
  controller.abort(reason);
  const ended = await Promise.allSettled(waiting);
  assert.ok(ended.every(({ reason: why }) => why === reason));
  assert.equal(called, 1);
  await assert.rejects(lock(path, { signal: controller.signal }), reason);
  await assert.rejects(lock(path, { signal: AbortSignal.timeout(10) }), { name: 'TimeoutError' });
  await guard.release();
  await (await lock(path, { waitMs: 0 })).release();
});

test('whoever gave up does not hold the lock, also if it was won meanwhile', async (t) => {
  const path = join(scratch(t), 'state.json');
  const reason = new RangeError('enough');
  for (let round = 0; round < 20; round++) {
    const controller = new AbortController();
    const waiting = lock(path, { signal: controller.signal });
    controller.abort(reason);
    await assert.rejects(waiting, reason);
    await (await lock(path, { waitMs: 0 })).release();
  }
});

test('many waits on one signal make no warning about listeners', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  const warnings = [];
  const listen = (warning) => warnings.push(warning);
  process.on('warning', listen);
  const controller = new AbortController();
  const waiting = Array.from({ length: 30 }, () => lock(path, { signal: controller.signal }));
  controller.abort();
  await Promise.allSettled(waiting);
  await new Promise(setImmediate);
  process.off('warning', listen);
  assert.deepEqual(warnings, []);
  await guard.release();
});

test('a hold that lasts too long is reported, and ended if asked', async (t) => {
  const path = join(scratch(t), 'state.json');
  let report;
  const reported = new Promise((resolve) => {
    report = resolve;
  });
  // The report is weak and must not be what keeps the process alive.
  const alive = setInterval(() => {}, 1000);
  const guard = await lock(path, { maxHold: { afterMs: 5, end: true, report } });
  await reported;
  clearInterval(alive);
  assert.equal(guard.held, false);
  const ended = { code: 'fenced', path, message: /it lasted longer than its maxHold and was ended/ };
  await assert.rejects(guard.verify(), ended);
  assert.throws(() => guard.verifySync(), ended);
  await (await lock(path)).release();
  await assert.rejects(guard.release(), ended);
  await guard.release(); // The second time does nothing, as always.
});

test('a hold that is only reported goes on', async (t) => {
  const path = join(scratch(t), 'state.json');
  const alive = setInterval(() => {}, 1000);
  let guard;
  await new Promise((report) => {
    guard = lockSync(path, { maxHold: { afterMs: 1, report } });
  });
  clearInterval(alive);
  assert.equal(guard.held, true);
  guard.verifySync();
  guard.releaseSync();
});

test('a lock file that somebody removed is compromised', async (t) => {
  const dir = scratch(t);
  const path = join(dir, 'state.json');
  const guard = await lock(path);
  renameSync(join(dir, '.tenure'), join(dir, 'gone'));
  await assert.rejects(guard.verify(), code('compromised'));
  await assert.rejects(guard.release(), code('compromised'));
  rmSync(join(dir, 'gone'), { recursive: true });
});

test('async waiters get the lock one after the other', async (t) => {
  const path = join(scratch(t), 'state.json');
  let inside = 0;
  let most = 0;
  const one = () =>
    withLock(path, async () => {
      most = Math.max(most, ++inside);
      await new Promise(setImmediate);
      inside--;
    });
  await Promise.all(Array.from({ length: 40 }, one));
  assert.equal(most, 1);
});
