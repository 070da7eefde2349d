'use strict';

// JSON text and JavaScript values, without losing digits on the way.
//
// Documents may contain numbers that a JavaScript number does not keep: 9007199254740993, 1e400,
// 0.1000000000000000055511151231257827. Read and written back they would be silently damaged, so
// such a document is refused unless the caller says otherwise.

const { invalid } = require('./errors.cjs');

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

/** JSON text of a value. What JSON cannot say is refused, not turned into null. */
function stringify(value) {
  let text;
  try {
    text = JSON.stringify(value);
    // NaN and Infinity become null: only then is the slow way needed.
    if (text?.includes('null')) checked(value);
  } catch (error) {
    if (error.code === 'invalid') throw error;
    text = checked(value);
  }
  if (text === undefined) throw invalid('write JSON', `${typeof value} is no JSON value`);
  return text;
}

function checked(value) {
  let marked = false;
  const replacer = (_, each) => {
    if (typeof each === 'number' && !Number.isFinite(each)) throw invalid('write JSON', `${each} is no JSON number`);
    if (typeof each === 'bigint') {
      marked = true;
      return MARK + each;
    }
    if (typeof each === 'string' && each.startsWith(MARK)) return MARK + each;
    return each;
  };
  let text;
  try {
    text = JSON.stringify(value, replacer);
  } catch (error) {
    if (error.code === 'invalid') throw error;
    throw invalid('write JSON', error?.message ?? String(error), error); // Cyclic, or a toJSON that throws.
  }
  if (!marked && !text?.includes('tenure.integer:')) return text;
  return text.replace(TOKENS, (token) => {
    const rest = token.startsWith('"\\u0000tenure.integer:') ? token.slice(22, -1) : null;
    if (rest === null) return token;
    return rest.startsWith('\\u0000tenure.integer:') ? `"${rest}"` : rest;
  });
}

module.exports = { parse, stringify };
