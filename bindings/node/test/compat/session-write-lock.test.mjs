import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import {
  SessionWriteLockError,
  SessionWriteLockStaleError,
  SessionWriteLockTimeoutError,
  __testing,
  acquireSessionWriteLock,
  cleanStaleLockFiles,
  drainSessionWriteLockStateForTest,
  isSessionWriteLockAcquireError,
  releaseAllLocksSync,
  resetSessionWriteLockStateForTest,
  resolveSessionLockMaxHoldFromTimeout,
  resolveSessionWriteLockAcquireTimeoutMs,
  resolveSessionWriteLockOptions,
  resolveSessionWriteLockStaleMs,
  testing,
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
  isSessionWriteLockAcquireError(error) &&
  /^session file locked \(timeout \d+ms\): (pid=\d+ alive=\w+|owner=unknown) /.test(error.message);

/** A process that looks like OpenClaw, or does not. */
const living = (t, ...args) => new Child(t, ['-e', 'setInterval(() => {}, 1000)', ...args]).process.pid;
const openclaw = () => ['node', '/opt/openclaw/openclaw.mjs'];

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
  const files = ['{}', '', JSON.stringify({ pid: living(t), createdAt: now() })];
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

test('race 5: a process that lives is not robbed for its age: the caller is told', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const pid = living(t);
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const starttime = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
  const files = {
    'too-old': { pid, createdAt: old.toISOString(), starttime },
    'hold-exceeded': { pid, createdAt: new Date(Date.now() - 60_000).toISOString(), maxHoldMs: 10 },
  };
  for (const [reason, payload] of Object.entries(files)) {
    const text = JSON.stringify(payload);
    writeFileSync(lockPath, text);
    await assert.rejects(acquireSessionWriteLock({ sessionFile, timeoutMs: PATIENCE_MS }), (error) => {
      assert.ok(error instanceof SessionWriteLockStaleError && isSessionWriteLockAcquireError(error));
      assert.deepEqual(error.staleReasons, [reason]);
      return error.message.startsWith(`session file lock stale (${reason}): pid=${pid} alive=true ageMs=`);
    });
    assert.equal(readFileSync(lockPath, 'utf8'), text);
    assert.ok(isFree(sessionFile));
  }
});

test('a lock file without an owner is given time: longer, the longer the caller waits', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const aged = (seconds) => {
    writeFileSync(lockPath, '');
    utimesSync(lockPath, Date.now() / 1000 - seconds, Date.now() / 1000 - seconds);
  };
  aged(10);
  await (await acquireSessionWriteLock({ sessionFile, timeoutMs: 60 })).release();
  aged(10);
  await assert.rejects(
    acquireSessionWriteLock({ sessionFile, timeoutMs: PATIENCE_MS, signal: AbortSignal.timeout(100) }),
    { name: 'TimeoutError' },
  );
  aged(40);
  await (await acquireSessionWriteLock({ sessionFile, timeoutMs: PATIENCE_MS })).release();
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
  await assert.rejects(acquireSessionWriteLock({ sessionFile, signal: AbortSignal.abort('enough') }), { name: 'AbortError', cause: 'enough' });
  assert.ok(isFree(sessionFile));
});

test('a hold that lasts too long ends, and its owner is told', async (t) => {
  const { sessionFile, lockPath } = session(t);
  const held = await acquireSessionWriteLock({ sessionFile, maxHoldMs: 20 }); // A second, at least.
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
  write('self.jsonl.lock', { pid: process.pid, createdAt: now() });
  const held = await acquireSessionWriteLock({ sessionFile: join(dir, 'held.jsonl') });
  const looked = await cleanStaleLockFiles({ sessionsDir: dir, removeStale: false, readOwnerProcessArgs: openclaw });
  assert.deepEqual(looked.cleaned, []);
  const names = (locks) => locks.map(({ lockPath }) => lockPath.slice(dir.length + 1));
  assert.deepEqual(names(looked.locks), ['dead.jsonl.lock', 'fresh.jsonl.lock', 'held.jsonl.lock', 'self.jsonl.lock']);
  assert.deepEqual(looked.locks.map(({ removable }) => removable), [true, false, false, false]);
  const { locks, cleaned } = await cleanStaleLockFiles({ sessionsDir: dir, readOwnerProcessArgs: openclaw });
  assert.deepEqual(names(cleaned), ['dead.jsonl.lock']);
  assert.deepEqual(locks[0].staleReasons, ['dead-pid']);
  assert.equal(locks[0].removed, true);
  held.assertOwned();
  const told = [];
  const asked = [];
  const readOwnerProcessArgs = (pid) => {
    asked.push(pid);
    return ['vim'];
  };
  const foreign = await cleanStaleLockFiles({ sessionsDir: dir, readOwnerProcessArgs, log: { warn: (message) => told.push(message) } });
  assert.deepEqual(names(foreign.cleaned), ['fresh.jsonl.lock', 'self.jsonl.lock']);
  assert.deepEqual(foreign.cleaned[0].staleReasons, ['non-openclaw-owner']);
  assert.deepEqual([told.length, new Set(asked).size], [2, asked.length], 'each process is asked once');
  assert.ok(existsSync(join(dir, 'other.lock')));
  held.assertOwned();
  assert.deepEqual(await cleanStaleLockFiles({ sessionsDir: join(dir, 'nowhere') }), { locks: [], cleaned: [] });
  await held.release();
});

