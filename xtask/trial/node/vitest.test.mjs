// Below vitest.
import { expect, test } from 'vitest';
import { Document, TenureError } from 'tenure';

test('the package works', async () => {
  await new Document('vitest.json').set({ n: 1 });
  expect((await new Document('vitest.json').read()).value).toEqual({ n: 1 });
  await expect(new Document('no/such/directory/state.json').set(1)).rejects.toBeInstanceOf(TenureError);
});
