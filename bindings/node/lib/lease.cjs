'use strict';

const { all, allSync, later, now } = require('./call.cjs');
const { holder, invalid } = require('./errors.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { apart, store } = require('./store.cjs');

const { signal } = options;
const ACQUIRE = {
  allowNetwork: options.flag,
  label: options.text,
  owner: options.text,
  token: options.text,
  ttlMs: options.finiteTime,
  waitMs: options.time,
};
const { token: _, ...TAKE_OVER } = { ...ACQUIRE, reason: options.text };
const RENEW = { ttlMs: options.finiteTime };

function acquiring({ owner = user(), ...found }) {
  if (found.ttlMs === undefined) throw invalid('lease', 'it needs ttlMs: how long it lasts without a renewal');
  return { label: '', allowNetwork: false, owner, ...found, inherited: options.inherited() };
}

/** As the command line does. */
function user() {
  const { LOGNAME, USER, USERNAME } = process.env;
  return LOGNAME || USER || USERNAME || (process.geteuid ? `uid ${process.geteuid()}` : 'unknown');
}

function reasonFor(reason) {
  if (reason === undefined) throw invalid('take over', 'it needs a reason');
  return reason;
}

/** Whether a lease is this call's to end: with the token of an earlier one it may be a renewal. */
const isNew = (leased, token = process.env.TENURE_TOKEN) => leased.token !== token;

const shown = (info) => (info === null ? null : { ...info, holder: holder(JSON.parse(info.holder)) });

/** A target that can be leased. Opening it touches nothing. */
class Lease {
  #native;

  constructor(path, given) {
    const { store: place } = options.read(given, { store });
    this.#native = now(() => new native.Lease(options.path(path), place));
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  async acquire(given) {
    const { signal: aborts, ...found } = options.read(given, { ...ACQUIRE, signal });
    const leased = await later(aborts, (call) => this.#native.acquire(call, acquiring(found)));
    return this.#unlessAborted(aborts, leased, found.token);
  }

  acquireSync(given) {
    const found = options.read(given, ACQUIRE);
    return now(() => this.#native.acquire(undefined, acquiring(found)));
  }

  async takeOver(given) {
    const { signal: aborts, reason, ...found } = options.read(given, { ...TAKE_OVER, signal });
    const leased = await later(aborts, (call) => this.#native.takeOver(call, acquiring(found), reasonFor(reason)));
    return this.#unlessAborted(aborts, leased);
  }

  /** It was acquired while the signal aborted: a caller that gave up must not have it. */
  async #unlessAborted(aborts, leased, token) {
    if (aborts?.aborted && isNew(leased, token)) {
      await this.release(leased.token);
      throw aborts.reason;
    }
    return leased;
  }

  takeOverSync(given) {
    const { reason, ...found } = options.read(given, TAKE_OVER);
    return now(() => this.#native.takeOver(undefined, acquiring(found), reasonFor(reason)));
  }

  async renew(token, given) {
    const { ttlMs } = options.read(given, RENEW);
    return later(undefined, (call) => this.#native.renew(call, options.text(token, 'token'), ttlMs));
  }

  renewSync(token, given) {
    const { ttlMs } = options.read(given, RENEW);
    return now(() => this.#native.renew(undefined, options.text(token, 'token'), ttlMs));
  }

  async release(token) {
    return later(undefined, (call) => this.#native.release(call, options.text(token, 'token')));
  }

  releaseSync(token) {
    now(() => this.#native.release(undefined, options.text(token, 'token')));
  }

  async show() {
    return shown(await later(undefined, (call) => this.#native.show(call)));
  }

  showSync() {
    return shown(now(() => this.#native.show()));
  }
}

/** A lease that we have. It outlives this process unless it is released. */
class HeldLease {
  #lease;

  constructor(lease, leased) {
    this.#lease = lease;
    this.path = lease.path;
    this.#take(leased);
  }

  async renew(given) {
    this.#take(await this.#lease.renew(this.token, given));
  }

  renewSync(given) {
    this.#take(this.#lease.renewSync(this.token, given));
  }

  async release() {
    await this.#lease.release(this.token);
  }

  releaseSync() {
    this.#lease.releaseSync(this.token);
  }

  #take({ token, fence, owner, ttlMs, expiresInMs }) {
    Object.assign(this, { token, fence, owner, ttlMs, expiresInMs });
  }
}
if (Symbol.dispose) HeldLease.prototype[Symbol.dispose] = HeldLease.prototype.releaseSync;
if (Symbol.asyncDispose) HeldLease.prototype[Symbol.asyncDispose] = HeldLease.prototype.release;

/** Several leases that we have, all with one token. */
class HeldLeases {
  constructor(targets, taken) {
    /** The lease of each target, in the order of the resolved names. */
    this.leases = taken.map(({ path, leased }) => new HeldLease(targets.find((target) => target.path === path), leased));
  }

  get token() {
    return this.leases[0].token;
  }

  async renew(given) {
    await all(this.leases.map((held) => held.renew(given)));
  }

  renewSync(given) {
    allSync(this.leases, (held) => held.renewSync(given));
  }

  /** Releases all of them, whatever happens to one; then throws what happened. */
  async release() {
    await all(this.leases.map((held) => held.release()));
  }

  releaseSync() {
    allSync(this.leases, (held) => held.releaseSync());
  }
}
if (Symbol.dispose) HeldLeases.prototype[Symbol.dispose] = HeldLeases.prototype.releaseSync;
if (Symbol.asyncDispose) HeldLeases.prototype[Symbol.asyncDispose] = HeldLeases.prototype.release;

/** Acquires the leases on several paths, all or none, with one deadline and one token. */
async function leaseAll(paths, given) {
  const [rest, place] = apart(given);
  const { signal: aborts, ...found } = options.read(rest, { ...ACQUIRE, signal });
  const [wanted, targets] = several(paths, given);
  const taken = await later(aborts, (call) => native.leaseAll(call, wanted, place, acquiring(found)));
  const held = new HeldLeases(targets, taken);
  if (aborts?.aborted && isNew(held, found.token)) {
    await held.release();
    throw aborts.reason;
  }
  return held;
}

function leaseAllSync(paths, given) {
  const [rest, place] = apart(given);
  const found = options.read(rest, ACQUIRE);
  const [wanted, targets] = several(paths, given);
  return new HeldLeases(targets, now(() => native.leaseAll(undefined, wanted, place, acquiring(found))));
}

/** The names of several targets, and the targets. */
function several(paths, given) {
  const wanted = options.paths(paths);
  return [wanted, wanted.map((path) => new Lease(path, { store: given?.store }))];
}

async function lease(path, given) {
  const [target, rest] = open(path, given);
  return new HeldLease(target, await target.acquire(rest));
}

function leaseSync(path, given) {
  const [target, rest] = open(path, given);
  return new HeldLease(target, target.acquireSync(rest));
}

/** The target of a path, and the options of its lease. */
function open(path, given) {
  const { store: named, ...rest } = options.isObject(given) ? given : {};
  return [new Lease(path, { store: named }), options.isObject(given) ? rest : given];
}

module.exports = { HeldLease, HeldLeases, Lease, lease, leaseAll, leaseAllSync, leaseSync, user };
