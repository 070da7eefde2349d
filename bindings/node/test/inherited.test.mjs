// What `tenure run` and `tenure lease hold` hand down is used, as the command line uses it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { Worker } from 'node:worker_threads';
import { Document, Journal, Lease, lock, lockSync, tryLockSync } from '../index.mjs';
import { PACKAGE, TENURE, programOf, scratch } from './child.mjs';

/** Runs a program below these words of the command. */
function below(words, code, ...args) {
  const env = { ...process.env, TENURE_WAIT: '' };
  const { status, stderr } = spawnSync(TENURE, [...words, '--', process.execPath, ...programOf(code, args)], { env, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
}

/** Sets variables for one test. */
function environment(t, variables) {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
  }
}

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('writes and locks of a program below a hold are part of it', (t) => {
  const dir = scratch(t);
  const [outer, inner] = [join(dir, 'new\nline'), join(dir, 'log.jsonl')];
  const program = `
    const { Document, Journal, lock, lockSync, tryLock, updateAndAppend } = tenure;
    const [outer, inner] = [new Document($1), new Journal($2)];
    outer.setSync({ n: 1 }, { waitMs: 0 });
    await outer.update((state) => void state.n++, { waitMs: 0 });
    await inner.append('one', { waitMs: 0 });
    await (await lock($1, { waitMs: 0 })).release();
    lockSync($2, { waitMs: 0 }).releaseSync();
    const guards = [{ target: $2, fence: Number(process.env.TENURE_FENCE) }];
    await updateAndAppend(outer, (state) => void state.n++, inner, 'two', { waitMs: 0, guards });
    if (await tryLock($1 + '.other') === null) throw new Error('a target of its own is not locked');`;
  below(['run', outer, '--', TENURE, 'run', inner], program, outer, inner);
  assert.deepEqual(new Document(outer).readSync().value, { n: 3 });
  assert.deepEqual(new Journal(inner).readSync().map(({ line }) => line), ['one', 'two']);
});

test('a program below a lease renews it, and its writes pass', (t) => {
  const path = join(scratch(t), 'session');
  const program = `
    const { Document, Lease } = tenure;
    const leased = await new Lease($1).acquire({ ttlMs: 50_000, waitMs: 0 });
    if (leased.fence !== Number(process.env.TENURE_FENCE)) throw new Error('it is another lease');
    await new Document($1).set(1, { waitMs: 0 });`;
  below(['lease', 'hold', path, '--ttl', '60s'], program, path);
  assert.equal(new Document(path).readSync().value, 1);
  assert.equal(new Lease(path).showSync(), null);
});

test('a fence of the call comes before that of the environment, which is of no other target', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = lockSync(path);
  environment(t, { TENURE_TARGET: path, TENURE_FENCE: '5' });
  await assert.rejects(new Document(path).set(1), code('fenced'));
  await assert.rejects(lock(path), code('fenced'));
  await new Document(path).set(1, { fence: guard.fence });
  await new Document(`${path}.other`).set(1);
  process.env.TENURE_FENCE = String(guard.fence);
  new Document(path).setSync(2);
  guard.releaseSync();
});

test('what cannot be read in the environment is an error', async (t) => {
  const path = join(scratch(t), 'state.json');
  environment(t, { TENURE_TARGET: path, TENURE_FENCE: 'many', TENURE_WAIT: 'soon' });
  await assert.rejects(new Document(path).set(1, { waitMs: 0 }), { code: 'invalid', message: /TENURE_FENCE/ });
  process.env.TENURE_FENCE = '';
  await assert.rejects(new Document(path).set(1), { code: 'invalid', message: /TENURE_WAIT/ });
  assert.throws(() => lockSync(path), { code: 'invalid', message: /TENURE_WAIT/ });
  await assert.rejects(new Lease(path).acquire({ ttlMs: 1000 }), { code: 'invalid', message: /TENURE_WAIT/ });
  new Document(path).setSync(1, { waitMs: 0 });
});

test('TENURE_WAIT is the wait of calls that do not say theirs', async (t) => {
  const path = join(scratch(t), 'state.json');
  environment(t, { TENURE_WAIT: '1ms' });
  const guard = await lock(path);
  await assert.rejects(lock(path), code('busy'));
  await assert.rejects(new Document(path).set(1), code('busy'));
  process.env.TENURE_WAIT = 'forever';
  const waiting = lock(path);
  await guard.release();
  await (await waiting).release();
});

test('a worker has an environment of its own', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = lockSync(path);
  const program = `const { parentPort, workerData } = require('node:worker_threads');
    const { Document } = require(workerData.entry);
    try { new Document(workerData.path).setSync(1, { waitMs: 0 }); parentPort.postMessage('written'); }
    catch (error) { parentPort.postMessage(error.code); }`;
  const says = (env) =>
    new Promise((resolve, reject) => {
      const worker = new Worker(program, { eval: true, env, workerData: { entry: join(PACKAGE, 'index.cjs'), path } });
      worker.once('message', resolve).once('error', reject);
    });
  assert.equal(await says({ TENURE_TARGET: path, TENURE_FENCE: String(guard.fence) }), 'written');
  assert.equal(await says({}), 'busy');
  guard.releaseSync();
  assert.ok(tryLockSync(path));
});
