'use strict';

const { isNativeError } = require('util/types');

/** What failed, where, why, and what to do about it: the fields of the command line's `--json`. */
class TenureError extends Error {
  constructor(fields, options) {
    super(fields.message, options);
    this.code = fields.code;
    this.action = fields.action ?? null;
    this.path = fields.path ?? null;
    this.holder = fields.holder ? holder(fields.holder) : null;
    this.hint = fields.hint ?? null;
    this.committed = fields.committed ?? null;
  }
}
Object.defineProperty(TenureError.prototype, 'name', {
  value: 'TenureError',
  configurable: true,
  writable: true,
});

/** Entries of a journal that cannot be read any more: an archive was moved away, or a power loss took them. */
class JournalGapError extends TenureError {
  constructor(fields, options) {
    super(fields, options);
    this.first = fields.gap.first;
    this.last = fields.gap.last;
  }
}
Object.defineProperty(JournalGapError.prototype, 'name', {
  value: 'JournalGapError',
  configurable: true,
  writable: true,
});

/** The function of `once` failed in the call that this one waited for. */
class OnceFailedError extends TenureError {
  constructor(path, exitCode) {
    const [action, hint] = ['run once for', 'ask again, and it is run again'];
    const message = `failed to ${action} \`${path}\`: it failed in the call that this one waited for; ${hint}`;
    super({ code: 'cancelled', message, action, path, hint });
    this.exitCode = exitCode;
  }
}
Object.defineProperty(OnceFailedError.prototype, 'name', {
  value: 'OnceFailedError',
  configurable: true,
  writable: true,
});

/** A holder as the native half writes it, with the names of JavaScript. */
function holder(fields) {
  const { since_us: sinceUs, pid_namespace: pidNamespace, ...rest } = fields;
  return { ...rest, sinceUs, pidNamespace };
}

/** The codes that napi gives to errors of its own. */
const OF_NAPI = { InvalidArg: 'invalid', StringExpected: 'invalid', GenericFailure: 'internal' };

/** What the native half threw. Its own errors carry their fields in the message. They are made in the realm
 * that loaded the addon, which need not be this one: `instanceof Error` would not know them. */
function translate(thrown) {
  if (!isNativeError(thrown) || !Object.hasOwn(OF_NAPI, thrown.code)) return thrown;
  if (thrown.message.startsWith('{')) {
    const fields = JSON.parse(thrown.message);
    return fields.gap ? new JournalGapError(fields) : new TenureError(fields);
  }
  // A panic, or an argument that passed the checks here and not those of the native half.
  return new TenureError({ code: OF_NAPI[thrown.code], message: thrown.message }, { cause: thrown });
}

/** The input is wrong; nothing was changed. */
function invalid(action, detail, cause) {
  const message = `failed to ${action}: ${detail}`;
  return new TenureError({ code: 'invalid', message, action }, cause && { cause });
}

module.exports = { JournalGapError, OnceFailedError, TenureError, holder, invalid, translate };
