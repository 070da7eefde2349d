// Below vitest.
import { expect, test } from 'vitest';
import { Document, TenureError, lock } from 'tenure';

test('the package works', async () => {
  await new Document('vitest.json').set({ n: 1 });
  expect((await new Document('vitest.json').read()).value).toEqual({ n: 1 });
  const guard = await lock('vitest');
  await expect(lock('vitest', { waitMs: 0 })).rejects.toBeInstanceOf(TenureError);
  await guard.release();
});
