import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Collection, Document, Journal } from '../index.mjs';
import { scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

function containing(t, text) {
  const path = join(scratch(t), 'state.json');
  writeFileSync(path, text);
  return new Document(path);
}

const EXACT = ['0', '-0', '1', '1.0', '1.50', '0.1', '1e3', '1E+2', '123456789012345', '9007199254740991', '1e21', '5e-324', '0.30000000000000004', '100000000000000000000'];
const INEXACT = ['9007199254740993', '-9007199254740993', '12345678901234567890', '1e400', '0.1000000000000000055511151231257827', '3.14159265358979323846'];

for (const literal of EXACT) {
  test(`${literal} fits and survives`, async (t) => {
    const document = containing(t, `{"x": ${literal}, "n": 0}`);
    await document.update((state) => void state.n++);
    const { x, n } = document.readSync().value;
    assert.ok(x === Number(literal) && n === 1); // The sign of zero is not kept: JSON.stringify drops it.
  });
}

for (const literal of INEXACT) {
  test(`${literal} would be damaged and is refused`, async (t) => {
    const document = containing(t, `{"x": ${literal}, "n": 0}`);
    const before = readFileSync(document.path, 'utf8');
    await assert.rejects(document.read(), code('invalid'));
    await assert.rejects(document.update((state) => void state.n++), code('invalid'));
    assert.throws(() => document.updateSync((state) => void state.n++), code('invalid'));
    assert.equal(readFileSync(document.path, 'utf8'), before);
    assert.equal(document.readSync({ numbers: 'lossy' }).value.x, Number(literal));
    assert.equal(document.readSync({ numbers: 'lossy' }).text, before);
  });
}

test('a merge does not look at the numbers it leaves alone', async (t) => {
  const document = containing(t, '{"x": 12345678901234567890, "n": 0}');
  await document.merge({ n: 1 });
  assert.match(readFileSync(document.path, 'utf8'), /"x": ?12345678901234567890/);
});

test('whole numbers can be BigInts, in both directions', async (t) => {
  const document = containing(t, '{"x": 12345678901234567890, "small": 5, "text": "12345678901234567890"}');
  const { value } = await document.read({ numbers: 'bigint' });
  assert.deepEqual(value, { x: 12345678901234567890n, small: 5, text: '12345678901234567890' });
  await document.update((state) => void state.x++, { numbers: 'bigint' });
  assert.match(readFileSync(document.path, 'utf8'), /12345678901234567891/);
  await document.set({ big: 2n ** 70n });
  assert.equal(document.readSync({ numbers: 'bigint' }).value.big, 2n ** 70n);
  await assert.rejects(containing(t, '[1e400, 1]').read({ numbers: 'bigint' }), code('invalid'));
});

test('a document can say once how its numbers are read', async (t) => {
  const { path } = containing(t, '{"x": 12345678901234567890}');
  const document = new Document(path, { numbers: 'bigint' });
  assert.equal((await document.read()).value.x, 12345678901234567890n);
  assert.equal(document.readSync({ numbers: 'lossy' }).value.x, 12345678901234567890);
  await document.update((state) => void state.x++);
  document.updateSync((state) => void state.x++);
  assert.match(readFileSync(path, 'utf8'), /12345678901234567892/);
  const sessions = new Collection(scratch(t), { numbers: 'lossy' });
  await sessions.document('k').updateText(() => '12345678901234567890');
  assert.equal(sessions.document('k').readSync().value, 12345678901234567890);
  assert.throws(() => new Document(path, { numbers: 'guess' }), code('invalid'));
});

test('text that looks like our own mark stays text', async (t) => {
  const odd = ['\u0000tenure.integer:5', '\u0000tenure.integer:\u0000tenure.integer:6', '"\\', '1e400'];
  const document = containing(t, '{}');
  await document.set([...odd, 2n ** 64n]);
  assert.deepEqual(document.readSync({ numbers: 'bigint' }).value, [...odd, 2n ** 64n]);
  await document.set(odd);
  assert.deepEqual(document.readSync().value, odd);
});

test('what JSON cannot say is refused, not turned into null', async (t) => {
  const document = containing(t, '{"n":1}');
  const cyclic = {};
  cyclic.self = cyclic;
  const throwing = {
    toJSON() {
      throw new RangeError('mine');
    },
  };
  for (const value of [NaN, Infinity, { a: [-Infinity] }, undefined, () => {}, Symbol('x'), cyclic, throwing]) {
    await assert.rejects(document.set(value), code('invalid'));
    assert.throws(() => document.setSync(value), code('invalid'));
    if (value !== undefined) await assert.rejects(document.update(() => value), code('invalid'));
  }
  await assert.rejects(document.set('\ud800'), code('invalid'));
  assert.deepEqual(document.readSync().value, { n: 1 });
  await document.set({ a: null, b: 'null' });
  assert.deepEqual(document.readSync().value, { a: null, b: 'null' });
});

/** What JSON.stringify would silently leave out, empty or take to pieces, and what is said of it. */
const LOST = [
  [{ a: { b: () => {} } }, '`/a/b`: a function is no JSON value'],
  [[1, { x: Symbol('s') }], '`/1/x`: a symbol is no JSON value'],
  [{ seen: new Map([[1, 2]]) }, '`/seen`: JSON has nothing like a Map; make an object of it with Object.fromEntries'],
  [{ 'a/b~c': new Set([1]) }, '`/a~1b~0c`: JSON has nothing like a Set; spread it into an array'],
  [[1, undefined], '`/1`: undefined has no place in an array; write null'],
  [{ list: [[0], [, 1]] }, '`/list/1/0`: undefined has no place in an array; write null'],
  [{ later: Promise.resolve(1) }, '`/later`: JSON has nothing like a Promise; await it first'],
  [{ bytes: new Uint8Array(2) }, '`/bytes`: JSON has nothing like bytes; write them as text or as an array'],
  [{ error: new Error('x') }, '`/error`: JSON has nothing like an Error; write its message'],
  [[/x/], '`/0`: JSON has nothing like a RegExp; write its source'],
  [{ same: [1], deep: { same: [NaN] } }, '`/deep/same/0`: NaN is no JSON number'],
  [{ n: new Number(Infinity) }, '`/n`: Infinity is no JSON number'],
  [new Map(), 'the value: JSON has nothing like a Map; make an object of it with Object.fromEntries'],
  [undefined, 'the value: undefined is no JSON value'],
];

test('what would be lost on the way to JSON is refused, and its place is named', async (t) => {
  const document = containing(t, '{"n":1}');
  const journal = new Journal(join(scratch(t), 'log.jsonl'));
  for (const [value, why] of LOST) {
    const refused = { code: 'invalid', message: `failed to write JSON: ${why}` };
    await assert.rejects(document.set(value), refused);
    assert.throws(() => document.setSync(value), refused);
    await assert.rejects(document.merge(value), refused);
    assert.throws(() => journal.appendSync([value instanceof Uint8Array ? [value] : value]), refused);
    if (value === undefined) continue;
    await assert.rejects(document.update(() => value), refused);
    await assert.rejects(document.update((state) => state, { init: value }), refused);
  }
  assert.deepEqual(document.readSync().value, { n: 1 });
  assert.deepEqual(await journal.read(), []);
});

test('what JSON.stringify does well stays as it is', async (t) => {
  class Point {
    constructor() {
      this.x = 1;
      this.gone = undefined;
    }
  }
  const shared = { s: 1 };
  const values = [
    [{ a: undefined, b: 1 }, { b: 1 }],
    [{ point: new Point() }, { point: { x: 1 } }],
    [{ at: new Date(0) }, { at: '1970-01-01T00:00:00.000Z' }],
    [{ b: Buffer.from('x') }, { b: { type: 'Buffer', data: [120] } }],
    [Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    [[shared, shared, { shared }], [{ s: 1 }, { s: 1 }, { shared: { s: 1 } }]],
    [{ n: new Number(5), t: new String('x'), b: Object(1n) }, { n: 5, t: 'x', b: 1 }],
    [{ of: new Map([['k', 1]]), toJSON() { return Object.fromEntries(this.of); } }, { k: 1 }],
    [{ null: null, list: [null] }, { null: null, list: [null] }],
  ];
  const document = containing(t, '{}');
  for (const [value, expected] of values) {
    await document.set(value);
    assert.deepEqual(document.readSync().value, expected);
  }
});

test('the key __proto__ is a key like any other', async (t) => {
  const document = containing(t, '{"__proto__": {"polluted": true}, "n": 12345678901234567890}');
  await document.update((state) => void (state.m = 1), { numbers: 'bigint' });
  const { value } = document.readSync({ numbers: 'bigint' });
  assert.equal(value.polluted, undefined);
  assert.equal({}.polluted, undefined);
  assert.deepEqual(Object.keys(value), ['__proto__', 'n', 'm']);
  assert.deepEqual(Object.getOwnPropertyDescriptor(value, '__proto__').value, { polluted: true });
});

test('race 37: keys keep their order, also those that look like numbers', async (t) => {
  const document = containing(t, '{"b": 1, "10": {"z": 1, "2": 2, "1": 3}, "a": 2, "9": 3}');
  await document.update((state) => {
    state.new = 1;
    state['5'] = 1;
    delete state.a;
  });
  const text = readFileSync(document.path, 'utf8');
  const keys = [...text.matchAll(/"(\w+)":/g)].map(([, key]) => key);
  assert.deepEqual(keys, ['b', '10', 'z', '2', '1', '9', '5', 'new']);
});

test('the deepest document crosses on every path', async (t) => {
  const deep = (levels) => '['.repeat(levels) + ']'.repeat(levels);
  const document = containing(t, deep(127));
  await document.update((state) => [state[0]]);
  document.updateSync((state) => [state[0]]);
  await assert.rejects(document.set(JSON.parse(deep(128))), code('invalid'));
  await assert.rejects(containing(t, deep(128)).read(), code('damaged'));
});

test('a large document crosses whole', async (t) => {
  const document = containing(t, '{}');
  const large = { text: 'x'.repeat(20 << 20), list: Array.from({ length: 100_000 }, (_, n) => n) };
  await document.set(large, { noSync: true });
  await document.update((state) => void (state.n = 1), { noSync: true });
  const { value } = await document.read();
  assert.equal(value.text.length, 20 << 20);
  assert.equal(value.n, 1);
});
