// Whatever a caller passes: a typed error, never a crash of node.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { Collection, Document, Guard, Journal, Lease, Lock, Queue, TenureError, lock, lockSync, tryLock, withLock } from '../index.mjs';
import { scratch } from './child.mjs';

const code = (expected) => (error) => error instanceof TenureError && error.code === expected;
const invalid = code('invalid');

const NO_PATHS = [undefined, null, 5, 5n, true, {}, [], Symbol('x'), () => {}, '', 'a\0b', '\ud800', Buffer.alloc(0), Buffer.from('a\0b')];

test('what is no path is refused', async () => {
  for (const path of NO_PATHS) {
    assert.throws(() => new Document(path), invalid);
    assert.throws(() => new Journal(path), invalid);
    assert.throws(() => new Lease(path), invalid);
    assert.throws(() => new Collection(path), invalid);
    assert.throws(() => lockSync(path), invalid);
    await assert.rejects(lock(path), invalid);
  }
  assert.throws(() => new Document(new URL('http://example.org/')), invalid);
});

test('a path may be bytes that are not UTF-8, or a URL', async (t) => {
  const dir = scratch(t);
  const name = Buffer.concat([Buffer.from(dir), Buffer.from([0x2f, 0xff, 0xfe])]);
  await new Document(name).set({ n: 1 });
  assert.ok(existsSync(name));
  const guard = await lock(name);
  assert.throws(() => lockSync(name), code('deadlock'));
  await guard.release();
  const url = pathToFileURL(join(dir, 'a b.json'));
  await new Document(url).set(1);
  assert.ok(existsSync(url));
});

test('wrong options are refused, and so are unknown ones', async (t) => {
  const path = join(scratch(t), 'state.json');
  const document = new Document(path);
  const wrong = [
    null, 5, 'x', [], { fense: 1 }, { waitMs: -1 }, { waitMs: NaN }, { waitMs: '10s' }, { label: 5 }, { fence: -1 },
    { fence: 1.5 }, { fence: 2 ** 53 }, { fence: 2n ** 64n }, { fence: '1' }, { guards: {} }, { guards: [5] },
    { guards: [{ target: path }] }, { lockFile: 5 }, { allowNetwork: 1 }, { signal: {} }, { signal: 'x' },
  ];
  for (const options of wrong) {
    await assert.rejects(lock(path, options), invalid, JSON.stringify(options, (_, v) => String(v)));
    if (!Object.hasOwn(Object(options), 'waitMs')) await assert.rejects(tryLock(path, options), invalid);
    await assert.rejects(new Lock(path).acquire(options), invalid);
    await assert.rejects(document.set(1, options), invalid);
    await assert.rejects(document.compareAndSet('1-1', 1, options), invalid);
    await assert.rejects(new Journal(path).append('x', options), invalid);
  }
  await assert.rejects(lock(path, { reentrant: true }), invalid);
  await assert.rejects(lock(path, { maxHold: {} }), invalid);
  await assert.rejects(lock(path, { maxHold: { afterMs: 5, report: 5 } }), invalid);
  await assert.rejects(document.read({ numbers: 'guess' }), invalid);
  await assert.rejects(document.update(5), invalid);
  await assert.rejects(withLock(path), invalid);
  await assert.rejects(withLock(path, () => {}, { waitMs: 0 }), invalid);
  assert.throws(() => lockSync(path, { signal: AbortSignal.abort() }), invalid);
  assert.throws(() => new Guard({}), invalid);
  await assert.rejects(document.set(1, { operation: Symbol('x') }), invalid);
  assert.equal(await document.read(), undefined);
});

test('a constructor takes no option that it would ignore', (t) => {
  const path = join(scratch(t), 'x');
  for (const Thing of [Document, Journal, Lease, Lock, Collection]) {
    const message = /^failed to read the options: there is no option "fense" here; the options are (\w+, )*store$/;
    assert.throws(() => new Thing(path, { fense: 1 }), { code: 'invalid', message });
    assert.throws(() => new Thing(path, 5), invalid);
    new Thing(path, {});
    new Thing(path, undefined);
  }
});

test('an unknown option is answered with the one meant', async (t) => {
  const dir = scratch(t);
  const path = join(dir, 'state.json');
  const [document, queue, target] = [new Document(path), new Queue(join(dir, 'tasks')), new Lease(path)];
  const journal = new Journal(join(dir, 'log.jsonl'));
  const calls = [
    ['waitMs', (options) => lockSync(path, options), 'timeout', 'timeoutMs', 'wait', 'wait_ms', 'WaitMS', 'waitMS', 'blocking', 'waitms'],
    ['maxHold', (options) => lockSync(path, options), 'ttl', 'ttlMs', 'maxHoldMs', 'max_hold'],
    ['label', (options) => lockSync(path, options), 'lable', 'name'],
    ['shared', (options) => lockSync(path, options), 'exclusive', 'share'],
    ['operation', (options) => document.setSync(1, options), 'op_id', 'opId', 'operationId', 'idempotencyKey', 'operations'],
    ['noSync', (options) => document.setSync(1, options), 'sync', 'no_sync', 'durable'],
    ['guards', (options) => document.setSync(1, options), 'guard', 'fences'],
    ['ifVersion', (options) => document.setSync(1, options), 'version', 'if_version', 'etag'],
    ['init', (options) => document.updateSync(() => 1, options), 'default', 'initial', 'inti'],
    ['union', (rules) => document.mergeSync({}, { rules }), 'unions'],
    ['header', (options) => journal.appendSync('x', options), 'headers'],
    ['ttlMs', (options) => target.acquireSync(options), 'ttl', 'ttl_ms', 'expires'],
    ['ttlMs', (options) => queue.nextSync(options), 'ttl'],
    ['delayMs', (options) => queue.failSync('a', 'b', options), 'delay'],
    ['maxAgeMs', (options) => queue.pruneSync(options), 'maxAge', 'max_age'],
  ];
  for (const [meant, call, ...names] of calls) {
    for (const name of names) {
      const message = `failed to read the options: there is no option "${name}" here; did you mean "${meant}"?`;
      assert.throws(() => call({ [name]: 1 }), { code: 'invalid', message });
    }
  }
  await assert.rejects(document.update(() => 1, { maxHold: 1 }), /did you mean "maxHoldMs"\?/);
  await assert.rejects(lock(path, { abortSignal: 1 }), /did you mean "signal"\?/);
  for (const name of ['quux', 'x', '', '__proto__', 'constructor', 'y'.repeat(10_000)]) {
    const given = Object.defineProperty({}, name, { value: 1, enumerable: true });
    assert.throws(() => lockSync(path, given), { code: 'invalid', message: /here; the options are allowNetwork, .*waitMs/ });
  }
  assert.equal(document.readSync(), undefined);
});

