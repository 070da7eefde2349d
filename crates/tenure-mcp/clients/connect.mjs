// A server process and an official client of it, in one of the two generations of the protocol.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import * as stateless from '@modelcontextprotocol/client';
import { StdioClientTransport as StatelessTransport } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

export const TENURE = process.env.TENURE_COMMAND ?? 'tenure';
const ABOUT = { name: 'tenure-tests', version: '1' };

/** What each generation is made of. */
export const GENERATIONS = {
  '2025-11-25': { Transport: StdioClientTransport, client: () => new Client(ABOUT) },
  '2026-07-28': {
    Transport: StatelessTransport,
    client: () => new stateless.Client(ABOUT, { versionNegotiation: { mode: 'auto' } }),
  },
};

/** A repository that is removed at the end of the test. */
export function repository(t) {
  const root = mkdtempSync(join(tmpdir(), 'tenure-mcp-'));
  mkdirSync(join(root, '.git'));
  writeFileSync(join(root, '.git/HEAD'), 'ref: refs/heads/main\n');
  t.after(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

/** A client of a server of its own. Both end with the test. */
export async function connect(t, generation, root) {
  const { Transport, client: create } = GENERATIONS[generation];
  const transport = new Transport({ command: TENURE, args: ['mcp', '--root', root] });
  const client = create();
  await client.connect(transport);
  t.after(() => client.close());
  /** Calls a tool; the structured result, or an error with the text that the model reads. */
  const call = async (name, args = {}, options = undefined) => {
    const request = { name, arguments: args };
    const result = await (generation === '2025-11-25'
      ? client.callTool(request, undefined, options)
      : client.callTool(request, options));
    if (result.isError) throw Object.assign(new Error(result.content[0].text), { tool: true });
    return result.structuredContent;
  };
  return { client, call, pid: transport.pid };
}
