import assert from 'node:assert/strict';
import fs, { existsSync, mkdirSync, renameSync, rmdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import lockfile from '../../compat/proper-lockfile.cjs';
import { Document, lockSync } from '../../index.mjs';
import { Child, PACKAGE, isFree, scratch, until } from '../child.mjs';

const code = (expected) => (error) => error.code === expected;
const QUICKLY = { retries: { retries: 3, minTimeout: 20, factor: 1 } };

function file(t, name = 'data.json') {
  const path = join(scratch(t), name);
  writeFileSync(path, '{}');
  return path;
}

test('the directory is there while it is held, and gone after', async (t) => {
  const path = file(t);
  const release = await lockfile(path);
  assert.ok(statSync(`${path}.lock`).isDirectory());
  await assert.rejects(lockfile.lock(path), (error) => error.file === path && code('ELOCKED')(error));
  assert.throws(() => lockfile.lockSync(path), code('ELOCKED'));
  assert.equal(await lockfile.check(path), true);
  await release();
  assert.equal(existsSync(`${path}.lock`), false);
  assert.equal(lockfile.checkSync(path), false);
  await assert.rejects(release(), code('ERELEASED'));
});

test('sync twins, and unlock by name', async (t) => {
  const path = file(t);
  const release = lockfile.lockSync(path);
  release();
  assert.throws(release, code('ERELEASED'));
  lockfile.lockSync(path);
  lockfile.unlockSync(path);
  await lockfile.lock(path);
  await lockfile.unlock(path);
  await assert.rejects(lockfile.unlock(path), code('ENOTACQUIRED'));
  assert.throws(() => lockfile.unlockSync(path), code('ENOTACQUIRED'));
  assert.throws(() => lockfile.lockSync(path, { retries: 3 }), code('ESYNC'));
});

test('another file system is refused, and not silently passed over', async (t) => {
  const path = file(t);
  const memory = { mkdir() {}, realpath() {}, stat() {}, rmdir() {}, utimes() {} };
  await assert.rejects(lockfile.lock(path, { fs: memory }), code('EINVAL'));
  assert.throws(() => lockfile.lockSync(path, { fs: memory }), code('EINVAL'));
  await assert.rejects(lockfile.check(path, { fs: memory }), /on real files; leave it out/);
  assert.ok(isFree(path));
  const graceful = { ...fs, gracefulify() {} };
  for (const same of [fs, graceful, undefined, null]) await (await lockfile.lock(path, { fs: same }))();
});

test('a file that is not there is an error, unless its real path does not matter', async (t) => {
  const path = join(scratch(t), 'missing');
  await assert.rejects(lockfile.lock(path), code('ENOENT'));
  await assert.rejects(lockfile.check(path), code('ENOENT'));
  const release = await lockfile.lock(path, { realpath: false });
  assert.equal(await lockfile.check(path, { realpath: false }), true);
  await release();
});

test('a symlink and its file are one lock; another lock path is another lock', async (t) => {
  const path = file(t);
  symlinkSync(path, `${path}.link`);
  const release = await lockfile.lock(`${path}.link`);
  await assert.rejects(lockfile.lock(path), code('ELOCKED'));
  const other = await lockfile.lock(path, { lockfilePath: `${path}.other` });
  assert.ok(existsSync(`${path}.other`));
  await other();
  await release();
});

test('retries wait: in the kernel for us, by looking for other programs', async (t) => {
  const path = file(t);
  const release = await lockfile.lock(path);
  await assert.rejects(lockfile.lock(path, QUICKLY), code('ELOCKED'));
  const waiting = lockfile.lock(path, { retries: { retries: 10, minTimeout: 3000 } });
  await release();
  await (await waiting)();
  mkdirSync(`${path}.lock`);
  const looking = lockfile.lock(path, { retries: { retries: 10, minTimeout: 3000 } });
  rmdirSync(`${path}.lock`);
  await (await looking)();
});

test("another program's directory is respected while it is fresh", async (t) => {
  const path = file(t);
  mkdirSync(`${path}.lock`);
  await assert.rejects(lockfile.lock(path), code('ELOCKED'));
  assert.throws(() => lockfile.lockSync(path), code('ELOCKED'));
  assert.equal(await lockfile.check(path), true);
  assert.ok(isFree(path), 'whoever gave up holds nothing');
  const old = new Date(Date.now() - 11_000);
  utimesSync(`${path}.lock`, old, old);
  assert.equal(await lockfile.check(path), false);
  await (await lockfile.lock(path))();
});

test('it excludes users of tenure; its fence proves the hold to them', async (t) => {
  const path = file(t);
  const release = await lockfile.lock(path);
  assert.equal(isFree(path), false);
  assert.throws(() => new Document(path).setSync({ a: 1 }, { waitMs: 0 }), code('busy'));
  new Document(path).setSync({ a: 1 }, { fence: release.fence, noSync: true });
  await release();
  const guard = lockSync(path);
  await assert.rejects(lockfile.lock(path), code('ELOCKED'));
  assert.equal(await lockfile.check(path), true);
  guard.releaseSync();
});

test('a killed holder is not waited for, and its directory is not in the way', async (t) => {
  const path = file(t);
  const program = `require(${JSON.stringify(join(PACKAGE, 'compat/proper-lockfile.cjs'))}).lock(${JSON.stringify(path)})
    .then(() => { console.log('"held"'); setInterval(() => {}, 1000); });`;
  const holder = new Child(t, ['-e', program]);
  assert.equal(await holder.says(), 'held');
  await assert.rejects(lockfile.lock(path), code('ELOCKED'));
  await holder.kill('SIGKILL');
  assert.ok(existsSync(`${path}.lock`));
  const release = await lockfile.lock(path);
  await release();
  assert.equal(existsSync(`${path}.lock`), false);
});

test('the end of the process takes the directory away', async (t) => {
  const path = file(t);
  const program = `require(${JSON.stringify(join(PACKAGE, 'compat/proper-lockfile.cjs'))}).lockSync(${JSON.stringify(path)})`;
  const holder = new Child(t, ['-e', program]);
  assert.deepEqual(await holder.ended, { code: 0, signal: null });
  assert.equal(existsSync(`${path}.lock`), false);
});

test('the directory is refreshed, and made again if somebody removes it', async (t) => {
  const path = file(t);
  const directory = `${path}.lock`;
  const release = await lockfile.lock(path, { stale: 2000, update: 1000, onCompromised: assert.fail });
  const old = new Date(Date.now() - 60_000);
  utimesSync(directory, old, old);
  await until(() => statSync(directory).mtimeMs > old.getTime(), 'it is refreshed');
  rmdirSync(directory);
  await until(() => existsSync(directory), 'it is made again');
  await release();
});

test('something else at the place of the directory is an error, at once', async (t) => {
  const path = file(t);
  symlinkSync('nowhere', `${path}.lock`);
  await assert.rejects(lockfile.lock(path), code('ENOTDIR'));
  assert.ok(isFree(path));
});

test('a directory that cannot be removed does not keep the lock', async (t) => {
  const path = file(t);
  const release = await lockfile.lock(path);
  writeFileSync(join(`${path}.lock`, 'x'), '');
  await assert.rejects(release(), code('ENOTEMPTY'));
  assert.ok(isFree(path));
});

test("race 4: a release leaves another program's directory alone", async (t) => {
  const path = file(t);
  const release = await lockfile.lock(path);
  rmdirSync(`${path}.lock`);
  mkdirSync(`${path}.lock.other`);
  renameSync(`${path}.lock.other`, `${path}.lock`);
  await release();
  assert.ok(existsSync(`${path}.lock`));
});
