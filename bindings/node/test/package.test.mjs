// The package as people get it: packed, installed in a clean directory, used from there.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { before } from 'node:test';
import { PACKAGE } from './child.mjs';

const RUNS = 15;
const RUNS_MAX = 150;
/** What loading, one update and the end may cost over an empty program, on a machine where that takes 40 ms. */
const GOAL_MS = 8;
/** The same as a part of the empty program: a slow or busy machine is slow and busy for both. */
const LIMIT_PART = 0.6;
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
  assert.deepEqual(names, ['README.md', 'bin', 'compat', 'index.cjs', 'index.d.cts', 'index.d.mts', 'index.mjs', 'lib', 'package.json', addon].sort());
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

test('it is found by tools that know nothing of exports', () => {
  const old = join(dir, 'node_modules/old');
  cpSync(join(dir, 'node_modules/tenure'), old, { recursive: true });
  const { exports, ...rest } = JSON.parse(readFileSync(join(old, 'package.json'), 'utf8'));
  writeFileSync(join(old, 'package.json'), JSON.stringify(rest));
  const names = Object.keys(exports).filter((name) => name.startsWith('./compat/'));
  const uses = ['.', ...names].map((name) => `Object.keys(require(${JSON.stringify(join('old', name))})).length > 0`);
  assert.equal(run(process.execPath, ['-p', uses.join(' && ')]), 'true\n');
  // Neither do they know of `node:` before the name of a module of Node.
  const sources = ['lib', 'compat'].flatMap((part) => readdirSync(join(old, part)).map((name) => join(old, part, name)));
  for (const file of sources.filter((name) => name.endsWith('.cjs'))) assert.doesNotMatch(readFileSync(file, 'utf8'), /require\('node:/);
  rmSync(old, { recursive: true });
});

test('its drop-ins are imported and required', () => {
  writeFileSync(join(dir, 'drop-ins.mjs'), `
    import lockfile, { lock } from 'tenure/compat/proper-lockfile';
    import writeFileAtomic from 'tenure/compat/write-file-atomic';
    import { acquireSessionWriteLock } from 'tenure/compat/session-write-lock';
    import { readJournal } from 'tenure/compat/changes-journal';
    import { markChecked } from 'tenure/compat/gateguard-state';
    console.log([lockfile, lock, writeFileAtomic, acquireSessionWriteLock, readJournal, markChecked].map((each) => typeof each).join());`);
  assert.equal(run(process.execPath, ['drop-ins.mjs']), `${Array(6).fill('function').join()}\n`);
  const names = ['proper-lockfile', 'write-file-atomic', 'session-write-lock', 'changes-journal', 'gateguard-state'];
  for (const name of names) run(process.execPath, ['-e', `require('tenure/compat/${name}')`]);
});

/** The compiler of TypeScript, as strict as it can be. */
const STRICT = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2022'];
const LIBRARY = ['--lib', 'es2023,esnext.disposable', '--types', 'node', '--typeRoots', join(PACKAGE, 'node_modules/@types')];
const compile = (...files) =>
  spawnSync(process.execPath, [TYPESCRIPT, ...STRICT, ...LIBRARY, ...files], { cwd: dir, encoding: 'utf8' });

test('its types are right, also where they refuse', () => {
  assert.ok(existsSync(TYPESCRIPT), 'typescript is missing: run npm install in bindings/node');
  cpSync(join(PACKAGE, 'test/types'), join(dir, 'types'), { recursive: true });
  const { stdout, status } = compile('types/usage.mts', 'types/usage.cts', 'types/compat.mts');
  assert.equal(status, 0, stdout);
  writeFileSync(join(dir, 'types/wrong.mts'), "import { lock } from 'tenure'; const guard: string = await lock('x'); void guard;");
  assert.notEqual(compile('types/wrong.mts').status, 0, 'the compiler sees no types');
});

/** What the examples of the README leave to their readers. */
const READERS = `
  declare const signal: AbortSignal;
  declare const doc: import('tenure').Document;
  declare const log: import('tenure').Journal;
  declare const guards: { target: string; fence: number }[];
  declare const next: unknown;
  declare const id: string;
  declare function handle(...given: unknown[]): void;
  declare function think(value: unknown): Promise<unknown>;
  declare function build(task: unknown): unknown;
  declare function refresh(): Promise<string>;
  declare function edit(bytes: Uint8Array): Uint8Array;`;

test('the examples of both READMEs are right for the compiler', () => {
  const names = ['README.md', '../../README.md'];
  const blocks = names.flatMap((name) => [...readFileSync(join(PACKAGE, name), 'utf8').matchAll(/```js\n(.*?)```/gs)]);
  assert.ok(blocks.length > 12);
  mkdirSync(join(dir, 'examples'));
  writeFileSync(join(dir, 'examples/readers.d.ts'), READERS);
  const files = blocks.map(([, block], index) => {
    const file = `examples/example${index}.mts`;
    writeFileSync(join(dir, file), `${block}\nexport {};\n`);
    return file;
  });
  // They are JavaScript: what a caller of them gets needs no type.
  const plain = ['--noImplicitAny', 'false', '--useUnknownInCatchVariables', 'false'];
  const { stdout, status } = compile(...plain, 'examples/readers.d.ts', ...files);
  assert.equal(status, 0, stdout);
});

test('loading it and one update are cheap', (t) => {
  const update = "new Document('cold.json').updateSync((s) => { s.n++; }, { init: { n: 0 }, noSync: true });";
  const programs = { empty: '', load: "require('tenure');", update: `const { Document } = require('tenure'); ${update}` };
  // CPU time, since the machine may have other things to do. The fastest run, since it varies upwards; on a busy
  // machine, of more runs.
  const tell = "process.on('exit', () => { const { user, system } = process.cpuUsage(); console.log(user + system); });";
  const fastest = { empty: Infinity, load: Infinity, update: Infinity };
  const more = (name) => fastest[name] - fastest.empty;
  const isCheap = () => more('update') < LIMIT_PART * fastest.empty;
  for (let n = 0; n < RUNS || (n < RUNS_MAX && !isCheap()); n++) {
    for (const [name, code] of Object.entries(programs)) {
      const cpu = Number(run(process.execPath, ['-e', tell + code])) / 1000;
      fastest[name] = Math.min(fastest[name], cpu);
    }
  }
  const [load, whole] = [more('load'), more('update')];
  const told = (ms) => `${ms.toFixed(1)} ms`;
  t.diagnostic(`node alone ${told(fastest.empty)}; require ${told(load)} more; with one update ${told(whole)} more (goal ${GOAL_MS} ms)`);
  assert.ok(isCheap(), `${told(whole)} over ${told(fastest.empty)}`);
});
