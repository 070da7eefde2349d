// Queues: each task goes to one worker at a time, and is completed once.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Queue } from '../index.mjs';
import { PATIENCE_MS, TENURE, scratch, script } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;
const TTL = { ttlMs: 600_000 };

test('tasks are given out oldest first, to one worker each, and completed once', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  assert.deepEqual(await queue.list(), []);
  assert.equal(await queue.next(TTL), undefined);
  const first = await queue.add({ build: 'a' });
  assert.equal(first.new, true);
  assert.deepEqual(queue.addSync({ build: 'b' }, { id: 'b', maxAttempts: 1 }), { id: 'b', new: true });
  assert.deepEqual(await queue.add({ build: 'other' }, { id: 'b' }), { id: 'b', new: false });
  const claimed = await queue.next({ ...TTL, owner: 'one' });
  assert.deepEqual(claimed.task, { build: 'a' });
  assert.equal(claimed.attempt, 1);
  assert.equal(claimed.ttlMs, TTL.ttlMs);
  const other = queue.nextSync({ ...TTL, owner: 'two' });
  assert.equal(other.id, 'b');
  assert.equal(await queue.next(TTL), undefined);
  assert.equal(await queue.done(claimed.id, claimed.token), true);
  assert.equal(queue.doneSync(claimed.id, claimed.token), false);
  assert.equal(await queue.fail(other.id, other.token, { reason: 'broken' }), 'set_aside');
  const [done, aside] = await queue.list();
  assert.deepEqual([done.state, done.owner, done.leftMs, done.reason], ['done', 'one', null, null]);
  assert.deepEqual([aside.state, aside.attempts, aside.reason], ['set_aside', 1, 'broken']);
  assert.deepEqual(await queue.prune({ maxAgeMs: 3_600_000 }), []);
  assert.deepEqual((await queue.prune()).sort(), [claimed.id, 'b'].sort());
  assert.deepEqual(queue.listSync(), []);
});

test('a task that failed comes back after its delay', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  await queue.add(1);
  const { id, token } = await queue.next(TTL);
  assert.equal(queue.failSync(id, token, { delayMs: 30 }), 'delayed');
  const again = await queue.next({ ...TTL, waitMs: Infinity });
  assert.equal(again.attempt, 2);
  assert.equal(await queue.fail(again.id, again.token), 'open');
});

test('a function says which tasks are taken', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'), { numbers: 'bigint' });
  for (const n of [1, 2, 3, 4, 12345678901234567890n]) await queue.add({ n });
  const seen = [];
  const claimed = await queue.next({ ...TTL, accepts: (task) => seen.push(task.n) && task.n === 3 });
  assert.deepEqual([claimed.task, seen], [{ n: 3 }, [1, 2, 3]]);
  const later = await queue.next({ ...TTL, accepts: async ({ n }) => typeof n === 'bigint' });
  assert.deepEqual(later.task, { n: 12345678901234567890n });
  assert.deepEqual(queue.nextSync({ ...TTL, accepts: ({ n }) => n > 1 }).task, { n: 2 });
  for (const nothing of [undefined, null, 0, '', false]) {
    assert.equal(await queue.next({ ...TTL, accepts: () => nothing }), undefined);
    assert.equal(queue.nextSync({ ...TTL, accepts: () => nothing }), undefined);
  }
  const boom = new Error('boom');
  const fails = () => {
    throw boom;
  };
  await assert.rejects(queue.next({ ...TTL, accepts: fails }), boom);
  await assert.rejects(queue.next({ ...TTL, accepts: async () => fails() }), boom);
  assert.throws(() => queue.nextSync({ ...TTL, accepts: fails }), boom);
  assert.throws(() => queue.nextSync({ ...TTL, accepts: async () => true }), code('invalid'));
  await assert.rejects(queue.next({ ...TTL, accepts: 5 }), code('invalid'));
  const never = new AbortController();
  const asked = queue.next({ ...TTL, waitMs: Infinity, signal: never.signal, accepts: () => new Promise(() => never.abort(boom)) });
  await assert.rejects(asked, boom);
  const open = (await queue.list()).filter(({ state }) => state === 'open').map(({ task }) => task);
  assert.deepEqual(open, [{ n: 1 }, { n: 4 }]);
  const waits = queue.next({ ...TTL, waitMs: Infinity, accepts: ({ n }) => n === 7 });
  await queue.add({ n: 7 });
  assert.deepEqual((await waits).task, { n: 7 });
});

