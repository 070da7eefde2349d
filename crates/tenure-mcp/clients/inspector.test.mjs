// tenure mcp as the command line of the official inspector sees it.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { repository, TENURE } from './connect.mjs';

const INSPECTOR = fileURLToPath(new URL('node_modules/.bin/mcp-inspector', import.meta.url));
const run = promisify(execFile);

async function inspect(root, ...words) {
  const { stdout } = await run(INSPECTOR, ['--cli', TENURE, 'mcp', '--root', root, ...words], { timeout: 100_000 });
  return JSON.parse(stdout);
}

test('the inspector lists and calls tools and reads resources', { timeout: 300_000 }, async (t) => {
  const root = repository(t);
  const { tools } = await inspect(root, '--method', 'tools/list');
  assert.ok(tools.every((tool) => tool.inputSchema.type === 'object' && tool.description));
  const call = ['--method', 'tools/call', '--tool-name'];
  const wrote = await inspect(root, ...call, 'write_document', '--tool-arg', 'path=a.json', '--tool-arg', 'value=7');
  assert.equal(wrote.structuredContent.changed, true, JSON.stringify(wrote));
  const { resources } = await inspect(root, '--method', 'resources/list');
  assert.deepEqual(resources.map((resource) => resource.uri), ['tenure://document/a.json']);
  const read = await inspect(root, '--method', 'resources/read', '--uri', 'tenure://document/a.json');
  assert.equal(read.contents[0].text.trim(), '7');
});
