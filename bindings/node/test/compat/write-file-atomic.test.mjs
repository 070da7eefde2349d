import assert from 'node:assert/strict';
import { chmodSync, lstatSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import writeFileAtomic from '../../compat/write-file-atomic.cjs';
import { Child, PACKAGE, isFree, scratch } from '../child.mjs';

const MODULE = join(PACKAGE, 'compat/write-file-atomic.cjs');
const names = (dir) => readdirSync(dir).filter((name) => name !== '.tenure');

test('text, bytes, encodings, promise, callback and sync', async (t) => {
  const path = join(scratch(t), 'file');
  await writeFileAtomic(path, 'one');
  assert.equal(readFileSync(path, 'utf8'), 'one');
  await writeFileAtomic(path, Buffer.from([1, 2, 0]));
  assert.deepEqual([...readFileSync(path)], [1, 2, 0]);
  await writeFileAtomic(path, new Uint16Array([1]));
  assert.equal(readFileSync(path).length, 2);
  await writeFileAtomic(path, '6869', 'hex');
  assert.equal(readFileSync(path, 'utf8'), 'hi');
  await new Promise((resolve, reject) => {
    const returned = writeFileAtomic(path, 'two', { encoding: 'latin1' }, (error) => (error ? reject(error) : resolve()));
    assert.equal(returned, undefined);
  });
  await new Promise((resolve) => writeFileAtomic(path, 'three', resolve));
  assert.equal(readFileSync(path, 'utf8'), 'three');
  writeFileAtomic.sync(path, '', { fsync: false });
  assert.equal(readFileSync(path, 'utf8'), '');
  assert.deepEqual(names(join(path, '..')), ['file']);
});

test('mode and owner: of the old file, or as asked', async (t) => {
  const path = join(scratch(t), 'file');
  await writeFileAtomic(path, 'one');
  assert.equal(statSync(path).mode & 0o777, 0o666 & ~process.umask());
  chmodSync(path, 0o640);
  await writeFileAtomic(path, 'two');
  assert.equal(statSync(path).mode & 0o777, 0o640);
  await writeFileAtomic(path, 'three', { mode: 0o600 });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const { uid, gid } = statSync(path);
  writeFileAtomic.sync(path, 'four', { chown: { uid, gid } });
  assert.deepEqual([statSync(path).uid, statSync(path).gid], [uid, gid]);
});

test('a symlink stays one: its file is replaced', async (t) => {
  const dir = scratch(t);
  writeFileSync(join(dir, 'real'), 'old');
  symlinkSync(join(dir, 'real'), join(dir, 'link'));
  await writeFileAtomic(join(dir, 'link'), 'new');
  assert.ok(lstatSync(join(dir, 'link')).isSymbolicLink());
  assert.equal(readFileSync(join(dir, 'real'), 'utf8'), 'new');
});

test('writes to one file happen in the order of the calls', async (t) => {
  const path = join(scratch(t), 'file');
  const seen = [];
  const writes = Array.from({ length: 20 }, (_, n) => writeFileAtomic(path, String(n)).then(() => seen.push(n)));
  await Promise.all(writes);
  assert.equal(readFileSync(path, 'utf8'), '19');
  assert.deepEqual(seen, [...seen].sort((one, other) => one - other));
});

test('what cannot be written leaves the file as it was, and nothing else', async (t) => {
  const dir = scratch(t);
  const path = join(dir, 'file');
  writeFileSync(path, 'old');
  const stop = () => {
    throw new Error('stop');
  };
  await assert.rejects(writeFileAtomic(path, 'new', { tmpfileCreated: stop }), /stop/);
  assert.throws(() => writeFileAtomic.sync(path, 'new', { tmpfileCreated: stop }), /stop/);
  await assert.rejects(writeFileAtomic(join(dir, 'not', 'there'), 'new'));
  assert.equal(readFileSync(path, 'utf8'), 'old');
  assert.ok(isFree(path), 'the lock is free');
  await writeFileAtomic(path, 'new');
  assert.equal(readFileSync(path, 'utf8'), 'new');
});

test('race 26: a full disk is an error and never a cut file', async (t) => {
  const dir = scratch(t);
  const path = join(dir, 'file');
  writeFileSync(path, 'old');
  const program = `const write = require(${JSON.stringify(MODULE)});
    write(${JSON.stringify(path)}, 'x'.repeat(1 << 20)).catch((error) => console.log(JSON.stringify(error.code)));`;
  // A limit on the size of files cuts the write as a full disk does.
  const limited = `trap '' XFSZ; ulimit -f 64; exec ${JSON.stringify(process.execPath)} -e "$0"`;
  const child = new Child(t, ['-c', limited, program], { program: 'bash' });
  assert.equal(await child.says(), 'EFBIG');
  assert.equal(readFileSync(path, 'utf8'), 'old');
  assert.deepEqual(names(dir), ['file']);
});

test('race 26: whoever reads sees a whole file, whoever is killed', async (t) => {
  const path = join(scratch(t), 'file');
  const program = `const write = require(${JSON.stringify(MODULE)});
    for (let n = 0; ; n += 1) write.sync(${JSON.stringify(path)}, process.argv[1].repeat(100_000), { fsync: false });`;
  const writers = ['a', 'b', 'c'].map((letter) => new Child(t, ['-e', program, letter]));
  writeFileSync(path, 'a'.repeat(100_000));
  for (let round = 0; round < 3; round += 1) {
    const until = Date.now() + 300;
    while (Date.now() < until) {
      const text = readFileSync(path, 'utf8');
      assert.equal(text, text[0].repeat(100_000));
      await new Promise(setImmediate);
    }
    await writers[round].kill('SIGKILL');
  }
  writeFileAtomic.sync(path, 'free');
});
