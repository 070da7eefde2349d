'use strict';

const { later, now } = require('./call.cjs');
const { change, changeSync } = require('./document.cjs');
const { invalid } = require('./errors.cjs');
const json = require('./json.cjs');
const { user } = require('./lease.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { store } = require('./store.cjs');

const { signal } = options;
const OPEN = { numbers: options.numbers, store };
/** How the documents of tasks are written. */
const WRITE = {
  allowNetwork: options.flag,
  label: options.text,
  noSync: options.flag,
  waitMs: options.time,
};
const ADD = { ...WRITE, id: options.text, maxAttempts: options.whole };
const NEXT = { accepts: options.callback, owner: options.text, ttlMs: options.finiteTime, waitMs: options.time };
const FAIL = { delayMs: options.finiteTime, maxAttempts: options.whole, reason: options.text };
const RENEW = { ttlMs: options.finiteTime };
const PRUNE = { ...WRITE, maxAgeMs: options.finiteTime };

/** The arguments of the native `add`, without the call. */
const adding = (task, { id, maxAttempts, ...write }) => [json.stringify(task), id, maxAttempts, options.forWrite(write)];

function claiming({ owner = user(), ttlMs, waitMs = 0 }) {
  if (ttlMs === undefined) throw invalid('claim', 'it needs ttlMs: how long the claim lasts without a renewal');
  return { owner, ttlMs, waitMs };
}

/** What a function is asked about a task, and answers. */
const CHOICE = { parse: json.parse, render: (accepted) => JSON.stringify(Boolean(accepted)) };

const failing = ({ delayMs = 0, ...rest }) => ({ delayMs, ...rest });

const pruning = ({ maxAgeMs = 0, ...write }) => [maxAgeMs, options.forWrite(write)];

const claim = (id, token) => [options.text(id, 'id'), options.text(token, 'token')];

/** Tasks for many workers: each is given to one at a time. Opening it touches nothing. */
class Queue {
  #native;
  #numbers;

  constructor(dir, given) {
    const { numbers, store: place } = options.read(given, OPEN);
    this.#numbers = numbers;
    this.#native = now(() => new native.Queue(options.path(dir), place));
  }

  /** The resolved directory. */
  get path() {
    return this.#native.path;
  }

  async add(task, given) {
    const { signal: aborts, ...found } = options.read(given, { ...ADD, signal });
    return later(aborts, (call) => this.#native.add(call, ...adding(task, found)));
  }

  addSync(task, given) {
    const found = options.read(given, ADD);
    return now(() => this.#native.add(undefined, ...adding(task, found)));
  }

  async next(given) {
    const { signal: aborts, accepts, ...found } = options.read(given, { ...NEXT, signal });
    const wanted = claiming(found);
    const claimed = await (accepts
      ? change(this.path, CHOICE, async (task) => (await accepts(task)) ?? false, { numbers: this.#numbers, signal: aborts },
          (call, _write, _maxHoldMs, ask) => this.#native.nextOf(call, wanted, ask))
      : later(aborts, (call) => this.#native.next(call, wanted)));
    if (claimed !== null && aborts?.aborted) {
      // It was claimed while the signal aborted: a caller that gave up must not keep it.
      await this.fail(claimed.id, claimed.token);
      throw aborts.reason;
    }
    return this.#claimed(claimed);
  }

  nextSync(given) {
    const { accepts, ...found } = options.read(given, NEXT);
    const wanted = claiming(found);
    return this.#claimed(
      accepts
        ? changeSync(this.path, CHOICE, (task) => accepts(task) ?? false, { numbers: this.#numbers },
            (_write, ask) => this.#native.nextOfSync(wanted, ask))
        : now(() => this.#native.next(undefined, wanted)),
    );
  }

  async done(id, token) {
    return later(undefined, (call) => this.#native.done(call, ...claim(id, token)));
  }

  doneSync(id, token) {
    return now(() => this.#native.done(undefined, ...claim(id, token)));
  }

  async fail(id, token, given) {
    const found = failing(options.read(given, FAIL));
    return later(undefined, (call) => this.#native.fail(call, ...claim(id, token), found));
  }

  failSync(id, token, given) {
    const found = failing(options.read(given, FAIL));
    return now(() => this.#native.fail(undefined, ...claim(id, token), found));
  }

  async renew(id, token, given) {
    const { ttlMs } = options.read(given, RENEW);
    return later(undefined, (call) => this.#native.renew(call, ...claim(id, token), ttlMs));
  }

  renewSync(id, token, given) {
    const { ttlMs } = options.read(given, RENEW);
    return now(() => this.#native.renew(undefined, ...claim(id, token), ttlMs));
  }

  async list() {
    return this.#listed(await later(undefined, (call) => this.#native.list(call)));
  }

  listSync() {
    return this.#listed(now(() => this.#native.list()));
  }

  async prune(given) {
    const { signal: aborts, ...found } = options.read(given, { ...PRUNE, signal });
    return later(aborts, (call) => this.#native.prune(call, ...pruning(found)));
  }

  pruneSync(given) {
    const found = options.read(given, PRUNE);
    return now(() => this.#native.prune(undefined, ...pruning(found)));
  }

  #claimed(claimed) {
    return claimed === null ? undefined : { ...claimed, task: json.parse(claimed.task, this.#numbers) };
  }

  #listed(tasks) {
    return tasks.map(({ task, owner = null, leftMs = null, reason = null, ...rest }) => ({
      ...rest,
      task: json.parse(task, this.#numbers),
      owner,
      leftMs,
      reason,
    }));
  }
}

module.exports = { Queue };
