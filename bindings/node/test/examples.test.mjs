// The examples for other systems, run as their users would: from a directory with the package installed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import test from 'node:test';
import { Child, PACKAGE, scratch } from './child.mjs';

const EXAMPLES = join(PACKAGE, '../../examples');

/** A directory in which `tenure` can be imported. */
function installed(t) {
  const dir = scratch(t);
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(PACKAGE, join(dir, 'node_modules/tenure'));
  return dir;
}

/** An example, as a program of that directory. */
function start(t, dir, name, args = [], env = {}) {
  const program = join(dir, basename(name));
  if (!existsSync(program)) cpSync(join(EXAMPLES, name), program);
  return new Child(t, [program, ...args], { env: { ...process.env, ...env } });
}

async function output(child, input = '') {
  let text = '';
  child.process.stdin.end(input);
  child.process.stdout.on('data', (piece) => (text += piece));
  assert.deepEqual(await child.ended, { code: 0, signal: null });
  return text;
}

test('gateguard: each file is asked about once, whichever hooks run at once', async (t) => {
  const dir = installed(t);
  const env = { GATEGUARD_STATE_DIR: join(dir, 'state') };
  const ask = (file) =>
    output(start(t, dir, 'gateguard/hook.cjs', [], env), JSON.stringify({ session_id: 's', tool_input: { file_path: file } }));
  const files = ['a.ts', 'b.ts', 'c.ts', 'd.ts'];
  for (const first of await Promise.all(files.map(ask))) assert.equal(JSON.parse(first).decision, 'deny');
  for (const second of await Promise.all(files.map(ask))) assert.equal(JSON.parse(second).decision, 'allow');
});

test('openclaw: turns of several processes are numbered without a gap, one of them killed', async (t) => {
  const dir = installed(t);
  const session = join(dir, 'session.jsonl');
  const victim = start(t, dir, 'openclaw/turns.mjs', [session, 'victim', '1000000']);
  const turns = ['x', 'y', 'z'].map((name) => start(t, dir, 'openclaw/turns.mjs', [session, name, '20']));
  assert.deepEqual(await turns[0].ended, { code: 0, signal: null });
  await victim.kill('SIGKILL');
  for (const each of turns) assert.deepEqual(await each.ended, { code: 0, signal: null });
  const lines = readFileSync(session, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ number }) => number), lines.map((_, index) => index + 1));
  assert.equal(lines.filter(({ name }) => name !== 'victim').length, 60);
});

test('without what they need they say how they are used, and exit with 2', async (t) => {
  const dir = installed(t);
  const wrong = [
    ['openclaw/turns.mjs', []],
    ['openclaw/turns.mjs', [join(dir, 's.jsonl'), 'me', 'many']],
    ['codegraph/watch.cjs', []],
    ['codegraph/watch.cjs', [join(dir, 'graph'), 'note']],
    ['gateguard/hook.cjs', []],
  ];
  for (const [name, args] of wrong) {
    const program = join(dir, basename(name));
    cpSync(join(EXAMPLES, name), program);
    const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', input: '' });
    assert.deepEqual([status, stdout], [2, ''], stderr);
    assert.match(stderr, /^usage: node [^\n]*\n$/);
  }
});

test('the guides name the command that runs, and where the package is', () => {
  for (const name of ['openclaw/turns.mjs', 'codegraph/watch.cjs', 'gateguard/hook.cjs', 'cli-anything/harness.py']) {
    const guide = readFileSync(join(EXAMPLES, name, '../README.md'), 'utf8');
    assert.match(guide, new RegExp(`(node|python) ${basename(name)}`));
    assert.match(guide, /\.\.\/\.\.\/bindings\/(node|python)/);
  }
});

test('codegraph: every note is in exactly one build', async (t) => {
  const dir = installed(t);
  const graph = join(dir, 'graph');
  const run = (...args) => output(start(t, dir, 'codegraph/watch.cjs', [graph, ...args]));
  assert.match(await run('build'), /no valid journal/);
  const notes = ['a', 'b', 'c', 'd'].map((name) => run('note', `${name}.ts`, `${name}.css`));
  const built = [await run('build'), ...(await Promise.all(notes)), await run('build')].join('');
  const files = built.split('\n').filter(Boolean).sort();
  assert.deepEqual(files, ['a.css', 'a.ts', 'b.css', 'b.ts', 'c.css', 'c.ts', 'd.css', 'd.ts']);
});