test('a caller waits for a task without blocking the event loop, and is woken by another process', async (t) => {
  const dir = join(scratch(t), 'tasks');
  const queue = new Queue(dir);
  const waiting = queue.next({ ...TTL, waitMs: Infinity });
  let turns = 0;
  while (turns < 5) await new Promise((resolve) => setImmediate(() => resolve(turns++)));
  execFileSync(TENURE, ['claim', 'add', dir, '{"from":"the command"}']);
  assert.deepEqual((await waiting).task, { from: 'the command' });
});

test('a wait for a task can be cancelled', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  const abort = new AbortController();
  const waiting = queue.next({ ...TTL, waitMs: Infinity, signal: abort.signal });
  abort.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await assert.rejects(queue.next({ ...TTL, signal: abort.signal }), /enough/);
});

test('a task that was claimed while the signal aborted goes back', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  await queue.add('x');
  const abort = new AbortController();
  const claiming = queue.next({ ...TTL, signal: abort.signal });
  // Without a turn of the event loop, which would see the claim before the signal.
  const deadline = Date.now() + PATIENCE_MS;
  while (queue.listSync()[0].state !== 'claimed') assert.ok(Date.now() < deadline, 'it was not claimed');
  abort.abort(new Error('enough'));
  await assert.rejects(claiming, /enough/);
  assert.equal(queue.listSync()[0].state, 'open');
});

test('the task of a worker that was killed goes to another one, and its claim is lost', async (t) => {
  const dir = join(scratch(t), 'tasks');
  const queue = new Queue(dir);
  await queue.add('x');
  const worker = script(t, "say(await new tenure.Queue($1).next({ ttlMs: 300 })); setInterval(() => {}, 1e6);", dir);
  const lost = await worker.says();
  await worker.kill('SIGKILL');
  const claimed = await queue.next({ ...TTL, waitMs: Infinity });
  assert.deepEqual([claimed.id, claimed.attempt], [lost.id, 2]);
  await assert.rejects(queue.done(lost.id, lost.token), code('lease_lost'));
  await assert.rejects(queue.renew(lost.id, lost.token), code('lease_lost'));
  const result = new Document(join(dir, '..', 'result.json'));
  const guarded = ({ target, fence }) => ({ guards: [{ target, fence }] });
  await assert.rejects(result.set(1, guarded(lost)), code('fenced'));
  await result.set(2, guarded(claimed));
  assert.equal(await queue.done(claimed.id, claimed.token), true);
});

test('a renewal extends the claim', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  await queue.add('x');
  const { id, token, fence } = await queue.next({ ttlMs: 60_000 });
  const renewed = await queue.renew(id, token, { ttlMs: 120_000 });
  assert.deepEqual([renewed.fence, renewed.ttlMs], [fence, 120_000]);
  assert.equal(queue.renewSync(id, token).ttlMs, 120_000);
});

test('many workers in two processes get each task once', async (t) => {
  const dir = join(scratch(t), 'tasks');
  const queue = new Queue(dir);
  for (let n = 0; n < 20; n++) await queue.add(n, { noSync: true });
  const child = script(t, `const queue = new tenure.Queue($1);
    for (let each; (each = await queue.next({ ttlMs: 600_000 })); ) {
      await queue.done(each.id, each.token);
      say(each.task);
    }
    say('end');`, dir);
  const tasks = [];
  const worker = async () => {
    for (let each; (each = await queue.next(TTL)); ) {
      await queue.done(each.id, each.token);
      tasks.push(each.task);
    }
  };
  const listener = async () => {
    for (let said; (said = await child.says()) !== 'end'; ) tasks.push(said);
  };
  await Promise.all([worker(), worker(), listener()]);
  assert.deepEqual(tasks.sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n));
});

test('wrong arguments are refused', async (t) => {
  const queue = new Queue(join(scratch(t), 'tasks'));
  await assert.rejects(queue.next(), code('invalid'));
  await assert.rejects(queue.next({ ttlMs: Infinity }), code('invalid'));
  await assert.rejects(queue.add(undefined), code('invalid'));
  await assert.rejects(queue.add(1, { fence: 1 }), code('invalid'));
  await assert.rejects(queue.done('none', 'x'), code('not_found'));
  await assert.rejects(queue.done('none'), code('invalid'));
  assert.deepEqual(await queue.list(), []);
});
