import assert from 'node:assert/strict';
import fs, { existsSync, mkdirSync, renameSync, rmdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
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

/** A file system in memory, as far as this module uses one. */
function inMemory() {
  const found = new Map();
  const fail = (code) => {
    throw Object.assign(new Error(`${code}: in memory`), { code });
  };
  const methods = {
    realpath: (name) => name,
    mkdir: (name) => (found.has(name) ? fail('EEXIST') : found.set(name, new Date())),
    stat: (name) => (found.has(name) ? { mtime: found.get(name) } : fail('ENOENT')),
    utimes: (name, _, mtime) => (found.has(name) ? found.set(name, mtime) : fail('ENOENT')),
    rmdir: (name) => (found.delete(name) ? undefined : fail('ENOENT')),
  };
  const memory = { found };
  for (const [name, act] of Object.entries(methods)) {
    memory[`${name}Sync`] = act;
    memory[name] = (...args) => {
      const callback = args.pop();
      try {
        setImmediate(callback, null, act(...args));
      } catch (error) {
        setImmediate(callback, error);
      }
    };
  }
  return memory;
}

test('an fs of the caller is used for every operation, sync and not', async (t) => {
  const path = file(t);
  const calls = [];
  const watched = { ...fs };
  for (const method of ['realpath', 'mkdir', 'stat', 'utimes', 'rmdir']) {
    for (const name of [method, `${method}Sync`]) {
      watched[name] = (...args) => {
        calls.push(name);
        return fs[name](...args);
      };
    }
  }
  const release = await lockfile.lock(path, { fs: watched });
  assert.equal(isFree(path), false, 'the kernel has the lock too');
  assert.ok(existsSync(`${path}.lock`));
  assert.equal(await lockfile.check(path, { fs: watched }), true);
  await release();
  assert.deepEqual([calls.splice(0), isFree(path)], [['realpath', 'mkdir', 'stat', 'realpath', 'rmdir'], true]);
  lockfile.lockSync(path, { fs: watched })();
  assert.deepEqual(calls.splice(0), ['realpathSync', 'mkdirSync', 'statSync', 'rmdirSync']);
  const broken = { ...fs, mkdir: (_, callback) => callback(new Error('broken')) };
  await assert.rejects(lockfile.lock(path, { fs: broken }), /broken/);
  assert.ok(isFree(path), 'whoever failed holds nothing');
  await lockfile.lock(path);
  const stuck = { ...fs, rmdir: (_, callback) => callback(new Error('stuck')) };
  await assert.rejects(lockfile.unlock(path, { fs: stuck }), /stuck/);
  assert.ok(isFree(path));
  rmdirSync(`${path}.lock`);
});

test('a directory that is removed while it is made is not taken for one in memory', async (t) => {
  const path = file(t);
  const other = {
    ...fs,
    mkdir: (name, callback) => fs.mkdir(name, (error) => (error ? callback(error) : fs.rmdir(name, callback))),
    stat: (name, callback) => fs.mkdir(name, () => fs.stat(name, callback)), // Another program was quicker.
  };
  await assert.rejects(lockfile.lock(path, { fs: other }), code('ELOCKED'));
  assert.ok(isFree(path));
  assert.ok(existsSync(`${path}.lock`), "another program's stays");
});

test('a file system in memory has its own locks, and leaves none on the disk', async (t) => {
  const dir = scratch(t);
  const memory = inMemory();
  const other = inMemory();
  for (const path of [join(dir, 'file'), '/tenure-in-memory/file']) {
    const release = await lockfile.lock(path, { fs: memory });
    assert.deepEqual([...memory.found.keys()], [`${path}.lock`]);
    await assert.rejects(lockfile.lock(path, { fs: memory }), code('ELOCKED'));
    assert.throws(() => lockfile.lockSync(path, { fs: memory }), code('ELOCKED'));
    assert.equal(await lockfile.check(path, { fs: memory }), true);
    assert.equal(await lockfile.check(path, { fs: other }), false);
    await release();
    assert.equal(memory.found.size, 0);
    lockfile.lockSync(path, { fs: memory })();
    assert.ok(isFree(join(dir, 'file')));
  }
  assert.equal(existsSync(join(dir, 'file.lock')), false);
  assert.equal(existsSync('/tenure-in-memory'), false);
});

test('stale is at least two seconds, also if it is off', async (t) => {
  const path = file(t);
  mkdirSync(`${path}.lock`);
  for (const stale of [false, 0, 100, undefined]) {
    const recent = new Date(Date.now() - 1500);
    utimesSync(`${path}.lock`, recent, recent);
    assert.equal(await lockfile.check(path, { stale }), true);
    await assert.rejects(lockfile.lock(path, { stale }), code('ELOCKED'));
    const old = new Date(Date.now() - 3000);
    utimesSync(`${path}.lock`, old, old);
    assert.equal(lockfile.checkSync(path, { stale }), false);
  }
  await (await lockfile.lock(path, { stale: false }))();
});

test('without realpath a symlink is a lock of its own, and a missing directory stays missing', async (t) => {
  const path = file(t);
  symlinkSync(path, `${path}.link`);
  const one = await lockfile.lock(`${path}.link`, { realpath: false });
  const other = await lockfile.lock(path, { realpath: false });
  await assert.rejects(lockfile.lock(`${path}.link`, { realpath: false }), code('ELOCKED'));
  assert.ok(existsSync(`${path}.link.lock`) && existsSync(`${path}.lock`));
  await one();
  assert.equal(await lockfile.check(path), true);
  await other();
  const missing = join(path, '..', 'no', 'file');
  await assert.rejects(lockfile.lock(missing, { realpath: false }), code('ENOENT'));
  assert.equal(await lockfile.check(missing, { realpath: false }), false);
  assert.equal(existsSync(join(path, '..', 'no')), false);
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

test('a directory that was removed or touched by others ends the hold, and the caller is told', async (t) => {
  const path = file(t);
  const directory = `${path}.lock`;
  const changes = {
    'ENOENT: no such file or directory': () => rmdirSync(directory),
    'Unable to update lock within the stale threshold': () => utimesSync(directory, 1, 1),
  };
  for (const [message, change] of Object.entries(changes)) {
    let error;
    const release = await lockfile.lock(path, { stale: 5000, update: 1000, onCompromised: (told) => (error = told) });
    const first = statSync(directory).mtimeMs;
    await until(() => statSync(directory).mtimeMs > first, 'it is refreshed');
    change();
    await until(() => error, 'the caller is told');
    assert.equal(error.code, 'ECOMPROMISED');
    assert.ok(error.message.startsWith(message), error.message);
    assert.ok(isFree(path), 'the lock has ended');
    await assert.rejects(release(), code('ERELEASED'));
    fs.rmSync(directory, { recursive: true, force: true });
  }
});

test('a hold is released if everything around it was removed', async (t) => {
  const dir = join(scratch(t), 'dir');
  for (const release of [
    async (path) => (await lockfile.lock(path))(),
    async (path) => lockfile.lockSync(path)(),
  ]) {
    mkdirSync(dir);
    const path = join(dir, 'file');
    writeFileSync(path, '');
    const done = await lockfile.lock(path);
    fs.rmSync(dir, { recursive: true });
    await done();
    mkdirSync(dir);
    writeFileSync(path, '');
    await release(path);
    fs.rmSync(dir, { recursive: true });
  }
});

test('lib/lockfile has the calls with callbacks, and knows the locks of this process', async (t) => {
  const path = file(t);
  const { lock, unlock, check, getLocks } = createRequire(import.meta.url)('../../compat/proper-lockfile/lib/lockfile');
  const called = (act, ...args) => new Promise((resolve, reject) => act(...args, (error, value) => (error ? reject(error) : resolve(value))));
  const release = await called(lock, path, {});
  assert.deepEqual(Object.keys(getLocks()), [path]);
  assert.equal(await called(check, path, null), true);
  await called(release);
  await assert.rejects(called(release), code('ERELEASED'));
  await lockfile.lock(path, { lockfilePath: `${path}.other` });
  await called(unlock, path, { realpath: false });
  assert.deepEqual([getLocks(), existsSync(`${path}.other`)], [{}, false]);
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
