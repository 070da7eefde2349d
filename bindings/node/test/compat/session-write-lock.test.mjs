import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import {
  SessionWriteLockError,
  SessionWriteLockStaleError,
  SessionWriteLockTimeoutError,
  acquireSessionWriteLock,
  cleanStaleLockFiles,
  releaseAllLocksSync,
  resetSessionWriteLockStateForTest,
  resolveSessionLockMaxHoldFromTimeout,
  resolveSessionWriteLockOptions,
} from '../../compat/session-write-lock.cjs';
import { lockSync } from '../../index.mjs';
import { Child, PACKAGE, PATIENCE_MS, isFree, scratch } from '../child.mjs';

const MODULE = join(PACKAGE, 'compat/session-write-lock.cjs');
const DEAD = 2_147_483_646;
const now = () => new Date().toISOString();
const old = new Date(Date.now() - 31 * 60_000);

function session(t) {
  const sessionFile = join(scratch(t), 'session.jsonl');
  return { sessionFile, lockPath: `${sessionFile}.lock` };
}

const isTimeout = (lockPath) => (error) =>
  error instanceof SessionWriteLockTimeoutError &&
  error instanceof SessionWriteLockError &&
  error.reason === 'session_busy' &&
  error.lockPath === lockPath &&
  /^session file locked \(timeout \d+ms\): pid=\S+ /.test(error.message);

test('the lock file is there while it is held, and gone after', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const held = await acquireSessionWriteLock({ sessionFile });
  const payload = JSON.parse(readFileSync(lockPath, 'utf8'));
  assert.equal(payload.pid, process.pid);
  assert.ok(Math.abs(Date.parse(payload.createdAt) - Date.now()) < 60_000);
  assert.equal(typeof payload.starttime, 'number');
  held.assertOwned();
  await held.release();
  assert.equal(existsSync(lockPath), false);
  await held.release(); // The second time does nothing.
  assert.throws(() => held.assertOwned(), SessionWriteLockStaleError);
});

test('it excludes users of tenure, and they exclude it', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const held = await acquireSessionWriteLock({ sessionFile });
  assert.equal(isFree(sessionFile), false);
  await held.release();
  const guard = lockSync(sessionFile);
  await assert.rejects(acquireSessionWriteLock({ sessionFile, timeoutMs: 30 }), isTimeout(lockPath));
  guard.releaseSync();
  await (await acquireSessionWriteLock({ sessionFile })).release();
});

test('one lock for every spelling of a directory', async (t) => {
  const dir = scratch(t);
  mkdirSync(join(dir, 'real'));
  symlinkSync(join(dir, 'real'), join(dir, 'link'));
  const held = await acquireSessionWriteLock({ sessionFile: join(dir, 'real', 's.jsonl') });
  await assert.rejects(
    acquireSessionWriteLock({ sessionFile: join(dir, 'link', 's.jsonl'), timeoutMs: 20 }),
    isTimeout(join(dir, 'real', 's.jsonl.lock')),
  );
  await held.release();
});

test('re-entrancy is counted, and off unless asked for', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const first = await acquireSessionWriteLock({ sessionFile });
  await assert.rejects(acquireSessionWriteLock({ sessionFile, timeoutMs: 20 }), (error) => {
    assert.match(error.message, /held by this process/);
    return isTimeout(lockPath)(error);
  });
  const second = await acquireSessionWriteLock({ sessionFile, allowReentrant: true });
  await first.release();
  assert.ok(existsSync(lockPath));
  second.assertOwned();
  await second.release();
  assert.equal(existsSync(lockPath), false);
});

test('race 4: whoever comes in while a release is under way is not harmed by it', async (t) => {
  const { sessionFile, lockPath } = session(t);
  for (let round = 0; round < 50; round += 1) {
    const held = await acquireSessionWriteLock({ sessionFile });
    const [, next] = await Promise.all([held.release(), acquireSessionWriteLock({ sessionFile, allowReentrant: true })]);
    next.assertOwned();
    assert.ok(existsSync(lockPath));
    await next.release();
  }
});

