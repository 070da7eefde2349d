// Compiled, never run: the types of the drop-ins.

import lockfile from 'tenure/compat/proper-lockfile';
import { unlock as unlockLater } from 'tenure/compat/proper-lockfile/lib/lockfile';
import writeFileAtomic from 'tenure/compat/write-file-atomic';
import { acquireSessionWriteLock, cleanStaleLockFiles, SessionWriteLockTimeoutError } from 'tenure/compat/session-write-lock';
import { appendJournalEntries, readJournal, withJournalLock } from 'tenure/compat/changes-journal';
import { isChecked, loadState, saveState } from 'tenure/compat/gateguard-state';

const release = await lockfile.lock('file', { retries: { retries: 3 }, stale: 5000 });
const fence: number = release.fence;
await release();
lockfile.lockSync('file')();
const held: boolean = await lockfile.check('file', { stale: false });
unlockLater('file', null, (error) => void error?.message);

await writeFileAtomic('file', Buffer.from('x'), { mode: 0o600, fsync: false });
writeFileAtomic('file', 'x', (error) => void error?.message);
writeFileAtomic.sync('file', 'x', 'utf8');

const session = await acquireSessionWriteLock({ sessionFile: 's.jsonl', signal: AbortSignal.timeout(5) });
session.assertOwned();
const reasons: string[] = (await cleanStaleLockFiles({ sessionsDir: 'd' })).locks.flatMap((lock) => lock.staleReasons);
const busy = (error: unknown) => error instanceof SessionWriteLockTimeoutError && error.owner;

appendJournalEntries('dir', [{ file: 'a', deleted: true }]);
const journal = readJournal('dir');
if (journal.valid) journal.changed.map((file) => file.length + journal.timestamp);
const made: number = withJournalLock('dir', () => 1);

const kept: boolean = saveState({ ...loadState(), checked: ['a'] }) && isChecked('a');

void [fence, held, reasons, busy, made, kept];
