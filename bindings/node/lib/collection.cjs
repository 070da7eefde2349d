'use strict';

const { later, now } = require('./call.cjs');
const { Document } = require('./document.cjs');
const { invalid } = require('./errors.cjs');
const { Journal } = require('./journal.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { apart, store } = require('./store.cjs');

const { signal } = options;
const OPEN = { kind: options.oneOf('documents', 'journals'), numbers: options.numbers, store };
const PRUNE = {
  ...options.WRITE,
  dryRun: options.flag,
  keep: options.texts,
  maxAgeMs: options.finiteTime,
  maxCount: options.whole,
};

/** The arguments of the native `prune`, without the call. */
function pruning({ dryRun = false, keep = [], maxAgeMs, maxCount, ...write }) {
  if (maxAgeMs === undefined && maxCount === undefined) {
    throw invalid('prune', 'nothing says what to remove; pass maxAgeMs, maxCount or both');
  }
  return [{ dryRun, keep, maxAgeMs, maxCount }, options.forWrite(write)];
}

/** A directory of documents or journals by key. Opening it touches nothing. */
class Collection {
  #native;
  #kind;
  #numbers;

  constructor(dir, given) {
    const { kind = 'documents', numbers, store: place } = options.read(given, OPEN);
    this.#kind = kind;
    this.#numbers = numbers;
    this.#native = now(() => new native.Collection(options.path(dir), kind === 'journals', place));
  }

  /** The resolved directory. */
  get path() {
    return this.#native.path;
  }

  pathOf(key) {
    return now(() => this.#native.pathOf(options.text(key, 'key')));
  }

  document(key) {
    this.#mustBe('documents');
    return new Document(now(() => this.#native.document(options.text(key, 'key'))), { numbers: this.#numbers });
  }

  journal(key) {
    this.#mustBe('journals');
    return new Journal(now(() => this.#native.journal(options.text(key, 'key'))));
  }

  async keys() {
    return later(undefined, (call) => this.#native.keys(call));
  }

  keysSync() {
    return now(() => this.#native.keys());
  }

  async prune(given) {
    const { signal: aborts, ...found } = options.read(given, { ...PRUNE, signal });
    return later(aborts, (call) => this.#native.prune(call, ...pruning(found)));
  }

  pruneSync(given) {
    const found = options.read(given, PRUNE);
    return now(() => this.#native.prune(undefined, ...pruning(found)));
  }

  /** Writes every member of the JSON object in `index` as a document of its own into `dir`. */
  static async split(index, dir, given) {
    const [rest, place] = apart(given);
    const { signal: aborts, ...write } = options.read(rest, { ...options.WRITE, signal });
    return later(aborts, (call) => native.split(call, options.path(index), options.path(dir), place, options.forWrite(write)));
  }

  static splitSync(index, dir, given) {
    const [rest, place] = apart(given);
    const write = options.read(rest, options.WRITE);
    return now(() => native.split(undefined, options.path(index), options.path(dir), place, options.forWrite(write)));
  }

  #mustBe(kind) {
    if (this.#kind !== kind) throw invalid('open a key', `this is a collection of ${this.#kind}`);
  }
}

module.exports = { Collection };
