'use strict';

// Checks what callers pass and completes it for the native half. An unknown option is an
// error: a write with a misspelt `fence` must not go through without one.

const { fileURLToPath } = require('url');
const { isUint8Array } = require('util/types');
const { invalid } = require('./errors.cjs');

/** How much of a value a message shows. */
const SHOWN_CHARS = 60;
/** What `tenure run` and `tenure lease hold` hand down, and the wait of calls that do not say theirs. */
const VARIABLES = ['TENURE_TARGET', 'TENURE_FENCE', 'TENURE_OUTER', 'TENURE_TOKEN', 'TENURE_WAIT'];
const NEW_MODE = 0o600;

const isObject = (value) => typeof value === 'object' && value !== null;

/** Also a URL of another realm; not the old kind with `path`, which is no URL of a file. */
const isUrl = (value) => isObject(value) && typeof value.href === 'string' && typeof value.protocol === 'string' && value.path === undefined;

/** A path as the native half takes it: text, or the bytes of a name that is not text. */
function path(value, what = 'path') {
  if (isUrl(value)) {
    if (value.protocol !== 'file:') throw invalid(`read ${what}`, `a URL must be of a file, not ${shown(value.href)}`);
    value = fileURLToPath(value);
  }
  if (typeof value === 'string') {
    if (value === '' || value.includes('\0') || !value.isWellFormed()) {
      throw invalid(`read ${what}`, `it must be a name without NUL or half a character, not ${shown(value)}`);
    }
    return value;
  }
  if (isUint8Array(value)) {
    if (value.length === 0 || value.includes(0)) {
      throw invalid(`read ${what}`, `it must be a name without NUL, not ${shown(value)}`);
    }
    return value;
  }
  throw invalid(`read ${what}`, `it must be a string, a Buffer or a file: URL, not ${shown(value)}`);
}

/** The names of several targets. */
function paths(values) {
  if (!Array.isArray(values) || values.length === 0) {
    throw invalid('read paths', `they must be an array of at least one path, not ${shown(values)}`);
  }
  return values.map((value) => path(value));
}

/** A value as a programmer would write it, cut if it is long. */
function shown(value) {
  const { inspect } = require('util');
  const how = { depth: 1, breakLength: Infinity, customInspect: false, maxArrayLength: 5, maxStringLength: SHOWN_CHARS };
  const text = inspect(value, how).replace(/\s*\n\s*/g, ' ');
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}

function text(value, name) {
  if (typeof value !== 'string') throw invalid(`read ${name}`, `it must be a string, not ${shown(value)}`);
  return value;
}

function flag(value, name) {
  if (typeof value !== 'boolean') throw invalid(`read ${name}`, `it must be true or false, not ${shown(value)}`);
  return value;
}

/** Milliseconds; Infinity where something may last for ever. */
function time(value, name) {
  if (typeof value !== 'number' || !(value >= 0)) {
    throw invalid(`read ${name}`, `it must be a number of milliseconds, not ${shown(value)}`);
  }
  return value;
}

function finiteTime(value, name) {
  if (time(value, name) === Infinity) throw invalid(`read ${name}`, 'it must be a time that ends, not Infinity');
  return value;
}

/** A fence, sequence number or count: a number that is kept exactly. */
function whole(value, name) {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (!Number.isSafeInteger(number) || number < 0) {
    throw invalid(`read ${name}`, `it must be a whole number from 0 to 2^53 - 1, not ${shown(value)}`);
  }
  return number;
}

function texts(value, name) {
  if (!Array.isArray(value)) throw invalid(`read ${name}`, `it must be an array, not ${shown(value)}`);
  return value.map((each) => text(each, name));
}

function guards(value) {
  if (!Array.isArray(value)) throw invalid('read guards', `it must be an array, not ${shown(value)}`);
  return value.map((guard) => {
    if (!isObject(guard)) throw invalid('read guards', `a guard is { target, fence }, not ${shown(guard)}`);
    return { target: path(guard.target, 'the target of a guard'), fence: whole(guard.fence, 'the fence of a guard') };
  });
}

function signal(value) {
  if (!isObject(value) || typeof value.addEventListener !== 'function' || typeof value.aborted !== 'boolean') {
    throw invalid('read signal', `it must be an AbortSignal, not ${shown(value)}`);
  }
  return value;
}

function callback(value, name) {
  if (typeof value !== 'function') throw invalid(`read ${name}`, `it must be a function, not ${shown(value)}`);
  return value;
}

const oneOf = (...choices) => (value, name) => {
  if (!choices.includes(value)) throw invalid(`read ${name}`, `it must be one of ${choices.join(', ')}, not ${shown(value)}`);
  return value;
};

/** What is done to numbers that a JavaScript number does not keep. */
const numbers = oneOf('exact', 'bigint', 'lossy');

