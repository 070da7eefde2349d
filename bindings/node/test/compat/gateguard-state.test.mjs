import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { Child, PACKAGE, scratch } from '../child.mjs';

const require = createRequire(import.meta.url);
const MODULE = join(PACKAGE, 'compat/gateguard-state.cjs');
const HOUR_MS = 3_600_000;

/** The module as a new hook process loads it, on a directory of its own. */
function fresh(t, { dir = join(scratch(t), 'state'), session = 'abc' } = {}) {
  process.env.GATEGUARD_STATE_DIR = dir;
  delete require.cache[MODULE];
  const state = require(MODULE);
  state.useSession({ session_id: session });
  return { ...state, dir, file: join(dir, `state-${session}.json`) };
}

const plant = (file, state) => {
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, JSON.stringify(state, null, 2));
};

test('what is marked is checked, in a plain file with two fields', (t) => {
  const gate = fresh(t);
  assert.equal(gate.isChecked('a.ts'), false);
  assert.equal(gate.markChecked('a.ts'), true);
  assert.equal(gate.markChecked('b.ts'), true);
  assert.equal(gate.isChecked('a.ts'), true);
  const text = readFileSync(gate.file, 'utf8');
  const state = JSON.parse(text);
  assert.deepEqual(Object.keys(state), ['checked', 'last_active']);
  assert.deepEqual(state.checked, ['a.ts', 'b.ts']);
  assert.equal(text, JSON.stringify(state, null, 2), 'two spaces, no final newline');
  assert.deepEqual(readdirSync(gate.dir).filter((name) => /^state-.*\.json$/.test(name)), ['state-abc.json']);
});

test('race 20: no hook process undoes what another has marked', async (t) => {
  const gate = fresh(t);
  const program = `process.env.GATEGUARD_STATE_DIR = ${JSON.stringify(gate.dir)};
    const gate = require(${JSON.stringify(MODULE)});
    gate.useSession({ session_id: 'abc' });
    // A hook waits for a moment only. What could not be marked in it is not lost: it says so.
    let attempts = 1000;
    for (let n = 0; n < 30; n += 1) while (!gate.markChecked(process.argv[1] + n)) if (--attempts === 0) process.exit(1);`;
  const hooks = ['p', 'q', 'r', 's', 't', 'u'].map((name) => new Child(t, ['-e', program, name]));
  for (const hook of hooks) assert.deepEqual(await hook.ended, { code: 0, signal: null });
  assert.equal(new Set(gate.loadState().checked).size, 180);
});

test('saving merges with what is on the disk, and keeps fields of newer versions', (t) => {
  const gate = fresh(t);
  const now = Date.now();
  plant(gate.file, { checked: ['a'], last_active: now, evidence: [1] });
  assert.equal(gate.saveState({ checked: ['b'], last_active: now - 5000 }), true);
  assert.deepEqual(JSON.parse(readFileSync(gate.file, 'utf8')), { checked: ['a', 'b'], last_active: now, evidence: [1] });
});

test('a session expires after half an hour of silence, and its file goes', (t) => {
  const gate = fresh(t);
  plant(gate.file, { checked: ['a'], last_active: Date.now() - 31 * 60_000 });
  assert.deepEqual(gate.loadState().checked, []);
  assert.deepEqual(readdirSync(gate.dir).filter((name) => name.startsWith('state-')), []);
  plant(gate.file, { checked: ['a'], last_active: Date.now() - 31 * 60_000 });
  assert.equal(gate.markChecked('b'), true);
  assert.deepEqual(gate.loadState().checked, ['b'], 'what has expired is not merged');
});

test('a look writes nothing within a minute of the last sign of life, and one after it', (t) => {
  const gate = fresh(t);
  plant(gate.file, { checked: ['a'], last_active: Date.now() - 30_000 });
  const before = readFileSync(gate.file, 'utf8');
  assert.equal(gate.isChecked('a'), true);
  assert.equal(readFileSync(gate.file, 'utf8'), before);
  const planted = Date.now() - 61_000;
  plant(gate.file, { checked: ['a'], last_active: planted });
  assert.equal(gate.isChecked('a'), true);
  assert.ok(JSON.parse(readFileSync(gate.file, 'utf8')).last_active > planted + 60_000);
});

test('at most 500 entries: the pinned one, 50 session keys, the newest files', (t) => {
  const gate = fresh(t);
  const session = Array.from({ length: 60 }, (_, n) => `__s${n}`);
  const files = Array.from({ length: 600 }, (_, n) => `f${n}`);
  const kept = gate.pruneCheckedEntries(['__bash_session__', ...session, ...files]);
  assert.equal(kept.length, 500);
  assert.ok(kept.includes('__bash_session__') && kept.includes('__s59') && !kept.includes('__s10'));
  assert.equal(kept.filter((key) => key.startsWith('__')).length, 50);
  assert.ok(kept.includes('f599') && !kept.includes('f0'));
  assert.deepEqual(gate.pruneCheckedEntries(['a', 'b']), ['a', 'b']);
  gate.saveState({ checked: [...session, ...files], last_active: Date.now() });
  assert.equal(gate.loadState().checked.length, 500);
});

