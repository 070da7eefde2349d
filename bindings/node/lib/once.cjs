'use strict';

const { later, now } = require('./call.cjs');
const { OnceFailedError, TenureError, invalid } = require('./errors.cjs');
const json = require('./json.cjs');
const { LOCK, forLock } = require('./lock.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { apart } = require('./store.cjs');

const { allowNetwork, label, owner, waitMs } = LOCK;
const ONCE = { allowNetwork, label, numbers: options.numbers, owner, ttlMs: options.finiteTime, waitMs };

/** The target and what is asked of it. */
function asking(path, given, act, readers) {
  const [rest, place] = apart(given);
  const { numbers, signal, ttlMs, ...found } = options.read(rest, readers);
  if (ttlMs === undefined) throw invalid('run once', 'it needs ttlMs: how long the result is fresh');
  options.callback(act, 'the function');
  const target = now(() => new native.Once(options.path(path), place));
  return { target, ttlMs, signal, numbers, wanted: forLock(found) };
}

/** A result as text. No result is no text. */
const written = (value) => (value === undefined ? '' : json.stringify(value));

function parsed(text, path, numbers) {
  if (text === '') return undefined;
  try {
    return json.parse(text, numbers);
  } catch (error) {
    if (error instanceof TenureError) throw error;
    throw invalid(`read the result of \`${path}\``, 'it is not JSON; a command may have stored it', error);
  }
}

/** What a caller gets without a turn. */
function answered({ fresh, failed }, path, numbers) {
  if (typeof failed === 'number') throw new OnceFailedError(path, failed);
  return parsed(fresh, path, numbers);
}

/** The action did its work: that its result cannot be stored is no failure of it. */
const unstored = (error) => process.emitWarning(error.message, { type: 'TenureWarning', code: error.code });

/** Runs a function in one of many calls; the others wait for its result, and get it while it is fresh. */
async function once(path, given, act) {
  const { target, ttlMs, signal, numbers, wanted } = asking(path, given, act, { ...ONCE, signal: options.signal });
  const { turn, ...answer } = await later(signal, (call) => target.ask(call, wanted));
  if (!turn) return answered(answer, target.path, numbers);
  if (signal?.aborted) {
    await later(undefined, (call) => turn.pass(call));
    throw signal.reason;
  }
  let text;
  let value;
  try {
    text = written(await act());
    value = parsed(text, target.path, numbers); // Every caller gets the same.
  } catch (error) {
    await later(undefined, (call) => turn.fail(call)).catch(unstored);
    throw error;
  }
  await later(undefined, (call) => turn.succeed(call, text, ttlMs)).catch(unstored);
  return value;
}

function onceSync(path, given, act) {
  const { target, ttlMs, numbers, wanted } = asking(path, given, act, ONCE);
  const { turn, ...answer } = now(() => target.ask(undefined, wanted));
  if (!turn) return answered(answer, target.path, numbers);
  const end = (how) => {
    try {
      now(how);
    } catch (error) {
      unstored(error);
    }
  };
  let text;
  let value;
  try {
    const result = act();
    if (typeof result?.then === 'function') {
      result.then(undefined, () => {}); // It is refused here; no other code looks at it.
      throw invalid('run once', 'the function returned a promise; use once');
    }
    text = written(result);
    value = parsed(text, target.path, numbers);
  } catch (error) {
    end(() => turn.fail());
    throw error;
  }
  end(() => turn.succeed(undefined, text, ttlMs));
  return value;
}

module.exports = { once, onceSync };
