// The package as people get it: packed, installed in a clean directory, used from there.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import test, { before } from 'node:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { PACKAGE } from './child.mjs';

const RUNS = 15;
/** What loading, one update and the end may cost over an empty program. */
const GOAL_MS = 8;
/** This machine may be busy with other things. */
const LIMIT_MS = 5 * GOAL_MS;
const TYPESCRIPT = join(PACKAGE, 'node_modules/typescript/bin/tsc');

let dir;

const run = (command, args, options) => execFileSync(command, args, { cwd: dir, encoding: 'utf8', ...options });

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'tenure-package-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const quiet = { stdio: ['ignore', 'pipe', 'ignore'] };
  run('npm', ['pack', PACKAGE, '--silent'], quiet);
  const [tarball] = readdirSync(dir).filter((name) => name.endsWith('.tgz'));
  writeFileSync(join(dir, 'package.json'), '{"private": true}');
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--offline', `./${tarball}`], quiet);
});

test('it holds what is needed and nothing else', () => {
  const names = readdirSync(join(dir, 'node_modules/tenure')).sort();
  const addon = names.find((name) => name.endsWith('.node'));
  assert.deepEqual(names, ['README.md', 'index.cjs', 'index.d.cts', 'index.d.mts', 'index.mjs', 'lib', 'package.json', addon].sort());
});

const USE = `
  const guard = tenure.lockSync('state.json');
  new tenure.Document('state.json').updateSync((state) => { state.n++; }, { init: { n: 0 }, fence: guard.fence });
  console.log(new tenure.Document('state.json').readSync().value.n);`;

test('it is imported and required, as one instance', () => {
  writeFileSync(join(dir, 'use.mjs'), `import * as tenure from 'tenure'; ${USE}
    import { createRequire } from 'node:module';
    console.log(createRequire(import.meta.url)('tenure').lock === tenure.lock);`);
  assert.equal(run(process.execPath, ['use.mjs']), '1\ntrue\n');
  writeFileSync(join(dir, 'use.cjs'), `const tenure = require('tenure'); ${USE}`);
  assert.equal(run(process.execPath, ['use.cjs']), '2\n');
});

test('its types are right, also where they refuse', () => {
  assert.ok(existsSync(TYPESCRIPT), 'typescript is missing: run npm install in bindings/node');
  cpSync(join(PACKAGE, 'test/types'), join(dir, 'types'), { recursive: true });
  const strict = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2022'];
  const library = ['--lib', 'es2023,esnext.disposable', '--types', 'node', '--typeRoots', join(PACKAGE, 'node_modules/@types')];
  const compile = (...files) =>
    spawnSync(process.execPath, [TYPESCRIPT, ...strict, ...library, ...files], { cwd: dir, encoding: 'utf8' });
  const { stdout, status } = compile('types/usage.mts', 'types/usage.cts');
  assert.equal(status, 0, stdout);
  writeFileSync(join(dir, 'types/wrong.mts'), "import { lock } from 'tenure'; const guard: string = await lock('x'); void guard;");
  assert.notEqual(compile('types/wrong.mts').status, 0, 'the compiler sees no types');
});

test('loading it and one update are cheap', (t) => {
  const program = `const { Document } = require('tenure'); new Document('cold.json').updateSync((s) => { s.n++; }, { init: { n: 0 }, noSync: true });`;
  const fastest = { empty: Infinity, load: Infinity, update: Infinity };
  const programs = { empty: '0', load: "require('tenure')", update: program };
  for (let n = 0; n < RUNS; n++) {
    for (const [name, code] of Object.entries(programs)) {
      const start = performance.now();
      run(process.execPath, ['-e', code]);
      fastest[name] = Math.min(fastest[name], performance.now() - start);
    }
  }
  const [load, update] = [fastest.load - fastest.empty, fastest.update - fastest.empty];
  t.diagnostic(`node -e 0: ${fastest.empty.toFixed(1)} ms; + require: ${load.toFixed(1)} ms; + one update: ${update.toFixed(1)} ms (goal ${GOAL_MS} ms)`);
  assert.ok(update < LIMIT_MS, `${update} ms`);
});
