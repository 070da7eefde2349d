'use strict';

const { isUint8Array } = require('util/types');
const { later, now } = require('./call.cjs');
const { invalid } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { store } = require('./store.cjs');

/** A replacement is always synced: bytes of any kind do not show whether a power loss has cut them. */
const { noSync: _, ...WRITE } = options.DOCUMENT;
const ASYNC = { ...WRITE, signal: options.signal };

function bytes(content) {
  if (typeof content === 'string') return Buffer.from(content);
  if (isUint8Array(content)) return content;
  throw invalid('read the content', `it must be a string or bytes, not ${options.shown(content)}`);
}

/** A file with any content. Opening it touches nothing. */
class Blob {
  #native;

  constructor(path, given) {
    const { store: place } = options.read(given, { store });
    this.#native = now(() => new native.Blob(options.path(path), place));
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  async get() {
    return (await later(undefined, (call) => this.#native.get(call))) ?? undefined;
  }

  getSync() {
    return now(() => this.#native.get()) ?? undefined;
  }

  async version() {
    return (await later(undefined, (call) => this.#native.version(call))) ?? undefined;
  }

  versionSync() {
    return now(() => this.#native.version()) ?? undefined;
  }

  async put(content, given) {
    const { signal, ...write } = options.read(given, ASYNC);
    return later(signal, (call) => this.#native.put(call, bytes(content), options.forWrite(write)));
  }

  putSync(content, given) {
    const write = options.read(given, WRITE);
    return now(() => this.#native.put(undefined, bytes(content), options.forWrite(write)));
  }

  async undo(given) {
    const { signal, ...write } = options.read(given, ASYNC);
    return later(signal, (call) => this.#native.undo(call, options.forWrite(write)));
  }

  undoSync(given) {
    const write = options.read(given, WRITE);
    return now(() => this.#native.undo(undefined, options.forWrite(write)));
  }
}

module.exports = { Blob };
