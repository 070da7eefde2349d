'use strict';

// proper-lockfile: the same calls, options and error codes. The truth is the kernel's lock, which the
// death of its holder frees at once; the directory `<file>.lock` is made, refreshed and removed for
// programs that know only that, and theirs is respected.
//
// With an `fs` of the caller every operation on the directory goes through it. If the directory then is not
// on the real disk (a file system in memory), there is nothing for the kernel to lock, and the directory alone
// decides, as in the original.

const fs = require('fs');
const path = require('path');
const { performance } = require('perf_hooks');
const tenure = require('../index.cjs');
const { atExit } = require('./at-exit.cjs');
const { forget, remember } = require('./held.cjs');
const steps = require('./steps.cjs');

const STALE_MS = 10_000;
const STALE_MIN_MS = 2000;
const UPDATE_MIN_MS = 1000;
/** After an update that failed. */
const UPDATE_AGAIN_MS = 1000;
const POLL_MS = 50;
/** File times come from a clock that is a tick or two behind. */
const CLOCK_LAG_MS = 20;
/** So soon after it has the lock, a holder makes its directory. */
const MADE_WITHIN_MS = 1000;
/** Of our holds; the next holder knows by it what we left. */
const LABEL = 'proper-lockfile';

/** Held by this process, by the path of the lock directory. */
const held = new Map();

const failure = (code, message, file, cause) =>
  Object.assign(new Error(message, cause && { cause }), { code, file });

/** The operations on the directory, by the name of their method. What they return is yielded to be waited for. */
function operationsOf(given, sync) {
  if (given === undefined || given === null || given === fs || given === fs.default) {
    return { isOurs: true, call: (method, ...args) => fs[`${method}Sync`](...args) };
  }
  if (sync) return { given, call: (method, ...args) => given[`${method}Sync`](...args) };
  const call = (method, ...args) =>
    new Promise((resolve, reject) => {
      given[method](...args, (error, result) => (error ? reject(error) : resolve(result)));
    });
  return { given, call };
}

function optionsOf(given, sync) {
  const { realpath, retries, onCompromised, lockfilePath, stale: wantedStale } = {
    realpath: true,
    retries: 0,
    onCompromised: throwIt,
    stale: STALE_MS,
    ...given,
  };
  const stale = Math.max(wantedStale || 0, STALE_MIN_MS);
  const wanted = given?.update === undefined || given.update === null ? stale / 2 : given.update || 0;
  const update = Math.max(Math.min(wanted, stale / 2), UPDATE_MIN_MS);
  const operations = operationsOf(given?.fs, sync);
  return { realpath, onCompromised, lockfilePath, stale, update, waitMs: patience(retries), operations };
}

function throwIt(error) {
  throw error;
}

/** All the pauses between the attempts of a retry policy: so long is waited, in the kernel. */
function patience(given) {
  const policy = typeof given === 'number' ? { retries: given } : (given || { retries: 0 });
  const { retries = 10, factor = 2, minTimeout = 1000, maxTimeout = Infinity, forever = false } = policy;
  if (forever) return Infinity;
  let sum = 0;
  for (let attempt = 0; attempt < retries && Number.isFinite(sum); attempt += 1) {
    sum += Math.min(minTimeout * factor ** attempt, maxTimeout);
  }
  return sum;
}

/** The file, the path of its lock directory, and what the kernel locks. */
function* namesOf(file, { realpath, lockfilePath, operations }) {
  const real = realpath ? yield operations.call('realpath', file) : path.resolve(file);
  const directory = lockfilePath ? path.resolve(lockfilePath) : `${real}.lock`;
  // A lock path of its own is a lock of its own, as is a symlink that is not to be followed.
  const isOwn = lockfilePath || (!realpath && isLink(real));
  return { file: real, directory, target: isOwn ? directory : real };
}

const lookAt = (name) => {
  try {
    return fs.lstatSync(name, { throwIfNoEntry: false });
  } catch {
    return undefined; // A name that the disk does not have, such as `file/name`.
  }
};
const isLink = (name) => lookAt(name)?.isSymbolicLink() ?? false;
/** Without its directory there is nothing to lock, and none is to be made. */
const canBeLocked = ({ target }) => lookAt(path.dirname(target)) !== undefined;

const timeOf = (found) => found.mtime.getTime();
const isFresh = (found, stale) => timeOf(found) >= Date.now() - stale;

/** Which directory it is: another program may have put its own in the place of ours. */
function identityOf(directory) {
  const found = lookAt(directory);
  return found && `${found.ino}:${found.birthtimeMs}`;
}

/**
 * Makes the lock directory under the kernel's lock. False while another program's is in the way.
 *
 * If the holder before us was killed, a directory that was made when its hold began is its own, since it
 * never kept the lock while another program's was there.
 */
