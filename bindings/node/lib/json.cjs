'use strict';

// JSON text and JavaScript values, without losing digits on the way.
//
// Documents may contain numbers that a JavaScript number does not keep: 9007199254740993, 1e400,
// 0.1000000000000000055511151231257827. Read and written back they would be silently damaged, so
// such a document is refused unless the caller says otherwise.

const { TenureError, invalid } = require('./errors.cjs');

/** Strings first, so that digits in them are passed over. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** No number can be inexact without one of these; most documents have none. */
const SUSPECT = /[\d.]{16}|\d[eE][+-]?\d/;
/** Marks a whole number that travels as a string; no other string of ours starts with it. */
const MARK = '\u0000tenure.integer:';

/** A decimal number as digits and exponent, the same for all spellings of one value. */
function normal(literal) {
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal);
  const digits = (whole + fraction).replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  if (kept === '') return '0';
  const scale = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - kept.length);
  return `${sign}${kept}e${scale}`;
}

/** Whether a JavaScript number is exactly this. */
function isExact(literal) {
  const number = Number(literal);
  return Number.isFinite(number) && normal(String(number)) === normal(literal);
}

/** Reads the text of a document. `numbers`: 'exact' refuses, 'bigint', or 'lossy' as JSON.parse does. */
function parse(text, numbers = 'exact') {
  if (numbers === 'lossy' || !SUSPECT.test(text)) return JSON.parse(text);
  let marked = false;
  const safe = text.replace(TOKENS, (token) => {
    if (token[0] === '"') {
      // A string that looks like a mark gets one more, and loses it below.
      if (!token.startsWith('"\\u0000tenure.integer:')) return token;
      marked = true;
      return `"\\u0000tenure.integer:${token.slice(1)}`;
    }
    if (isExact(token)) return token;
    if (numbers === 'bigint' && /^-?\d+$/.test(token)) {
      marked = true;
      return JSON.stringify(MARK + token);
    }
    const hint = numbers === 'exact' ? "; pass numbers: 'bigint' or numbers: 'lossy'" : "; pass numbers: 'lossy'";
    throw invalid('read JSON', `the number ${token} does not fit into a JavaScript number${hint}`);
  });
  if (!marked) return JSON.parse(text);
  return JSON.parse(safe, (_, value) => {
    if (typeof value !== 'string' || !value.startsWith(MARK)) return value;
    const rest = value.slice(MARK.length);
    return rest.startsWith(MARK) ? rest : BigInt(rest);
  });
}

/** Deeper values are refused by the core; the limit also ends those that contain themselves. */
const DEPTH_MAX = 200;

/** JSON text of a value. What JSON cannot say is refused with its place, not turned into null or `{}`. A
 * property that is undefined is left out, as JSON.stringify does. */
function stringify(value) {
  // Most values are plain. Then nothing has to be asked of each part, which takes several times as long.
  return isPlain(value) ? JSON.stringify(value) : checked(value);
}

function isPlain(value) {
  try {
    return isPlainBelow(value, 0);
  } catch {
    return false; // A getter or a proxy that throws is reported with its place.
  }
}

/** Whether a value is of plain objects, arrays and what JSON has, so that JSON.stringify loses nothing. */
function isPlainBelow(value, depth) {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > DEPTH_MAX || typeof value.toJSON === 'function') return false;
  if (Array.isArray(value)) {
    for (const each of value) if (!isPlainBelow(each, depth + 1)) return false; // A hole reads as undefined.
    return true;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((each) => each === undefined || isPlainBelow(each, depth + 1));
}

/** What JSON.stringify silently makes `{}` or something worse of, and what to do instead. */
function foreign(value) {
  const { types } = require('util');
  if (types.isMap(value)) return 'a Map; make an object of it with Object.fromEntries';
  if (types.isSet(value)) return 'a Set; spread it into an array';
  if (types.isPromise(value)) return 'a Promise; await it first';
  if (types.isWeakMap(value) || types.isWeakSet(value)) return 'a weak collection';
  if (types.isRegExp(value)) return 'a RegExp; write its source';
  if (types.isNativeError(value)) return 'an Error; write its message';
  if (types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) return 'bytes; write them as text or as an array';
  return null;
}

/** Why JSON cannot say this, or null. */
function refusal(value, inArray) {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? null : `${value} is no JSON number`;
    case 'undefined':
      return inArray ? 'undefined has no place in an array; write null' : 'undefined is no JSON value';
    case 'function':
    case 'symbol':
      return `a ${typeof value} is no JSON value`;
    case 'object': {
      const kind = value && foreign(value);
      return kind && `JSON has nothing like ${kind}`;
    }
    default:
      return null;
  }
}

/** The keys on the way to a value, as a JSON Pointer. */
function place(keys) {
  const pointer = keys.map((key) => `/${key.replace(/~/g, '~0').replace(/\//g, '~1')}`).join('');
  return pointer === '' ? 'the value' : `\`${pointer}\``;
}

/** The slow way: every part is looked at, and whole numbers that are BigInts are marked. */
function checked(value) {
  let marked = false;
  const around = []; // The objects that we are in, outermost first, and the key of each.
  function replacer(key, given) {
    while (around.length > 0 && around.at(-1).object !== this) around.pop();
    const each = isBoxed(given) ? given.valueOf() : given;
    const keys = () => (around.length === 0 ? [] : [...around.slice(1).map((outer) => outer.key), key]);
    if (each === undefined && around.length > 0 && !Array.isArray(this)) return undefined;
    const why = refusal(each, Array.isArray(this));
    if (why) throw invalid('write JSON', `${place(keys())}: ${why}`);
    if (typeof each === 'object' && each !== null) around.push({ object: each, key });
    if (typeof each === 'bigint') {
      marked = true;
      return MARK + each;
    }
    return typeof each === 'string' && each.startsWith(MARK) ? MARK + each : each;
  }
  let text;
  try {
    text = JSON.stringify(value, replacer);
  } catch (error) {
    if (error instanceof TenureError) throw error;
    const [words] = String(error?.message ?? error).split('\n');
    throw invalid('write JSON', words, error); // Cyclic, or a toJSON or a getter that throws.
  }
  if (!marked && !text.includes('tenure.integer:')) return text;
  return text.replace(TOKENS, (token) => {
    const rest = token.startsWith('"\\u0000tenure.integer:') ? token.slice(22, -1) : null;
    if (rest === null) return token;
    return rest.startsWith('\\u0000tenure.integer:') ? `"${rest}"` : rest;
  });
}

const isBoxed = (value) => typeof value === 'object' && value !== null && require('util').types.isBoxedPrimitive(value);

module.exports = { parse, stringify };
