// What holds for every function of the package.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import * as modules from '../index.mjs';
import { PACKAGE } from './child.mjs';

test('no panic of the native half can end node: every function catches it', () => {
  const src = join(PACKAGE, 'src');
  let functions = 0;
  for (const name of readdirSync(src)) {
    const lines = readFileSync(join(src, name), 'utf8').split('\n');
    lines.forEach((line, index) => {
      const attribute = /^\s*#\[napi(.*)\]$/.exec(line)?.[1];
      if (attribute === undefined) return;
      const item = lines.slice(index + 1).find((next) => !/^\s*(#\[|\/\/\/)/.test(next));
      if (!/\bfn\b/.test(item)) return;
      functions++;
      assert.match(attribute, /catch_unwind/, `${name}:${index + 1}`);
    });
  }
  assert.ok(functions > 40, `only ${functions} functions were found`);
});

test('import and require give the same names and the same things', () => {
  const required = createRequire(import.meta.url)('../index.cjs');
  const { default: whole, ...named } = modules;
  assert.equal(whole, required);
  assert.deepEqual(Object.keys(named).sort(), Object.keys(required).sort());
  for (const [name, value] of Object.entries(named)) assert.equal(value, required[name], name);
});

test('what is exported is declared, and the other way round', () => {
  const types = readFileSync(join(PACKAGE, 'index.d.cts'), 'utf8');
  const declared = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, name]) => name);
  const { default: _, ...named } = modules;
  assert.deepEqual([...new Set(declared)].sort(), Object.keys(named).sort());
  // And every method: `update` of a class in JavaScript is `update(` in its declaration.
  for (const [name, value] of Object.entries(named)) {
    if (!/^[A-Z]/.test(name) || name === 'TenureError') continue;
    const [body] = new RegExp(`export class ${name}\\b[^]*?\\n}`).exec(types);
    for (const method of Object.getOwnPropertyNames(value.prototype)) {
      if (method !== 'constructor') assert.match(body, new RegExp(`\\b${method}[<(:]`), `${name}.${method}`);
    }
  }
});
