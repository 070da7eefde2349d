// Turns of a session in the manner of OpenClaw: every turn appends to the transcript under the
// session's write lock. Start several at once on one file and kill some: no process waits for a
// dead one, no two processes hold the lock at once, and no stale `.lock` file blocks the others.
//
// Before:  import { acquireSessionWriteLock } from './session-write-lock.js';
// After:   import { acquireSessionWriteLock } from 'tenure/compat/session-write-lock';
//
//   node turns.mjs SESSION.jsonl NAME COUNT

import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { acquireSessionWriteLock } from 'tenure/compat/session-write-lock';

const [, , sessionFile, name, count] = process.argv;

if (!sessionFile || !name || !(Number(count) > 0)) {
  console.error('usage: node turns.mjs SESSION.jsonl NAME COUNT');
  process.exit(2);
}

for (let turn = 1; turn <= Number(count); turn += 1) {
  const lock = await acquireSessionWriteLock({ sessionFile, timeoutMs: 60_000 });
  try {
    // Read, think, write: safe, since no other process holds the lock.
    const before = existsSync(sessionFile) ? readFileSync(sessionFile, 'utf8').split('\n').length - 1 : 0;
    lock.assertOwned();
    appendFileSync(sessionFile, `${JSON.stringify({ number: before + 1, name, turn })}\n`);
  } finally {
    await lock.release();
  }
}
