'use strict';

// write-file-atomic: a file is replaced as a whole, or not at all. Same calls; besides, writers of one
// file in all processes come one after the other, and the name is synced as well as the content.

const { createHash, randomBytes } = require('crypto');
const fs = require('fs');
const path = require('path');
const { lock, lockSync } = require('../index.cjs');
const { fenceOf } = require('./held.cjs');
const { sleepSync } = require('./owner.cjs');
const steps = require('./steps.cjs');

const WAIT_MS = 60_000;
/** A longer name is not part of the temporary one, which must fit into 255 bytes. */
const NAME_MAX_BYTES = 180;
const STICKY = 0o1000;
const TEMPORARY = /^\.(.+)\.tenure-[0-9a-f]{16}\.tmp$/s;
/** Of how many directories is remembered that they were looked through. */
const LOOKED_MAX = 1000;

/** The last write of this process to each file: the next one waits for it, in the order of the calls. */
const queues = new Map();

/** Files whose asynchronous write has asked for the lock, and has not begun to give it back. */
const entering = new Set();

/** Temporary files that this process is writing, in every copy of this module. */
const writing = (globalThis[Symbol.for('tenure.compat.write-file-atomic')] ??= new Set());

function optionsOf(given) {
  const { encoding = 'utf8', fsync = true, ...rest } = typeof given === 'string' ? { encoding: given } : (given ?? {});
  return { ...rest, encoding: encoding ?? 'utf8', fsync };
}

function bytesOf(data, encoding) {
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return Buffer.from(String(data ?? ''), encoding);
}

/**
 * The file itself, if the name is a symlink, and what is locked for it. There may be no file yet, but there
 * must be a directory. A symlink to nothing is replaced; no lock can be on it, so that is on a name beside it.
 */
function placeOf(filename) {
  try {
    const file = fs.realpathSync(filename);
    return { file, target: file };
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'ELOOP') throw error;
  }
  const given = path.resolve(filename);
  const file = path.join(fs.realpathSync(path.dirname(given)), path.basename(given));
  const isLink = fs.lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  return { file, target: isLink ? `${file}.dangling-link` : file };
}

/** Where the temporary files of a file are, and how their names begin. */
function temporariesOf(file) {
  const dir = path.dirname(file);
  const name = path.basename(file);
  const short = Buffer.byteLength(name) <= NAME_MAX_BYTES;
  return {
    // Beside our lock, where a left-over disturbs no one. In a sticky directory the locks are somewhere else.
    dir: fs.statSync(dir).mode & STICKY ? dir : path.join(dir, '.tenure'),
    name: short ? name : `~${createHash('sha256').update(name).digest('hex').slice(0, 32)}`,
  };
}

/** What was left in the directories that this process has written to, by file. */
const looked = new Map();

function lookThrough(dir) {
  const found = new Map();
  for (const each of fs.readdirSync(dir)) {
    const name = TEMPORARY.exec(each)?.[1];
    if (name !== undefined) found.set(name, [...(found.get(name) ?? []), path.join(dir, each)]);
  }
  if (looked.size >= LOOKED_MAX) looked.clear();
  looked.set(dir, found);
  return found;
}

/**
 * Removes what killed writers of this file left. Only the exclusive holder may: then no other process is
 * writing this file, so that every temporary file of it, except our own, is one that will never be finished.
 * The directory is looked through once, and again if the last holder died.
 */
function sweep(file, guard) {
  try {
    const { dir, name } = temporariesOf(file);
    const found = (guard.recoveredFrom === null && looked.get(dir)) || lookThrough(dir);
    for (const each of found.get(name) ?? []) if (!writing.has(each)) fs.rmSync(each, { force: true });
    found.delete(name);
  } catch {
    // Left-overs are no reason not to write.
  }
}

/** The file that will be replaced, if the name is one's. */
function oldOf(file) {
  try {
    return fs.statSync(file, { throwIfNoEntry: false });
  } catch (error) {
    if (error.code !== 'ELOOP') throw error;
    return undefined;
  }
}

/** Writes the new file beside the old one and puts it in its place. Nothing is left if that fails. Yields
 * what has to be waited for. */
