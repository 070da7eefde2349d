// Races 1, 3, 7 and 11: what a predecessor left that is dead, whose number another process has now, or
// that was killed before it had stamped its lock file. Theirs let two in; nobody may be let in twice.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Child, PACKAGE, scratch } from '../child.mjs';

const RACERS = 6;
const ROUNDS = 25;
const DEAD = 2_147_483_646;
const old = new Date(Date.now() - 3_600_000);

/** The lock file that the predecessor left. */
const left = {
  'session-write-lock': {
    file: 'session.jsonl',
    dead: (lock) => writeFileSync(lock, JSON.stringify({ pid: DEAD, createdAt: new Date().toISOString() })),
    recycled: (lock) =>
      writeFileSync(lock, JSON.stringify({ pid: process.pid, createdAt: new Date().toISOString(), starttime: 1 })),
    unstamped: (lock) => {
      writeFileSync(lock, '');
      utimesSync(lock, old, old);
    },
  },
  'proper-lockfile': {
    file: 'data.json',
    dead: (lock) => {
      mkdirSync(lock);
      utimesSync(lock, old, old);
    },
  },
  'changes-journal': {
    file: 'changes.journal',
    dead: (lock) => writeFileSync(lock, `${DEAD}\nnonce\n`),
    unstamped: (lock) => {
      writeFileSync(lock, '');
      utimesSync(lock, old, old);
    },
  },
};

/** Who came in while somebody was inside. Whoever was killed has left with the last note it made: what
 * is asked of the order alone needs no guess about who is still alive. */
function intrusions(notes, killed) {
  const steps = notes.split('\n').slice(0, -1).map((line) => line.split(' '));
  const last = steps.findLastIndex(([pid]) => Number(pid) === killed);
  const found = [];
  let inside = null;
  steps.forEach(([pid, step], at) => {
    if (step === 'in' && inside !== null) found.push(`${pid} while ${inside} was inside`);
    if (step === 'out' && inside !== pid) found.push(`${pid} left, and ${inside} was inside`);
    inside = step === 'in' && at !== last ? pid : null;
  });
  return found;
}

test('the notes tell who was let in twice', () => {
  assert.deepEqual(intrusions('1 in\n1 out\n2 in\n1 in\n1 out\n', 2), []);
  assert.equal(intrusions('1 in\n2 in\n1 out\n2 out\n', 3).length, 3);
  assert.equal(intrusions('2 in\n1 in\n2 out\n1 out\n', 2).length, 3);
});

for (const [module, { file, ...predecessors }] of Object.entries(left)) {
  for (const [state, leave] of Object.entries(predecessors)) {
    test(`${module}: nobody is let in twice after a ${state} predecessor, whoever is killed`, async (t) => {
      const path = join(scratch(t), file);
      if (module === 'proper-lockfile') writeFileSync(path, '');
      leave(`${path}.lock`);
      const racer = join(PACKAGE, 'test/compat/racer.mjs');
      const start = (rounds) => new Child(t, [racer, module, path, String(rounds)]);
      const racers = [start(1e9), ...Array.from({ length: RACERS }, () => start(ROUNDS))];
      const [victim, ...others] = racers;
      // The first that is done tells that all are at it; the victim is anywhere in its rounds.
      await Promise.race(others.map((child) => child.ended));
      await victim.kill('SIGKILL');
      for (const { ended } of others) assert.equal((await ended).code, 0);
      const notes = readFileSync(`${path}.notes`, 'utf8');
      assert.ok(notes.split('\n').length > 2 * RACERS * ROUNDS);
      assert.deepEqual(intrusions(notes, victim.process.pid), []);
    });
  }
}
