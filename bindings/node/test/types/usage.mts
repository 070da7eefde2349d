// Compiled by the tests, never run: the types say what the package does.

import tenure, { Blob, Collection, Document, Journal, JournalGapError, Lease, Lock, OnceFailedError, Queue, TenureError, lease, leaseAll, leaseAllSync, lock, lockAll, lockSync, once, onceSync, tryLock, updateAndAppend, updateAndAppendSync, withLock } from 'tenure';
import type { Appended, Claimed, Content, Entry, ErrorCode, Guard, Guards, Snapshot, Together, Written } from 'tenure';

interface State {
  n: number;
}

const guard: Guard = await lock('state.json', { waitMs: Infinity, label: 'x', signal: AbortSignal.timeout(5) });
const fence: number = guard.fence;
await guard.release();
const maybe: Guard | null = await tryLock(new URL('file:///x'));
const five: number = await withLock('x', async () => 5);
lockSync(Buffer.from('x'), { shared: true }).releaseSync();
const target = new Lock('x');
await (await target.acquire({ waitMs: 5, signal: AbortSignal.timeout(5) })).release();
const none: Guard | null = target.tryAcquireSync() ?? (await target.tryAcquire());
const where: string = target.path;
{
  using held = lockSync('x');
  await using leased = await lease('x', { ttlMs: 1000 });
  void [held.fence, leased.token];
}

const document = new Document<State>('state.json');
const found: Snapshot<State> | undefined = await document.read({ numbers: 'bigint' });
const written: Written = await document.update((state) => void state.n++, { init: { n: 0 }, fence });
await document.update(async (state) => ({ n: (state?.n ?? 0) + 1 }));
const next: number = await document.edit((state) => ++state.n, { init: { n: 0 } });
const nextSync: number = document.editSync((state) => ++state.n, { init: { n: 0 } });
document.updateSync((state) => ({ n: state.n + 1 }), { init: { n: 0 }, guards: [{ target: 'x', fence: 5n }] });
await document.merge({ n: 1 }, { rules: { sum: ['/n'] } });
for await (const { value } of document.watch()) void value.n;

const journal = new Journal('log.jsonl');
const appended: Appended = await journal.append(['line', { n: 1 }, new Uint8Array(1)], { noSync: true });
const entries: Entry<Buffer>[] = await journal.read({ encoding: 'buffer' });
for await (const { line } of journal.follow({ from: appended.last })) line.toUpperCase();
for (const { line } of journal.entriesSync({ onGap: ({ first, last }) => last - first })) line.toUpperCase();
const pending: string[] = await journal.pending();
const raw: Buffer[] = journal.pendingSync({ encoding: 'buffer' });
const { lost, damaged, unadopted } = await journal.repair({ accept: true });
const gone: number = lost.reduce((sum, { first, last }) => sum + last - first + 1, unadopted);
const files: string[] = damaged.map(({ file }) => file);
try {
  journal.readSync({ from: 1 });
} catch (error) {
  if (error instanceof JournalGapError) error.first.toFixed(pending.length + raw.length + gone + files.length);
  else if (error instanceof TenureError) error.code.trim();
}

const both: Together = await updateAndAppend(document, (state) => void state.n++, journal, ['line'], { init: { n: 0 }, header: 'h' });
updateAndAppendSync(new Document<State>('x', { numbers: 'bigint' }), () => ({ n: 1 }), journal, { n: 1 }, { operation: 'x' });

const slot: Guard = await lock('gpu', { slots: 3 });
const all: Guards = await lockAll(['a', new URL('file:///b')], { waitMs: 5, signal: AbortSignal.timeout(5) });
const fences: number[] = [slot, ...all.guards].map((each) => each.fence);
// @ts-expect-error One fence proves one hold.
await lockAll(['a'], { fence: 5 });
{
  await using leases = await leaseAll(['a', new URL('file:///b')], { ttlMs: 1000, signal: AbortSignal.timeout(5) });
  void [leases.token, leases.leases.map(({ fence }) => fence)];
  leaseAllSync(['a'], { ttlMs: 1000 }).renewSync({ ttlMs: 5 });
}
// @ts-expect-error: leases need a time to live
await leaseAll(['a'], {});
const tasks = new Queue<State>('tasks', { store: 'postgres://host/db' });
await tasks.next({ ttlMs: 5, accepts: async (task: State) => task !== undefined });
tasks.nextSync({ ttlMs: 5, accepts: () => true });
// @ts-expect-error: a synchronous call has no time for a promise
tasks.nextSync({ ttlMs: 5, accepts: async () => true });
const added: boolean = (await tasks.add({ n: fences.length }, { id: 'x', maxAttempts: 3 })).new;
const claimed: Claimed<State> | undefined = await tasks.next({ ttlMs: 1000, waitMs: Infinity, signal: AbortSignal.timeout(5) });
if (claimed && !(await tasks.done(claimed.id, claimed.token))) tasks.failSync('x', claimed.token, { reason: 'x' }).trim();
const token: { access: string } = await once('token', { ttlMs: 1000 }, async () => ({ access: `${added}` }));
onceSync('install', { ttlMs: 1000, waitMs: 0 }, () => {});
const content: Content | undefined = await new Blob('main.rs').get();
await new Blob('main.rs').put(content?.bytes ?? token.access, { ifVersion: content?.version });
if (new Error() instanceof OnceFailedError) void 0;

const keys: string[] = await new Collection('sessions').keys();
const info = await new Lease('x').show();
const owner: string | undefined = info?.holder.owner;
const code = (error: unknown): ErrorCode | undefined => (error instanceof TenureError ? error.code : undefined);

void [both, maybe, five, found, written, entries, keys, owner, code, tenure.lock];

// @ts-expect-error: a misspelt option
await lock('x', { wait: 5 });
// @ts-expect-error: a sync call cannot be aborted
lockSync('x', { signal: AbortSignal.abort() });
// @ts-expect-error: not the document's type
await document.set({ m: 1 });
// @ts-expect-error: numbers are read in one of three ways
new Document('x', { numbers: 'guess' });
// @ts-expect-error: the function of a sync call is sync
updateAndAppendSync(document, async () => ({ n: 1 }), journal, 'x');
// @ts-expect-error: a lease needs a time to live
await lease('x', {});
// @ts-expect-error: the function of a sync update is sync
document.updateSync(async (state) => ({ n: state.n }), { init: { n: 0 } });
// @ts-expect-error: without init there may be no document
await document.update((state) => ({ n: state.n }));