/** What is passed, and what is said of it. */
const QUOTED = {
  path: [() => lockSync(5), 'failed to read path: it must be a string, a Buffer or a file: URL, not 5'],
  nothing: [() => lockSync(null), 'failed to read path: it must be a string, a Buffer or a file: URL, not null'],
  nul: [() => new Document('a\0b'), "failed to read path: it must be a name without NUL or half a character, not 'a\\x00b'"],
  time: [() => lockSync('x', { waitMs: '10s' }), "failed to read waitMs: it must be a number of milliseconds, not '10s'"],
  flag: [() => lockSync('x', { shared: 'yes' }), "failed to read shared: it must be true or false, not 'yes'"],
  text: [() => lockSync('x', { label: ['a', { b: 1 }] }), "failed to read label: it must be a string, not [ 'a', { b: 1 } ]"],
  fence: [() => lockSync('x', { fence: -1 }), 'failed to read fence: it must be a whole number from 0 to 2^53 - 1, not -1'],
  choice: [() => new Collection('x', { kind: 'things' }), "failed to read kind: it must be one of documents, journals, not 'things'"],
  guard: [() => new Document('x').setSync(1, { guards: [7] }), 'failed to read guards: a guard is { target, fence }, not 7'],
  options: [() => lockSync('x', 'now'), "failed to read the options: they must be an object, not 'now'"],
  long: [() => lockSync('x', { label: { text: 'y'.repeat(1000) } }), /not \{ text: 'y{30,60}\.\.\.$/],
  callback: [() => new Document('x').updateSync(5), 'failed to read the function: it must be a function, not 5'],
};

for (const [what, [act, message]] of Object.entries(QUOTED)) {
  test(`the message about a wrong ${what} quotes it`, () => assert.throws(act, { code: 'invalid', message }));
}

test('options whose getters throw or lie do no harm', async (t) => {
  const path = join(scratch(t), 'state.json');
  const options = {
    get label() {
      throw new RangeError('mine');
    },
  };
  await assert.rejects(lock(path, options), RangeError);
  assert.throws(() => lockSync(path, options), RangeError);
  await assert.rejects(new Journal(path).append([new Proxy([], { get: () => { throw new RangeError('mine'); } })]), (error) => error instanceof Error);
  await (await lock(path, { waitMs: 0 })).release();
});

test('methods on things that are none are refused', async () => {
  assert.throws(() => Document.prototype.readSync.call({}), TypeError);
  await assert.rejects(async () => Journal.prototype.append.call({}, 'x'), TypeError);
});

test('targets that cannot be used', async (t) => {
  const dir = scratch(t);
  mkdirSync(join(dir, 'directory'));
  symlinkSync('loop', join(dir, 'loop'));
  writeFileSync(join(dir, 'file'), '{}');
  writeFileSync(join(dir, 'nul.json'), Buffer.alloc(100));
  const typed = (error) => error instanceof TenureError && error.path !== null;
  await assert.rejects(new Document(join(dir, 'directory')).read(), typed);
  await assert.rejects(new Document(join(dir, 'directory')).set(1), typed);
  await assert.rejects(async () => new Document(join(dir, 'loop')).set(1), typed);
  await assert.rejects(async () => new Document(join(dir, 'file', 'below')).set(1), typed);
  await assert.rejects(new Document(join(dir, 'nul.json')).read(), code('damaged'));
  await assert.rejects(async () => lock(join(dir, 'x'.repeat(300))), typed);
  await assert.rejects(async () => new Journal(join(dir, 'directory')).append('x'), typed);
});

test('a function that does odd things under the lock', async (t) => {
  const document = new Document(join(scratch(t), 'state.json'));
  document.setSync({ n: 1 });
  // Itself, sync: a deadlock is told at once. Itself, async: it waits, and ends by its own deadline.
  assert.throws(() => document.updateSync(() => document.setSync(2)), code('deadlock'));
  await assert.rejects(document.update(() => document.set(2, { waitMs: 20 })), code('busy'));
  await assert.rejects(document.update(() => document.setSync(2)), code('deadlock'));
  assert.throws(() => document.updateSync(async () => ({ n: 2 })), invalid);
  const thenable = { then: (resolve) => resolve({ n: 3 }) };
  await document.update(() => thenable);
  assert.deepEqual(document.readSync().value, { n: 3 });
});
