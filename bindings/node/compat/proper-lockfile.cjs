'use strict';

// proper-lockfile: the same calls, options and error codes. The truth is the kernel's lock, which the
// death of its holder frees at once; the directory `<file>.lock` is made, refreshed and removed for
// programs that know only that, and theirs is respected.

const fs = require('node:fs');
const path = require('node:path');
const tenure = require('../index.cjs');
const { atExit } = require('./at-exit.cjs');
const { forget, remember } = require('./held.cjs');

const STALE_MS = 10_000;
const STALE_MIN_MS = 2000;
const UPDATE_MIN_MS = 1000;
const POLL_MS = 50;
/** File times come from a clock that is a tick or two behind. */
const CLOCK_LAG_MS = 20;
/** So soon after it has the lock, a holder makes its directory. */
const MADE_WITHIN_MS = 1000;
/** Of our holds; the next holder knows by it what we left. */
const LABEL = 'proper-lockfile';

/** Held by this process, by the path of the lock directory. */
const held = new Map();
let listening = false;

const failure = (code, message, file, cause) =>
  Object.assign(new Error(message, cause && { cause }), { code, file });

/** The kernel's lock is on real files: another file system cannot be honoured, and must not be ignored. */
function refuseOther(given) {
  if (given === undefined || given === null || given === fs || given === fs.default) return;
  if (typeof given.gracefulify === 'function') return; // graceful-fs: the same files, with more patience.
  throw failure('EINVAL', 'The option fs is not supported: the lock is the kernel\'s, on real files; leave it out');
}

function optionsOf(given = {}) {
  refuseOther(given.fs);
  const { realpath = true, retries = 0, onCompromised = throwIt, lockfilePath } = given;
  const stale = Math.max(given.stale || STALE_MS, STALE_MIN_MS);
  const wanted = given.update === undefined || given.update === null ? stale / 2 : given.update || 0;
  const update = Math.max(Math.min(wanted, stale / 2), UPDATE_MIN_MS);
  return { realpath, onCompromised, lockfilePath, stale, update, waitMs: patience(retries) };
}

function throwIt(error) {
  throw error;
}

/** All the pauses between the attempts of a retry policy: so long is waited, in the kernel. */
function patience(given) {
  const policy = typeof given === 'number' ? { retries: given } : (given ?? {});
  const { retries = 10, factor = 2, minTimeout = 1000, maxTimeout = Infinity, forever = false } = policy;
  if (forever) return Infinity;
  let sum = 0;
  for (let attempt = 0; attempt < retries && Number.isFinite(sum); attempt += 1) {
    sum += Math.min(minTimeout * factor ** attempt, maxTimeout);
  }
  return sum;
}

/** The file, and the path of its lock directory. */
function namesOf(file, { realpath, lockfilePath }) {
  const real = realpath ? fs.realpathSync(file) : path.resolve(file);
  const directory = lockfilePath ? path.resolve(lockfilePath) : `${real}.lock`;
  // A lock path of its own is a lock of its own.
  return { file: real, directory, target: lockfilePath ? directory : real };
}

const isFresh = (found, stale) => found.mtimeMs >= Date.now() - stale;

/**
 * Makes the lock directory under the kernel's lock. False while another program's is in the way.
 *
 * If the holder before us was killed, a directory that was made when its hold began is its own, since it
 * never kept the lock while another program's was there.
 */
