// A document and a journal changed in one call.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { Document, Journal, lock, updateAndAppend, updateAndAppendSync } from '../index.mjs';
import { scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

function open(t) {
  const dir = scratch(t);
  return [new Document(join(dir, 'state.json')), new Journal(join(dir, 'log.jsonl'))];
}

/** Both ways to call it. */
const CALLS = { updateAndAppend, updateAndAppendSync: async (...args) => updateAndAppendSync(...args) };

for (const [name, call] of Object.entries(CALLS)) {
  test(`${name}: both are changed, and told of`, async (t) => {
    const [document, journal] = open(t);
    const { written, appended } = await call(document, (state) => void state.n++, journal, ['one', { two: 2 }], {
      init: { n: 0 },
      header: { v: 1 },
    });
    assert.deepEqual([written.changed, written.version], [true, document.versionSync()]);
    assert.deepEqual([appended.first, appended.last, appended.replayed], [1, 2, false]);
    await call(document, (state) => ({ ...state, m: 1 }), journal, 'one line');
    assert.deepEqual(document.readSync().value, { n: 1, m: 1 });
    assert.deepEqual(journal.readSync().map(({ line }) => line), ['one', '{"two":2}', 'one line']);
  });

  test(`${name}: what is refused changes neither`, async (t) => {
    const [document, journal] = open(t);
    const { version } = await document.set({ n: 1 });
    await document.set({ n: 2 });
    const mine = new RangeError('mine');
    const add = (state) => void state.n++;
    const fail = () => {
      throw mine;
    };
    await assert.rejects(call(document, fail, journal, 'x'), (error) => error === mine);
    await assert.rejects(call(document, add, journal, 'x', { ifVersion: version }), code('conflict'));
    await assert.rejects(call(document, add, journal, 'x', { fence: 5 }), code('fenced'));
    await assert.rejects(call(document, add, journal, ['no json'], { json: true }), code('invalid'));
    await assert.rejects(call(document, add, journal, 'two\nlines'), code('invalid'));
    await assert.rejects(call(document, add, journal, [new Map()]), code('invalid'));
    await assert.rejects(call(document, () => new Map(), journal, 'x'), code('invalid'));
    await assert.rejects(call(document, add, new Journal(document.path), 'x'), code('invalid'));
    await assert.rejects(call(document, add, journal, 'x', { limit: 1 }), code('invalid'));
    await assert.rejects(call(journal, add, document, 'x'), code('invalid'));
    await assert.rejects(call(document, 5, journal, 'x'), code('invalid'));
    const guard = await lock(journal.path);
    await assert.rejects(call(document, add, journal, 'x', { waitMs: 0 }), code('busy'));
    const proof = { guards: [{ target: journal.path, fence: guard.fence }], waitMs: 0 };
    await call(document, add, journal, 'proven', proof);
    await guard.release();
    assert.deepEqual(document.readSync().value, { n: 3 });
    assert.deepEqual(journal.readSync().map(({ line }) => line), ['proven']);
    const missing = new Document(`${document.path}.missing`);
    await assert.rejects(call(missing, () => {}, journal, 'x'), code('not_found'));
    assert.equal(journal.readSync().length, 1);
  });

  test(`${name}: an operation is done once`, async (t) => {
    const [document, journal] = open(t);
    const once = () => call(document, (state) => void state.n++, journal, 'x', { init: { n: 0 }, operation: 'once' });
    const first = await once();
    const again = await once();
    assert.deepEqual([again.written.replayed, again.appended.replayed], [true, true]);
    assert.equal(again.appended.first, first.appended.first);
    assert.deepEqual(document.readSync().value, { n: 1 });
    assert.equal(journal.readSync().length, 1);
  });
}

test('calls at the same time all count, each with its entry', async (t) => {
  const [document, journal] = open(t);
  const one = () => updateAndAppend(document, async (state) => ({ n: state.n + 1 }), journal, 'x', { init: { n: 0 }, noSync: true });
  await Promise.all(Array.from({ length: 30 }, one));
  assert.deepEqual(document.readSync().value, { n: 30 });
  assert.equal(journal.readSync().length, 30);
});

test('a signal and a limit end an asynchronous one', async (t) => {
  const [document, journal] = open(t);
  const controller = new AbortController();
  const abort = () => {
    controller.abort(new RangeError('enough'));
    return new Promise(() => {});
  };
  await assert.rejects(updateAndAppend(document, abort, journal, 'x', { signal: controller.signal }), RangeError);
  const never = () => new Promise(() => {});
  await assert.rejects(updateAndAppend(document, never, journal, 'x', { maxHoldMs: 1 }), code('cancelled'));
  assert.throws(() => updateAndAppendSync(document, async () => ({}), journal, 'x'), code('invalid'));
  assert.deepEqual([document.readSync(), journal.readSync()], [undefined, []]);
});