const lockFile = (value) => path(value, 'lockFile');

/** What other libraries, and tenure in other languages, call our options; the first one that a call has is meant. */
const OTHER_NAMES = {
  abort: ['signal'],
  abortsignal: ['signal'],
  blocking: ['waitMs'],
  cancel: ['signal'],
  deadline: ['waitMs'],
  default: ['init'],
  durable: ['noSync'],
  etag: ['ifVersion'],
  exclusive: ['shared'],
  expectedversion: ['ifVersion'],
  expires: ['ttlMs'],
  fences: ['guards'],
  fsync: ['noSync'],
  idempotencykey: ['operation'],
  initial: ['init'],
  limit: ['maxCount'],
  maxhold: ['maxHold', 'maxHoldMs'],
  maxholdms: ['maxHoldMs', 'maxHold'],
  maxsize: ['maxCount'],
  mode: ['newMode'],
  name: ['label'],
  network: ['allowNetwork'],
  opid: ['operation'],
  operationid: ['operation'],
  read: ['shared'],
  reason: ['label'],
  recursive: ['reentrant'],
  requestid: ['operation'],
  sync: ['noSync'],
  timeout: ['waitMs', 'maxHoldMs'],
  timeoutms: ['waitMs', 'maxHoldMs'],
  token: ['fence'],
  ttl: ['ttlMs', 'maxHold'],
  ttlms: ['maxHold'],
  version: ['ifVersion'],
  wait: ['waitMs'],
};
/** A word that differs in more letters is another word. */
const DIFFERENCES_MAX = 2;
/** Any two shorter words look alike. */
const ALIKE_CHARS_MIN = 4;

/** What to write instead of a name that is no option. */
function insteadOf(name, known) {
  const meant = meantBy(name, known);
  return meant ? `did you mean ${JSON.stringify(meant)}?` : `the options are ${known.join(', ')}`;
}

/** The option that was meant by a name that is none. */
function meantBy(given, known) {
  const plain = (name) => name.replace(/[-_]/g, '').toLowerCase();
  const word = plain(given);
  const others = Object.hasOwn(OTHER_NAMES, word) ? OTHER_NAMES[word] : [];
  const other = others.find((name) => known.includes(name));
  if (other || word.length > SHOWN_CHARS) return other;
  const alike = known.filter((name) => name.length >= ALIKE_CHARS_MIN).map((name) => [differences(word, plain(name)), name]);
  const near = alike.filter(([count]) => count <= DIFFERENCES_MAX).sort(([one], [two]) => one - two);
  return near[0]?.[1];
}

/** How many letters have to be added, removed or changed to make one word of another. */
function differences(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let index = 0; index < one.length; index++) {
    const next = [index + 1];
    for (let at = 0; at < other.length; at++) {
      next.push(Math.min(row[at] + (one[index] === other[at] ? 0 : 1), row[at + 1] + 1, next[at] + 1));
    }
    row = next;
  }
  return row[other.length];
}

/** Reads `given` by a table of readers; `undefined` is the same as not given. */
function read(given, readers) {
  if (given === undefined) return {};
  if (!isObject(given) || Array.isArray(given)) {
    throw invalid('read the options', `they must be an object, not ${shown(given)}`);
  }
  const found = {};
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(readers, name)) {
      throw invalid('read the options', `there is no option ${JSON.stringify(name)} here; ${insteadOf(name, Object.keys(readers))}`);
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

/** The variables as they are now. Read here and not by the native half: a worker has an environment of its
 * own, and another thread may change that of the process meanwhile. */
function inherited() {
  const found = {};
  for (const name of VARIABLES) {
    const value = process.env[name];
    if (value) found[name] = value;
  }
  return found;
}

/** The same for a lock, or undefined: what it has no use for is not looked up, which takes its time. */
function inheritedByLock({ fence, waitMs }) {
  const { env } = process;
  let found;
  const look = (name) => {
    const value = env[name];
    if (value) (found ??= {})[name] = value;
    return value;
  };
  if (fence === undefined) {
    if (look('TENURE_TARGET')) look('TENURE_FENCE');
    look('TENURE_OUTER');
  }
  if (waitMs === undefined) look('TENURE_WAIT');
  return found;
}

/** The options of a write, complete. */
function forWrite({ noSync = false, ...found }) {
  return {
    guards: [],
    label: '',
    newMode: NEW_MODE,
    breakLink: false,
    allowNetwork: false,
    ...found,
    durable: !noSync,
    inherited: inherited(),
  };
}

module.exports = {
  DOCUMENT,
  WRITE,
  callback,
  finiteTime,
  flag,
  forWrite,
  inherited,
  inheritedByLock,
  isObject,
  shown,
  lockFile,
  numbers,
  oneOf,
  path,
  paths,
  plus,
  read,
  signal,
  text,
  texts,
  time,
  whole,
};
