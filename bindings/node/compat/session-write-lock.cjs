'use strict';

// The session write lock of OpenClaw. Same calls and the same `<file>.lock` while it is held.
//
// The truth is the kernel's lock on the session file: the death of a holder frees it, nobody steals it,
// and it excludes every other user of tenure. The `.lock` file is written for programs that know only
// that, and theirs is respected; between them and us exclusion is as good as theirs.

const fs = require('fs');
const path = require('path');
const { performance } = require('perf_hooks');
const { lock, tryLockSync } = require('../index.cjs');
const { atExit } = require('./at-exit.cjs');
const { forget, remember } = require('./held.cjs');
const { isAlive, removeIf, startTime } = require('./owner.cjs');
const { SessionWriteLockError, SessionWriteLockStaleError, SessionWriteLockTimeoutError } = require('./session-errors.cjs');

const ACQUIRE_TIMEOUT_MS = 60_000;
const STALE_MS = 30 * 60 * 1000;
const MAX_HOLD_MS = 5 * 60 * 1000;
const MAX_HOLD_GRACE_MS = 2 * 60 * 1000;
const TIMER_MAX_MS = 2_147_000_000;
/** A lock file without an owner may be just being written. */
const PAYLOAD_GRACE_MS = 5000;
const BACKOFF_MS = { first: 50, most: 1000 };

/** Held by this process, by lock path. Shared by every copy of this module in it. */
const shared = (globalThis[Symbol.for('tenure.compat.session-write-lock')] ??= { held: new Map(), forget: null });

/** What a lock file says of its owner, and why it may be taken away. */
function inspect(lockPath, { staleMs = STALE_MS, nowMs = Date.now(), readOwnerProcessArgs } = {}) {
  const { payload, mtimeMs, text } = readPayload(lockPath);
  const pid = Number.isSafeInteger(payload.pid) && payload.pid > 0 ? payload.pid : null;
  const createdMs = typeof payload.createdAt === 'string' ? Date.parse(payload.createdAt) : NaN;
  const ageMs = Number.isNaN(createdMs) ? null : Math.max(0, nowMs - createdMs);
  const pidAlive = pid !== null && isAlive(pid);
  const known = typeof payload.starttime === 'number' ? payload.starttime : null;
  const start = pidAlive ? startTime(pid) : null;
  const proven = known !== null && start !== null && known === start;

  const staleReasons = [];
  if (pid === null) staleReasons.push('missing-pid');
  else if (!pidAlive) staleReasons.push('dead-pid');
  else if (known !== null && start !== null && !proven) staleReasons.push('recycled-pid');
  else if (pid === process.pid && known === null && !shared.held.has(lockPath)) staleReasons.push('orphan-self-pid');
  else if (readOwnerProcessArgs && !looksLikeOwner(readOwnerProcessArgs(pid))) staleReasons.push('non-openclaw-owner');
  // A process that is proven to be the one that wrote it is never robbed for its age.
  if (ageMs === null && !proven) staleReasons.push('invalid-createdAt');
  else if (ageMs > staleMs && !proven) staleReasons.push('too-old');

  const fresh = nowMs - mtimeMs <= PAYLOAD_GRACE_MS;
  const unfinished = pid === null || ageMs === null;
  // What is gone is nobody's, and there is nothing to take away.
  const there = text !== null;
  const stale = there && staleReasons.length > 0 && !(unfinished && !staleReasons.includes('dead-pid') && fresh);
  const found = { lockPath, pid, pidAlive, createdAt: payload.createdAt ?? null, ageMs, stale, staleReasons, removed: false };
  return { found, text };
}

/** What is in a lock file; no text if there is none. */
function readPayload(lockPath) {
  let mtimeMs = 0;
  let text = null;
  try {
    mtimeMs = fs.statSync(lockPath).mtimeMs;
    text = fs.readFileSync(lockPath, 'utf8');
    const payload = JSON.parse(text);
    return { payload: typeof payload === 'object' && payload !== null ? payload : {}, mtimeMs, text };
  } catch (error) {
    if (error.code === 'ENOENT' || error.name === 'SyntaxError') return { payload: {}, mtimeMs, text };
    throw error;
  }
}

const looksLikeOwner = (args) => !Array.isArray(args) || args.some((arg) => /openclaw/i.test(arg));

/** The lock file's path, the same for every spelling of the directory. */
function lockPathOf(sessionFile) {
  const file = path.resolve(sessionFile);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  return path.join(fs.realpathSync(path.dirname(file)), `${path.basename(file)}.lock`);
}

const sessionOf = (lockPath) => lockPath.slice(0, -'.lock'.length);

/** Writes the lock file under the kernel's lock, once no other program's is in the way. */
async function writeLockFile(lockPath, { deadline, staleMs, maxHoldMs, signal, timeoutMs }) {
  const payload = { pid: process.pid, createdAt: new Date().toISOString() };
  const start = startTime(process.pid);
  if (start !== null) payload.starttime = start;
  if (Number.isFinite(maxHoldMs)) payload.maxHoldMs = maxHoldMs;
  const text = `${JSON.stringify(payload, null, 2)}\n`;
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      fs.writeFileSync(lockPath, text, { flag: 'wx', mode: 0o600 });
      return text;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const { found, text: judged } = inspect(lockPath, { staleMs });
    if (judged === null) continue;
    if (found.stale) {
      removeIf(lockPath, judged);
      continue;
    }
    const left = deadline - performance.now();
    if (left <= 0) throw new SessionWriteLockTimeoutError({ timeoutMs, lockPath, owner: ownerOf(found) });
    await pause(Math.min(BACKOFF_MS.most, BACKOFF_MS.first * attempt, left), signal);
  }
}

