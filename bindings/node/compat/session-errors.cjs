'use strict';

/** A session lock that was not got, or not kept. */
class SessionWriteLockError extends Error {
  constructor(message, { code, lockPath, cause }) {
    super(message, cause && { cause });
    this.name = new.target.name;
    this.code = code;
    this.lockPath = lockPath;
  }
}

/** Somebody else has it, and kept it for the whole wait. */
class SessionWriteLockTimeoutError extends SessionWriteLockError {
  constructor({ timeoutMs, lockPath, owner, detail, cause }) {
    const more = detail ? ` (${detail})` : '';
    const message = `session file locked (timeout ${timeoutMs}ms): ${owner} ${lockPath}${more}`;
    super(message, { code: 'OPENCLAW_SESSION_WRITE_LOCK_TIMEOUT', lockPath, cause });
    this.reason = 'session_busy';
    this.timeoutMs = timeoutMs;
    this.owner = owner;
  }
}

/** It is not ours any more. */
class SessionWriteLockStaleError extends SessionWriteLockError {
  constructor({ lockPath, staleReasons, cause }) {
    const message = `session write lock is not held any more (${staleReasons.join(', ')}): ${lockPath}`;
    super(message, { code: 'OPENCLAW_SESSION_WRITE_LOCK_STALE', lockPath, cause });
    this.staleReasons = staleReasons;
  }
}

module.exports = { SessionWriteLockError, SessionWriteLockStaleError, SessionWriteLockTimeoutError };
