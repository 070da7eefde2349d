// The same errors and results as the command line's, by the same names.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { linkSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Collection, Document, Journal, Lease, Queue, leaseAll, lock } from '../index.mjs';
import { PACKAGE, TENURE, puppet, scratch } from './child.mjs';

const ROOT = join(PACKAGE, '../..');

const ENV = { ...process.env, TENURE_WAIT: '' };
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

/** The error object that the command prints. */
function refusal(args) {
  const { stderr, status } = spawnSync(TENURE, [...args, '--json'], { encoding: 'utf8', env: ENV });
  assert.notEqual(status, 0, `tenure ${args.join(' ')} succeeded`);
  return JSON.parse(stderr.trim().split('\n').at(-1));
}

const result = (args) => JSON.parse(execFileSync(TENURE, [...args, '--json'], { encoding: 'utf8', env: ENV }));

async function thrown(act) {
  try {
    await act();
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
}

/** Each: what is prepared, the command, the call, the code. */
const REFUSALS = {
  async busy(dir, t) {
    const path = join(dir, 'x');
    await (await puppet(t)).ask({ op: 'lock', path, owner: 'alice', label: 'work' });
    return [['doc', 'set', path, '1', '--wait', '0'], () => new Document(path).set(1, { waitMs: 0 })];
  },
  async conflict(dir) {
    const document = new Document(join(dir, 'x'));
    const { version } = await document.set(1);
    await document.set(2);
    return [['doc', 'set', document.path, '3', '--if-version', version], () => document.compareAndSet(version, 3)];
  },
  async fenced(dir) {
    const document = new Document(join(dir, 'x'));
    await (await lock(document.path)).release();
    return [['doc', 'set', document.path, '3', '--fence', '5'], () => document.set(3, { fence: 5 })];
  },
  async lease_lost(dir) {
    const lease = new Lease(join(dir, 'x'));
    await lease.acquire({ ttlMs: 60_000 });
    const token = 'somebody-elses-token';
    return [['lease', 'renew', lease.path, '--token', token], () => lease.renew(token)];
  },
  async damaged(dir) {
    const path = join(dir, 'x');
    writeFileSync(path, '{"n":');
    return [['doc', 'get', path], () => new Document(path).read()];
  },
  async unsupported(dir) {
    const path = join(dir, 'x');
    writeFileSync(path, '1');
    linkSync(path, join(dir, 'y'));
    return [['doc', 'set', path, '2'], () => new Document(path).set(2)];
  },
  async invalid(dir) {
    const path = join(dir, 'x');
    return [['journal', 'append', path, ' '], () => new Journal(path).append(' ')];
  },
  async not_found(dir) {
    const path = join(dir, 'x');
    return [['doc', 'patch', path, '[]'], () => new Document(path).patch([])];
  },
  async io(dir) {
    mkdirSync(join(dir, 'x'));
    return [['journal', 'append', join(dir, 'x'), 'a'], () => new Journal(join(dir, 'x')).append('a')];
  },
};

for (const [code, prepare] of Object.entries(REFUSALS)) {
  test(`${code} is the same error in both`, async (t) => {
    const [args, call] = await prepare(scratch(t), t);
    const theirs = refusal(args);
    const ours = await thrown(call);
    // How long somebody has held it is another moment's answer.
    const timeless = (message) => message.replace(/(for )?[\d.]+ s(, since| ago, at) [\d:]+( UTC)?/, '');
    assert.equal(ours.name, 'TenureError');
    // Of a hint the command also says which flag that is.
    const flagless = (words) => words?.replace(/ \(--[^)]*\)/, '') ?? null;
    assert.equal(timeless(ours.message), timeless(flagless(theirs.message)));
    assert.equal(ours.hint, flagless(theirs.hint));
    for (const field of ['code', 'action', 'path', 'committed']) assert.deepEqual(ours[field], theirs[field], field);
    const named = theirs.holder && Object.fromEntries(Object.entries(theirs.holder).map(([name, value]) => [camel(name), value]));
    assert.deepEqual(ours.holder, named);
    assert.equal(theirs.code, code === 'io' ? theirs.code : code);
  });
}

