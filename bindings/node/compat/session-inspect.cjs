'use strict';

// What a session lock file says of its owner, and whether it may be reported as stale or taken away. A file of
// another program is judged as OpenClaw judges it; for users of tenure the kernel's lock decides first.

const fs = require('fs');
const { isAlive, startTime } = require('./owner.cjs');

/** A lock file without an owner may be just being written. */
const PAYLOAD_GRACE_MS = 30_000;
/** For callers that would not live to see the end of that. */
const SHORT_PAYLOAD_GRACE_MS = 5000;
/** Its owner lives: such a file is reported and stays. */
const REPORT_ONLY = ['too-old', 'hold-exceeded'];
const UNFINISHED = ['missing-pid', 'invalid-createdAt'];

/** How the start of a process is found out; every copy of the module uses the same. */
const resolver = (globalThis[Symbol.for('tenure.compat.session-start-time')] ??= { of: null });
const startOf = (pid) => (resolver.of ?? startTime)(pid);

const graceFor = (timeoutMs) => (timeoutMs < PAYLOAD_GRACE_MS ? SHORT_PAYLOAD_GRACE_MS : PAYLOAD_GRACE_MS);

const isCount = (value) => Number.isInteger(value) && value >= 0;

/** What is in a lock file. No text if there is none; no payload if it cannot be read. */
async function read(lockPath) {
  let text;
  try {
    text = await fs.promises.readFile(lockPath, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return { text: null, payload: null };
    throw error;
  }
  return { text, payload: parse(text) };
}

function parse(text) {
  try {
    const payload = JSON.parse(text);
    return typeof payload === 'object' && payload !== null ? payload : null;
  } catch {
    return null;
  }
}

/** Why a payload is stale, by itself. */
function inspectPayload(payload, staleMs, nowMs, { respectMaxHold = false } = {}) {
  const pid = isCount(payload?.pid) && payload.pid > 0 ? payload.pid : null;
  const createdAt = typeof payload?.createdAt === 'string' ? payload.createdAt : null;
  const createdMs = createdAt === null ? NaN : Date.parse(createdAt);
  const ageMs = Number.isFinite(createdMs) ? Math.max(0, nowMs - createdMs) : null;
  const pidAlive = pid !== null && isAlive(pid);
  const known = isCount(payload?.starttime) ? payload.starttime : null;
  const start = pidAlive && known !== null ? startOf(pid) : null;

  const staleReasons = [];
  if (pid === null) staleReasons.push('missing-pid');
  else if (!pidAlive) staleReasons.push('dead-pid');
  else if (start !== null && start !== known) staleReasons.push('recycled-pid');
  if (ageMs === null) staleReasons.push('invalid-createdAt');
  else if (ageMs > staleMs) staleReasons.push('too-old');
  const limit = payload?.maxHoldMs;
  if (respectMaxHold && isCount(limit) && limit > 0 && ageMs > limit) staleReasons.push('hold-exceeded');
  return { pid, pidAlive, createdAt, ageMs, stale: staleReasons.length > 0, staleReasons };
}

/** A file of this very process that it does not hold. Without a start time it may be of an earlier process of
 * this number, or of a program in this process that makes such files: the caller says which it is. */
function isOrphan(payload, { held, reclaimWithoutStart }) {
  if (payload?.pid !== process.pid || held) return false;
  if (!isCount(payload.starttime)) return reclaimWithoutStart;
  return startOf(process.pid) === payload.starttime;
}

/** Why a lock file is stale, beside others of this process and its owner's command line. */
function inspect(payload, { staleMs, nowMs, held = false, reclaimWithoutStart = true, argsOf, respectMaxHold }) {
  const found = inspectPayload(payload, staleMs, nowMs, { respectMaxHold });
  const because = (reason) => ({ ...found, stale: true, staleReasons: [...found.staleReasons, reason] });
  if (isOrphan(payload, { held, reclaimWithoutStart })) return because('orphan-self-pid');
  if (argsOf && found.pidAlive && !found.staleReasons.includes('recycled-pid') && isForeign(argsOf, found.pid)) {
    return because('non-openclaw-owner');
  }
  return found;
}

const PROGRAMS = /(^|\/)openclaw(\.mjs)?$/;
const GATEWAY = /(^|\/)openclaw(-gateway)?$/;
const ENTRIES = /(dist\/(index|entry)\.js|scripts\/run-node\.mjs|src\/(entry|index)\.ts)$/;

/** Whether a living process is known to be something else than OpenClaw. */
function isForeign(argsOf, pid) {
  let given;
  try {
    given = argsOf(pid);
  } catch {
    return false;
  }
  if (!Array.isArray(given)) return false;
  const args = given.map((arg) => arg.trim().replaceAll('\\', '/').toLowerCase()).filter(Boolean);
  if (args.length === 0) return false;
  const isCommand = args.includes('gateway') || args.includes('agent');
  return !(
    GATEWAY.test(args[0].replace(/\.(bat|cmd|exe)$/, '')) ||
    args.some((arg) => PROGRAMS.test(arg) || (isCommand && ENTRIES.test(arg)))
  );
}

/** The command line of a process; null where it cannot be told. */
function readProcessArgs(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
  } catch {
    return null;
  }
}

/** Whether a file that is stale for want of an owner has been so for long. */
async function isPastGrace(lockPath, { staleReasons }, { staleMs, nowMs, graceMs }) {
  if (!staleReasons.every((reason) => UNFINISHED.includes(reason))) return true;
  try {
    const { mtimeMs } = await fs.promises.stat(lockPath);
    return Math.max(0, nowMs - mtimeMs) > Math.min(staleMs, graceMs);
  } catch (error) {
    return error.code !== 'ENOENT';
  }
}

/** Whether a lock file in the way is to be called stale. */
const isReportable = async (lockPath, found, how) => found.stale && !how.held && (await isPastGrace(lockPath, found, how));

/** Whether it may be taken away. */
const isRemovable = async (lockPath, found, how) =>
  found.stale && !found.staleReasons.every((reason) => REPORT_ONLY.includes(reason)) && (await isPastGrace(lockPath, found, how));

/** The owner, for people. */
function ownerOf({ pid, pidAlive, ageMs }) {
  const parts = pid === null ? ['owner=unknown'] : [`pid=${pid}`, `alive=${pidAlive}`];
  if (ageMs !== null) parts.push(`ageMs=${Math.floor(ageMs)}`);
  return parts.join(' ');
}

module.exports = {
  PAYLOAD_GRACE_MS,
  graceFor,
  inspect,
  inspectPayload,
  isRemovable,
  isReportable,
  ownerOf,
  read,
  readProcessArgs,
  resolver,
  startOf,
};
