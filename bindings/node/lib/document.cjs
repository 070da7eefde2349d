'use strict';

const { later, laterAtOnce, now } = require('./call.cjs');
const { TenureError, invalid } = require('./errors.cjs');
const json = require('./json.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { store } = require('./store.cjs');

const MAX_HOLD_MS = 10_000;
const { numbers, signal } = options;
const OPEN = { numbers, store };
const READ = { numbers };
const RULES = { last: options.texts, max: options.texts, min: options.texts, sum: options.texts, union: options.texts };
const MERGE = { ...options.DOCUMENT, rules: (given) => options.read(given, RULES) };
const UPDATE = { ...options.DOCUMENT, init: (value) => json.stringify(value), numbers };
const UPDATE_TEXT = { ...options.DOCUMENT, init: options.text };
const ASYNC = { maxHoldMs: options.finiteTime, signal };
const WATCH = { numbers, waitMs: options.time };
const NO_RULES = { last: [], max: [], min: [], sum: [], union: [] };

function snapshot(found, wanted) {
  if (found === null) return undefined;
  const { text, version, repaired } = found;
  return { value: json.parse(text, wanted), version, repaired, text };
}

/** Values for the function of `update`. A function that returns nothing has changed what it was given; one that
 * returns something else has not. */
const BY_VALUE = { raw: false, parse: json.parse, render: json.stringify, isChangedOrReplaced: true };
/** The text itself, for a caller with a layout of its own. */
const BY_TEXT = { raw: true, parse: (text) => text, render: (text) => options.text(text, 'the new text') };

/** What the function is given: the document, or the value to start with. */
const before = (kind, text, wanted) => (text === undefined ? undefined : kind.parse(text, wanted));

function refused(code, path, detail, hint) {
  const message = `failed to update \`${path}\`: ${detail}; ${hint}`;
  return new TenureError({ code, message, action: 'update', path, hint, committed: false });
}

/** The text to write. `given` is the text of `current` before the function had it. */
function after(kind, given, current, result, path, wanted) {
  const value = result === undefined ? current : result;
  if (value === undefined) {
    throw refused('not_found', path, 'there is no document, and the function returned none', 'give it an init to start from');
  }
  const text = kind.render(value);
  if (value !== current && kind.isChangedOrReplaced && isAmbiguous(given, current, text, wanted)) {
    const hint = 'return nothing to keep the changes, or a new document without changing the old one; for a result use `edit`';
    throw refused('invalid', path, 'the function changed its argument and returned something else', hint);
  }
  return text;
}

/** Whether the function has changed what it was given, and returned something else: one of them is not meant to be the
 * document. */
function isAmbiguous(given, current, returned, wanted) {
  if (!options.isObject(current)) return false;
  let changed;
  try {
    changed = json.stringify(current);
  } catch {
    return true; // Something that is no JSON was put into it.
  }
  // Most documents are written as JSON.stringify does it; then the text itself is what to compare with.
  return changed !== given && changed !== returned && changed !== json.stringify(json.parse(given, wanted));
}

/** Asks `compute` for the new document while the native half holds the lock. What it throws is thrown. */
async function change(path, kind, compute, found, start) {
  options.callback(compute, 'the function');
  const { init, numbers: wanted, maxHoldMs = MAX_HOLD_MS, signal: aborts, ...rest } = found;
  let failure;
  let waiting;
  // It must not reject: no caller would see it.
  const ask = async (text, reply) => {
    failure = undefined;
    waiting = reply;
    try {
      const given = text ?? init;
      const current = before(kind, given, wanted);
      reply.write(after(kind, given, current, await compute(current), path, wanted));
    } catch (thrown) {
      failure = { thrown };
      reply.refuse();
    }
  };
  try {
    return await later(aborts, (call) => start(call, rest, maxHoldMs, ask), () => waiting?.refuse());
  } catch (error) {
    if (failure && error?.code === 'cancelled') throw failure.thrown;
    throw error;
  }
}

/** The same on the calling thread. */
function changeSync(path, kind, compute, { init, numbers: wanted, ...rest }, start) {
  options.callback(compute, 'the function');
  let failure;
  const ask = (text) => {
    try {
      const given = text ?? init;
      const current = before(kind, given, wanted);
      const result = compute(current);
      if (typeof result?.then === 'function') {
        result.then(undefined, () => {}); // It is refused here; no other code looks at it.
        throw invalid('update', 'the function returned a promise; use the asynchronous call');
      }
      return after(kind, given, current, result, path, wanted);
    } catch (thrown) {
      failure = { thrown };
      return null;
    }
  };
  try {
    return now(() => start(rest, ask));
  } catch (error) {
    if (failure) throw failure.thrown;
    throw error;
  }
}

/** The options of an edit. A repeated operation would have no result to return. */
function editable(given) {
  if (given?.operation !== undefined) {
    throw invalid('edit', 'what the function returned is not kept; use update with an operation');
  }
  return given;
}

/** The native half of a document, and what it does with numbers; throws for anything else. */
let insideOf;

/** A JSON document in a file, or in a store. Opening it touches nothing. */
class Document {
  #native;
  #numbers;

  static {
    insideOf = (document) => ({ native: document.#native, numbers: document.#numbers });
  }

  constructor(path, given) {
    const { numbers: wanted, store: place } = options.read(given, OPEN);
    this.#numbers = wanted;
    this.#native = path instanceof native.Document ? path : now(() => new native.Document(options.path(path), place));
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  async read(given) {
    const found = options.read(given, { ...READ, signal });
    return snapshot(await later(found.signal, (call) => this.#native.read(call)), found.numbers ?? this.#numbers);
  }

  readSync(given) {
    const found = options.read(given, READ);
    return snapshot(now(() => this.#native.read()), found.numbers ?? this.#numbers);
  }

  async version() {
    return (await later(undefined, (call) => this.#native.version(call))) ?? undefined;
  }

  versionSync() {
    return now(() => this.#native.version()) ?? undefined;
  }

  async set(value, given) {
    return this.#write(given, (call, write) => this.#native.set(call, json.stringify(value), write));
  }

  setSync(value, given) {
    return this.#writeSync(given, (call, write) => this.#native.set(call, json.stringify(value), write));
  }

  async compareAndSet(version, value, given) {
    return this.set(value, options.plus(given, { ifVersion: options.text(version, 'version') }));
  }

  compareAndSetSync(version, value, given) {
    return this.setSync(value, options.plus(given, { ifVersion: options.text(version, 'version') }));
  }

  async merge(patch, given) {
    const start = (call, { rules, ...write }) =>
      this.#native.merge(call, json.stringify(patch), { ...NO_RULES, ...rules }, write);
    return this.#write(given, start, MERGE);
  }

  mergeSync(patch, given) {
    const start = (call, { rules, ...write }) =>
      this.#native.merge(call, json.stringify(patch), { ...NO_RULES, ...rules }, write);
    return this.#writeSync(given, start, MERGE);
  }

  async patch(operations, given) {
    return this.#write(given, (call, write) => this.#native.patch(call, json.stringify(operations), write));
  }

  patchSync(operations, given) {
    return this.#writeSync(given, (call, write) => this.#native.patch(call, json.stringify(operations), write));
  }

  async restore(given) {
    return this.#write(given, (call, write) => this.#native.restore(call, write));
  }

  restoreSync(given) {
    return this.#writeSync(given, (call, write) => this.#native.restore(call, write));
  }

  /** Runs `compute` on the fresh document while the lock is held. What it throws changes nothing. */
  async update(compute, given) {
    return this.#change(BY_VALUE, compute, { numbers: this.#numbers, ...options.read(given, { ...UPDATE, ...ASYNC }) });
  }

  updateSync(compute, given) {
    return this.#changeSync(BY_VALUE, compute, { numbers: this.#numbers, ...options.read(given, UPDATE) });
  }

  /** Changes the document in place, and returns what `change` returns. It needs an init to start from. */
  async edit(change, given) {
    options.callback(change, 'the function');
    let result;
    await this.update(async (value) => {
      result = await change(value);
      return value;
    }, editable(given));
    return result;
  }

  editSync(change, given) {
    options.callback(change, 'the function');
    let result;
    this.updateSync((value) => {
      result = change(value);
      if (typeof result?.then === 'function') return result; // Refused by `updateSync`.
      return value;
    }, editable(given));
    return result;
  }

  /** The same from text to text, which is stored as it is if it is JSON. */
  async updateText(compute, given) {
    return this.#change(BY_TEXT, compute, options.read(given, { ...UPDATE_TEXT, ...ASYNC }));
  }

  updateTextSync(compute, given) {
    return this.#changeSync(BY_TEXT, compute, options.read(given, UPDATE_TEXT));
  }

  /** The document after each change from now on; quick ones may be passed over. */
  watch(given) {
    const { numbers: wanted = this.#numbers, waitMs = Infinity, signal: aborts } = options.read(given, { ...WATCH, signal });
    // Now, not when the first value is asked for: a change in between must be seen.
    const opened = later(aborts, (call) => this.#native.watch(call));
    opened.catch(() => {}); // The iterator reports it.
    return (async function* changes() {
      const watch = await opened;
      for (;;) {
        const found = await laterAtOnce(aborts, (call) => watch.next(call, waitMs));
        if (found === null) return;
        yield snapshot(found, wanted);
      }
    })();
  }

  watchSync(given) {
    const { numbers: wanted = this.#numbers, waitMs = Infinity } = options.read(given, WATCH);
    const watch = now(() => this.#native.watch());
    return (function* changes() {
      for (;;) {
        const found = now(() => watch.next(undefined, waitMs));
        if (found === null) return;
        yield snapshot(found, wanted);
      }
    })();
  }

  #change(kind, compute, found) {
    return change(this.path, kind, compute, found, (call, write, maxHoldMs, ask) =>
      this.#native.update(call, options.forWrite(write), kind.raw, maxHoldMs, ask),
    );
  }

  #changeSync(kind, compute, found) {
    return changeSync(this.path, kind, compute, found, (write, ask) =>
      this.#native.updateSync(options.forWrite(write), kind.raw, ask),
    );
  }

  #write(given, start, readers = options.DOCUMENT) {
    const { signal: aborts, ...write } = options.read(given, { ...readers, signal });
    return later(aborts, (call) => start(call, options.forWrite(write)));
  }

  #writeSync(given, start, readers = options.DOCUMENT) {
    const write = options.read(given, readers);
    return now(() => start(undefined, options.forWrite(write)));
  }
}

module.exports = { ASYNC, BY_VALUE, Document, UPDATE, change, changeSync, documentOf: (document) => insideOf(document) };
