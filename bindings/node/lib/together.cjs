'use strict';

// A document and a journal changed in one call: every check before the first write.

const { ASYNC, BY_VALUE, UPDATE, change, changeSync, documentOf } = require('./document.cjs');
const { invalid } = require('./errors.cjs');
const { APPEND, appending, batch, journalOf } = require('./journal.cjs');
const options = require('./options.cjs');

const TOGETHER = { ...UPDATE, ...APPEND };

/** The native halves of both. */
function inside(document, journal) {
  try {
    return [documentOf(document), journalOf(journal)];
  } catch {
    throw invalid('update and append', 'it needs a Document, a function, a Journal and lines, in this order');
  }
}

/** Changes a document and appends a batch to a journal, both or (checks failing) neither. */
async function updateAndAppend(document, compute, journal, lines, given) {
  const [{ native, numbers }, log] = inside(document, journal);
  const found = { numbers, ...options.read(given, { ...TOGETHER, ...ASYNC }) };
  const entries = batch(lines);
  return change(document.path, BY_VALUE, compute, found, (call, write, maxHoldMs, ask) =>
    native.updateAndAppend(call, log, entries, ...appending(write), maxHoldMs, ask),
  );
}

function updateAndAppendSync(document, compute, journal, lines, given) {
  const [{ native, numbers }, log] = inside(document, journal);
  const found = { numbers, ...options.read(given, TOGETHER) };
  const entries = batch(lines);
  return changeSync(document.path, BY_VALUE, compute, found, (write, ask) =>
    native.updateAndAppendSync(log, entries, ...appending(write), ask),
  );
}

module.exports = { updateAndAppend, updateAndAppendSync };
