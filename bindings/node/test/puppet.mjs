// A child that does what it is told, one order per line, and answers: the same protocol in every
// language. `--async` does the orders with the asynchronous half of the package, and so do several actors:
// the other half would make them wait for each other.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Document, Journal, Lease, lock, lockSync } from '../index.mjs';

let asynchronous = process.argv.includes('--async');
const kept = new Map();

/** Calls `name` or `nameSync` of a thing. */
const ask = (thing, name, ...rest) => (asynchronous ? thing[name](...rest) : thing[`${name}Sync`](...rest));

const waitMs = (order) => {
  const wait = order.wait ?? 'no';
  return wait === 'no' ? 0 : wait === 'forever' ? Infinity : wait;
};

const WRITE = ['wait', 'fence', 'guards', 'if_version', 'op_id', 'label', 'sync'];

function write(order, names = {}) {
  return {
    waitMs: waitMs(order),
    fence: order.fence,
    guards: order.guards,
    operation: order.op_id,
    label: order.label,
    noSync: !order.sync,
    ...('if_version' in order && { ifVersion: order.if_version }),
    ...names,
  };
}

/** What is kept has a name, which is its actor's own. */
const nameOf = (order) => JSON.stringify([order.actor, order.as ?? 'it']);

function find(order) {
  const name = nameOf(order);
  if (!kept.has(name)) throw new Misunderstood(`nothing is kept as ${name}`);
  return kept.get(name);
}

class Misunderstood extends Error {
  code = 'misunderstood';
}

/** Each order: the fields it knows, and what it does. */
const ORDERS = {
  lock: [
    ['path', 'as', 'wait', 'shared', 'owner', 'label', 'reentrant', 'fence'],
    async (order) => {
      const { shared, owner, label, reentrant, fence } = order;
      const options = { waitMs: waitMs(order), shared, owner, label, reentrant, fence };
      const guard = asynchronous ? await lock(order.path, options) : lockSync(order.path, options);
      kept.set(nameOf(order), guard);
      return { fence: guard.fence, recovered_from: guard.recoveredFrom?.pid ?? null };
    },
  ],
  release: [
    ['as'],
    async (order) => {
      const guard = find(order);
      kept.delete(nameOf(order));
      await ask(guard, 'release');
      return {};
    },
  ],
  verify: [
    ['as'],
    async (order) => {
      await ask(find(order), 'verify');
      return {};
    },
  ],
  read: [
    ['path'],
    async (order) => {
      const found = await ask(new Document(order.path), 'read');
      return { value: found?.value ?? null, version: found?.version ?? null };
    },
  ],
  set: [['path', 'value', ...WRITE], async (order) => ask(new Document(order.path), 'set', order.value, write(order))],
  add: [
    ['path', 'times', ...WRITE],
    async (order) => {
      const document = new Document(order.path);
      let n;
      for (let left = order.times ?? 1; left > 0; left--) {
        const add = (state) => ({ ...state, n: (n = state.n + 1) });
        await ask(document, 'update', add, write(order, { init: { n: 0 } }));
      }
      return { n };
    },
  ],
  merge: [
    ['path', 'value', ...WRITE],
    async (order) => ask(new Document(order.path), 'merge', order.value, write(order)),
  ],
  append: [
    ['path', 'lines', ...WRITE],
    async (order) => {
      const { closedTail, ...done } = await ask(new Journal(order.path), 'append', order.lines, write(order));
      return { ...done, closed_tail: closedTail };
    },
  ],
  entries: [
    ['path', 'from'],
    async (order) => ({ entries: await ask(new Journal(order.path), 'read', { from: order.from }) }),
  ],
  check: [['path'], async (order) => ask(new Journal(order.path), 'verify')],
  rotate: [['path', ...WRITE], async (order) => ask(new Journal(order.path), 'rotate', write(order))],
  follow: [
    ['path', 'from', 'as'],
    async (order) => {
      kept.set(nameOf(order), { journal: new Journal(order.path), from: order.from ?? 1 });
      return {};
    },
  ],
  next: [
    ['as', 'wait'],
    async (order) => {
      const follower = find(order);
      const entries = ask(follower.journal, 'follow', { from: follower.from, waitMs: waitMs(order) });
      const { value, done } = await entries.next();
      if (done) return { seq: null };
      follower.from = value.seq + 1;
      return value;
    },
  ],
  acquire: [
    ['path', 'ttl', 'owner', 'wait', 'token'],
    async ({ path, ttl, owner, token, ...order }) =>
      ask(new Lease(path), 'acquire', { ttlMs: ttl, owner, token, waitMs: waitMs(order) }),
  ],
  renew: [
    ['path', 'token', 'ttl'],
    async (order) => ask(new Lease(order.path), 'renew', order.token, { ttlMs: order.ttl }),
  ],
  end: [
    ['path', 'token'],
    async (order) => {
      await ask(new Lease(order.path), 'release', order.token);
      return {};
    },
  ],
  take_over: [
    ['path', 'ttl', 'owner', 'wait', 'reason'],
    async ({ path, ttl, owner, reason, ...order }) =>
      ask(new Lease(path), 'takeOver', { ttlMs: ttl, owner, reason, waitMs: waitMs(order) }),
  ],
  show: [
    ['path'],
    async (order) => {
      const info = await ask(new Lease(order.path), 'show');
      return { owner: info?.owner ?? null, running: info !== null && !info.expired };
    },
  ],
  storm: [
    ['path', 'times'],
    async (order) => {
      const one = async () => {
        const controller = new AbortController();
        const waiting = lock(order.path, { waitMs: Infinity, signal: controller.signal });
        setImmediate(() => controller.abort());
        try {
          await (await waiting).release();
          return 0;
        } catch (error) {
          if (error?.name !== 'AbortError') throw error;
          return 1;
        }
      };
      const ended = await Promise.all(Array.from({ length: order.times }, one));
      return { cancelled: ended.reduce((sum, one) => sum + one, 0) };
    },
  ],
  program: [
    [],
    async () => {
      const child = spawn('cat', { stdio: ['pipe', 'ignore', 'inherit'] });
      await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
      return { pid: child.pid };
    },
  ],
};

async function obey({ op, ...order }) {
  const [fields, act] = ORDERS[op] ?? [];
  if (!act) throw new Misunderstood(`no such order: ${op}`);
  const unknown = Object.keys(order).filter((field) => field !== 'actor' && !fields.includes(field));
  if (unknown.length > 0) throw new Misunderstood(`unknown fields of ${op}: ${unknown}`);
  return act(order);
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

/** Does an order, and answers. */
async function perform(order) {
  const { actor } = order;
  try {
    say({ actor, ok: (await obey(order)) ?? {} });
  } catch (error) {
    const { code = 'misunderstood', message, holder = null } = error;
    say({ actor, error: { code, message, holder } });
  }
}

const actors = new Map();

say({ ready: { language: 'node', pid: process.pid, ops: Object.keys(ORDERS), actors: true } });
for await (const line of createInterface({ input: process.stdin })) {
  let order;
  try {
    order = JSON.parse(line);
  } catch ({ message }) {
    say({ error: { code: 'misunderstood', message, holder: null } });
    continue;
  }
  if (order.actor === undefined) {
    await perform(order);
    continue;
  }
  asynchronous = true;
  const before = actors.get(order.actor) ?? Promise.resolve();
  actors.set(order.actor, before.then(() => perform(order)));
}
// Nothing is released: what the end of a process does to its holds is part of the test.
process.exit(0);
