'use strict';

const { performance } = require('perf_hooks');
const { all, allSync, later, now } = require('./call.cjs');
const { holder, invalid } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { apart, store } = require('./store.cjs');

const LOCK = {
  allowNetwork: options.flag,
  fence: options.whole,
  label: options.text,
  lockFile: options.lockFile,
  maxHold,
  owner: options.text,
  reentrant: options.flag,
  shared: options.flag,
  slots,
  waitMs: options.time,
};
const ASYNC = { ...LOCK, signal: options.signal };
/** What is said of one hold alone does not fit several. */
const { fence: _, lockFile: _file, maxHold: _limit, ...ALL } = LOCK;
const SLOTS_MAX = 64;

function slots(given, name) {
  if (!Number.isInteger(given) || given < 1 || given > SLOTS_MAX) {
    throw invalid(`read ${name}`, `it must be a whole number from 1 to ${SLOTS_MAX}, not ${options.shown(given)}`);
  }
  return given;
}

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

  /** The fence of this hold; 0 for a shared one. A hold whose fence no caller asked for ends faster. */
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

  async release() {
    if (this.#native.endsNow) this.releaseSync();
    else await later(undefined, (call) => this.#native.release(call));
  }

  releaseSync() {
    now(() => this.#native.release());
  }
}
// Node 18 and 20 have the symbols; a program may have brought its own.
if (Symbol.dispose) Guard.prototype[Symbol.dispose] = Guard.prototype.releaseSync;
if (Symbol.asyncDispose) Guard.prototype[Symbol.asyncDispose] = Guard.prototype.release;

/** Several locks that are held together. */
class Guards {
  /** The guard of each target, in the order of the resolved names. */
  guards;

  constructor(made) {
    this.guards = Object.freeze(made.map((each) => new Guard(each)));
  }

  /** False once one of them is not held any more. */
  get held() {
    return this.guards.every((guard) => guard.held);
  }

  async verify() {
    for (const guard of this.guards) await guard.verify();
  }

  verifySync() {
    for (const guard of this.guards) guard.verifySync();
  }

  /** Releases all of them, whatever happens to one; then throws what happened. */
  async release() {
    await all(this.guards.map((guard) => guard.release()));
  }

  releaseSync() {
    allSync(this.guards, (guard) => guard.releaseSync());
  }
}
if (Symbol.dispose) Guards.prototype[Symbol.dispose] = Guards.prototype.releaseSync;
if (Symbol.asyncDispose) Guards.prototype[Symbol.asyncDispose] = Guards.prototype.release;

/** What a caller says who says nothing: most do, and reading it would cost as much as half a lock. */
const NOTHING = Object.freeze({});

const asked = (given, readers) => (given === undefined ? NOTHING : options.read(given, readers));

/** The options for the native half; undefined where there is nothing to say. */
function forLock(found) {
  const inherited = options.inheritedByLock(found);
  if (found === NOTHING && !inherited) return undefined;
  const { maxHold: _, signal, ...rest } = found;
  return {
    shared: false,
    label: '',
    owner: '',
    reentrant: false,
    allowNetwork: false,
    ...rest,
    inherited: inherited ?? {},
  };
}

/** What the native half wants to know of a limit. */
function limits({ maxHold: limit }) {
  return limit ? [{ afterMs: limit.afterMs, end: limit.end ?? false }, limit.report && (() => limit.report())] : [];
}

/** How long locks that need no thread may keep the event loop to themselves, in ms. */
const TURN = 1;
let began = 0;

/** Lets timers and sockets in, if this turn of the event loop has lasted: locks alone never end it. */
function others() {
  if (!began) {
    began = performance.now();
    setImmediate(() => (began = 0));
  } else if (performance.now() - began > TURN) {
    return new Promise(setImmediate);
  }
}

/** Takes a lock; `target` is a native half that can, with the arguments that come first. */
async function take(given, target, ...first) {
  const found = asked(given, ASYNC);
  found.signal?.throwIfAborted();
  const wanted = forLock(found);
  // It is free most of the time: then no thread is needed.
  const free = found.maxHold ? null : now(() => target.acquireNow(...first, wanted));
  if (free) await others();
  if (free && !found.signal) return new Guard(free);
  const waits = (call) => target.acquire(call, ...first, wanted, ...limits(found));
  const guard = new Guard(await (free ?? later(found.signal, waits)));
  if (found.signal?.aborted) {
    // It was won while the signal aborted: a caller that gave up must not hold it.
    await guard.release();
    throw found.signal.reason;
  }
  return guard;
}

function takeSync(given, target, ...first) {
  const found = asked(given, LOCK);
  return new Guard(now(() => target.acquire(undefined, ...first, forLock(found), ...limits(found))));
}

const unlessBusy = (error) => {
  if (error?.code === 'busy') return null;
  throw error;
};

const withoutWait = (given) => options.plus(given, { waitMs: 0 });

/** A target to be locked again and again: its path is resolved once, and its files stay open. */
class Lock {
  #native;

  constructor(path, given) {
    const { store: place } = options.read(given, { store });
    this.#native = now(() => new native.Lock(options.path(path), place));
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  acquire(given) {
    return take(given, this.#native);
  }

  acquireSync(given) {
    return takeSync(given, this.#native);
  }

  async tryAcquire(given) {
    return this.acquire(withoutWait(given)).catch(unlessBusy);
  }

  tryAcquireSync(given) {
    try {
      return this.acquireSync(withoutWait(given));
    } catch (error) {
      return unlessBusy(error);
    }
  }
}

async function lock(path, given) {
  const [rest, place] = apart(given);
  return take(rest, native, options.path(path), place);
}

function lockSync(path, given) {
  const [rest, place] = apart(given);
  return takeSync(rest, native, options.path(path), place);
}

async function tryLock(path, given) {
  return lock(path, withoutWait(given)).catch(unlessBusy);
}

function tryLockSync(path, given) {
  try {
    return lockSync(path, withoutWait(given));
  } catch (error) {
    return unlessBusy(error);
  }
}

/** Takes the locks on several paths, all or none, with one deadline. */
async function lockAll(paths, given) {
  const [rest, place] = apart(given);
  const found = asked(rest, { ...ALL, signal: options.signal });
  const wanted = options.paths(paths);
  const made = await later(found.signal, (call) => native.acquireAll(call, wanted, place, forLock(found)));
  const guards = new Guards(made);
  if (found.signal?.aborted) {
    await guards.release();
    throw found.signal.reason;
  }
  return guards;
}

function lockAllSync(paths, given) {
  const [rest, place] = apart(given);
  const found = asked(rest, ALL);
  return new Guards(now(() => native.acquireAll(undefined, options.paths(paths), place, forLock(found))));
}

/** Runs a function under the lock and releases it, whatever happens. */
/** The options, if there are any, come before the function. */
function inOrder(given, act) {
  if (typeof given !== 'function') return [given, act];
  if (act !== undefined) throw invalid('run under the lock', 'the options come before the function');
  return [undefined, given];
}

async function withLock(path, given, act) {
  [given, act] = inOrder(given, act);
  options.callback(act, 'the function');
  const guard = await lock(path, given);
  try {
    return await act(guard);
  } finally {
    await guard.release();
  }
}

function withLockSync(path, given, act) {
  [given, act] = inOrder(given, act);
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

module.exports = { Guard, Guards, LOCK, Lock, forLock, lock, lockAll, lockAllSync, lockSync, tryLock, tryLockSync, withLock, withLockSync };
