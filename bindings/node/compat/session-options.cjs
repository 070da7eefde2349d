'use strict';

// The times of OpenClaw's session write lock: from the environment, else the configuration, else fixed ones.

const ACQUIRE_TIMEOUT_MS = 60_000;
const STALE_MS = 30 * 60 * 1000;
const MAX_HOLD_MS = 5 * 60 * 1000;
const MAX_HOLD_GRACE_MS = 2 * 60 * 1000;
const TIMER_MAX_MS = 2_147_000_000;

const VARIABLES = {
  acquireTimeoutMs: 'OPENCLAW_SESSION_WRITE_LOCK_ACQUIRE_TIMEOUT_MS',
  staleMs: 'OPENCLAW_SESSION_WRITE_LOCK_STALE_MS',
  maxHoldMs: 'OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS',
};

/** A time that a caller gave, or `fallback` if it is none. Infinity is one only where it is allowed. */
function positiveMs(value, fallback, { infinity = false } = {}) {
  if (typeof value !== 'number' || !(value > 0)) return fallback;
  return value === Infinity && !infinity ? fallback : value;
}

/** The same for settings, which must be whole. */
function settingMs(value, how) {
  const found = positiveMs(value, undefined, how);
  return found === Infinity || Number.isSafeInteger(found) ? found : undefined;
}

/** A variable holds digits or `Infinity`; anything else counts as not set. */
function variableMs(text, how) {
  const trimmed = text?.trim() ?? '';
  if (trimmed === 'Infinity') return settingMs(Infinity, how);
  return /^\d+$/.test(trimmed) ? settingMs(Number(trimmed), how) : undefined;
}

function resolve(key, config, env = process.env, fallback, how) {
  return variableMs(env[VARIABLES[key]], how) ?? settingMs(config?.session?.writeLock?.[key], how) ?? fallback;
}

const resolveSessionWriteLockAcquireTimeoutMs = (config, env) =>
  resolve('acquireTimeoutMs', config, env, ACQUIRE_TIMEOUT_MS, { infinity: true });

const resolveSessionWriteLockStaleMs = (config, env) => resolve('staleMs', config, env, STALE_MS);

/** The times that the environment, else the configuration, asks for. */
function resolveSessionWriteLockOptions(config, { env, maxHoldMsFallback = MAX_HOLD_MS } = {}) {
  return {
    timeoutMs: resolveSessionWriteLockAcquireTimeoutMs(config, env),
    staleMs: resolveSessionWriteLockStaleMs(config, env),
    maxHoldMs: resolve('maxHoldMs', config, env, maxHoldMsFallback),
  };
}

/** How long a hold may last for a run with this timeout. */
function resolveSessionLockMaxHoldFromTimeout({ timeoutMs, graceMs, minMs }) {
  const least = positiveMs(minMs, MAX_HOLD_MS);
  const timeout = positiveMs(timeoutMs, least, { infinity: true });
  return Math.min(TIMER_MAX_MS, Math.max(least, timeout + positiveMs(graceMs, MAX_HOLD_GRACE_MS)));
}

/** What is left of a wait. */
const remainingMs = (timeoutMs, startedAtMs, nowMs) => Math.max(0, timeoutMs - Math.max(0, nowMs - startedAtMs));

module.exports = {
  MAX_HOLD_MS,
  TIMER_MAX_MS,
  positiveMs,
  remainingMs,
  resolveSessionLockMaxHoldFromTimeout,
  resolveSessionWriteLockAcquireTimeoutMs,
  resolveSessionWriteLockOptions,
  resolveSessionWriteLockStaleMs,
};