function* makeDirectory({ directory }, guard, { stale, operations }) {
  if (yield* madeDirectory(directory, operations)) return true;
  let found;
  try {
    if (operations.isOurs) refuseOther(directory);
    found = yield operations.call('stat', directory);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    // It was removed meanwhile.
    return yield* madeDirectory(directory, operations);
  }
  const dead = guard?.recoveredFrom?.label === LABEL ? guard.recoveredFrom.sinceUs / 1000 : NaN;
  const isOfTheDead = found.birthtimeMs >= dead - CLOCK_LAG_MS && found.birthtimeMs <= dead + MADE_WITHIN_MS;
  if (isFresh(found, stale) && !isOfTheDead) return false;
  // No user of tenure has it, and no other process has refreshed it for long.
  yield* removeDirectory(directory, operations);
  return yield* madeDirectory(directory, operations);
}

function* madeDirectory(directory, operations) {
  try {
    yield operations.call('mkdir', directory);
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  }
}

/** What is no directory will never go stale. */
function refuseOther(directory) {
  const found = lookAt(directory);
  if (found && !found.isDirectory()) throw failure('ENOTDIR', `${directory} is in the way: it is no directory`, directory);
}

function* removeDirectory(directory, operations) {
  try {
    yield operations.call('rmdir', directory);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

/** Takes our own directory away, if it is still there. */
function* leave(entry, operations) {
  const found = identityOf(entry.directory);
  if (found === undefined || entry.identity === undefined || found === entry.identity) {
    yield* removeDirectory(entry.directory, operations);
  }
}

/** Gives the kernel's lock back. If its file was removed there is nothing to give back, as there is no directory. */
function* giveBack(guard, sync) {
  try {
    if (guard) yield sync ? guard.releaseSync() : guard.release();
  } catch (error) {
    if (error.code !== 'compromised') throw error;
  }
}

/** The kernel's lock together with the directory: an entry, or null while another program's is in the way. */
function* both(names, guard, refused, options) {
  const { operations } = options;
  try {
    if (!(yield* makeDirectory(names, guard, options))) {
      yield* giveBack(guard, true);
      return null;
    }
  } catch (error) {
    yield* giveBack(guard, true);
    throw error;
  }
  const identity = identityOf(names.directory);
  try {
    // There is a directory on the disk, and the kernel cannot lock what it stands for.
    if (!guard && refused && identity !== undefined) throw refused;
    const { mtime } = yield operations.call('stat', names.directory);
    const isVirtual = !operations.isOurs && identity === undefined && identityOf(names.directory) === undefined;
    if (isVirtual || (guard && identity !== undefined)) {
      if (isVirtual) yield* giveBack(guard, true);
      return keep(names, isVirtual ? null : guard, identity, mtime, options);
    }
  } catch (error) {
    yield* giveBack(guard, true);
    yield* removeDirectory(names.directory, operations);
    throw error;
  }
  // Another process removed it at this very moment, so that what is there is not ours, or made what there was nothing to
  // lock in, so that it is ours without the kernel's lock.
  if (!guard && identity !== undefined) yield* removeDirectory(names.directory, operations);
  yield* giveBack(guard, true);
  return null;
}

function keep(names, guard, identity, mtime, options) {
  const entry = { ...names, guard, identity, mtime, options, updated: Date.now(), released: false, timer: null };
  // Some file systems keep seconds only.
  entry.newTime = mtime.getTime() % 1000 === 0 ? () => new Date(Math.ceil(Date.now() / 1000) * 1000) : () => new Date(Date.now());
  held.set(names.directory, entry);
  if (guard) remember(names.target, guard);
  atExit(leaveAllAtExit);
  updateAfter(entry, options.update);
  return entry;
}

function leaveAllAtExit() {
  for (const entry of held.values()) {
    try {
      steps.now(leave(entry, operationsOf(entry.options.operations.given, true)));
    } catch {
      // It becomes stale by itself.
    }
  }
}

function updateAfter(entry, delay) {
  entry.timer = setTimeout(() => {
    steps.later(update(entry)).then((problem) => {
      if (entry.released) return;
      if (problem?.again) updateAfter(entry, UPDATE_AGAIN_MS);
      else if (problem) compromise(entry, problem);
      else updateAfter(entry, entry.options.update);
    });
  }, delay);
  entry.timer.unref?.();
}

/** Tells other programs that we live. Returns why the hold is lost, if it is: others may be in. */
function* update(entry) {
  const { options, guard } = entry;
  try {
    guard?.verifySync();
  } catch (error) {
    return failure('ECOMPROMISED', error.message, entry.file, error);
  }
  const { operations, stale } = options;
  try {
    const found = yield operations.call('stat', entry.directory);
    if (timeOf(found) !== entry.mtime.getTime()) {
      return failure('ECOMPROMISED', 'Unable to update lock within the stale threshold', entry.file);
    }
    const mtime = entry.newTime();
    yield operations.call('utimes', entry.directory, mtime, mtime);
    entry.mtime = mtime;
    entry.updated = Date.now();
    return null;
  } catch (error) {
    const isOver = entry.updated + stale < Date.now();
    if (error.code !== 'ENOENT' && !isOver) return { again: true };
    return failure('ECOMPROMISED', error.message, entry.file, error);
  }
}

function compromise(entry, error) {
  drop(entry);
  try {
    entry.guard?.releaseSync();
  } catch {
    // It was lost before.
  }
  // Outside of every promise: what the callback throws is for the process, as it always was.
  process.nextTick(() => entry.options.onCompromised(error));
}

function drop(entry) {
  clearTimeout(entry.timer);
  entry.released = true;
  if (held.get(entry.directory) === entry) held.delete(entry.directory);
  if (entry.guard) forget(entry.target, entry.guard);
}

const elocked = (file, cause) => failure('ELOCKED', 'Lock file is already being held', file, cause);
const notAcquired = (file) => failure('ENOTACQUIRED', 'Lock is not acquired/owned by you', file);
const alreadyReleased = (file) => failure('ERELEASED', 'Lock is already released', file);

async function acquire(names, options) {
  const deadline = performance.now() + options.waitMs;
  for (;;) {
    const waitMs = Math.max(0, deadline - performance.now());
    let guard = null;
    let refused;
    try {
      if (canBeLocked(names)) guard = await tenure.lock(names.target, { waitMs, label: LABEL });
    } catch (error) {
      if (error.code === 'busy') throw elocked(names.file, error);
      refused = error;
    }
    const entry = await steps.later(both(names, guard, refused, options));
    if (entry) return entry;
    if (performance.now() >= deadline) throw elocked(names.file);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function acquireSync(names, options) {
  let guard = null;
  let refused;
  try {
    if (canBeLocked(names)) {
      guard = tenure.tryLockSync(names.target, { label: LABEL });
      if (!guard) throw elocked(names.file);
    }
  } catch (error) {
    if (error.code === 'ELOCKED') throw error;
    refused = error;
  }
  const entry = steps.now(both(names, guard, refused, options));
  if (!entry) throw elocked(names.file);
  return entry;
}

/** The function with the fence of the hold, which is published when the caller asks for it. */
const proving = (release, { guard }) =>
  Object.defineProperty(release, 'fence', { get: () => guard?.fence, enumerable: true });

function* end(entry, operations, sync) {
  drop(entry);
  try {
    yield* leave(entry, operations);
  } finally {
    yield* giveBack(entry.guard, sync);
  }
}

async function lock(file, given) {
  const options = optionsOf(given, false);
  const names = await steps.later(namesOf(file, options));
  const entry = await acquire(names, options);
  const release = async () => {
    if (entry.released) throw alreadyReleased(names.file);
    await steps.later(end(entry, options.operations, false));
  };
  return proving(release, entry);
}

function lockSync(file, given) {
  if (given?.retries && patience(given.retries) > 0) throw failure('ESYNC', 'Cannot use retries with the sync api', file);
  const options = optionsOf(given, true);
  const names = steps.now(namesOf(file, options));
  const entry = acquireSync(names, options);
  const release = () => {
    if (entry.released) throw alreadyReleased(names.file);
    steps.now(end(entry, options.operations, true));
  };
  return proving(release, entry);
}

/** Who gives no lock path means the lock of this file, wherever its directory is. */
function entryOf({ file, directory }, { lockfilePath }) {
  const entry = held.get(directory) ?? (lockfilePath ? undefined : [...held.values()].findLast((each) => each.file === file));
  if (!entry) throw notAcquired(file);
  return entry;
}

async function unlock(file, given) {
  const options = optionsOf(given, false);
  const names = await steps.later(namesOf(file, options));
  await steps.later(end(entryOf(names, options), options.operations, false));
}

function unlockSync(file, given) {
  const options = optionsOf(given, true);
  const names = steps.now(namesOf(file, options));
  steps.now(end(entryOf(names, options), options.operations, true));
}

/** Whether the lock is held, by the kernel or by a fresh directory. */
function* isHeld(file, options) {
  const names = yield* namesOf(file, options);
  if (canBeLocked(names) && tenure.statusSync(names.target).held) return true;
  try {
    return isFresh(yield options.operations.call('stat', names.directory), options.stale);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return false;
  }
}

async function check(file, given) {
  return steps.later(isHeld(file, optionsOf(given, false)));
}

function checkSync(file, given) {
  return steps.now(isHeld(file, optionsOf(given, true)));
}

/** The locks of this process, by file. */
function getLocks() {
  return Object.fromEntries([...held.values()].map((entry) => [entry.file, { lockfilePath: entry.directory }]));
}

module.exports = lock;
module.exports.check = check;
module.exports.checkSync = checkSync;
module.exports.lock = lock;
module.exports.lockSync = lockSync;
module.exports.unlock = unlock;
module.exports.unlockSync = unlockSync;
// For `lib/lockfile` alone: no part of the original's main module.
Object.defineProperty(module.exports, Symbol.for('tenure.compat.proper-lockfile.getLocks'), { value: getLocks });
