'use strict';

const { later, now } = require('./call.cjs');
const { holder } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { store } = require('./store.cjs');

const HELD = new Set(['lock', 'shared', 'lease']);

/** The fields of `tenure who --json`, with the names of JavaScript. */
function shown(text) {
  const { target, sidecars, kind, fence, processes, waiters, compromised, ...found } = JSON.parse(text);
  return {
    path: target,
    sidecars,
    kind,
    held: HELD.has(kind),
    holder: found.holder && holder(found.holder),
    fence,
    expiresInMs: found.expires_in_ms,
    ttlMs: found.ttl_ms,
    processes,
    waiters,
    compromised,
  };
}

/** Who holds a target, and who waits for it. For people: the answer may be old when it arrives. */
async function status(path, given) {
  const { store: place } = options.read(given, { store });
  return shown(await later(undefined, (call) => native.status(call, options.path(path), place)));
}

function statusSync(path, given) {
  const { store: place } = options.read(given, { store });
  return shown(now(() => native.status(undefined, options.path(path), place)));
}

module.exports = { status, statusSync };
