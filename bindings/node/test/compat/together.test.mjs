// Several drop-ins in one process: they know of each other.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import lockfile from '../../compat/proper-lockfile.cjs';
import { acquireSessionWriteLock } from '../../compat/session-write-lock.cjs';
import writeFileAtomic from '../../compat/write-file-atomic.cjs';
import { Child, PACKAGE, isFree, scratch } from '../child.mjs';

test('a signal ends a process that uses two of them', async (t) => {
  const path = join(scratch(t), 'session.jsonl');
  writeFileSync(path, '');
  const required = (name) => `require(${JSON.stringify(join(PACKAGE, 'compat', name))})`;
  const program = `(async () => {
    await ${required('proper-lockfile.cjs')}.lock(${JSON.stringify(path)});
    await ${required('session-write-lock.cjs')}.acquireSessionWriteLock({ sessionFile: ${JSON.stringify(`${path}2`)} });
    console.log('"held"');
    setInterval(() => {}, 1000);
  })();`;
  const child = new Child(t, ['-e', program]);
  assert.equal(await child.says(), 'held');
  child.process.kill('SIGTERM');
  assert.deepEqual(await child.ended, { code: null, signal: 'SIGTERM' });
  assert.deepEqual([existsSync(`${path}.lock`), existsSync(`${path}2.lock`)], [false, false]);
});

test('race 53: a file that is locked by one is written by the other', async (t) => {
  const path = join(scratch(t), 'data.json');
  writeFileSync(path, '');
  const release = await lockfile.lock(path);
  await writeFileAtomic(path, 'one');
  writeFileAtomic.sync(path, 'two');
  assert.equal(isFree(path), false, 'it is locked still');
  await release();
  const session = await acquireSessionWriteLock({ sessionFile: path });
  await writeFileAtomic(path, 'three');
  session.assertOwned();
  await session.release();
  const slow = writeFileAtomic(path, 'four');
  await new Promise(setImmediate);
  writeFileAtomic.sync(path, 'five');
  await slow;
  assert.match(readFileSync(path, 'utf8'), /^f(our|ive)$/);
  assert.ok(isFree(path));
});
