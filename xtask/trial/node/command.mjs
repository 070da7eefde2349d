// The command of the installed package, as npm links it: its output, its exit codes, and signals on their way to it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { once } from 'node:events';

const windows = process.platform === 'win32';
const command = windows ? 'node_modules\\.bin\\tenure.cmd' : 'node_modules/.bin/tenure';
const run = (...words) => spawnSync(command, words, { encoding: 'utf8', shell: windows });

assert.match(run('--version').stdout, /^tenure \d/);
assert.equal(run('doc', 'set', 'command.json', '7').status, 0);
assert.equal(run('doc', 'get', 'command.json').stdout.trim(), '7');
assert.equal(run('doc', 'get', 'missing.json').status, 1);
assert.equal(run('no-such-command').status, 2);
assert.match(run('demo', '--help').stdout, /Usage: tenure demo/);
const program = run('--path').stdout.trim();
assert.ok(existsSync(program), program);
if (!windows) {
  const held = spawn(command, ['run', 'held', '--', 'sh', '-c', 'echo held; exec sleep 600'], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(held.stdout, 'data');
  assert.equal(run('run', 'held', '--wait', '0', '--', 'true').status, 75);
  held.kill('SIGTERM');
  await once(held, 'exit');
  assert.equal(run('run', 'held', '--wait', '5s', '--', 'true').status, 0, 'the signal did not reach the command');
}
console.log('ok');
