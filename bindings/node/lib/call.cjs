'use strict';

// One call of the native half: now, or later with a signal that can end it.

const { translate } = require('./errors.cjs');
const native = require('./native.cjs');

/** What to do when a signal aborts: one listener per signal, however many calls wait. */
const acts = new WeakMap();

function onAbort(signal, act) {
  let entry = acts.get(signal);
  if (!entry) {
    const set = new Set();
    entry = { set, listener: () => [...set].forEach((each) => each()) };
    acts.set(signal, entry);
    signal.addEventListener('abort', entry.listener, { once: true });
  }
  entry.set.add(act);
  return () => {
    entry.set.delete(act);
    if (entry.set.size === 0) {
      signal.removeEventListener('abort', entry.listener);
      acts.delete(signal);
    }
  };
}

/** Does it on the calling thread. */
function now(start) {
  try {
    return start();
  } catch (error) {
    throw translate(error);
  }
}

/** Does it on another thread. The signal ends the wait; then its reason is thrown. */
async function later(signal, start, aborted) {
  signal?.throwIfAborted();
  const call = new native.Call();
  const forget =
    signal &&
    onAbort(signal, () => {
      call.cancel();
      aborted?.();
    });
  try {
    return await start(call);
  } catch (thrown) {
    const error = translate(thrown);
    if (signal?.aborted && error.code === 'cancelled') throw signal.reason;
    throw error;
  } finally {
    forget?.();
  }
}

/** The same for a wait that the native half only notices after a moment: the caller does not wait. */
async function laterAtOnce(signal, start) {
  if (!signal) return later(signal, start);
  let forget;
  const aborted = new Promise((_, reject) => {
    forget = onAbort(signal, () => reject(signal.reason));
  });
  try {
    return await Promise.race([later(signal, start), aborted]);
  } finally {
    forget();
  }
}

/** Waits for several calls, whatever happens to one; then throws what happened. */
async function all(calls) {
  const ended = await Promise.allSettled(calls);
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed) throw failed.reason;
}

/** Does it to each of them, whatever happens to one; then throws what happened. */
function allSync(items, act) {
  let failed;
  for (const item of items) {
    try {
      act(item);
    } catch (error) {
      failed ??= { error };
    }
  }
  if (failed) throw failed.error;
}

module.exports = { all, allSync, later, laterAtOnce, now };
