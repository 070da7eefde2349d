#!/usr/bin/env node
'use strict';

// `npx tenure`: starts the command of the package for this platform. It costs a start of Node; what is called often
// (a hook) should name the program itself, which `npx tenure --path` prints.

const { spawn } = require('node:child_process');
const { names } = require('../lib/platform.cjs');

const FAILED = 1;
const NOT_FOUND = 127;

function program() {
  const file = process.platform === 'win32' ? 'tenure.exe' : 'tenure';
  const packages = names().map((name) => `@tenure/${name}`);
  for (const name of packages) {
    try {
      return require.resolve(`${name}/bin/${file}`);
    } catch {
      // The package of another C library, or of none.
    }
  }
  process.stderr.write(`tenure: no command for ${process.platform} ${process.arch}: ${packages.join(' and ')} are not installed. Install tenure with its optional dependencies: npm install tenure --include=optional\n`);
  return process.exit(NOT_FOUND);
}

const path = program();
const words = process.argv.slice(2);
if (words.length === 1 && words[0] === '--path') {
  process.stdout.write(`${path}\n`);
} else {
  const child = spawn(path, words, { stdio: 'inherit' });
  // Signals are for the command. A terminal sends its own to the whole group, so the command has them already.
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']) {
    try {
      process.on(signal, () => child.kill(signal));
    } catch {
      // Windows has few of them.
    }
  }
  for (const signal of ['SIGINT', 'SIGQUIT']) {
    process.on(signal, () => process.stdin.isTTY || child.kill(signal));
  }
  child.on('error', (error) => {
    process.stderr.write(`tenure: failed to start ${path}: ${error.message}\n`);
    process.exit(FAILED);
  });
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    // Ends as the command did.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
