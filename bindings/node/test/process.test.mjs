// Holds and waits against the end of processes: no lock is left behind, whatever ends them.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { Document, lock, lockSync } from '../index.mjs';
import { PATIENCE_MS, puppet, quietScript, scratch, script } from './child.mjs';

const HOLD = 'const guard = await tenure.lock($1); say("held");';
const WAIT = 'tenure.lock($1, { waitMs: Infinity }).then(() => say("got it"), say); say("waiting");';

const ENDS = {
  'its natural end': [`${HOLD}`, { code: 0, signal: null }],
  'process.exit': [`${HOLD} process.exit(3);`, { code: 3, signal: null }],
  'an uncaught exception': [`${HOLD} throw new Error("uncaught");`, { code: 1, signal: null }],
  'an unhandled rejection': [`${HOLD} Promise.reject(1); setInterval(() => {}, 1000);`, { code: 1, signal: null }],
  'process.abort': [`${HOLD} process.abort();`, { code: null, signal: 'SIGABRT' }],
  SIGTERM: [`${HOLD} setInterval(() => {}, 1000);`, { code: null, signal: 'SIGTERM' }],
  SIGINT: [`${HOLD} setInterval(() => {}, 1000);`, { code: null, signal: 'SIGINT' }],
  SIGKILL: [`${HOLD} setInterval(() => {}, 1000);`, { code: null, signal: 'SIGKILL' }],
};

for (const [end, [program, expected]] of Object.entries(ENDS)) {
  test(`a hold ends with its process: ${end}`, async (t) => {
    const path = join(scratch(t), 'state.json');
    const child = quietScript(t, program, path);
    assert.equal(await child.says(), 'held');
    const waiting = lock(path, { waitMs: Infinity });
    if (end.startsWith('SIG')) child.process.kill(end);
    assert.deepEqual(await child.ended, expected);
    const guard = await waiting;
    assert.equal(guard.recoveredFrom?.pid ?? child.process.pid, child.process.pid);
    await guard.release();
  });
}

test('who died with the lock is told to the next holder', async (t) => {
  const path = join(scratch(t), 'state.json');
  const other = await puppet(t);
  await other.ask({ op: 'lock', path, label: 'half done' });
  await other.kill('SIGKILL');
  const guard = lockSync(path);
  assert.deepEqual([guard.recoveredFrom.pid, guard.recoveredFrom.label], [other.pid, 'half done']);
  guard.releaseSync();
});

test('waiting keeps the process alive, holding does not', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  const waiter = script(t, WAIT, path);
  assert.equal(await waiter.says(), 'waiting');
  await guard.release();
  assert.equal(await waiter.says(), 'got it');
  assert.deepEqual(await waiter.ended, { code: 0, signal: null });
});

test('a process that waits can be ended in every way', async (t) => {
  const path = join(scratch(t), 'state.json');
  const guard = await lock(path);
  const killed = script(t, WAIT, path);
  const exits = script(t, `${WAIT} setImmediate(() => process.exit(4));`, path);
  const throws = quietScript(t, `${WAIT} setImmediate(() => { throw new Error("uncaught"); });`, path);
  const syncWaiter = script(t, 'say("waiting"); tenure.lockSync($1, { waitMs: Infinity });', path);
  for (const child of [killed, exits, throws, syncWaiter]) assert.equal(await child.says(), 'waiting');
  assert.deepEqual(await killed.kill('SIGTERM'), { code: null, signal: 'SIGTERM' });
  assert.deepEqual(await syncWaiter.kill('SIGTERM'), { code: null, signal: 'SIGTERM' });
  assert.deepEqual(await exits.ended, { code: 4, signal: null });
  assert.deepEqual(await throws.ended, { code: 1, signal: null });
  await guard.release();
  await (await lock(path, { waitMs: 0 })).release();
});

test('process.exit inside the function of an update changes nothing and frees the lock', async (t) => {
  const document = new Document(join(scratch(t), 'state.json'));
  document.setSync({ n: 1 });
  for (const verb of ['update', 'updateSync']) {
    const program = `await new tenure.Document($1).${verb}((state) => { state.n = 2; process.exit(5); });`;
    assert.deepEqual(await script(t, program, document.path).ended, { code: 5, signal: null });
    assert.equal(document.updateSync(() => {}, { waitMs: PATIENCE_MS }).changed, false);
    assert.deepEqual(document.readSync().value, { n: 1 });
  }
});

test('a guard that nobody refers to any more still holds', async (t) => {
  const path = join(scratch(t), 'state.json');
  const program = `
    await tenure.lock($1);
    for (let n = 0; n < 5; n++) { globalThis.gc(); await new Promise(setImmediate); }
    say(await tenure.tryLock($1) === null ? "still held" : "lost");`;
  const child = script(t, `import v8 from 'node:v8'; import vm from 'node:vm'; v8.setFlagsFromString('--expose-gc'); globalThis.gc = vm.runInNewContext('gc'); ${program}`, path);
  assert.equal(await child.says(), 'still held');
});
