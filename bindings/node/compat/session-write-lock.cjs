'use strict';

// The session write lock of OpenClaw. Same calls and the same `<file>.lock` while it is held.
//
// The truth is the kernel's lock on the session file: the death of a holder frees it, no process steals it,
// and it excludes every other user of tenure. The `.lock` file is written for programs that know only
// that, and theirs is respected; between them and us exclusion is as good as theirs.

const fs = require('fs');
const path = require('path');
const { performance } = require('perf_hooks');
const { lock, tryLockSync } = require('../index.cjs');
const { SIGNALS, atExit, handle, notAtExit } = require('./at-exit.cjs');
const { forget, remember } = require('./held.cjs');
const { removeIf } = require('./owner.cjs');
const errors = require('./session-errors.cjs');
const judge = require('./session-inspect.cjs');
const options = require('./session-options.cjs');

const { SessionWriteLockStaleError, SessionWriteLockTimeoutError } = errors;

const BACKOFF_MS = { first: 50, most: 1000 };
/** No hold is ended for its length before this. */
const WATCH_MIN_MS = 1000;
/** How often a lock file may go or change under our eyes before we call it busy. */
const CHANGES_MAX = 100;

/** Held by this process, by lock path. Shared by every copy of this module in it. */
const shared = (globalThis[Symbol.for('tenure.compat.session-write-lock')] ??= { held: new Map(), act: null });

// One for all copies: what is held is shared, too.
shared.act ??= ({ ends }) => (ends ? releaseAllLocksSync() : removeLockFiles());

function throwIfAborted(signal) {
  if (!signal?.aborted) return;
  if (signal.reason instanceof Error || Object.prototype.toString.call(signal.reason) === '[object Error]') throw signal.reason;
  throw Object.assign(new Error('request aborted', { cause: signal.reason }), { name: 'AbortError' });
}

/** What a session is locked by: its file, or a name beside the database that a marker points to. */
function targetOf(sessionFile) {
  const [, agent, session, store] = /^sqlite:([^:]+):([^:]+):(.+)$/s.exec(sessionFile.trim()) ?? [];
  if (store === undefined) return path.resolve(sessionFile);
  const safe = (name) => name.replace(/[^a-zA-Z0-9._-]/g, '_');
  return path.join(path.dirname(path.resolve(store)), 'session-locks', `${safe(agent)}-${safe(session)}.sqlite-transcript`);
}

/** The lock file's path, the same for every spelling of the directory. */
function lockPathOf(sessionFile) {
  const file = targetOf(sessionFile);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  return path.join(fs.realpathSync(path.dirname(file)), `${path.basename(file)}.lock`);
}

const sessionOf = (lockPath) => lockPath.slice(0, -'.lock'.length);

async function look(lockPath, how) {
  const { text, payload } = await judge.read(lockPath);
  return { text, found: judge.inspect(payload, { ...how, nowMs: Date.now() }) };
}

/**
 * What to do about a lock file that is in the way, while we have the kernel's lock: 'again' if it is gone or
 * has changed, 'wait' if it may be held. The file of a live process is never removed for its age; that
 * is reported. Each look must find the same: between two of them its owner may have released it.
 */
async function dealWith(lockPath, how) {
  const reportable = async ({ text, found }) => text !== null && judge.isReportable(lockPath, found, { ...how, nowMs: Date.now() });
  const first = await look(lockPath, how);
  if (first.text === null) return 'again';
  if (!(await reportable(first))) return 'wait';
  const second = await look(lockPath, how);
  if (second.text !== first.text) return 'again';
  if (await judge.isRemovable(lockPath, second.found, { ...how, nowMs: Date.now() })) {
    removeIf(lockPath, second.text);
    return 'again';
  }
  const third = await look(lockPath, how);
  if (!(await reportable(third))) return 'again';
  const { staleReasons } = third.found;
  throw new SessionWriteLockStaleError({ owner: judge.ownerOf(third.found), lockPath, staleReasons });
}

/** Writes the lock file under the kernel's lock, once no other program's is in the way. */
async function writeLockFile(lockPath, { deadline, staleMs, maxHoldMs, signal, timeoutMs }) {
  const how = { staleMs, graceMs: judge.graceFor(timeoutMs), respectMaxHold: true };
  const start = judge.startOf(process.pid);
  for (let attempt = 1, changes = 0; ; ) {
    throwIfAborted(signal);
    const payload = { pid: process.pid, createdAt: new Date().toISOString(), maxHoldMs, ...(start !== null && { starttime: start }) };
    const text = `${JSON.stringify(payload, null, 2)}\n`;
    try {
      fs.writeFileSync(lockPath, text, { flag: 'wx', mode: 0o600 });
      return text;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const next = await dealWith(lockPath, how);
    const left = deadline - performance.now();
    if (next === 'again' && (left > 0 || (changes += 1) < CHANGES_MAX)) continue;
    if (left <= 0) {
      const { found } = await look(lockPath, how);
      throw new SessionWriteLockTimeoutError({ timeoutMs, lockPath, owner: judge.ownerOf(found) });
    }
    await pause(Math.min(BACKOFF_MS.most, BACKOFF_MS.first * attempt, left), signal);
    attempt += 1;
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end, { once: true });
  });
}

