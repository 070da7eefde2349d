// Files that are not JSON.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Blob, lock } from '../index.mjs';
import { TENURE, scratch } from './child.mjs';

const code = (expected) => (error) => error.name === 'TenureError' && error.code === expected;

test('a file is replaced as a whole, to the byte', async (t) => {
  const path = join(scratch(t), 'main.rs');
  const file = new Blob(path);
  assert.equal(file.path, path);
  assert.equal(await file.get(), undefined);
  assert.equal(file.versionSync(), undefined);
  const bytes = Buffer.from([0, 255, 10, 13, 128]);
  const written = await file.put(bytes);
  assert.equal(written.changed, true);
  assert.deepEqual(readFileSync(path), bytes);
  assert.deepEqual(await file.get(), { bytes, version: written.version });
  assert.equal(await file.version(), written.version);
  assert.equal((await file.put(bytes)).changed, false);
  file.putSync('text\n');
  assert.equal(file.getSync().bytes.toString(), 'text\n');
  assert.equal(execFileSync(TENURE, ['file', 'get', path], { encoding: 'utf8' }), 'text\n');
});

test('a replacement is guarded by a version and by fences', async (t) => {
  const dir = scratch(t);
  const file = new Blob(join(dir, 'a.txt'));
  const { version } = await file.put('1');
  await file.put('2', { ifVersion: version });
  await assert.rejects(file.put('3', { ifVersion: version }), code('conflict'));
  const target = join(dir, 'session');
  const guard = await lock(target);
  const guards = [{ target, fence: guard.fence }];
  await file.put('4', { guards });
  await guard.release();
  assert.throws(() => file.putSync('5', { guards }), code('fenced'));
  assert.equal((await file.get()).bytes.toString(), '4');
});

test('an undo publishes the content from before, and a second one redoes', async (t) => {
  const file = new Blob(join(scratch(t), 'a.txt'));
  await assert.rejects(file.undo(), code('not_found'));
  await file.put('1');
  await file.put('2');
  await file.undo();
  assert.equal((await file.get()).bytes.toString(), '1');
  file.undoSync();
  assert.equal((await file.get()).bytes.toString(), '2');
});

test('wrong arguments are refused', async (t) => {
  const file = new Blob(join(scratch(t), 'a.txt'));
  for (const content of [undefined, null, 5, {}, [1]]) await assert.rejects(file.put(content), code('invalid'));
  await assert.rejects(file.put('x', { noSync: true }), code('invalid'));
  assert.equal(await file.get(), undefined);
});
