'use strict';

// Checks what callers pass and completes it for the native half. An option that nobody knows is an
// error: a misspelt `fence` must not become an unproven write.

const { fileURLToPath } = require('node:url');
const { invalid } = require('./errors.cjs');

const WAIT_MS = 10_000;
const NEW_MODE = 0o600;

const isObject = (value) => typeof value === 'object' && value !== null;

/** A path as the native half takes it: text, or the bytes of a name that is not text. */
function path(value, what = 'path') {
  if (value instanceof URL) {
    if (value.protocol !== 'file:') throw invalid(`read ${what}`, 'a URL must be of a file');
    value = fileURLToPath(value);
  }
  if (typeof value === 'string') {
    if (value === '' || value.includes('\0') || !value.isWellFormed()) {
      throw invalid(`read ${what}`, 'it is empty, contains NUL or half a character');
    }
    return value;
  }
  if (value instanceof Uint8Array) {
    if (value.length === 0 || value.includes(0)) {
      throw invalid(`read ${what}`, 'it is empty or contains NUL');
    }
    return value;
  }
  throw invalid(`read ${what}`, `it must be a string, a Buffer or a file: URL, not ${kindOf(value)}`);
}

function kindOf(value) {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}

function text(value, name) {
  if (typeof value !== 'string') throw invalid(`read ${name}`, `it must be a string, not ${kindOf(value)}`);
  return value;
}

function flag(value, name) {
  if (typeof value !== 'boolean') throw invalid(`read ${name}`, `it must be true or false, not ${kindOf(value)}`);
  return value;
}

/** Milliseconds; Infinity where something may last for ever. */
function time(value, name) {
  if (typeof value !== 'number' || !(value >= 0)) {
    throw invalid(`read ${name}`, `it must be a number of milliseconds, not ${String(value)}`);
  }
  return value;
}

function finiteTime(value, name) {
  if (time(value, name) === Infinity) throw invalid(`read ${name}`, 'it must end');
  return value;
}

/** A fence, sequence number or count: a number that is kept exactly. */
function whole(value, name) {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (!Number.isSafeInteger(number) || number < 0) {
    throw invalid(`read ${name}`, `it must be a whole number from 0 to 2^53 - 1, not ${String(value)}`);
  }
  return number;
}

function texts(value, name) {
  if (!Array.isArray(value)) throw invalid(`read ${name}`, `it must be an array, not ${kindOf(value)}`);
  return value.map((each) => text(each, name));
}

function guards(value) {
  if (!Array.isArray(value)) throw invalid('read guards', `it must be an array, not ${kindOf(value)}`);
  return value.map((guard) => {
    if (!isObject(guard)) throw invalid('read guards', 'a guard is { target, fence }');
    return { target: path(guard.target, 'the target of a guard'), fence: whole(guard.fence, 'the fence of a guard') };
  });
}

function signal(value) {
  if (!isObject(value) || typeof value.addEventListener !== 'function' || typeof value.aborted !== 'boolean') {
    throw invalid('read signal', 'it must be an AbortSignal');
  }
  return value;
}

function callback(value, name) {
  if (typeof value !== 'function') throw invalid(`read ${name}`, `it must be a function, not ${kindOf(value)}`);
  return value;
}

const oneOf = (...choices) => (value, name) => {
  if (!choices.includes(value)) throw invalid(`read ${name}`, `it must be one of ${choices.join(', ')}`);
  return value;
};

const lockFile = (value) => path(value, 'lockFile');

/** Reads `given` by a table of readers; `undefined` is the same as not given. */
function read(given, readers) {
  if (given === undefined) return {};
  if (!isObject(given) || Array.isArray(given)) {
    throw invalid('read the options', `they must be an object, not ${kindOf(given)}`);
  }
  const found = {};
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(readers, name)) {
      throw invalid('read the options', `there is no option ${JSON.stringify(name)} here`);
    }
    if (value !== undefined) found[name] = readers[name](value, name);
  }
  return found;
}

/** Options with one more; what are none is left for `read` to refuse. */
function plus(given, more) {
  return given === undefined || (isObject(given) && !Array.isArray(given)) ? { ...given, ...more } : given;
}

const WRITE = {
  allowNetwork: flag,
  fence: whole,
  guards,
  label: text,
  lockFile,
  noSync: flag,
  operation: text,
  waitMs: time,
};
const DOCUMENT = { ...WRITE, breakLink: flag, ifVersion: text, newMode: whole };

/** The options of a write, complete. */
function forWrite({ noSync = false, ...found }) {
  return {
    waitMs: WAIT_MS,
    guards: [],
    label: '',
    newMode: NEW_MODE,
    breakLink: false,
    allowNetwork: false,
    ...found,
    durable: !noSync,
  };
}

module.exports = {
  DOCUMENT,
  WAIT_MS,
  WRITE,
  callback,
  finiteTime,
  flag,
  forWrite,
  isObject,
  kindOf,
  lockFile,
  oneOf,
  path,
  plus,
  read,
  signal,
  text,
  texts,
  time,
  whole,
};
