// The types of the installed package: right uses compile, and a wrong one does not.
import { Document, lock } from 'tenure';
import { lock as compat } from 'tenure/compat/proper-lockfile';

export async function use(): Promise<number> {
  const guard = await lock('session', { waitMs: 10 });
  await guard.release();
  const release: () => Promise<void> = await compat('state.json');
  await release();
  // @ts-expect-error: a path is a text
  new Document(7);
  // @ts-expect-error: a guard is no text
  const wrong: string = await lock('session');
  return wrong.length;
}