test("another program's fresh lock file is respected and stays", async (t) => {
  const { sessionFile, lockPath } = session(t);
  const living = new Child(t, ['-e', 'setInterval(() => {}, 1000)']);
  const files = ['{}', '', JSON.stringify({ pid: living.process.pid, createdAt: now() })];
  const fresh = new Date(Date.now() + 3_600_000); // However long this takes.
  for (const text of files) {
    writeFileSync(lockPath, text);
    utimesSync(lockPath, fresh, fresh);
    await assert.rejects(acquireSessionWriteLock({ sessionFile, timeoutMs: 60 }), isTimeout(lockPath), text);
    assert.equal(readFileSync(lockPath, 'utf8'), text);
  }
  assert.ok(isFree(sessionFile), 'whoever gave up holds nothing');
});

test('a lock file of somebody who is gone is taken over', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const files = {
    'dead-pid': { pid: DEAD, createdAt: now() },
    'recycled-pid': { pid: process.pid, createdAt: now(), starttime: 1 },
    'orphan-self-pid': { pid: process.pid, createdAt: now() },
    'too-old': { pid: process.ppid, createdAt: old.toISOString() },
  };
  for (const [reason, payload] of Object.entries(files)) {
    writeFileSync(lockPath, JSON.stringify(payload));
    const held = await acquireSessionWriteLock({ sessionFile, timeoutMs: 60 });
    assert.equal(JSON.parse(readFileSync(lockPath, 'utf8')).createdAt !== payload.createdAt, true, reason);
    await held.release();
  }
  for (const text of ['', 'garbage', '{}']) {
    writeFileSync(lockPath, text);
    utimesSync(lockPath, old, old);
    await (await acquireSessionWriteLock({ sessionFile, timeoutMs: 60 })).release();
  }
});

test('race 5: a process that is proven to live is not robbed for its age', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const living = new Child(t, ['-e', 'setInterval(() => {}, 1000)']);
  const stat = readFileSync(`/proc/${living.process.pid}/stat`, 'latin1');
  const starttime = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
  writeFileSync(lockPath, JSON.stringify({ pid: living.process.pid, createdAt: old.toISOString(), starttime }));
  await assert.rejects(acquireSessionWriteLock({ sessionFile, timeoutMs: 60 }), isTimeout(lockPath));
});

test('an aborted wait ends with the reason and leaves nothing', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const held = await acquireSessionWriteLock({ sessionFile });
  const reason = new Error('enough');
  const stop = new AbortController();
  const waiting = acquireSessionWriteLock({ sessionFile, timeoutMs: Infinity, signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(waiting, reason);
  await assert.rejects(acquireSessionWriteLock({ sessionFile, signal: AbortSignal.abort(reason) }), reason);
  await held.release();
  writeFileSync(lockPath, '{}');
  await assert.rejects(
    acquireSessionWriteLock({ sessionFile, timeoutMs: Infinity, signal: AbortSignal.timeout(30) }),
    { name: 'TimeoutError' },
  );
  assert.ok(isFree(sessionFile));
});

test('a hold that lasts too long ends, and its owner is told', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const held = await acquireSessionWriteLock({ sessionFile, maxHoldMs: 20 });
  const next = await acquireSessionWriteLock({ sessionFile, timeoutMs: PATIENCE_MS });
  assert.throws(() => held.assertOwned(), (error) => error.staleReasons.includes('lease-lost'));
  await held.release();
  next.assertOwned();
  assert.ok(existsSync(lockPath), 'a late release does nothing to the next holder');
  await next.release();
});

test('two copies of the module in one process share what it holds', async (t) => {
  const { sessionFile } = session(t);
  const require = createRequire(import.meta.url);
  const held = await acquireSessionWriteLock({ sessionFile });
  delete require.cache[MODULE];
  const copy = require(MODULE);
  assert.notEqual(copy.acquireSessionWriteLock, acquireSessionWriteLock);
  const again = await copy.acquireSessionWriteLock({ sessionFile, allowReentrant: true });
  copy.releaseAllLocksSync();
  assert.throws(() => held.assertOwned(), { code: 'OPENCLAW_SESSION_WRITE_LOCK_STALE' });
  await Promise.all([held.release(), again.release()]);
});

