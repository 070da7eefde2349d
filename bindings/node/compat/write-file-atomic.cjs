'use strict';

// write-file-atomic: a file is replaced as a whole, or not at all. Same calls; besides, writers of one
// file in all processes come one after the other, and the name is synced as well as the content.

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { lock, lockSync } = require('../index.cjs');
const { fenceOf } = require('./held.cjs');
const { sleepSync } = require('./owner.cjs');

const WAIT_MS = 60_000;

/** The last write of this process to each file: the next one waits for it, in the order of the calls. */
const queues = new Map();

/** Files whose asynchronous write has asked for the lock, and has not begun to give it back. */
const entering = new Set();

function optionsOf(given) {
  const { encoding = 'utf8', fsync = true, ...rest } = typeof given === 'string' ? { encoding: given } : (given ?? {});
  return { ...rest, encoding: encoding ?? 'utf8', fsync };
}

function bytesOf(data, encoding) {
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return Buffer.from(String(data), encoding);
}

/** The file itself, if the name is a symlink. There may be no file yet, but there must be a directory. */
function realName(filename) {
  try {
    return fs.realpathSync(filename);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    const file = path.resolve(filename);
    return path.join(fs.realpathSync(path.dirname(file)), path.basename(file));
  }
}

/** Writes the new file beside the old one and puts it in its place. Nothing is left if that fails. */
function replace(file, data, { encoding, fsync, mode, chown, tmpfileCreated }) {
  const old = fs.statSync(file, { throwIfNoEntry: false });
  const wantedMode = mode === undefined ? old?.mode : mode === false ? undefined : mode;
  const owner = chown === undefined ? old && process.getuid && { uid: old.uid, gid: old.gid } : chown || undefined;
  // Beside our lock, where a left-over is in nobody's way.
  const temp = path.join(path.dirname(file), '.tenure', `${path.basename(file)}.tmp.${randomBytes(8).toString('hex')}`);
  // Closed to others until it has its own mode.
  const descriptor = fs.openSync(temp, 'wx', 0o600);
  try {
    try {
      tmpfileCreated?.(temp);
      const bytes = bytesOf(data, encoding);
      for (let done = 0; done < bytes.length; ) done += fs.writeSync(descriptor, bytes, done);
      if (owner) give(descriptor, owner, chown !== undefined);
      fs.fchmodSync(descriptor, wantedMode === undefined ? 0o666 & ~process.umask() : wantedMode & 0o7777);
      if (fsync !== false) fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(temp, file);
  } catch (error) {
    fs.rmSync(temp, { force: true });
    throw error;
  }
  if (fsync !== false) syncDirectory(path.dirname(file));
}

/** An owner that was asked for must be; that of the old file is kept if we may. */
function give(descriptor, { uid, gid }, asked) {
  try {
    fs.fchownSync(descriptor, uid, gid);
  } catch (error) {
    if (asked || error.code !== 'EPERM') throw error;
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

/** Whoever holds the file by another drop-in proves it. */
const asked = (file) => ({ waitMs: WAIT_MS, label: 'write-file-atomic', fence: fenceOf(file) });

async function write(filename, data, given) {
  const options = optionsOf(given);
  const file = realName(filename);
  const before = queues.get(file);
  const mine = (async () => {
    await before?.catch(() => {});
    entering.add(file);
    const guard = await lock(file, asked(file)).catch((error) => {
      entering.delete(file);
      throw error;
    });
    try {
      replace(file, data, options);
    } finally {
      entering.delete(file);
      await guard.release();
    }
  })();
  queues.set(file, mine);
  try {
    await mine;
  } finally {
    if (queues.get(file) === mine) queues.delete(file);
  }
}

/** Replaces a file. With a callback it returns nothing, else a promise. */
function writeFile(filename, data, options, callback) {
  if (typeof options === 'function') [options, callback] = [undefined, options];
  const done = write(filename, data, options);
  if (!callback) return done;
  done.then(
    () => callback(),
    (error) => callback(error),
  );
  return undefined;
}

/** The lock, or null if an asynchronous write of ours has it and waits for this very thread: then nobody
 * else is in. One that is just being released is waited for. */
function enterSync(file) {
  for (;;) {
    try {
      return lockSync(file, asked(file));
    } catch (error) {
      if (error.code !== 'deadlock' || !queues.has(file)) throw error;
      if (entering.has(file)) return null;
      sleepSync(1);
    }
  }
}

function writeFileSync(filename, data, options) {
  const file = realName(filename);
  const guard = enterSync(file);
  try {
    replace(file, data, optionsOf(options));
  } finally {
    guard?.releaseSync();
  }
}

module.exports = writeFile;
module.exports.sync = writeFileSync;
