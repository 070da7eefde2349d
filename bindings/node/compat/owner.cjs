'use strict';

// What can be said of the process that wrote an old lock file. No hold of a tenure lock depends on
// it: this is for files that other programs left, or still use.

const fs = require('fs');
const os = require('os');

/** Ticks of /proc per second, the same on every Linux. */
const TICKS_PER_SECOND = 100;

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

/** When it started, in milliseconds of the wall clock, to a second or so; null where that cannot be told. */
function startedMs(pid) {
  const ticks = startTime(pid);
  return ticks === null ? null : Date.now() - os.uptime() * 1000 + (ticks * 1000) / TICKS_PER_SECOND;
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

/** Removes a lock file if it still says what it said. */
function removeIf(path, text) {
  try {
    if (fs.readFileSync(path, 'utf8') === text) fs.unlinkSync(path);
  } catch {
    // It is gone, or belongs to another process.
  }
}

module.exports = { isAlive, removeIf, sleepSync, startTime, startedMs };
