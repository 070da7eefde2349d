'use strict';

const { later, now } = require('./call.cjs');
const { holder, invalid } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');

const LOCK = {
  allowNetwork: options.flag,
  fence: options.whole,
  label: options.text,
  lockFile: options.lockFile,
  maxHold,
  owner: options.text,
  reentrant: options.flag,
  shared: options.flag,
  waitMs: options.time,
};
const ASYNC = { ...LOCK, signal: options.signal };

function maxHold(given) {
  const found = options.read(given, { afterMs: options.finiteTime, end: options.flag, report: options.callback });
  if (found.afterMs === undefined) throw invalid('read maxHold', 'it needs afterMs');
  return found;
}

/** A lock that is held until it is released, or until its thread of JavaScript ends. */
class Guard {
  #native;

  constructor(made) {
    if (!(made instanceof native.Guard)) throw invalid('make a guard', 'a guard is what lock() returns');
    this.#native = made;
  }

  /** The fence of this hold; 0 for a shared one. */
  get fence() {
    return this.#native.fence;
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  /** False once it was released, or `maxHold` ended it. */
  get held() {
    return this.#native.held;
  }

  /** Who held it before and died without releasing, or null. */
  get recoveredFrom() {
    const found = this.#native.recoveredFrom;
    return found === null ? null : holder(JSON.parse(found));
  }

  verify() {
    return later(undefined, (call) => this.#native.verify(call));
  }

  verifySync() {
    now(() => this.#native.verify());
  }

  release() {
    return later(undefined, (call) => this.#native.release(call));
  }

  releaseSync() {
    now(() => this.#native.release());
  }
}
// Node 18 and 20 have the symbols; a program may have brought its own.
if (Symbol.dispose) Guard.prototype[Symbol.dispose] = Guard.prototype.releaseSync;
if (Symbol.asyncDispose) Guard.prototype[Symbol.asyncDispose] = Guard.prototype.release;

/** The arguments of the native `acquire`, without the call. */
function asked(path, found) {
  const { maxHold: limit, signal, ...rest } = found;
  const complete = {
    shared: false,
    label: '',
    owner: '',
    reentrant: false,
    allowNetwork: false,
    ...rest,
    inherited: options.inherited(),
  };
  const watched = limit && { afterMs: limit.afterMs, end: limit.end ?? false };
  return [options.path(path), complete, watched, limit?.report && (() => limit.report())];
}

async function lock(path, given) {
  const found = options.read(given, ASYNC);
  const guard = new Guard(await later(found.signal, (call) => native.acquire(call, ...asked(path, found))));
  if (found.signal?.aborted) {
    // It was won while the signal aborted: whoever gave up must not hold it.
    await guard.release();
    throw found.signal.reason;
  }
  return guard;
}

function lockSync(path, given) {
  const found = options.read(given, LOCK);
  return new Guard(now(() => native.acquire(undefined, ...asked(path, found))));
}

const isBusy = (error) => error?.code === 'busy';

async function tryLock(path, given) {
  try {
    return await lock(path, options.plus(given, { waitMs: 0 }));
  } catch (error) {
    if (isBusy(error)) return null;
    throw error;
  }
}

function tryLockSync(path, given) {
  try {
    return lockSync(path, options.plus(given, { waitMs: 0 }));
  } catch (error) {
    if (isBusy(error)) return null;
    throw error;
  }
}

/** Runs a function under the lock and releases it, whatever happens. */
async function withLock(path, given, act) {
  if (typeof given === 'function') [given, act] = [undefined, given];
  options.callback(act, 'the function');
  const guard = await lock(path, given);
  try {
    return await act(guard);
  } finally {
    await guard.release();
  }
}

function withLockSync(path, given, act) {
  if (typeof given === 'function') [given, act] = [undefined, given];
  options.callback(act, 'the function');
  const guard = lockSync(path, given);
  try {
    const result = act(guard);
    if (typeof result?.then === 'function') {
      throw invalid('run under the lock', 'the function returned a promise; use withLock');
    }
    return result;
  } finally {
    guard.releaseSync();
  }
}

module.exports = { Guard, lock, lockSync, tryLock, tryLockSync, withLock, withLockSync };
