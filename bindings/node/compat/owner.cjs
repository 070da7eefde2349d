'use strict';

// What can be said of the process that wrote an old lock file. Nobody's hold of a tenure lock depends on
// it: this is for files that other programs left, or still use.

const fs = require('node:fs');

/** Whether a process of this number runs. Another user's does; a zombie does not. */
function isAlive(pid) {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
  return stat(pid)?.state !== 'Z';
}

/** When it started, in ticks since the boot; null where that cannot be told. */
function startTime(pid) {
  return stat(pid)?.start ?? null;
}

function stat(pid) {
  let text;
  try {
    text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The second field is the name, in parentheses, and may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const start = Number(fields[19]);
  return { state: fields[0], start: Number.isSafeInteger(start) ? start : null };
}

/** Sleeps in the kernel; for synchronous code that waits for a program which cannot wake it. */
function sleepSync(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Removes a file if it is there. */
function removeSync(path) {
  try {
    fs.unlinkSync(path);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

module.exports = { isAlive, removeSync, sleepSync, startTime };