/** Takes the lock. It ends by `release`, by the end of the process, or after `maxHoldMs`. */
async function acquireSessionWriteLock({ sessionFile, allowReentrant = false, signal, ...given }) {
  throwIfAborted(signal);
  const fallback = options.resolveSessionWriteLockOptions();
  const timeoutMs = options.positiveMs(given.timeoutMs, fallback.timeoutMs, { infinity: true });
  const staleMs = options.positiveMs(given.staleMs, fallback.staleMs);
  const maxHoldMs = options.positiveMs(given.maxHoldMs, fallback.maxHoldMs);
  const lockPath = lockPathOf(sessionFile);
  const entry = shared.held.get(lockPath);
  if (allowReentrant && entry && !entry.ending) {
    entry.count += 1;
    return handleOf(entry);
  }
  const deadline = performance.now() + timeoutMs;
  const guard = await kernelLock(lockPath, timeoutMs, signal);
  let text;
  try {
    text = await writeLockFile(lockPath, { deadline, staleMs, maxHoldMs, signal, timeoutMs });
  } catch (error) {
    await guard.release();
    throw error;
  }
  atExit(shared.act);
  const acquiredAt = Date.now();
  const held = { lockPath, guard, text, maxHoldMs, acquiredAt, count: 1, ending: null, ended: false, timer: null };
  shared.held.set(lockPath, held);
  remember(sessionOf(lockPath), guard);
  watch(held);
  return handleOf(held);
}

async function kernelLock(lockPath, timeoutMs, signal) {
  try {
    return await lock(sessionOf(lockPath), { waitMs: timeoutMs, signal, label: 'session write lock' });
  } catch (error) {
    throwIfAborted(signal);
    if (error?.code !== 'busy') throw error;
    const { pid } = error.holder ?? {};
    const { text, found } = await look(lockPath, { staleMs: Infinity, held: true });
    const owner = text === null && pid ? `pid=${pid} alive=true` : judge.ownerOf(found);
    const detail = pid === process.pid ? `held by this process (pid ${pid}); an earlier run has not released it` : undefined;
    throw new SessionWriteLockTimeoutError({ timeoutMs, lockPath, owner, detail, cause: error });
  }
}

/** A hold that was forgotten ends: `assertOwned` reports it to a caller that still writes under it. */
function watch(held) {
  if (held.maxHoldMs > options.TIMER_MAX_MS) return;
  held.timer = setTimeout(
    () => endOverlong(held, Date.now()).catch((error) => process.stderr.write(`[session-write-lock] ${error.message}\n`)),
    Math.max(held.maxHoldMs, WATCH_MIN_MS),
  );
  held.timer.unref?.();
}

async function endOverlong(held, nowMs) {
  const { lockPath, maxHoldMs, acquiredAt } = held;
  process.stderr.write(`[session-write-lock] releasing lock held for ${nowMs - acquiredAt}ms (max=${maxHoldMs}ms): ${lockPath}\n`);
  await end(held);
}

/** Ends the holds that last too long at `nowMs`. Returns how many. */
async function runLockWatchdogCheck(nowMs = Date.now()) {
  const overlong = [...shared.held.values()].filter(({ ending, acquiredAt, maxHoldMs }) => !ending && nowMs - acquiredAt > maxHoldMs);
  await Promise.all(overlong.map((held) => endOverlong(held, nowMs)));
  return overlong.length;
}

/** Ends a hold: the file first, the lock last. Until then it counts as held in this process (no second
 * holder can come in between and have its file removed). */
function end(held) {
  held.ending ??= (async () => {
    clearTimeout(held.timer);
    removeIf(held.lockPath, held.text);
    try {
      await held.guard.release();
    } finally {
      forgetHold(held);
    }
  })();
  return held.ending;
}

function forgetHold(held) {
  held.ended = true;
  forget(sessionOf(held.lockPath), held.guard);
  if (shared.held.get(held.lockPath) === held) shared.held.delete(held.lockPath);
}

function handleOf(held) {
  let released = false;
  return {
    async release() {
      if (released) return;
      released = true;
      held.count -= 1;
      if (held.count === 0) await end(held);
    },
    assertOwned() {
      if (released || held.ending || held.ended) throw lost(held);
      try {
        held.guard.verifySync();
      } catch (error) {
        throw lost(held, error);
      }
    },
  };
}

