// Stores on real servers: the same verbs, in many processes and languages at once.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import * as tenure from '../index.mjs';
import { PACKAGE, TENURE, programOf } from './child.mjs';

const { Blob, Collection, Document, Journal, Lease, Lock, Queue, Store, lease, leaseAll, lock, lockAll, once: onceFor, status, tryLock, updateAndAppend } = tenure;
const ENGINES = ['postgres', 'etcd'];
const PYTHON = join(PACKAGE, '../python/python');

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

/** Starts a server of each kind for the test, unless the variable says to go on without it. */
function onEach(name, act) {
  for (const engine of ENGINES) {
    test(`${name} (${engine})`, async (t) => {
      if (process.env[`TENURE_WITHOUT_${engine.toUpperCase()}`]) return t.skip(`without ${engine}`);
      const server = spawn(join(dirname(TENURE), 'serve-engine'), [engine], { stdio: ['pipe', 'pipe', 'inherit'] });
      t.after(async () => {
        server.stdin.end();
        if (server.exitCode === null) await once(server, 'exit');
      });
      const lines = createInterface(server.stdout)[Symbol.asyncIterator]();
      server.stdin.write('\n');
      const { value: url } = await lines.next();
      const store = `${url}${url.includes('?') ? '&' : '?'}ttl=2s`;
      command(store, 'store', 'init');
      await act(store, t);
    });
  }
}

/** What a command prints that works on the store. */
const command = (store, ...args) =>
  execFileSync(TENURE, args, { encoding: 'utf8', env: { ...process.env, TENURE_STORE: store } });

