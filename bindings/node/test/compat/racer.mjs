// A process that enters and leaves a critical section by one of the drop-ins, again and again. It notes
// each in a file that all append to, with no part of tenure: the order of the notes tells who was alone.
//
//   node racer.mjs MODULE FILE ROUNDS     appends `PID in` and `PID out` to FILE.notes

import { openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { withJournalLock } from '../../compat/changes-journal.cjs';
import lockfile from '../../compat/proper-lockfile.cjs';
import { acquireSessionWriteLock } from '../../compat/session-write-lock.cjs';

const [, , module, file, rounds] = process.argv;
const notes = openSync(`${file}.notes`, 'a');

function work() {
  writeSync(notes, `${process.pid} in\n`);
  // A little work, so that a second holder would be met.
  for (let sum = 0; sum < 20_000; sum += 1) Math.sqrt(sum);
  writeSync(notes, `${process.pid} out\n`);
}

const enter = {
  async 'session-write-lock'() {
    const held = await acquireSessionWriteLock({ sessionFile: file, timeoutMs: 60_000 });
    work();
    held.assertOwned();
    await held.release();
  },
  async 'proper-lockfile'() {
    const release = await lockfile.lock(file, { retries: { retries: 20, minTimeout: 3000 } });
    work();
    await release();
  },
  async 'changes-journal'() {
    for (let entered = false; !entered; ) {
      try {
        withJournalLock(dirname(file), work);
        entered = true;
      } catch (error) {
        // It waits for five seconds, which may be short on a busy machine.
        if (!/^Failed to acquire journal lock/.test(error.message)) throw error;
      }
    }
  },
};

for (let round = 0; round < Number(rounds); round += 1) await enter[module]();
