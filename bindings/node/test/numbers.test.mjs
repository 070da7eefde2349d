import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Document } from '../index.mjs';
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
