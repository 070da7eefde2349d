// Scratch directories and real child processes for the tests. Every wait is for an event: a line, an
// end; the deadline is that of the test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { tryLockSync } from '../index.mjs';

/** How long something may take that takes no time: a busy machine is no failure. */
export const PATIENCE_MS = 180_000;
// Calls that do not say how long they wait have the same patience, here and in children.
process.env.TENURE_WAIT = `${PATIENCE_MS}ms`;

export const PACKAGE = fileURLToPath(new URL('..', import.meta.url));

/** The command built from this source. */
export const TENURE = process.env.TENURE_COMMAND ?? join(process.env.CARGO_TARGET_DIR ?? join(PACKAGE, '../../target'), 'debug/tenure');

/** What is to be done after each test, the last thing first: children end before their directory goes. */
const afterwards = new WeakMap();

function after(t, act) {
  if (!afterwards.has(t)) {
    const acts = [];
    afterwards.set(t, acts);
    t.after(async () => {
      while (acts.length > 0) await acts.pop()();
    });
  }
  afterwards.get(t).push(act);
}

/** A directory that goes away with the test. */
export function scratch(t) {
  const dir = mkdtempSync(join(tmpdir(), 'tenure-node-'));
  after(t, () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A child that speaks in lines. It is killed with the test, if it still runs. */
export class Child {
  constructor(t, args, { program = process.execPath, ...options } = {}) {
    this.process = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], ...options });
    this.ended = once(this.process, 'exit').then(([code, signal]) => ({ code, signal }));
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    after(t, async () => {
      this.process.kill('SIGKILL');
      await this.ended;
    });
  }

  /** The next line, as JSON; undefined at the end. */
  async says() {
    const { value, done } = await this.lines.next();
    return done ? undefined : JSON.parse(value);
  }

  /** Gives a puppet an order and returns its answer. */
  async ask(order) {
    this.process.stdin.write(`${JSON.stringify(order)}\n`);
    return this.says();
  }

  async kill(signal) {
    this.process.kill(signal);
    return this.ended;
  }
}

/** Looks until it is so. For what no event tells of: the state of another process or thread. */
export async function until(holds, what) {
  const deadline = performance.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether nobody holds a target. */
export function isFree(path) {
  const guard = tryLockSync(path);
  guard?.releaseSync();
  return guard !== null;
}

/** A puppet that is ready. */
export async function puppet(t, ...args) {
  const child = new Child(t, [join(PACKAGE, 'test/puppet.mjs'), ...args]);
  const { ready } = await child.says();
  child.pid = ready.pid;
  return child;
}

/** A child that runs this program, with `tenure` and `say` at hand. */
export function script(t, code, ...args) {
  return new Child(t, programOf(code, args));
}

/** The same for a program whose last words are expected. */
export function quietScript(t, code, ...args) {
  return new Child(t, programOf(code, args), { stdio: ['pipe', 'pipe', 'ignore'] });
}

/** The arguments of node for it. */
export function programOf(code, args) {
  const entry = JSON.stringify(new URL('../index.mjs', import.meta.url).href);
  const program = `import * as tenure from ${entry};
    import { writeSync } from 'node:fs';
    const say = (value) => writeSync(1, JSON.stringify(value) + '\\n');
    const [${args.map((_, index) => `$${index + 1}`).join(', ')}] = process.argv.slice(1);
    ${code}`;
  return ['--input-type=module', '-e', program, ...args];
}
