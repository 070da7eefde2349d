import assert from 'node:assert/strict';
import { chmodSync, existsSync, lstatSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import test from 'node:test';
import writeFileAtomic from '../../compat/write-file-atomic.cjs';
import { Child, PACKAGE, isFree, scratch } from '../child.mjs';

const MODULE = join(PACKAGE, 'compat/write-file-atomic.cjs');
const names = (dir) => readdirSync(dir).filter((name) => name !== '.tenure');
const temporary = (dir) => readdirSync(join(dir, '.tenure')).filter((name) => name.endsWith('.tmp'));
const NOBODY = 65_534;

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
    writeFileAtomic(path, 'two', { encoding: 'latin1' }, (error) => (error ? reject(error) : resolve()));
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

test('no data is an empty file, and anything else its text', async (t) => {
  const path = join(scratch(t), 'file');
  const write = { later: writeFileAtomic, now: writeFileAtomic.sync };
  for (const [data, text] of [[undefined, ''], [null, ''], [0, '0'], [false, 'false'], [{ toString: () => 'x' }, 'x']]) {
    for (const how of ['later', 'now']) {
      writeFileSync(path, 'old');
      await write[how](path, data);
      assert.equal(readFileSync(path, 'utf8'), text);
    }
  }
});

test('a mode may be text, which is octal', async (t) => {
  const path = join(scratch(t), 'file');
  await writeFileAtomic(path, 'one', { mode: '0777' });
  assert.equal(statSync(path).mode & 0o7777, 0o777);
  writeFileAtomic.sync(path, 'two', { mode: '640' });
  assert.equal(statSync(path).mode & 0o7777, 0o640);
  await assert.rejects(writeFileAtomic(path, 'three', { mode: 'rw' }), { code: 'ERR_INVALID_ARG_VALUE' });
  assert.equal(readFileSync(path, 'utf8'), 'two');
});

test('the promise of tmpfileCreated is waited for, and its error passed on', async (t) => {
  const dir = scratch(t);
  const path = join(dir, 'file');
  const seen = [];
  await writeFileAtomic(path, 'new', {
    tmpfileCreated: async (temp) => {
      await new Promise(setImmediate);
      seen.push(existsSync(temp), existsSync(path));
    },
  });
  assert.deepEqual(seen, [true, false]);
  await assert.rejects(writeFileAtomic(path, 'x', { tmpfileCreated: () => Promise.reject(new Error('no')) }), /^Error: no$/);
  assert.equal(readFileSync(path, 'utf8'), 'new');
  assert.deepEqual(temporary(dir), []);
});

test('an owner that only root may give is passed over for others', async (t) => {
  const dir = scratch(t);
  chmodSync(dir, 0o777);
  const path = join(dir, 'file');
  const root = process.getuid() === 0;
  const program = `const write = require(${JSON.stringify(MODULE)});
    if (${root}) { process.setgid(${NOBODY}); process.setuid(${NOBODY}); }
    const path = ${JSON.stringify(path)};
    write.sync(path, 'one', { chown: { uid: 0, gid: 0 } });
    write(path, 'two', { chown: { uid: 0, gid: 0 } }).then(() => console.log('"done"'));`;
  assert.equal(await new Child(t, ['-e', program]).says(), 'done');
  assert.equal(readFileSync(path, 'utf8'), 'two');
  if (root) {
    assert.equal(statSync(path).uid, NOBODY);
    await writeFileAtomic(path, 'three', { chown: { uid: 1, gid: 1 } });
    assert.equal(statSync(path).uid, 1);
  }
});

test('a symlink to nothing becomes the file', async (t) => {
  const dir = scratch(t);
  const nowhere = { near: 'nothing', far: join(dir, 'no', 'thing'), loop: 'loop' };
  for (const [name, to] of Object.entries(nowhere)) {
    for (const write of [writeFileAtomic, writeFileAtomic.sync]) {
      const path = join(dir, name);
      rmSync(path, { force: true });
      symlinkSync(to, path);
      await write(path, 'new');
      assert.ok(lstatSync(path).isFile());
      assert.equal(readFileSync(path, 'utf8'), 'new');
      await write(path, 'newer');
      assert.equal(readFileSync(path, 'utf8'), 'newer');
    }
  }
  const path = join(dir, 'many');
  symlinkSync('nothing', path);
  await Promise.all(['a', 'b', 'c'].map((text) => writeFileAtomic(path, text)));
  assert.equal(readFileSync(path, 'utf8'), 'c');
});

test('files of a sticky directory, and of long names', async (t) => {
  const dir = scratch(t);
  chmodSync(dir, 0o1777);
  for (const path of [join(dir, 'file'), join(dir, 'n'.repeat(240))]) {
    await writeFileAtomic(path, 'one');
    writeFileAtomic.sync(path, 'two');
    assert.equal(readFileSync(path, 'utf8'), 'two');
  }
  const before = join(tmpdir(), `${basename(dir)}-file`);
  t.after(() => rmSync(before, { force: true }));
  await writeFileAtomic(before, 'x');
  chmodSync(dir, 0o755);
  await writeFileAtomic(join(dir, 'n'.repeat(240)), 'three');
  assert.deepEqual(names(dir).filter((name) => name.endsWith('.tmp')), []);
});

test('what killed writers left is swept by the next one, and nothing else', async (t) => {
  for (const mode of [0o755, 0o1777]) {
    const dir = scratch(t);
    chmodSync(dir, mode);
    const path = join(dir, 'file');
    const program = `const write = require(${JSON.stringify(MODULE)});
      write(${JSON.stringify(path)}, 'x', { tmpfileCreated: (temp) => { console.log(JSON.stringify(temp)); return new Promise(() => {}); } });
      setInterval(() => {}, 1000);`;
    const killed = new Child(t, ['-e', program]);
    const left = await killed.says();
    await killed.kill('SIGKILL');
    assert.ok(existsSync(left));
    const others = [join(dirname(left), 'file.tmp'), join(dirname(left), `x${basename(left)}`), join(dirname(left), `${basename(left)}.x`)];
    for (const other of others) writeFileSync(other, '');
    // One that is being written by this process stays.
    await writeFileAtomic(path, 'later', {
      tmpfileCreated: async (temp) => {
        assert.equal(existsSync(left), false);
        writeFileAtomic.sync(path, 'now');
        assert.ok(existsSync(temp));
      },
    });
    assert.equal(readFileSync(path, 'utf8'), 'later');
    assert.ok(others.every((other) => existsSync(other)));
  }
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
