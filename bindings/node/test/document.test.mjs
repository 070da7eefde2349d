import assert from 'node:assert/strict';
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Journal, lock, updateAndAppend, updateAndAppendSync } from '../index.mjs';
import { puppet, scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;
const open = (t, name = 'state.json') => new Document(join(scratch(t), name));

test('a document that is not there reads as undefined, and reading creates nothing', async (t) => {
  const document = open(t);
  assert.equal(await document.read(), undefined);
  assert.equal(document.readSync(), undefined);
  assert.equal(await document.version(), undefined);
  assert.throws(() => statSync(document.path), { code: 'ENOENT' });
});

test('set, read and version agree, async and sync', async (t) => {
  const document = open(t);
  const written = await document.set({ a: 1 });
  assert.deepEqual([written.changed, written.replayed], [true, false]);
  const found = await document.read();
  assert.deepEqual([found.value, found.version, found.repaired], [{ a: 1 }, written.version, false]);
  assert.equal(found.text, readFileSync(document.path, 'utf8'));
  assert.equal(document.versionSync(), written.version);
  assert.equal(document.setSync({ a: 1 }).changed, false);
  assert.equal(statSync(document.path).mode & 0o777, 0o600);
});

test('an update returns the new document, or changes the one it is given', async (t) => {
  const document = open(t);
  await document.update((state) => ({ n: state.n + 1 }), { init: { n: 0 } });
  await document.update((state) => void state.n++);
  await document.update(async (state) => {
    await new Promise(setImmediate);
    return { ...state, n: state.n + 1 };
  });
  document.updateSync((state) => {
    state.n++;
  });
  assert.deepEqual(document.readSync().value, { n: 4 });
  assert.equal((await document.update(() => {})).changed, false);
});

const BOTH = [
  (state) => state.list.push(1), // The length.
  (state) => state.list.pop() ?? null,
  (state) => delete state.list,
  (state) => {
    state.list.push(1);
    return { ...state, count: state.list.length };
  },
  (state) => {
    state.list = new Map();
    return { n: 1 };
  },
  (state) => {
    state.self = state;
    return { n: 1 };
  },
];

test('a function that changes its argument and returns something else is refused', async (t) => {
  const document = open(t);
  const journal = new Journal(`${document.path}l`);
  const refusal = (error) =>
    code('invalid')(error) && error.committed === false && error.path === document.path &&
    /changed its argument and returned something else/.test(error.message) && /`edit`/.test(error.hint);
  const init = { list: [1, 2] };
  for (const compute of BOTH) {
    await assert.rejects(document.update(compute, { init }), refusal);
  }
  const { version } = await document.set(init);
  for (const compute of BOTH) {
    await assert.rejects(document.update(compute), refusal, String(compute));
    await assert.rejects(document.update(async (state) => compute(state)), refusal);
    assert.throws(() => document.updateSync(compute), refusal);
    await assert.rejects(updateAndAppend(document, compute, journal, 'x'), refusal);
    assert.throws(() => updateAndAppendSync(document, compute, journal, 'x'), refusal);
  }
  assert.equal(document.versionSync(), version);
  assert.deepEqual(journal.readSync(), []);
  await document.edit((state) => state.list.push(1));
  assert.deepEqual(document.readSync().value, { list: [1, 2, 1] });
});

test('a function that returns its argument, an equal value, or a new one without changing the old is no such mistake', async (t) => {
  const document = open(t);
  // Not as JSON.stringify writes it: numbers, escapes, and keys that JavaScript moves.
  const text = '{ "b": 1.0, "10": -0, "2": 1e2, "a": "\\u0041", "list": [12345678901234567890] }\n';
  const functions = [
    (state) => state,
    (state) => void state.list.push(1),
    (state) => {
      state.list.push(1);
      return state;
    },
    (state) => {
      state.list.push(1);
      return { ...state };
    },
    (state) => ({ ...state, n: 1 }),
    (state) => state.list,
    (state) => state.list.length,
    () => null,
  ];
  for (const compute of functions) {
    for (const numbers of ['bigint', 'lossy']) {
      writeFileSync(document.path, text);
      await document.update(compute, { numbers });
      writeFileSync(document.path, text);
      document.updateSync(compute, { numbers });
    }
  }
  await document.set(5);
  await document.update((n) => n + 1);
  assert.equal(document.readSync().value, 6);
});

test('without a document and an init the function gets undefined, and must make one', async (t) => {
  const document = open(t);
  const missing = { code: 'not_found', path: document.path, message: /there is no document.*; give it an init/ };
  await assert.rejects(document.update((state) => state), missing);
  assert.throws(() => document.updateSync(() => {}), missing);
  await document.update((state) => ({ was: state === undefined }));
  assert.deepEqual(document.readSync().value, { was: true });
});

test('what the function throws is passed on as it is and changes nothing', async (t) => {
  const document = open(t);
  await document.set({ n: 1 });
  const version = document.versionSync();
  const mine = new RangeError('mine');
  const fail = (state) => {
    state.n = 2;
    throw mine;
  };
  await assert.rejects(document.update(fail), (error) => error === mine);
  await assert.rejects(document.update(async (state) => fail(state)), (error) => error === mine);
  assert.throws(() => document.updateSync(fail), (error) => error === mine);
  await assert.rejects(document.update(() => Promise.reject(undefined)), (error) => error === undefined);
  assert.equal(document.versionSync(), version);
  await (await lock(document.path, { waitMs: 0 })).release();
});

test('an async function that takes too long is refused and the lock is free', async (t) => {
  const document = open(t);
  await document.set({ n: 1 });
  let finish;
  const late = document.update(
    () =>
      new Promise((resolve) => {
        finish = resolve;
      }),
    { maxHoldMs: 20 },
  );
  await assert.rejects(late, (error) => error.committed === false && code('cancelled')(error));
  await document.set({ n: 2 }, { waitMs: 0 });
  assert.ok(finish, 'it was asked before it was given up');
  finish({ n: 'late' });
  await new Promise(setImmediate);
  assert.deepEqual(document.readSync().value, { n: 2 });
});

test('a signal ends an update while its function runs', async (t) => {
  const document = open(t);
  await document.set({ n: 1 });
  const controller = new AbortController();
  const update = document.update(
    () => {
      controller.abort(new RangeError('enough'));
      return new Promise(() => {});
    },
    { signal: controller.signal },
  );
  await assert.rejects(update, RangeError);
  await document.set({ n: 2 }, { waitMs: 0 });
});

test('race 20: concurrent updates of one process and of others all count', async (t) => {
  const document = open(t);
  const others = await Promise.all([puppet(t), puppet(t, '--async')]);
  const mine = Array.from({ length: 25 }, () => document.update((state) => void state.n++, { init: { n: 0 }, noSync: true }));
  const theirs = others.map((other) => other.ask({ op: 'add', path: document.path, times: 25, wait: 'forever' }));
  await Promise.all([...mine, ...theirs]);
  assert.deepEqual(document.readSync().value, { n: 75 });
});

test('a file that an outsider replaces under the update makes its function run again', async (t) => {
  const document = open(t);
  await document.set({ n: 1 });
  let runs = 0;
  document.updateSync((state) => {
    if (runs++ === 0) {
      // Not in place: that is not detected.
      const other = `${document.path}.other`;
      writeFileSync(other, '{"n":10}');
      renameSync(other, document.path);
    }
    state.n++;
  });
  assert.equal(runs, 2);
  assert.deepEqual(document.readSync().value, { n: 11 });
});

test('a change by text keeps the layout and the digits of its caller', async (t) => {
  const document = open(t);
  await document.updateText((text) => `${text}\n\n`, { init: '{"x":12345678901234567890}' });
  assert.equal(readFileSync(document.path, 'utf8'), '{"x":12345678901234567890}\n\n');
  document.updateTextSync((text) => text.trim());
  assert.equal(readFileSync(document.path, 'utf8'), '{"x":12345678901234567890}');
  await assert.rejects(document.updateText(() => '{"x":'), code('invalid'));
  await assert.rejects(document.updateText(() => 5), code('invalid'));
  assert.throws(() => document.updateTextSync(() => { throw new RangeError('mine'); }), RangeError);
  assert.equal((await document.updateText(() => {})).changed, false);
});

test('merge follows RFC 7396 and the declared rules', async (t) => {
  const document = open(t);
  await document.set({ checked: ['a'], runs: 1, gone: 1 });
  await document.merge({ checked: ['b', 'a'], runs: 2, gone: null }, { rules: { union: ['/checked'], sum: ['/runs'] } });
  assert.deepEqual(document.readSync().value, { checked: ['a', 'b'], runs: 3 });
  document.mergeSync({ runs: 1 }, { rules: { max: ['/runs'] } });
  assert.equal(document.readSync().value.runs, 3);
  await assert.rejects(document.merge({ checked: 1 }, { rules: { union: ['/checked'] } }), code('invalid'));
});

test('patch is whole or not at all, and a failed test is a conflict', async (t) => {
  const document = open(t);
  await assert.rejects(document.patch([]), code('not_found'));
  await document.set({ a: 1 });
  await document.patch([{ op: 'add', path: '/b', value: 2 }]);
  const fails = [{ op: 'remove', path: '/a' }, { op: 'test', path: '/b', value: 3 }];
  await assert.rejects(document.patch(fails), code('conflict'));
  assert.throws(() => document.patchSync([{ op: 'no such' }]), code('invalid'));
  assert.deepEqual(document.readSync().value, { a: 1, b: 2 });
});

test('a version that has passed is a conflict', async (t) => {
  const document = open(t);
  const { version } = await document.set(1);
  await document.compareAndSet(version, 2);
  await assert.rejects(document.compareAndSet(version, 3), code('conflict'));
  assert.throws(() => document.compareAndSetSync(version, 3), code('conflict'));
  await assert.rejects(document.set(3, { ifVersion: 'not a version!' }), code('invalid'));
  assert.equal(document.readSync().value, 2);
});

test('an operation is done once', async (t) => {
  const document = open(t);
  const add = () => document.update((state) => void state.n++, { init: { n: 0 }, operation: 'first' });
  assert.equal((await add()).replayed, false);
  assert.equal((await add()).replayed, true);
  assert.deepEqual(document.readSync().value, { n: 1 });
});

test('a guard of another target protects the write', async (t) => {
  const document = open(t);
  const session = join(scratch(t), 'session');
  const guard = await lock(session);
  await document.set(1, { guards: [{ target: session, fence: guard.fence }] });
  await guard.release();
  await (await lock(session)).release();
  await assert.rejects(document.set(2, { guards: [{ target: session, fence: guard.fence }] }), code('fenced'));
});

test('damaged content is an error, and restore brings the last good version back', async (t) => {
  const document = open(t);
  await document.set({ n: 1 });
  await document.set({ n: 2 });
  writeFileSync(document.path, '{"n":');
  await assert.rejects(document.read(), code('damaged'));
  await assert.rejects(document.update((state) => state), code('damaged'));
  await document.restore();
  assert.equal(typeof document.readSync().value.n, 'number');
});

test('watch sees the changes of others', async (t) => {
  const document = open(t);
  await document.set({ n: 0 });
  const other = await puppet(t);
  const changes = document.watch();
  const first = changes.next();
  // The watch may open before or after the first of these; it sees one of them.
  let done = false;
  void first.then(() => (done = true));
  for (let n = 1; !done; n++) await other.ask({ op: 'set', path: document.path, value: { n } });
  const { value } = await first;
  assert.ok(value.value.n >= 1);
  await changes.return();
});

test('a watch ends by its wait and by its signal', async (t) => {
  const document = open(t);
  await document.set({ n: 0 });
  assert.deepEqual([...document.watchSync({ waitMs: 5 })], []);
  assert.deepEqual(await document.watch({ waitMs: 5 }).next(), { value: undefined, done: true });
  const controller = new AbortController();
  const next = document.watch({ signal: controller.signal }).next();
  controller.abort(new RangeError('enough'));
  await assert.rejects(next, RangeError);
});

test('an edit changes the document and returns a result of its own', async (t) => {
  const document = open(t);
  const take = (state) => state.queue.shift();
  assert.equal(await document.edit(take, { init: { queue: ['a', 'b', 'c'] } }), 'a');
  assert.equal(await document.edit(async (state) => take(state)), 'b');
  assert.equal(document.editSync(take), 'c');
  assert.equal(document.editSync(take), undefined, 'the result may be nothing');
  assert.deepEqual((await document.read()).value, { queue: [] });
  await assert.rejects(document.edit(() => { throw new RangeError('no'); }), RangeError);
  assert.throws(() => document.editSync(async () => 1), code('invalid'));
  await assert.rejects(document.edit(take, { operation: 'id' }), code('invalid'));
  assert.deepEqual((await document.read()).value, { queue: [] }, 'errors change nothing');
});
