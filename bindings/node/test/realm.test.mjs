// The package in a second realm: its modules run in a context with intrinsics of their own, as test runners
// load them, while the addon makes its errors in the first.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';
import { lockSync } from '../index.mjs';
import { PACKAGE, scratch } from './child.mjs';

/** Globals that a realm does not have by itself. */
const HOST = { Buffer, URL, clearInterval, clearTimeout, performance, process, setImmediate, setInterval, setTimeout };

/** Loads a CommonJS module, and what it requires by a relative path, in a realm of its own. */
function inRealm() {
  const context = vm.createContext({ ...HOST });
  const loaded = new Map();
  const load = (file) => {
    if (loaded.has(file)) return loaded.get(file).exports;
    const outer = createRequire(file);
    const module = { exports: {} };
    loaded.set(file, module);
    const inner = (name) => (name.startsWith('.') && !name.endsWith('.node') ? load(outer.resolve(name)) : outer(name));
    const text = readFileSync(file, 'utf8');
    const options = { filename: file, parsingContext: context };
    vm.compileFunction(text, ['module', 'exports', 'require', '__filename', '__dirname'], options)(
      module, module.exports, inner, file, dirname(file),
    );
    return module.exports;
  };
  return { load: (name) => load(join(PACKAGE, name)), Error: vm.runInContext('Error', context), context };
}

test('errors of another realm have their codes and fields', async (t) => {
  const path = join(scratch(t), 'target');
  const realm = inRealm();
  const { Document, TenureError, lock, lockSync: lockThere } = realm.load('index.cjs');
  const guard = lockSync(path, { label: 'here' });
  for (const act of [() => lock(path, { waitMs: 0 }), async () => lockThere(path, { waitMs: 0 })]) {
    await assert.rejects(act(), (error) => {
      assert.equal(error.code, 'busy');
      assert.equal(error.holder.label, 'here');
      assert.ok(error instanceof TenureError && error instanceof realm.Error);
      return true;
    });
  }
  guard.releaseSync();
  writeFileSync(path, '{');
  assert.throws(() => new Document(path).readSync(), { code: 'damaged', name: 'TenureError' });
  await assert.rejects(new Document(path).read(), { code: 'damaged' });
});

test('drop-ins in another realm have the codes of their originals', async (t) => {
  const path = join(scratch(t), 'file.jsonl');
  writeFileSync(path, '');
  const realm = inRealm();
  const lockfile = realm.load('compat/proper-lockfile.cjs');
  const { acquireSessionWriteLock } = realm.load('compat/session-write-lock.cjs');
  const guard = lockSync(path);
  await assert.rejects(lockfile.lock(path), { code: 'ELOCKED' });
  assert.throws(() => lockfile.lockSync(path), { code: 'ELOCKED' });
  await assert.rejects(acquireSessionWriteLock({ sessionFile: path, timeoutMs: 5 }), /session file locked/);
  guard.releaseSync();
  mkdirSync(`${path}.lock`);
  await assert.rejects(lockfile.lock(path), { code: 'ELOCKED' });
});

test('values of another realm are taken as what they are', async (t) => {
  const dir = scratch(t);
  const realm = inRealm();
  const { Document, lock } = realm.load('index.cjs');
  const text = (code) => vm.runInContext(code, realm.context);
  await (await lock(Buffer.from(join(dir, 'a')))).release();
  await (await lock(pathToFileURL(join(dir, 'a')))).release();
  const document = new Document(join(dir, 'doc.json'));
  // What comes from outside has the prototypes of outside.
  document.setSync({ a: [1, { b: null }], c: text('({ d: [2] })') });
  assert.equal(JSON.stringify(document.readSync().value), '{"a":[1,{"b":null}],"c":{"d":[2]}}');
  assert.throws(() => document.setSync({ a: new Map() }), { code: 'invalid' });
  const stop = new Error('stop');
  assert.throws(() => document.updateSync(() => { throw stop; }), (error) => error === stop);
  await assert.rejects(document.update(async () => { throw stop; }), (error) => error === stop);
});