const lost = ({ lockPath }, cause) =>
  new SessionWriteLockStaleError({ owner: `pid=${process.pid}`, lockPath, staleReasons: ['lease-lost'], cause });

/** At a signal that another handler answers: the files go, as they always did. The locks stay until the end,
 * since a process that goes on working must not meet a second holder. */
function removeLockFiles() {
  for (const held of shared.held.values()) removeIf(held.lockPath, held.text);
}

/** Ends every hold of this process, now. */
function releaseAllLocksSync() {
  for (const held of [...shared.held.values()]) {
    clearTimeout(held.timer);
    removeIf(held.lockPath, held.text);
    held.ending ??= Promise.resolve();
    try {
      held.guard.releaseSync();
    } catch {
      // The end of the process does it.
    }
    forgetHold(held);
  }
}

/** Asks for the command line of each process once, unless that failed. */
function remembered(argsOf) {
  const known = new Map();
  return (pid) => {
    if (!known.has(pid)) known.set(pid, argsOf(pid));
    return known.get(pid);
  };
}

/** Looks at every `*.jsonl.lock` of a directory, and removes those whose owner is gone. */
async function cleanStaleLockFiles({ sessionsDir, config, env, removeStale = true, nowMs = Date.now(), log, ...given }) {
  const dir = path.resolve(sessionsDir);
  let names;
  try {
    names = (await fs.promises.readdir(dir)).filter((name) => name.endsWith('.jsonl.lock')).sort((one, other) => one.localeCompare(other));
  } catch (error) {
    if (error.code === 'ENOENT') return { locks: [], cleaned: [] };
    throw error;
  }
  const how = {
    staleMs: options.positiveMs(given.staleMs, options.resolveSessionWriteLockStaleMs(config, env)),
    graceMs: judge.PAYLOAD_GRACE_MS,
    nowMs,
    reclaimWithoutStart: false,
    argsOf: remembered(given.readOwnerProcessArgs ?? judge.readProcessArgs),
  };
  const real = fs.realpathSync(dir);
  const locks = [];
  for (const name of names) {
    const held = shared.held.has(path.join(real, name));
    const found = await cleaned(path.join(dir, name), { ...how, held }, removeStale && !held);
    if (!found) continue;
    locks.push(found);
    if (found.removed) log?.warn?.(`removed stale session lock: ${found.lockPath} (${found.staleReasons.join(', ')})`);
  }
  return { locks, cleaned: locks.filter(({ removed }) => removed) };
}

/** One lock file, removed if it may be. Nothing if it is gone. */
async function cleaned(lockPath, how, mayRemove) {
  const inspected = async () => {
    const { text, payload } = await judge.read(lockPath);
    const found = judge.inspect(payload, how);
    return { text, found, removable: text !== null && !how.held && (await judge.isRemovable(lockPath, found, how)) };
  };
  const { text, found, removable } = await inspected();
  if (text === null) return null;
  const record = { lockPath, ...found, removable, removed: false };
  if (!removable || !mayRemove) return record;
  // No user of tenure has it, and none gets it until the file is gone.
  const guard = tryLockSync(sessionOf(lockPath));
  if (!guard) return record;
  try {
    const again = await inspected();
    if (again.removable) {
      removeIf(lockPath, again.text);
      record.removed = true;
    }
  } finally {
    guard.releaseSync();
  }
  return record;
}

/** For tests: no holds, no listeners. */
function resetSessionWriteLockStateForTest() {
  releaseAllLocksSync();
  notAtExit(shared.act);
  judge.resolver.of = null;
}

/** The same, once every hold has been given back. */
async function drainSessionWriteLockStateForTest() {
  await Promise.all([...shared.held.values()].map((held) => end(held)));
  notAtExit(shared.act);
}

/** What OpenClaw's own tests reach for. */
const testing = {
  cleanupSignals: [...SIGNALS],
  handleTerminationSignal: handle,
  inspectLockPayloadForTest: judge.inspectPayload,
  releaseAllLocksSync,
  resolveRemainingAcquireTimeoutMs: options.remainingMs,
  runLockWatchdogCheck,
  setProcessStartTimeResolverForTest(resolver) {
    judge.resolver.of = resolver;
  },
};
// OpenClaw's helpers for its tests find them here.
globalThis[Symbol.for('openclaw.sessionWriteLockTestApi')] = { resetSessionWriteLockStateForTest, testing };

const { SessionWriteLockError, isSessionWriteLockAcquireError } = errors;
const { resolveSessionLockMaxHoldFromTimeout, resolveSessionWriteLockAcquireTimeoutMs } = options;
const { resolveSessionWriteLockOptions, resolveSessionWriteLockStaleMs } = options;

module.exports = {
  SessionWriteLockError,
  SessionWriteLockStaleError,
  SessionWriteLockTimeoutError,
  __testing: testing,
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
};
