// The installed package in an ES module: every noun once, a drop-in, and one instance with CommonJS.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { Document, Journal, Lease, TenureError, lock, lockSync, tryLock, withLock } from 'tenure';
import lockfile from 'tenure/compat/proper-lockfile';
import writeFileAtomic from 'tenure/compat/write-file-atomic';

const state = new Document('state.json');
await state.update((value) => { value.n++; }, { init: { n: 0 } });
assert.equal(state.readSync().value.n, 1);
await withLock('session', async () => {
  assert.equal(await tryLock('session'), null);
  await assert.rejects(lock('session', { waitMs: 0 }), (error) => error instanceof TenureError && ['busy', 'deadlock'].includes(error.code));
});
await new Journal('log.jsonl').append(['{"a":1}', '{"a":2}']);
assert.ok(await new Lease('lease').acquire({ owner: 'trial', ttlMs: 5000 }));
const release = await lockfile.lock('state.json');
await release();
await writeFileAtomic('plain.txt', 'text');
assert.equal(createRequire(import.meta.url)('tenure').lockSync, lockSync);
console.log('ok');
