// Once: one caller does it, the others get its result.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { Worker } from 'node:worker_threads';
import { OnceFailedError, TenureError, once, onceSync, statusSync } from '../index.mjs';
import { TENURE, scratch, script, until } from './child.mjs';

const code = (expected) => (error) => error instanceof TenureError && error.code === expected;
const FRESH = { ttlMs: 600_000 };

test('of many callers one runs the function, and all get its result', async (t) => {
  const target = join(scratch(t), 'token');
  let runs = 0;
  const refresh = async () => ({ token: `t${++runs}` });
  const results = await Promise.all(Array.from({ length: 8 }, () => once(target, FRESH, refresh)));
  assert.equal(runs, 1);
  for (const result of results) assert.deepEqual(result, { token: 't1' });
  assert.deepEqual(onceSync(target, FRESH, () => assert.fail('it is fresh')), { token: 't1' });
});

test('a result that is not fresh any more is made again', async (t) => {
  const target = join(scratch(t), 'token');
  assert.equal(await once(target, { ttlMs: 0 }, () => 1), 1);
  assert.equal(onceSync(target, { ttlMs: 0 }, () => 2), 2);
});

test('a function without a result is not run again either', async (t) => {
  const target = join(scratch(t), 'install');
  assert.equal(await once(target, FRESH, () => {}), undefined);
  assert.equal(await once(target, FRESH, () => assert.fail('it is fresh')), undefined);
});

test('a failure reaches the caller and those who wait at that moment, and no later one', async (t) => {
  const target = join(scratch(t), 'token');
  let fail;
  const running = new Promise((resolve) => {
    fail = resolve;
  });
  const first = once(target, FRESH, () => new Promise((_, reject) => fail(() => reject(new Error('no network')))));
  const refuse = await running;
  const program = `say(await tenure.once($1, { ttlMs: 1000 }, () => 'ran again').catch(({ name, code, exitCode }) => ({ name, code, exitCode })));`;
  const children = [script(t, program, target), script(t, program, target)];
  await until(() => statusSync(`${target}~once`).waiters.length === 2, 'both wait');
  refuse();
  await assert.rejects(first, /no network/);
  for (const child of children) {
    assert.deepEqual(await child.says(), { name: 'OnceFailedError', code: 'cancelled', exitCode: 1 });
  }
  assert.equal(await once(target, FRESH, () => 5), 5);
});

test('a failure also reaches those who wait in the same process', async (t) => {
  const target = join(scratch(t), 'token');
  let runs = 0;
  const fail = async () => {
    runs++;
    throw new Error('no network');
  };
  const ended = await Promise.allSettled(Array.from({ length: 8 }, () => once(target, FRESH, fail)));
  const failed = ended.filter(({ reason }) => reason instanceof OnceFailedError && code('cancelled')(reason));
  assert.equal(failed.length + runs, 8);
});

test('a process that dies in its turn hands over to the next', async (t) => {
  const target = join(scratch(t), 'token');
  const child = script(t, "await tenure.once($1, { ttlMs: 1000 }, () => new Promise(() => { say('runs'); setInterval(() => {}, 1e6); }));", target);
  assert.equal(await child.says(), 'runs');
  const waiting = once(target, FRESH, () => 'next');
  await child.kill('SIGKILL');
  assert.equal(await waiting, 'next');
});

test('a worker that ends in its turn hands over to the next', async (t) => {
  const target = join(scratch(t), 'token');
  const entry = new URL('../index.cjs', import.meta.url);
  const program = `const { parentPort } = require('node:worker_threads');
    const { once } = require(${JSON.stringify(entry.pathname)});
    once(${JSON.stringify(target)}, { ttlMs: 1000 }, () => new Promise(() => { parentPort.postMessage('runs'); setInterval(() => {}, 1e6); }));`;
  const worker = new Worker(program, { eval: true });
  await new Promise((resolve) => worker.once('message', resolve));
  const waiting = once(target, FRESH, () => 'next');
  await worker.terminate();
  assert.equal(await waiting, 'next');
});

test('a wait for the result can be cancelled, and the function is not run', async (t) => {
  const target = join(scratch(t), 'token');
  let end;
  const held = new Promise((resolve) => {
    end = resolve;
  });
  let started;
  const runs = new Promise((resolve) => {
    started = resolve;
  });
  const first = once(target, FRESH, () => (started(), held));
  await runs;
  const abort = new AbortController();
  const waiting = once(target, { ...FRESH, signal: abort.signal }, () => assert.fail('cancelled'));
  abort.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await assert.rejects(once(target, { ...FRESH, waitMs: 0 }, () => 1), code('busy'));
  end('done');
  assert.equal(await first, 'done');
});

test('the command gets the result, and the other way round', async (t) => {
  const target = join(scratch(t), 'token');
  await once(target, FRESH, () => ({ n: 1 }));
  assert.equal(execFileSync(TENURE, ['once', target, '--ttl', '10m', '--', 'false'], { encoding: 'utf8' }), '{"n":1}');
  const other = join(scratch(t), 'text');
  execFileSync(TENURE, ['once', other, '--ttl', '10m', '--', 'echo', 'no JSON']);
  await assert.rejects(once(other, FRESH, () => 1), code('invalid'));
});

test('what is no JSON is refused, and the turn goes on', async (t) => {
  const target = join(scratch(t), 'token');
  await assert.rejects(once(target, FRESH, () => NaN), code('invalid'));
  assert.throws(() => onceSync(target, FRESH, async () => 1), code('invalid'));
  assert.throws(() => onceSync(target, FRESH, () => { throw new Error('mine'); }), /mine/);
  await assert.rejects(once(target, FRESH), code('invalid'));
  await assert.rejects(once(target, {}, () => 1), code('invalid'));
  await assert.rejects(once(target, FRESH, () => 2n ** 64n), code('invalid'));
  assert.equal(await once(target, { ...FRESH, numbers: 'bigint' }, () => 2n ** 64n), 2n ** 64n);
});

test('a result that is too long to be stored is given to its own caller', async (t) => {
  const target = join(scratch(t), 'long');
  const long = 'x'.repeat(1024 * 1024);
  assert.equal(await once(target, FRESH, () => long), long);
  assert.equal(await once(target, FRESH, () => 'again'), 'again');
});