onEach('documents, journals, leases, locks and collections', async (url) => {
  const store = Store.open(url);
  assert.match(store.name, /^(postgres|etcd):\/\//);
  assert.ok((await store.check()).some(({ what }) => what === 'server'));
  const state = new Document('state.json', { store });
  assert.equal(state.readSync(), undefined);
  await state.set({ n: 1 });
  await state.update((value) => void value.n++);
  state.updateSync((value) => void value.n++);
  assert.deepEqual((await new Document('state.json', { store: url }).read()).value, { n: 3 });
  const log = new Journal('log.jsonl', { store });
  const { first } = await log.append(['a', 'b']);
  assert.ok(Number.isSafeInteger(first) && first > 0);
  await updateAndAppend(state, (value) => void value.n++, log, 'c');
  assert.deepEqual(log.readSync().map(({ line }) => line), ['a', 'b', 'c']);
  await assert.rejects(log.rotate(), code('unsupported'));
  const guard = await lock('build', { store });
  assert.ok(guard.held);
  assert.equal(await tryLock('build', { store }), null);
  assert.equal((await status('build', { store })).holder.pid, process.pid);
  await new Document('build', { store }).set(1, { fence: guard.fence, waitMs: 0 });
  await state.set({ n: 9 }, { guards: [{ target: 'build', fence: guard.fence }] });
  await assert.rejects(
    new Document('/tmp/x.json').set(1, { guards: [{ target: `${store.name}#/build`, fence: guard.fence }] }),
    code('invalid'),
  );
  await guard.release();
  await (await new Lock('build', { store }).acquire()).release();
  await assert.rejects(lock('build', { store, shared: true }), code('unsupported'));
  const held = await lease('session', { store, ttlMs: 60_000, owner: 'me' });
  await assert.rejects(new Document('session', { store }).set(1, { waitMs: 0 }), code('busy'));
  await held.release();
  assert.equal(await new Lease('session', { store }).show(), null);
  const sessions = new Collection('sessions', { store });
  await sessions.document('A/b').set(1);
  assert.deepEqual(await sessions.keys(), ['A/b']);
  assert.equal(command(url, 'doc', 'get', 'sessions/%41%2Fb.json'), '1\n');
});

onEach('slots, several locks, queues, once and files', async (store) => {
  const slot = await lock('gpu', { store, slots: 2 });
  const all = await lockAll(['b', 'a'], { store });
  assert.deepEqual(all.guards.map(({ path }) => path), ['/a', '/b']);
  assert.equal(await tryLock('a', { store }), null);
  await all.release();
  await slot.release();
  const leases = await leaseAll(['b', 'a'], { store, ttlMs: 60_000 });
  assert.deepEqual(leases.leases.map(({ path }) => path), ['/a', '/b']);
  await leases.release();
  const queue = new Queue('tasks', { store });
  const waiting = queue.next({ ttlMs: 60_000, waitMs: Infinity, accepts: ({ n }) => n === 1 });
  command(store, 'claim', 'add', 'tasks', '{"n":1}', '--id', 'one');
  const claimed = await waiting;
  assert.deepEqual([claimed.id, claimed.task], ['one', { n: 1 }]);
  await new Document('result.json', { store }).set(1, { guards: [{ target: claimed.target, fence: claimed.fence }] });
  assert.equal(await queue.done('one', claimed.token), true);
  assert.deepEqual(await queue.prune(), ['one']);
  assert.equal(await onceFor('token', { store, ttlMs: 60_000 }, () => 5), 5);
  assert.equal(await onceFor('token', { store, ttlMs: 60_000 }, () => assert.fail('it is fresh')), 5);
  const file = new Blob('main.rs', { store });
  const { version } = await file.put('1');
  await file.put(Buffer.from([0, 255]), { ifVersion: version });
  assert.deepEqual([...(await file.get()).bytes], [0, 255]);
  await assert.rejects(file.put('2', { ifVersion: version }), code('conflict'));
});

onEach('a program below `tenure run` finds its hold', (url) => {
  const program = `
    const { Document, lock } = tenure;
    const store = process.env.TENURE_STORE;
    await new Document('deploy', { store }).set(1, { waitMs: 0 });
    await (await lock('deploy', { store, waitMs: 0 })).release();
    await new Document('/elsewhere.json', { store }).set(2, { waitMs: 0, guards: [
      { target: process.env.TENURE_TARGET, fence: Number(process.env.TENURE_FENCE) }] });`;
  command(url, 'run', 'deploy', '--', process.execPath, ...programOf(program, []));
  assert.equal(command(url, 'doc', 'get', 'elsewhere.json'), '2\n');
});

onEach('Node, Python and the command line on one store at the same time', async (url, t) => {
  const python = process.env.TENURE_PYTHON ?? 'python3';
  const env = { ...process.env, PYTHONPATH: PYTHON, TENURE_STORE: url };
  if (spawnSync(python, ['-c', 'import tenure'], { env }).status !== 0) {
    if (existsSync(join(PYTHON, 'tenure/_tenure.abi3.so'))) assert.fail('the Python package cannot be imported');
    return t.skip('the Python package is not built');
  }
  const EACH = 15;
  const counter = new Document('counter.json', { store: url });
  const log = new Journal('log.jsonl', { store: url });
  await counter.set({ n: 0 });
  const programs = [
    [python, ['-c', `
import os, tenure
store = tenure.Store.open(os.environ["TENURE_STORE"])
counter, log = tenure.Document("counter.json", store=store), tenure.Journal("log.jsonl", store=store)
for turn in range(${EACH}):
    with tenure.lock("turn", store=store) as guard:
        counter.update(lambda value: value.update(n=value["n"] + 1), guard={"turn": guard.fence})
        log.append(f"python {turn}")
`]],
    ['sh', ['-c', `for turn in $(seq 0 ${EACH - 1}); do
      "$TENURE" run turn -- sh -c '"$TENURE" doc update counter.json .n+=1 --guard turn=$TENURE_FENCE &&
        "$TENURE" journal append log.jsonl "command '$turn'"' || exit 1
    done`]],
  ];
  const others = programs.map(async ([program, args]) => {
    const child = spawn(program, args, { env: { ...env, TENURE }, stdio: ['ignore', 'inherit', 'inherit'] });
    const [status] = await once(child, 'exit');
    assert.equal(status, 0, program);
  });
  for (let turn = 0; turn < EACH; turn++) {
    const guard = await lock('turn', { store: url });
    await counter.update((value) => void value.n++, { guards: [{ target: 'turn', fence: guard.fence }] });
    await log.append(`node ${turn}`);
    await guard.release();
  }
  await Promise.all(others);
  assert.equal(counter.readSync().value.n, 3 * EACH);
  const lines = log.readSync().map(({ line }) => line);
  assert.equal(lines.length, 3 * EACH);
  for (const writer of ['node', 'python', 'command']) {
    const own = lines.filter((line) => line.startsWith(writer));
    assert.deepEqual(own, own.map((_, turn) => `${writer} ${turn}`));
  }
});

test('a store that is none is refused, and no password is shown', async () => {
  const secret = 'geheim';
  for (const [given, expected] of [
    ['redis://a/b', 'invalid'],
    [`postgres://me:${secret}/x@host/db`, 'invalid'],
    [7, 'invalid'],
    [{}, 'invalid'],
  ]) {
    assert.throws(() => new Document('x', { store: given }), (error) => code(expected)(error) && !error.message.includes(secret));
  }
  const gone = `postgres://me:${secret}@127.0.0.1:1/db`;
  assert.doesNotMatch(Store.open(gone).name, new RegExp(secret));
  await assert.rejects(new Document('x', { store: gone }).read(), (error) => code('io')(error) && !error.message.includes(secret));
});

test('the environment does not choose the store of a program', () => {
  process.env.TENURE_STORE = 'postgres://127.0.0.1:1/db';
  try {
    assert.equal(new Document('/no-such-file.json').readSync(), undefined);
  } finally {
    delete process.env.TENURE_STORE;
  }
});