const ownerOf = ({ pid }) => `pid=${pid ?? 'unknown'}`;

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    };
    const timer = setTimeout(end, ms);
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Takes the lock. It ends by `release`, by the end of the process, or after `maxHoldMs`. */
async function acquireSessionWriteLock(options) {
  const { sessionFile, timeoutMs = ACQUIRE_TIMEOUT_MS, staleMs = STALE_MS, maxHoldMs = MAX_HOLD_MS } = options;
  const { allowReentrant = false, signal } = options;
  signal?.throwIfAborted();
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
  shared.forget ??= atExit(({ ends }) => (ends ? releaseAllLocksSync() : removeLockFiles()));
  const held = { lockPath, guard, text, count: 1, ending: null, ended: false, timer: null };
  shared.held.set(lockPath, held);
  remember(sessionOf(lockPath), guard);
  watch(held, maxHoldMs);
  return handleOf(held);
}

async function kernelLock(lockPath, timeoutMs, signal) {
  try {
    return await lock(sessionOf(lockPath), { waitMs: timeoutMs, signal, label: 'session write lock' });
  } catch (error) {
    if (error?.code !== 'busy') throw error;
    const self = error.holder?.pid === process.pid;
    const owner = error.holder?.pid ? `pid=${error.holder.pid}` : ownerOf(inspect(lockPath).found);
    const detail = self ? `held by this process (pid ${process.pid}); an earlier run has not released it` : undefined;
    throw new SessionWriteLockTimeoutError({ timeoutMs, lockPath, owner, detail, cause: error });
  }
}

/** A hold that was forgotten ends: whoever still writes under it is told by `assertOwned`. */
function watch(held, maxHoldMs) {
  if (!(maxHoldMs > 0) || maxHoldMs > TIMER_MAX_MS) return;
  held.timer = setTimeout(() => {
    process.stderr.write(`[session-write-lock] releasing lock held longer than ${maxHoldMs}ms: ${held.lockPath}\n`);
    end(held).catch((error) => process.stderr.write(`[session-write-lock] ${error.message}\n`));
  }, maxHoldMs);
  held.timer.unref();
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

const lost = ({ lockPath }, cause) => new SessionWriteLockStaleError({ lockPath, staleReasons: ['lease-lost'], cause });

/** At a signal that somebody else answers: the files go, as they always did. The locks stay until the end,
 * since whoever goes on working must not meet a second holder. */
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

/** Looks at every `*.jsonl.lock` of a directory, and removes those whose owner is gone. */
function cleanStaleLockFiles({ sessionsDir, removeStale = true, log, ...how }) {
  let names;
  try {
    names = fs.readdirSync(sessionsDir).filter((name) => name.endsWith('.jsonl.lock')).sort();
  } catch (error) {
    if (error.code === 'ENOENT') return { locks: [], cleaned: [] };
    throw error;
  }
  const locks = names.map((name) => inspect(path.join(fs.realpathSync(sessionsDir), name), how).found);
  const cleaned = [];
  for (const found of locks.filter(({ stale }) => stale && removeStale)) {
    // Nobody who uses tenure has it, and nobody gets it until the file is gone.
    const guard = tryLockSync(sessionOf(found.lockPath));
    if (!guard) continue;
    try {
      const again = inspect(found.lockPath, how);
      if (!again.found.stale) continue;
      removeIf(found.lockPath, again.text);
      found.removed = true;
      cleaned.push(found);
      log?.info?.(`removed stale session lock: ${found.lockPath} (${found.staleReasons.join(', ')})`);
    } finally {
      guard.releaseSync();
    }
  }
  return { locks, cleaned };
}

/** How long a hold may last for a run with this timeout. */
function resolveSessionLockMaxHoldFromTimeout({ timeoutMs, graceMs = MAX_HOLD_GRACE_MS, minMs = MAX_HOLD_MS }) {
  if (!Number.isFinite(timeoutMs)) return TIMER_MAX_MS;
  return Math.min(TIMER_MAX_MS, Math.max(minMs, timeoutMs + graceMs));
}

/** The times that the environment, else the configuration, asks for. */
function resolveSessionWriteLockOptions(config, env = process.env) {
  const configured = config?.session?.writeLock ?? {};
  const pick = (name, fallback, other) => {
    const given = [env[`OPENCLAW_SESSION_WRITE_LOCK_${name}_MS`], configured[other]].map((each) => Number(each || NaN));
    return given.find((each) => Number.isFinite(each) && each > 0) ?? fallback;
  };
  return {
    timeoutMs: pick('ACQUIRE_TIMEOUT', ACQUIRE_TIMEOUT_MS, 'acquireTimeoutMs'),
    staleMs: pick('STALE', STALE_MS, 'staleMs'),
    maxHoldMs: pick('MAX_HOLD', MAX_HOLD_MS, 'maxHoldMs'),
  };
}

/** For tests: no holds, no listeners. */
function resetSessionWriteLockStateForTest() {
  releaseAllLocksSync();
  shared.forget?.();
  shared.forget = null;
}

module.exports = {
  SessionWriteLockError,
  SessionWriteLockStaleError,
  SessionWriteLockTimeoutError,
  acquireSessionWriteLock,
  cleanStaleLockFiles,
  releaseAllLocksSync,
  resetSessionWriteLockStateForTest,
  resolveSessionLockMaxHoldFromTimeout,
  resolveSessionWriteLockOptions,
};
