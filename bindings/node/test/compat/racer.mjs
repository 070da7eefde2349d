// A process that enters and leaves a critical section by one of the drop-ins, again and again. Whether
// it was alone is told by a file that is made on entry and removed on exit, with no part of tenure.
//
//   node racer.mjs MODULE FILE ROUNDS     prints {"doubles":N} at the end

import { closeSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { withJournalLock } from '../../compat/changes-journal.cjs';
import lockfile from '../../compat/proper-lockfile.cjs';
import { acquireSessionWriteLock } from '../../compat/session-write-lock.cjs';

const [, , module, file, rounds] = process.argv;
const claim = `${file}.claim`;
let doubles = 0;

function work() {
  try {
    const descriptor = openSync(claim, 'wx');
    writeSync(descriptor, String(process.pid));
    closeSync(descriptor);
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    if (!isGone(readFileSync(claim, 'utf8'))) doubles += 1; // One that was killed inside is no holder.
    return;
  }
  // A little work, so that a second holder would be met.
  for (let sum = 0; sum < 20_000; sum += 1) Math.sqrt(sum);
  unlinkSync(claim);
}

function isGone(pid) {
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch {
    unlinkSync(claim);
    return true;
  }
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
    withJournalLock(dirname(file), work);
  },
};

for (let round = 0; round < Number(rounds); round += 1) await enter[module]();
console.log(JSON.stringify({ doubles }));
