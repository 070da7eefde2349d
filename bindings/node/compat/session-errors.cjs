'use strict';

const TIMEOUT = 'OPENCLAW_SESSION_WRITE_LOCK_TIMEOUT';
const STALE = 'OPENCLAW_SESSION_WRITE_LOCK_STALE';

/** A session lock that was not got, or not kept. */
class SessionWriteLockError extends Error {
  constructor(message, { code, lockPath, cause }) {
    super(message, cause && { cause });
    this.name = new.target.name;
    this.code = code;
    this.lockPath = lockPath;
  }
}

/** Another process held it for the whole wait. */
class SessionWriteLockTimeoutError extends SessionWriteLockError {
  constructor({ timeoutMs, lockPath, owner, detail, cause }) {
    const more = detail ? ` (${detail})` : '';
    const message = `session file locked (timeout ${timeoutMs}ms): ${owner} ${lockPath}${more}`;
    super(message, { code: TIMEOUT, lockPath, cause });
    this.reason = 'session_busy';
    this.timeoutMs = timeoutMs;
    this.owner = owner;
  }
}

/** It is not ours any more, or its file belongs to a live process that has kept it for too long. */
class SessionWriteLockStaleError extends SessionWriteLockError {
  constructor({ owner, lockPath, staleReasons, cause }) {
    const reasons = staleReasons?.length > 0 ? staleReasons : ['unknown'];
    const message = `session file lock stale (${reasons.join(', ')}): ${owner} ${lockPath}`;
    super(message, { code: STALE, lockPath, cause });
    this.owner = owner;
    this.staleReasons = reasons;
  }
}

/** Whether a session lock was not got; also for errors of another copy of this module. */
const isSessionWriteLockAcquireError = (error) => error?.code === TIMEOUT || error?.code === STALE;

module.exports = {
  SessionWriteLockError,
  SessionWriteLockStaleError,
  SessionWriteLockTimeoutError,
  isSessionWriteLockAcquireError,
};
