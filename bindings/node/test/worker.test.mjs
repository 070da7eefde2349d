// Threads of JavaScript, and several copies of the package in one process.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { Worker } from 'node:worker_threads';
import * as tenure from '../index.mjs';
import { PACKAGE, PATIENCE_MS, scratch, script, until } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

/** A worker that runs this program, with `tenure`, `path` and `say` at hand. */
function worker(t, path, program) {
  const started = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     const tenure = require(workerData.entry);
     const { path } = workerData;
     const say = (value) => parentPort.postMessage(value);
     (async () => { ${program} })().catch((error) => say(error.code));`,
    { eval: true, workerData: { entry: join(PACKAGE, 'index.cjs'), path } },
  );
  t.after(() => started.terminate());
  return started;
}

const says = async (from) => (await once(from, 'message'))[0];

test('workers and the main thread exclude each other', async (t) => {
  const document = new tenure.Document(join(scratch(t), 'state.json'));
  const add = 'const one = () => new tenure.Document(path).update((s) => void s.n++, { init: { n: 0 }, noSync: true }); await Promise.all(Array.from({ length: 20 }, one)); say("done");';
  const workers = [1, 2, 3].map(() => worker(t, document.path, add));
  const all = workers.map(says);
  for (let n = 0; n < 20; n++) document.updateSync((state) => void state.n++, { init: { n: 0 }, noSync: true });
  assert.deepEqual(await Promise.all(all), ['done', 'done', 'done']);
  assert.deepEqual(document.readSync().value, { n: 80 });
});

test('a sync wait for a lock of another thread is no deadlock', async (t) => {
  const path = join(scratch(t), 'state.json');
  const holder = worker(t, path, 'const guard = await tenure.lock(path); say("held"); parentPort.once("message", () => guard.releaseSync());');
  assert.equal(await says(holder), 'held');
  assert.throws(() => tenure.lockSync(path, { waitMs: 20 }), code('busy'));
  holder.postMessage('release');
  tenure.lockSync(path, { waitMs: Infinity }).releaseSync();
});

test('what a worker holds and waits for ends when it is terminated', async (t) => {
  const dir = scratch(t);
  const [path, other] = [join(dir, 'state.json'), join(dir, 'other')];
  const guard = await tenure.lock(path);
  const program = `
    await tenure.lock(${JSON.stringify(other)});
    for (let n = 0; n < 8; n++) tenure.lock(path, { waitMs: Infinity });
    new tenure.Document(path).update(() => {}, { waitMs: Infinity });
    say("waiting");`;
  const waiter = worker(t, path, program);
  assert.equal(await says(waiter), 'waiting');
  await waiter.terminate();
  await (await tenure.lock(other, { waitMs: PATIENCE_MS })).release();
  await guard.release();
  // No orphan may win it now, nor later.
  await (await tenure.lock(path, { waitMs: PATIENCE_MS })).release();
});

test('the threads that waited for a terminated worker end', async (t) => {
  const path = join(scratch(t), 'state.json');
  const names = () => readdirSync('/proc/self/task').map((id) => nameOf(id));
  const calls = () => names().filter((name) => name === 'tenure-call').length;
  const guard = await tenure.lock(path);
  const program = 'for (let n = 0; n < 30; n++) tenure.lock(path, { waitMs: Infinity }); say("waiting");';
  const waiter = worker(t, path, program);
  assert.equal(await says(waiter), 'waiting');
  // A thread has its name when it runs, not when it was started.
  await until(() => calls() >= 30, 'thirty threads wait');
  await waiter.terminate();
  // The lock is still held here, so nothing but their cancellation ends them; then they rest a moment.
  await until(() => calls() < 30, 'the threads end');
  await guard.release();
});

/** The name of a thread of this process; it may have ended just now. */
function nameOf(id) {
  try {
    return readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}

test('a worker that ends in the middle of an update frees the lock', async (t) => {
  const document = new tenure.Document(join(scratch(t), 'state.json'));
  document.setSync({ n: 1 });
  const busy = worker(t, document.path, 'new tenure.Document(path).update(() => { say("inside"); return new Promise(() => {}); }, { maxHoldMs: 1e6 });');
  assert.equal(await says(busy), 'inside');
  await busy.terminate();
  document.setSync({ n: 2 }, { waitMs: PATIENCE_MS });
});

test('a worker that ends before its function was called frees the lock', async (t) => {
  const document = new tenure.Document(join(scratch(t), 'state.json'));
  document.setSync({ n: 1 });
  // Its event loop never gets to the function; the update waits for it under the lock.
  const busy = worker(t, document.path, 'new tenure.Document(path).update(() => {}, { maxHoldMs: 1e6 }); say("asked"); for (;;);');
  assert.equal(await says(busy), 'asked');
  for (let guard; (guard = await tenure.tryLock(document.path)); ) await guard.release();
  await busy.terminate();
  document.setSync({ n: 2 }, { waitMs: PATIENCE_MS });
});

test('a process full of terminated workers ends well', async (t) => {
  const path = join(scratch(t), 'state.json');
  const program = `
    import { Worker } from 'node:worker_threads';
    import { once } from 'node:events';
    const guard = await tenure.lock($1);
    const code = 'const { workerData, parentPort } = require("node:worker_threads"); const t = require(workerData[0]);'
      + 'for (let n = 0; n < 4; n++) t.lock(workerData[1], { waitMs: Infinity }); t.lock(workerData[1] + process.pid + Math.random()); parentPort.postMessage(1);';
    for (let n = 0; n < 10; n++) {
      const worker = new Worker(code, { eval: true, execArgv: [], workerData: [$2, $1] });
      await once(worker, 'message');
      await worker.terminate();
    }
    await guard.release();
    await (await tenure.lock($1, { waitMs: ${PATIENCE_MS} })).release();
    say('done');`;
  const child = script(t, program, path, join(PACKAGE, 'index.cjs'));
  assert.equal(await child.says(), 'done');
  assert.deepEqual(await child.ended, { code: 0, signal: null });
});

test('race 16: two copies of the package exclude each other', async (t) => {
  const dir = scratch(t);
  const copy = join(dir, 'copy');
  for (const name of readdirSync(PACKAGE)) {
    if (/^(index|lib|package\.json|tenure\..*\.node)/.test(name)) cpSync(join(PACKAGE, name), join(copy, name), { recursive: true });
  }
  const second = createRequire(import.meta.url)(copy);
  assert.notEqual(second.lock, tenure.lock);
  const path = join(dir, 'state.json');
  const guard = await tenure.lock(path);
  assert.equal(await second.tryLock(path), null);
  // Each copy knows only its own threads: this is busy, not deadlock.
  assert.throws(() => second.lockSync(path, { waitMs: 20 }), (error) => error.code === 'busy');
  const waiting = second.lock(path, { waitMs: Infinity });
  await guard.release();
  await (await waiting).release();
  const add = (from) => new from.Document(path).update((state) => void state.n++, { init: { n: 0 }, noSync: true });
  await Promise.all(Array.from({ length: 40 }, (_, n) => add(n % 2 ? second : tenure)));
  assert.deepEqual(new tenure.Document(path).readSync().value, { n: 40 });
});
