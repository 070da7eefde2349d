// tenure mcp as the official TypeScript clients see it, in both generations of the protocol.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { connect, GENERATIONS, repository } from './connect.mjs';

const LIMIT = { timeout: 120_000 };

for (const generation of Object.keys(GENERATIONS)) {
  test(`${generation}: tools are listed and called`, LIMIT, async (t) => {
    const { client, call } = await connect(t, generation, repository(t));
    assert.equal(client.getServerVersion().name, 'tenure');
    assert.match(client.getInstructions(), /reserve_files/);
    const { tools } = await client.listTools();
    const names = tools.map((tool) => tool.name);
    for (const name of ['reserve_files', 'who_holds', 'merge_document', 'append_journal']) {
      assert.ok(names.includes(name), `${name}: ${names}`);
    }
    const { version } = await call('write_document', { path: 'a.json', value: { n: 1 } });
    await call('merge_document', { path: 'a.json', patch: { n: 2, list: ['x'] }, sum: ['/n'], union: ['/list'] });
    const read = await call('read_document', { path: 'a.json' });
    assert.deepEqual(read.value, { n: 3, list: ['x'] });
    assert.notEqual(read.version, version);
    await call('append_journal', { path: 'log.jsonl', entries: [{ a: 1 }, 'two'] });
    const { entries } = await call('read_journal', { path: 'log.jsonl' });
    assert.deepEqual(entries.map((entry) => entry.value), [{ a: 1 }, 'two']);
  });

  test(`${generation}: errors say what to do next`, LIMIT, async (t) => {
    const { client, call } = await connect(t, generation, repository(t));
    const { version } = await call('write_document', { path: 'a.json', value: 1 });
    await call('write_document', { path: 'a.json', value: 2 });
    const stale = { path: 'a.json', value: 3, if_version: version };
    await assert.rejects(call('write_document', stale), { tool: true, message: /Next: Read it again/ });
    await assert.rejects(call('read_document', { path: '../a.json' }), { tool: true, message: /outside of/ });
    await assert.rejects(call('read_document', { path: 'b.json' }), { tool: true, message: /write_document/ });
    await assert.rejects(call('write_document', { path: 'a.json', value: 1, if_verson: 'x' }), {
      tool: true,
      message: /`if_verson` is unknown/,
    });
    await assert.rejects(call('no_such_tool'), { code: -32602 });
    assert.equal((await call('read_document', { path: 'a.json' })).value, 2);
    assert.ok(await client.listTools());
  });

  test(`${generation}: a waiting call is cancelled while another is served`, LIMIT, async (t) => {
    const { call } = await connect(t, generation, repository(t));
    const abort = new AbortController();
    const waiting = call('read_journal', { path: 'log.jsonl', wait_seconds: 3600 }, { signal: abort.signal });
    const outcome = assert.rejects(waiting);
    await call('write_document', { path: 'a.json', value: 1 });
    abort.abort('enough');
    await outcome;
    // The server goes on, and the cancelled reader took no entry.
    await call('append_journal', { path: 'log.jsonl', entries: [1] });
    assert.equal((await call('read_journal', { path: 'log.jsonl' })).entries.length, 1);
  });

  test(`${generation}: documents and journals are resources`, LIMIT, async (t) => {
    const { client, call } = await connect(t, generation, repository(t));
    await call('write_document', { path: 'späte notiz.json', value: { a: 1 } });
    await call('append_journal', { path: 'log.jsonl', entries: [1, 2] });
    const { resources } = await client.listResources();
    const named = Object.fromEntries(resources.map((resource) => [resource.name, resource.uri]));
    const text = async (name) => (await client.readResource({ uri: named[name] })).contents[0].text;
    assert.deepEqual(JSON.parse(await text('späte notiz.json')), { a: 1 });
    assert.equal(await text('log.jsonl'), '1\n2\n');
    assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 2);
    await assert.rejects(client.readResource({ uri: 'tenure://document/none.json' }), /no resource/);
    await assert.rejects(client.readResource({ uri: 'tenure://document/..%2Fx.json' }), /outside of/);
  });

  test(`${generation}: kill -9 of the server leaves every answered change and no broken file`, LIMIT, async (t) => {
    const root = repository(t);
    const { call, pid } = await connect(t, generation, root);
    const answered = [];
    const patch = (key) => ({ path: 'state.json', patch: { [key]: 'x'.repeat(2000) }, wait_seconds: 60 });
    const calls = Array.from({ length: 60 }, async (_, index) => {
      await call('merge_document', patch(`k${index}`));
      answered.push(`k${index}`);
      if (answered.length === 10) process.kill(pid, 'SIGKILL');
    });
    const outcomes = await Promise.allSettled(calls);
    assert.ok(outcomes.some((outcome) => outcome.status === 'rejected'), 'the server was not killed at work');
    const kept = JSON.parse(readFileSync(join(root, 'state.json'), 'utf8'));
    for (const key of answered) assert.equal(kept[key]?.length, 2000, key);
    const next = await connect(t, generation, root);
    await next.call('merge_document', patch('after'));
    const after = (await next.call('read_document', { path: 'state.json' })).value;
    assert.deepEqual(Object.keys(after).sort(), [...Object.keys(kept), 'after'].sort());
  });
}

test('two clients of different generations share reservations', LIMIT, async (t) => {
  const root = repository(t);
  const [old, young] = await Promise.all(Object.keys(GENERATIONS).map((name) => connect(t, name, root)));
  const wanted = (agent) => ({ paths: ['src/**/*.rs'], reason: `work of ${agent}`, agent });
  await old.call('reserve_files', wanted('alice'));
  await assert.rejects(young.call('reserve_files', wanted('bob')), { message: /alice.*work of alice.*Next:/s });
  const { held } = await young.call('who_holds', { agent: 'bob' });
  assert.deepEqual(held.map(({ path, agent, yours }) => [path, agent, yours]), [['src/**/*.rs', 'alice', false]]);
  const waiting = young.call('reserve_files', { ...wanted('bob'), wait_seconds: 60 });
  await old.call('release_files', { agent: 'alice' });
  assert.deepEqual((await waiting).reserved, ['src/**/*.rs']);
});

test('two clients lose no update of each other', LIMIT, async (t) => {
  const root = repository(t);
  const clients = await Promise.all(Object.keys(GENERATIONS).map((name) => connect(t, name, root)));
  const add = { path: 'count.json', patch: { n: 1 }, sum: ['/n'], wait_seconds: 60 };
  await Promise.all(clients.flatMap(({ call }) => Array.from({ length: 25 }, () => call('merge_document', add))));
  assert.equal((await clients[0].call('read_document', { path: 'count.json' })).value.n, 50);
});

test('two clients never get the same task', LIMIT, async (t) => {
  const root = repository(t);
  const clients = await Promise.all(Object.keys(GENERATIONS).map((name) => connect(t, name, root)));
  for (let n = 0; n < 10; n++) await clients[0].call('add_task', { queue: 'tasks', task: { n }, id: `t${n}` });
  const work = async ({ call }, agent) => {
    const done = [];
    for (;;) {
      const { claimed, id, token } = await call('claim_task', { queue: 'tasks', agent });
      if (!claimed) return done;
      await call('finish_task', { queue: 'tasks', id, token, outcome: 'done', agent });
      done.push(id);
    }
  };
  const done = (await Promise.all(clients.map((client, n) => work(client, `agent-${n}`)))).flat();
  assert.deepEqual(done.sort(), Array.from({ length: 10 }, (_, n) => `t${n}`));
});
