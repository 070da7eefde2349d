'use strict';

const { later, now } = require('./call.cjs');
const { invalid } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');

/** The native half of a store; throws for anything else. */
let nativeOf;

/** A store on PostgreSQL or etcd: opened once, and shared by everything that is in it. */
class Store {
  #native;

  static {
    nativeOf = (store) => store.#native;
  }

  constructor(url) {
    this.#native = now(() => new native.Store(options.text(url, 'url')));
  }

  /** The store at a URL. Nothing is sent to the server yet. */
  static open(url) {
    return new Store(url);
  }

  /** Its URL, without the password. */
  get name() {
    return this.#native.name;
  }

  check() {
    return later(undefined, (call) => this.#native.check(call)).then(complete);
  }

  checkSync() {
    return complete(now(() => this.#native.check()));
  }
}

const complete = (findings) => findings.map((finding) => ({ ...finding, problem: finding.problem ?? null }));

/** The option `store`: a store, or its URL. A URL is not shown in an error: it may have a password. */
function store(given) {
  if (given instanceof Store) return nativeOf(given);
  if (typeof given === 'string') return now(() => new native.Store(given));
  throw invalid('read store', 'it must be a Store or the URL of one');
}

/** Options without the store, and the store. */
function apart(given) {
  if (!options.isObject(given) || !('store' in given)) return [given, undefined];
  const { store: named, ...rest } = given;
  return [rest, named === undefined ? undefined : store(named)];
}

module.exports = { Store, apart, store };