test('the codes are those of the core', () => {
  const core = readFileSync(join(ROOT, 'crates/tenure/src/error.rs'), 'utf8');
  const codes = [...core.matchAll(/Self::\w+ => "(\w+)",/g)].map(([, code]) => code);
  const types = readFileSync(join(PACKAGE, 'index.d.cts'), 'utf8');
  const [declared] = /type ErrorCode =([^;]*);/.exec(types);
  const known = [...declared.matchAll(/'(\w+)'/g)].map(([, code]) => code);
  assert.deepEqual(known, [...codes, 'internal']);
});

test('results have the fields of the command', async (t) => {
  const dir = scratch(t);
  const [doc, log, session] = ['state.json', 'log.jsonl', 'session'].map((name) => join(dir, name));
  const [document, journal, lease] = [new Document(doc), new Journal(log), new Lease(session)];
  const keys = join(dir, 'keys');
  const pairs = [
    [['doc', 'set', doc, '{"a":1}'], () => document.set({ a: 2 })],
    [['journal', 'append', log, 'a'], () => journal.append('b')],
    [['journal', 'verify', log], () => journal.verify()],
    [['journal', 'compact', log, '--from', '1'], () => journal.compact({ from: 1 })],
    [['journal', 'rotate', log], () => journal.rotate()],
    [['collection', 'split', doc, keys], () => Collection.split(doc, keys)],
    [['collection', 'prune', keys, '--max-count', '5'], () => new Collection(keys).prune({ maxCount: 5 })],
  ];
  for (const [args, call] of pairs) {
    // The command repeats what it was asked.
    const theirs = Object.keys(result(args)).map(camel).filter((name) => name !== 'dryRun');
    assert.deepEqual(Object.keys(await call()).sort(), theirs.sort(), args.join(' '));
  }
  // The command names the targets: there may be several.
  const { token, target, targets, ...leased } = result(['lease', 'acquire', session, '--ttl', '60s']);
  assert.equal(targets.length, 1);
  assert.equal(targets[0].target, target);
  const renewed = await lease.renew(token);
  assert.deepEqual(Object.keys(renewed).sort(), ['token', ...Object.keys(leased).map(camel)].sort());
  assert.equal(renewed.fence, leased.fence);
  // The command also says whether the lease is that of its own token.
  const shown = Object.keys(result(['lease', 'show', session])).map(camel).filter((name) => !['leased', 'mine'].includes(name));
  assert.deepEqual(Object.keys(await lease.show()).sort(), shown.sort());
});

test('a document and a journal written by one are read by the other', async (t) => {
  const dir = scratch(t);
  const [doc, log] = [join(dir, 'state.json'), join(dir, 'log.jsonl')];
  const { version } = result(['doc', 'set', doc, '{"b":1,"a":12345678901234567890}']);
  const found = await new Document(doc).read({ numbers: 'bigint' });
  assert.deepEqual([found.version, found.value.a], [version, 12345678901234567890n]);
  await new Journal(log).append(['one', 'two']);
  result(['journal', 'append', log, 'three']);
  assert.deepEqual((await new Journal(log).read()).map(({ line }) => line), ['one', 'two', 'three']);
});

test('several leases, and the choice of a task, are those of the command', async (t) => {
  const dir = scratch(t);
  const paths = [join(dir, 'a'), join(dir, 'b')];
  const { token, targets } = result(['lease', 'acquire', ...paths, '--ttl', '1m']);
  const both = await leaseAll(paths, { ttlMs: 60_000, token });
  assert.deepEqual(both.leases.map(({ path, fence }) => ({ target: path, fence })), targets);
  const busy = refusal(['lease', 'acquire', ...paths, '--ttl', '1m', '--wait', '0']);
  const error = await thrown(() => leaseAll(paths, { ttlMs: 60_000, waitMs: 0 }));
  assert.deepEqual([error.code, error.path], [busy.code, busy.path]);
  execFileSync(TENURE, ['lease', 'release', ...paths, '--token', both.token], { env: ENV });
  const queue = new Queue(join(dir, 'tasks'));
  for (const n of [1, 2, 3, 4]) await queue.add({ n });
  const { task } = result(['claim', 'next', queue.path, '--ttl', '1m', '--filter', '.n % 2 == 0']);
  assert.deepEqual([task, (await queue.next({ ttlMs: 60_000, accepts: ({ n }) => n % 2 === 0 })).task], [{ n: 2 }, { n: 4 }]);
});
