// G9: waiting blocks no event loop and takes no slot of libuv's pool.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import test from 'node:test';
import { Document, Journal, lock, lockSync } from '../index.mjs';
import { puppet, scratch } from './child.mjs';

const WAITERS = 64;
/** How long a sync wait blocks here, so that it is told from the pauses of a busy machine. */
const BLOCKED_MS = 300;

/** The pauses between the ticks of a timer while `act` runs: the longest, and the one in the middle. */
async function pauses(act) {
  const all = [];
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    all.push(now - last);
    last = now;
  };
  const timer = setInterval(look, 2);
  await act();
  clearInterval(timer);
  look();
  all.sort((one, other) => one - other);
  return { longest: all.at(-1), middle: all[Math.floor(all.length / 2)] };
}

const ticks = (count) =>
  new Promise((resolve) => {
    const timer = setInterval(() => --count <= 0 && (clearInterval(timer), resolve()), 2);
  });

/** Files are read through libuv's pool of four. */
async function readLatency() {
  const start = performance.now();
  await Promise.all(Array.from({ length: 8 }, () => readFile(new URL(import.meta.url))));
  return performance.now() - start;
}

test('race 47: with 64 waits pending timers keep their pace and files are read at once', async (t) => {
  const path = join(scratch(t), 'state.json');
  const holder = await puppet(t);
  await holder.ask({ op: 'lock', path });
  const calm = { pauses: await pauses(() => ticks(50)), read: await readLatency() };

  const controller = new AbortController();
  const waiting = Array.from({ length: WAITERS }, () => lock(path, { waitMs: Infinity, signal: controller.signal }));
  let settled = 0;
  for (const one of waiting) one.catch(() => {}).finally(() => settled++);
  // None of them can end before it is aborted. Waits that blocked the loop, or kept the slots of libuv's
  // pool, would keep these two from ever ending.
  const busy = { pauses: await pauses(() => ticks(50)), read: await readLatency() };
  assert.equal(settled, 0);
  controller.abort();
  await Promise.allSettled(waiting);

  const told = (ms) => `${ms.toFixed(1)} ms`;
  t.diagnostic(`longest pause of a 2 ms timer: ${told(calm.pauses.longest)} alone, ${told(busy.pauses.longest)} with ${WAITERS} waits`);
  t.diagnostic(`8 files read: ${told(calm.read)} alone, ${told(busy.read)} with ${WAITERS} waits`);
  // Not the longest: that one is the machine's.
  assert.ok(busy.pauses.middle < BLOCKED_MS / 2, 'timers lost their pace');
});

test('control: a sync wait does block the event loop', async (t) => {
  const path = join(scratch(t), 'state.json');
  const holder = await puppet(t);
  await holder.ask({ op: 'lock', path });
  const { middle } = await pauses(async () => {
    assert.throws(() => lockSync(path, { waitMs: BLOCKED_MS }), { code: 'busy' });
  });
  assert.ok(middle >= BLOCKED_MS, `${middle}`);
});

test('durable writes leave the event loop alone', async (t) => {
  const dir = scratch(t);
  const document = new Document(join(dir, 'state.json'));
  const journal = new Journal(join(dir, 'log.jsonl'));
  const calm = await pauses(() => ticks(50));
  const busy = await pauses(async () => {
    const updates = Array.from({ length: 30 }, () => document.update((state) => void state.n++, { init: { n: 0 } }));
    const appends = Array.from({ length: 30 }, (_, n) => journal.append(`${n}`));
    await Promise.all([...updates, ...appends]);
  });
  t.diagnostic(`longest pause: ${calm.longest.toFixed(1)} ms alone, ${busy.longest.toFixed(1)} ms during 60 durable writes`);
  assert.ok(busy.middle < BLOCKED_MS / 2, 'timers lost their pace');
  assert.deepEqual(document.readSync().value, { n: 30 });
});

test('a sync wait sleeps in the kernel', async (t) => {
  const path = join(scratch(t), 'state.json');
  const holder = await puppet(t);
  await holder.ask({ op: 'lock', path });
  const before = process.cpuUsage();
  assert.throws(() => lockSync(path, { waitMs: 400 }), { code: 'busy' });
  const { user, system } = process.cpuUsage(before);
  assert.ok((user + system) / 1000 < 100, `${user + system} us of CPU in 400 ms`);
});