test('an old lock file of a living process is found and stays', async (t) => {
  const dir = scratch(t);
  const pid = living(t, 'openclaw');
  writeFileSync(join(dir, 'old.jsonl.lock'), JSON.stringify({ pid, createdAt: old.toISOString() }));
  writeFileSync(join(dir, 'unfinished.jsonl.lock'), '');
  const { locks, cleaned } = await cleanStaleLockFiles({ sessionsDir: dir });
  assert.deepEqual(cleaned, []);
  assert.deepEqual(locks.map(({ stale, staleReasons }) => [stale, ...staleReasons]), [
    [true, 'too-old'],
    [true, 'missing-pid', 'invalid-createdAt'],
  ]);
  const lenient = { session: { writeLock: { staleMs: 86_400_000 } } };
  assert.equal((await cleanStaleLockFiles({ sessionsDir: dir, config: lenient })).locks[0].stale, false);
});

test('a session in a database is locked beside it', async (t) => {
  const dir = scratch(t);
  const held = await acquireSessionWriteLock({ sessionFile: `sqlite:main:a/b:${join(dir, 'store.db')}` });
  assert.ok(existsSync(join(dir, 'session-locks', 'main-a_b.sqlite-transcript.lock')));
  await held.release();
});

test('the hooks of the tests of OpenClaw', async (t) => {
  const { sessionFile, lockPath } = session(t);
  assert.equal(__testing, testing);
  assert.deepEqual(testing.cleanupSignals, ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGABRT']);
  testing.setProcessStartTimeResolverForTest(() => 12);
  await acquireSessionWriteLock({ sessionFile, maxHoldMs: 60_000 });
  assert.deepEqual([JSON.parse(readFileSync(lockPath, 'utf8')).starttime, JSON.parse(readFileSync(lockPath, 'utf8')).maxHoldMs], [12, 60_000]);
  assert.equal(await testing.runLockWatchdogCheck(), 0);
  assert.equal(await testing.runLockWatchdogCheck(Date.now() + 61_000), 1);
  assert.ok(isFree(sessionFile) && !existsSync(lockPath));
  await acquireSessionWriteLock({ sessionFile });
  await drainSessionWriteLockStateForTest();
  assert.ok(isFree(sessionFile));
  assert.equal(testing.resolveRemainingAcquireTimeoutMs(500, 1000, 1125), 375);
  const payload = { pid: process.pid, createdAt: new Date(0).toISOString(), maxHoldMs: 5 };
  assert.deepEqual(testing.inspectLockPayloadForTest(payload, 60_000, 10, { respectMaxHold: true }).staleReasons, ['hold-exceeded']);
  assert.deepEqual(testing.inspectLockPayloadForTest(payload, 60_000, 10).staleReasons, []);
  resetSessionWriteLockStateForTest();
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
  const none = { env: {} };
  assert.deepEqual(resolveSessionWriteLockOptions(undefined, none), { timeoutMs: 60_000, staleMs: 1_800_000, maxHoldMs: 300_000 });
  assert.equal(resolveSessionWriteLockOptions(undefined, { ...none, maxHoldMsFallback: 7 }).maxHoldMs, 7);
  const config = { session: { writeLock: { acquireTimeoutMs: 1, staleMs: 2, maxHoldMs: 3 } } };
  const env = { OPENCLAW_SESSION_WRITE_LOCK_STALE_MS: '9', OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS: '1e3' };
  assert.deepEqual(resolveSessionWriteLockOptions(config, { env }), { timeoutMs: 1, staleMs: 9, maxHoldMs: 3 });
  const endless = { OPENCLAW_SESSION_WRITE_LOCK_ACQUIRE_TIMEOUT_MS: 'Infinity', OPENCLAW_SESSION_WRITE_LOCK_STALE_MS: 'Infinity' };
  assert.deepEqual(resolveSessionWriteLockOptions(undefined, { env: endless }), { timeoutMs: Infinity, staleMs: 1_800_000, maxHoldMs: 300_000 });
  assert.equal(resolveSessionWriteLockAcquireTimeoutMs({ session: { writeLock: { acquireTimeoutMs: 0 } } }, {}), 60_000);
  assert.equal(resolveSessionWriteLockStaleMs(config, {}), 2);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: 1000 }), 300_000);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: 600_000 }), 720_000);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: Infinity }), 2_147_000_000);
  assert.equal(resolveSessionLockMaxHoldFromTimeout({ timeoutMs: NaN, minMs: 5 }), 120_005);
});