function* replace(file, data, { encoding, fsync, mode, chown, tmpfileCreated }) {
  const old = oldOf(file);
  const wantedMode = mode ?? old?.mode;
  const owner = chown ?? (old && process.getuid && { uid: old.uid, gid: old.gid });
  const { dir, name } = temporariesOf(file);
  const temp = path.join(dir, `.${name}.tenure-${randomBytes(8).toString('hex')}.tmp`);
  writing.add(temp);
  try {
    // Closed to others until it has its own mode.
    const descriptor = fs.openSync(temp, 'wx', 0o600);
    try {
      if (tmpfileCreated) yield tmpfileCreated(temp);
      const bytes = bytesOf(data, encoding);
      for (let done = 0; done < bytes.length; ) done += fs.writeSync(descriptor, bytes, done);
      if (owner) tolerant(() => fs.fchownSync(descriptor, owner.uid, owner.gid));
      // After the owner, whose change takes bits away.
      tolerant(() => fs.fchmodSync(descriptor, wantedMode === undefined || wantedMode === false ? 0o666 & ~process.umask() : wantedMode));
      if (fsync !== false) fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(temp, file);
  } catch (error) {
    fs.rmSync(temp, { force: true });
    throw error;
  } finally {
    writing.delete(temp);
  }
  if (fsync !== false) syncDirectory(path.dirname(file));
}

/** Owner and mode are given as far as the system and the user's rights allow, like those of the original. */
function tolerant(act) {
  try {
    act();
  } catch (error) {
    const root = process.getuid?.() === 0;
    if (error.code !== 'ENOSYS' && (root || (error.code !== 'EINVAL' && error.code !== 'EPERM'))) throw error;
  }
}

/** A new name is durable when its directory is. */
function syncDirectory(dir) {
  if (process.platform === 'win32') return;
  const descriptor = fs.openSync(dir, 'r');
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

/** A caller that holds the file through another drop-in passes the fence of that hold. */
const asked = (target) => ({ waitMs: WAIT_MS, label: 'write-file-atomic', fence: fenceOf(target) });

/** Whether a lock that is asked for like this admits no other holder. */
const isAlone = ({ fence }) => fence === undefined && !process.env.TENURE_TARGET && !process.env.TENURE_OUTER;

/** The lock, and the file that it is for. What the name stands for may change until it is locked. */
async function enter(filename) {
  for (;;) {
    const { file, target } = placeOf(filename);
    const how = asked(target);
    entering.add(file);
    let guard;
    try {
      guard = await lock(target, how);
      if (placeOf(filename).target === target) {
        if (isAlone(how)) sweep(file, guard);
        return { file, guard };
      }
    } catch (error) {
      entering.delete(file);
      await guard?.release();
      throw error;
    }
    entering.delete(file);
    await guard.release();
  }
}

async function write(filename, data, given) {
  const options = optionsOf(given);
  const { file: key } = placeOf(filename);
  const before = queues.get(key);
  const mine = (async () => {
    await before?.catch(() => {});
    const { file, guard } = await enter(filename);
    try {
      await steps.later(replace(file, data, options));
    } finally {
      entering.delete(file);
      await guard.release();
    }
  })();
  queues.set(key, mine);
  try {
    await mine;
  } finally {
    if (queues.get(key) === mine) queues.delete(key);
  }
}

/** Replaces a file. The promise is settled after the callback, if there is one. */
async function writeFile(filename, data, options, callback) {
  if (typeof options === 'function') [options, callback] = [undefined, options];
  const done = write(filename, data, options);
  if (!callback) return done;
  return done.then(
    () => callback(),
    (error) => callback(error),
  );
}

/** The lock, or null if an asynchronous write of ours has it and waits for this very thread: then no caller
 * else is in. One that is just being released is waited for. */
function enterSync(filename) {
  for (;;) {
    const { file, target } = placeOf(filename);
    const how = asked(target);
    let guard;
    try {
      guard = lockSync(target, how);
      if (placeOf(filename).target === target) {
        if (isAlone(how)) sweep(file, guard);
        return { file, guard };
      }
    } catch (error) {
      guard?.releaseSync();
      if (error.code !== 'deadlock' || !queues.has(file)) throw error;
      if (entering.has(file)) return { file, guard: null };
      sleepSync(1);
      continue;
    }
    guard.releaseSync();
  }
}

function writeFileSync(filename, data, options) {
  const { file, guard } = enterSync(filename);
  try {
    steps.now(replace(file, data, optionsOf(options)));
  } finally {
    guard?.releaseSync();
  }
}

module.exports = writeFile;
module.exports.sync = writeFileSync;