test('the key of a session: named, by transcript, by project; harmless and short', (t) => {
  const gate = fresh(t);
  for (const name of ['CLAUDE_SESSION_ID', 'ECC_SESSION_ID', 'CLAUDE_TRANSCRIPT_PATH', 'CLAUDE_PROJECT_DIR']) delete process.env[name];
  const key = gate.resolveSessionKey;
  assert.equal(key({ session_id: 'one', sessionId: 'two' }), 'one');
  assert.equal(key({ sessionId: 'two' }), 'two');
  assert.equal(key({ session: { id: 'three' } }), 'three');
  process.env.CLAUDE_SESSION_ID = 'four';
  assert.equal(key({}), 'four');
  delete process.env.CLAUDE_SESSION_ID;
  assert.equal(key({ session_id: '../../etc/passwd' }), '______etc_passwd');
  assert.match(key({ session_id: 'x'.repeat(65) }), /^sid-[0-9a-f]{24}$/);
  assert.match(key({ transcript_path: '/t.jsonl' }), /^tx-[0-9a-f]{24}$/);
  assert.match(key({}), /^proj-[0-9a-f]{24}$/);
  assert.equal(key(null), key({}));
});

test('it fails open: false and empty, and never a throw', (t) => {
  const dir = join(scratch(t), 'file');
  writeFileSync(dir, 'in the way');
  const gate = fresh(t, { dir });
  assert.equal(gate.markChecked('a'), false);
  assert.equal(gate.saveState({ checked: ['a'], last_active: 1 }), false);
  assert.equal(gate.isChecked('a'), false);
  assert.deepEqual(gate.loadState().checked, []);
  assert.equal(gate.markChecked(undefined), false);
  assert.equal(gate.saveState(null), false);
});

test('a state that cannot be read is put aside and not in the way', (t) => {
  const gate = fresh(t);
  mkdirSync(gate.dir, { recursive: true });
  writeFileSync(gate.file, '{"checked":["a"');
  assert.deepEqual(gate.loadState().checked, []);
  assert.equal(gate.markChecked('b'), true);
  assert.deepEqual(gate.loadState().checked, ['b']);
  const aside = readdirSync(gate.dir).filter((name) => name.startsWith('corrupt-'));
  assert.equal(readFileSync(join(gate.dir, aside[0]), 'utf8'), '{"checked":["a"');
});

test('the first use of a directory that was named later removes them too', (t) => {
  for (const use of [(gate) => gate.loadState(), (gate) => gate.markChecked('a'), (gate) => gate.isChecked('a')]) {
    const gate = fresh(t);
    process.env.GATEGUARD_STATE_DIR = join(scratch(t), 'later');
    const plantOld = () => {
      for (const name of ['state-old.json', 'state-old.json.tmp.1.abcd']) {
        const file = join(process.env.GATEGUARD_STATE_DIR, name);
        plant(file, { checked: [], last_active: 1 });
        utimesSync(file, (Date.now() - 2 * HOUR_MS) / 1000, (Date.now() - 2 * HOUR_MS) / 1000);
      }
    };
    const olds = () => readdirSync(process.env.GATEGUARD_STATE_DIR).filter((name) => name.startsWith('state-old'));
    plantOld();
    use(gate);
    assert.deepEqual(olds(), []);
    plantOld();
    use(gate);
    assert.equal(olds().length, 2, 'once');
    gate.pruneStaleFiles();
    assert.deepEqual(olds(), [], 'or whenever it is asked for');
  }
});

test('loading the module removes states and temporary files of an hour ago, and nothing else', (t) => {
  const dir = join(scratch(t), 'state');
  mkdirSync(dir);
  const old = new Date(Date.now() - 2 * HOUR_MS);
  const state = JSON.stringify({ checked: [], last_active: 0 });
  for (const [name, time] of [
    ['state-old.json', old],
    ['state-old.json.tmp.12.abcd', old],
    ['state-new.json', new Date()],
    ['state-new.json.tmp.12.abcd', new Date()],
    ['settings.json', old],
  ]) {
    writeFileSync(join(dir, name), state);
    utimesSync(join(dir, name), time, time);
  }
  fresh(t, { dir });
  const names = readdirSync(dir).filter((name) => name !== '.tenure');
  assert.deepEqual(names.sort(), ['settings.json', 'state-new.json', 'state-new.json.tmp.12.abcd']);
});

test('a state that only the core refuses is put aside, too', (t) => {
  for (const bad of [Buffer.from([0x7b, 0xff, 0x7d]), '{"checked":[],"checked":["a"],"last_active":1}', '['.repeat(300) + ']'.repeat(300)]) {
    const gate = fresh(t);
    mkdirSync(gate.dir, { recursive: true });
    writeFileSync(gate.file, bad);
    assert.equal(gate.markChecked('b'), true);
    assert.deepEqual(gate.loadState().checked, ['b']);
  }
});

test('old memory does not undo what others have noted in fields of newer versions', (t) => {
  const gate = fresh(t);
  const now = Date.now();
  const evidence = (ts) => ({ kind: 'read', target: 'a', pattern: '', ts });
  plant(gate.file, { checked: [], last_active: now, evidence: [evidence(1), evidence(2)], read_files: { a: 5 }, fact_force_denials: 3, other: 'disk' });
  gate.saveState({ checked: ['x'], last_active: now, evidence: [evidence(1)], read_files: { a: 4, b: 1 }, fact_force_denials: 1, other: 'memory' });
  const { evidence: kept, read_files: read, fact_force_denials: denials, other } = JSON.parse(readFileSync(gate.file, 'utf8'));
  assert.deepEqual([kept.length, read, denials, other], [2, { a: 5, b: 1 }, 3, 'disk']);
});
