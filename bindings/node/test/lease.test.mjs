import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Lease, lease, leaseAll, leaseAllSync, leaseSync, lock } from '../index.mjs';
import { PATIENCE_MS, puppet, scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('a lease keeps others out until it is released', async (t) => {
  const path = join(scratch(t), 'session');
  const held = await lease(path, { ttlMs: 60_000, owner: 'me', label: 'a turn' });
  assert.ok(held.token.length >= 16 && held.fence > 0 && held.ttlMs === 60_000);
  await assert.rejects(lock(path, { waitMs: 0 }), (error) => error.holder.owner === 'me' && code('busy')(error));
  await assert.rejects(lease(path, { ttlMs: 1000, waitMs: 0 }), code('busy'));
  const { fence } = held;
  await held.renew({ ttlMs: 30_000 });
  assert.deepEqual([held.fence, held.ttlMs], [fence, 30_000]);
  const info = await new Lease(path).show();
  assert.deepEqual([info.owner, info.fence, info.expired, info.holder.pid], ['me', fence, false, process.pid]);
  await held.release();
  assert.equal(new Lease(path).showSync(), null);
  await assert.rejects(held.release(), code('lease_lost'));
});

test('a lease protects documents by its fence, until somebody takes over', async (t) => {
  const dir = scratch(t);
  const [path, document] = [join(dir, 'session'), new Document(join(dir, 'state.json'))];
  const held = leaseSync(path, { ttlMs: 60_000 });
  const proof = { guards: [{ target: path, fence: held.fence }] };
  await document.set(1, proof);
  const target = new Lease(path);
  await assert.rejects(target.takeOver({ ttlMs: 1000 }), code('invalid'));
  const taken = await target.takeOver({ ttlMs: 60_000, reason: 'it hangs' });
  assert.ok(taken.fence > held.fence);
  await assert.rejects(document.set(2, proof), code('fenced'));
  await assert.rejects(held.renew(), code('lease_lost'));
  target.releaseSync(taken.token);
});

test('a lease outlives its process, and its token renews it from another', async (t) => {
  const path = join(scratch(t), 'session');
  const other = await puppet(t);
  const { ok } = await other.ask({ op: 'acquire', path, ttl: 60_000, owner: 'other' });
  await other.kill('SIGKILL');
  assert.equal((await new Lease(path).show()).owner, 'other');
  const again = await lease(path, { ttlMs: 60_000, token: ok.token });
  assert.equal(again.fence, ok.fence);
  await again[Symbol.asyncDispose]();
});

test('an async wait ends when the lease expires, and by its signal', async (t) => {
  const path = join(scratch(t), 'session');
  await lease(path, { ttlMs: 50 });
  const next = await lease(path, { ttlMs: 60_000, waitMs: Infinity });
  await assert.rejects(lease(path, { ttlMs: 1, signal: AbortSignal.timeout(5) }), { name: 'TimeoutError' });
  next[Symbol.dispose]();
});

test('a lease that was acquired while the signal aborted is released, one that was renewed is not', async (t) => {
  const dir = scratch(t);
  const target = new Lease(join(dir, 'session'));
  const fence = () => target.showSync()?.fence ?? 0;
  /** Aborts a call once it has the lease, without a turn of the event loop in between. */
  const late = async (acquire) => {
    const abort = new AbortController();
    const before = fence();
    const acquiring = acquire({ ttlMs: 60_000, signal: abort.signal });
    const deadline = Date.now() + PATIENCE_MS;
    while (fence() === before) assert.ok(Date.now() < deadline, 'it was not acquired');
    abort.abort(new Error('enough'));
    await assert.rejects(acquiring, /enough/);
    assert.equal(target.showSync(), null);
  };
  await late((options) => target.acquire(options));
  await late((options) => lease(target.path, options));
  await late((options) => leaseAll([target.path], options));
  await target.acquire({ ttlMs: 60_000 });
  await late((options) => target.takeOver({ ...options, reason: 'it hangs' }));
  const { token } = await target.acquire({ ttlMs: 60_000 });
  const lateRenewal = async (options) => {
    const abort = new AbortController();
    const renewal = target.acquire({ ttlMs: 120_000, ...options, signal: abort.signal });
    const deadline = Date.now() + PATIENCE_MS;
    while (target.showSync().ttlMs !== 120_000) assert.ok(Date.now() < deadline, 'it was not renewed');
    abort.abort(new Error('enough'));
    assert.equal((await renewal).token, token);
    assert.equal((await target.renew(token, { ttlMs: 60_000 })).token, token);
  };
  await lateRenewal({ token });
  Object.assign(process.env, { TENURE_TARGET: target.path, TENURE_TOKEN: token });
  t.after(() => ['TENURE_TARGET', 'TENURE_TOKEN'].forEach((name) => delete process.env[name]));
  await lateRenewal({});
});

test('a lease needs a time to live', async (t) => {
  const path = join(scratch(t), 'session');
  for (const ttlMs of [undefined, 0, -1, NaN, Infinity, '5s', 1e15]) {
    await assert.rejects(lease(path, { ttlMs }), code('invalid'));
  }
  await assert.rejects(new Lease(path).renew('short'), code('invalid'));
  await assert.rejects(new Lease(path).renew('a token that nobody has'), code('lease_lost'));
});

test('several leases are acquired in one order, with one token, and released together', async (t) => {
  const dir = scratch(t);
  const [a, b] = [join(dir, 'a'), join(dir, 'b')];
  const all = await leaseAll([b, a, b], { ttlMs: 60_000, owner: 'me' });
  assert.deepEqual(all.leases.map(({ path, token }) => [path, token]), [[a, all.token], [b, all.token]]);
  assert.ok(all.leases.every(({ fence, owner }) => fence > 0 && owner === 'me'));
  await new Document(a).set(1, { guards: all.leases.map(({ path, fence }) => ({ target: path, fence })), fence: all.leases[0].fence });
  await all.renew({ ttlMs: 30_000 });
  assert.deepEqual(all.leases.map(({ ttlMs }) => ttlMs), [30_000, 30_000]);
  const same = await leaseAll([a, b], { ttlMs: 60_000, token: all.token });
  assert.deepEqual(same.leases.map(({ fence }) => fence), all.leases.map(({ fence }) => fence));
  await assert.rejects(lock(b, { waitMs: 0 }), code('busy'));
  await same.release();
  await assert.rejects(all.release(), code('lease_lost'));
  const again = leaseAllSync([a, b], { ttlMs: 60_000, waitMs: 0 });
  again.renewSync();
  again.releaseSync();
  for (const path of [a, b]) assert.equal(await new Lease(path).show(), null);
});

test('if another has one of several leases, none is acquired', async (t) => {
  const dir = scratch(t);
  const [a, b] = [join(dir, 'a'), join(dir, 'b')];
  const held = leaseSync(b, { ttlMs: 60_000 });
  await assert.rejects(leaseAll([a, b], { ttlMs: 1000, waitMs: 1 }), code('busy'));
  assert.throws(() => leaseAllSync([a, b], { ttlMs: 1000, waitMs: 0 }), code('busy'));
  assert.equal(await new Lease(a).show(), null);
  const waits = { ttlMs: 1000, waitMs: Infinity };
  await assert.rejects(leaseAll([a, b], { ...waits, signal: AbortSignal.timeout(5) }), { name: 'TimeoutError' });
  assert.equal(await new Lease(a).show(), null);
  const waiting = leaseAll([a, b], waits);
  await held.release();
  await (await waiting).release();
  for (const paths of [[], a, undefined, [a, 5]]) await assert.rejects(leaseAll(paths, { ttlMs: 1000 }), code('invalid'));
  await assert.rejects(leaseAll([a], {}), code('invalid'));
});