test('stale lock files are found and removed, and only those', async (t) => {
  const dir = scratch(t);
  const write = (name, payload) => writeFileSync(join(dir, name), JSON.stringify(payload));
  write('dead.jsonl.lock', { pid: DEAD, createdAt: now() });
  write('fresh.jsonl.lock', { pid: process.ppid, createdAt: now() });
  write('other.lock', { pid: DEAD, createdAt: now() });
  const held = await acquireSessionWriteLock({ sessionFile: join(dir, 'held.jsonl') });
  const looked = cleanStaleLockFiles({ sessionsDir: dir, removeStale: false });
  assert.deepEqual(looked.cleaned, []);
  const names = (locks) => locks.map(({ lockPath }) => lockPath.slice(dir.length + 1));
  assert.deepEqual(names(looked.locks), ['dead.jsonl.lock', 'fresh.jsonl.lock', 'held.jsonl.lock']);
  const { locks, cleaned } = cleanStaleLockFiles({ sessionsDir: dir });
  assert.deepEqual(names(cleaned), ['dead.jsonl.lock']);
  assert.deepEqual(locks[0].staleReasons, ['dead-pid']);
  assert.equal(locks[0].removed, true);
  held.assertOwned();
  const args = cleanStaleLockFiles({ sessionsDir: dir, readOwnerProcessArgs: () => ['vim'] });
  assert.deepEqual(args.cleaned[0].staleReasons, ['non-openclaw-owner']);
  assert.ok(existsSync(join(dir, 'other.lock')));
  assert.deepEqual(cleanStaleLockFiles({ sessionsDir: join(dir, 'nowhere') }), { locks: [], cleaned: [] });
  await held.release();
});

test('a signal and the end of the process take the lock file away, and other listeners stay', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const program = (end) => `const { acquireSessionWriteLock } = require(${JSON.stringify(MODULE)});
    ${end === 'listener' ? "process.on('SIGTERM', () => process.exit(7));" : ''}
    acquireSessionWriteLock({ sessionFile: ${JSON.stringify(sessionFile)} }).then(() => {
      console.log('"held"');
      ${end === 'exit' ? 'process.exit(3);' : 'setInterval(() => {}, 1000);'}
    });`;
  const cases = { exit: { code: 3, signal: null }, listener: { code: 7, signal: null }, signal: { code: null, signal: 'SIGTERM' } };
  for (const [end, expected] of Object.entries(cases)) {
    const child = new Child(t, ['-e', program(end)]);
    assert.equal(await child.says(), 'held');
    if (end !== 'exit') child.process.kill('SIGTERM');
    assert.deepEqual(await child.ended, expected, end);
    assert.equal(existsSync(lockPath), false, end);
    assert.ok(isFree(sessionFile), end);
  }
});

test('listeners do not pile up', async (t) => {
  const { sessionFile } = session(t);
  resetSessionWriteLockStateForTest();
  const count = () => ['exit', 'SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGABRT'].map((name) => process.listenerCount(name));
  const before = count();
  for (let round = 0; round < 20; round += 1) {
    await acquireSessionWriteLock({ sessionFile });
    releaseAllLocksSync();
    assert.ok(count().every((each, index) => each <= before[index] + 1));
  }
  resetSessionWriteLockStateForTest();
  assert.deepEqual(count(), before);
});

test('times from the environment, the configuration and a run', () => {
  assert.deepEqual(resolveSessionWriteLockOptions(undefined, {}), { timeoutMs: 60_000, staleMs: 1_800_000, maxHoldMs: 300_000 });
  const config = { session: { writeLock: { acquireTimeoutMs: 1, staleMs: 2, maxHoldMs: 3 } } };
  const env = { OPENCLAW_SESSION_WRITE_LOCK_STALE_MS: '9', OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS: 'x' };
  assert.deepEqual(resolveSessionWriteLockOptions(config, env), { timeoutMs: 1, staleMs: 9, maxHoldMs: 3 });
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: 1000 }), 300_000);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: 600_000 }), 720_000);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: Infinity }), 2_147_000_000);
});
