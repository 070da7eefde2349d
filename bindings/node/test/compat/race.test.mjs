// Races 1, 3, 7 and 11: what a predecessor left that is dead, whose number another process has now, or
// that was killed before it had stamped its lock file. Theirs let two in; nobody may be let in twice.

import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
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
      const finished = others.map(async (child) => [await child.says(), await child.ended]);
      // The first that is done tells that all are at it; the victim is anywhere in its rounds.
      await Promise.race(finished);
      await victim.kill('SIGKILL');
      for (const [last, { code }] of await Promise.all(finished)) {
        assert.equal(code, 0);
        assert.deepEqual(last, { doubles: 0 });
      }
    });
  }
}