function makeDirectory({ directory }, guard, stale) {
  const dead = guard.recoveredFrom?.label === LABEL ? guard.recoveredFrom.sinceUs / 1000 : NaN;
  const isOfTheDead = ({ birthtimeMs }) => birthtimeMs >= dead - CLOCK_LAG_MS && birthtimeMs <= dead + MADE_WITHIN_MS;
  for (;;) {
    try {
      fs.mkdirSync(directory);
      return true;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const found = fs.lstatSync(directory, { throwIfNoEntry: false });
    if (found && !found.isDirectory()) throw failure('ENOTDIR', `${directory} is in the way: it is no directory`, directory);
    if (found && isFresh(found, stale) && !isOfTheDead(found)) return false;
    // Nobody who uses tenure has it, and nobody else has refreshed it for long.
    if (found) removeDirectory(directory);
  }
}

/** Which directory it is: another program may have put its own in the place of ours. */
function identityOf(directory) {
  const found = fs.lstatSync(directory, { throwIfNoEntry: false });
  return found && `${found.ino}:${found.birthtimeMs}`;
}

/** Takes our own directory away, if it is still there. */
function leave(entry) {
  if (identityOf(entry.directory) === entry.identity) removeDirectory(entry.directory);
}

function removeDirectory(directory) {
  try {
    fs.rmdirSync(directory);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

function keep(names, guard, options) {
  const entry = { ...names, guard, identity: identityOf(names.directory), released: false, timer: null };
  held.set(names.directory, entry);
  remember(names.target, guard);
  if (!listening) {
    listening = true;
    atExit(() => [...held.values()].forEach(leaveAtExit));
  }
  entry.timer = setInterval(() => refresh(entry, options), options.update);
  entry.timer.unref();
  return entry;
}

function leaveAtExit(entry) {
  try {
    leave(entry);
  } catch {
    // It becomes stale by itself.
  }
}

/** Tells other programs that we live. What they do to the directory does not end our hold; only the loss
 * of the kernel's lock file does. */
function refresh(entry, { onCompromised }) {
  try {
    entry.guard.verifySync();
  } catch (error) {
    drop(entry);
    onCompromised(failure('ECOMPROMISED', error.message, entry.file, error));
    return;
  }
  try {
    const found = identityOf(entry.directory);
    const now = new Date();
    if (found === entry.identity) fs.utimesSync(entry.directory, now, now);
    else if (found === undefined) {
      fs.mkdirSync(entry.directory);
      entry.identity = identityOf(entry.directory);
    }
  } catch {
    // It is for others; the next time may do.
  }
}

function drop(entry) {
  clearInterval(entry.timer);
  entry.released = true;
  held.delete(entry.directory);
  forget(entry.target, entry.guard);
}

const elocked = (file, cause) => failure('ELOCKED', 'Lock file is already being held', file, cause);
const notAcquired = (file) => failure('ENOTACQUIRED', 'Lock is not acquired/owned by you', file);
const alreadyReleased = (file) => failure('ERELEASED', 'Lock is already released', file);

/** The kernel's lock together with the directory; null while another program's is in the way. */
function both(names, guard, { stale }) {
  try {
    if (makeDirectory(names, guard, stale)) return guard;
  } catch (error) {
    guard.releaseSync();
    throw error;
  }
  guard.releaseSync();
  return null;
}

async function acquire(names, options) {
  const deadline = performance.now() + options.waitMs;
  for (;;) {
    const waitMs = Math.max(0, deadline - performance.now());
    let guard;
    try {
      guard = await tenure.lock(names.target, { waitMs, label: LABEL });
    } catch (error) {
      throw error.code === 'busy' ? elocked(names.file, error) : error;
    }
    if (both(names, guard, options)) return guard;
    if (performance.now() >= deadline) throw elocked(names.file);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The function with the fence of the hold, which is told when somebody asks for it. */
const proving = (release, guard) => Object.defineProperty(release, 'fence', { get: () => guard.fence, enumerable: true });

async function lock(file, given) {
  const options = optionsOf(given);
  const names = namesOf(file, options);
  const guard = await acquire(names, options);
  const entry = keep(names, guard, options);
  const release = async () => {
    if (entry.released) throw alreadyReleased(names.file);
    drop(entry);
    try {
      leave(entry);
    } finally {
      await guard.release();
    }
  };
  return proving(release, guard);
}

function lockSync(file, given) {
  if (given?.retries && patience(given.retries) > 0) throw failure('ESYNC', 'Cannot use retries with the sync api', file);
  const options = optionsOf(given);
  const names = namesOf(file, options);
  const guard = tenure.tryLockSync(names.target, { label: LABEL });
  if (!guard || !both(names, guard, options)) throw elocked(names.file);
  const entry = keep(names, guard, options);
  const release = () => {
    if (entry.released) throw alreadyReleased(names.file);
    drop(entry);
    try {
      leave(entry);
    } finally {
      guard.releaseSync();
    }
  };
  return proving(release, guard);
}

function entryOf(file, given) {
  const names = namesOf(file, optionsOf(given));
  const entry = held.get(names.directory);
  if (!entry) throw notAcquired(names.file);
  drop(entry);
  return entry;
}

async function unlock(file, given) {
  const entry = entryOf(file, given);
  try {
    leave(entry);
  } finally {
    await entry.guard.release();
  }
}

function unlockSync(file, given) {
  const entry = entryOf(file, given);
  try {
    leave(entry);
  } finally {
    entry.guard.releaseSync();
  }
}

/** Whether anybody has the lock, by the kernel or by a fresh directory. */
function checkSync(file, given) {
  const options = optionsOf(given);
  const names = namesOf(file, options);
  if (tenure.statusSync(names.target).held) return true;
  const found = fs.statSync(names.directory, { throwIfNoEntry: false });
  return found !== undefined && isFresh(found, options.stale);
}

async function check(file, given) {
  return checkSync(file, given);
}

module.exports = lock;
module.exports.check = check;
module.exports.checkSync = checkSync;
module.exports.lock = lock;
module.exports.lockSync = lockSync;
module.exports.unlock = unlock;
module.exports.unlockSync = unlockSync;
