'use strict';

// Loads the native half. Which C library there is, is found out by trying: asking for it
// (process.report) would cost more than everything else here.

const { TenureError } = require('./errors.cjs');

function names() {
  const name = `tenure.${process.platform}-${process.arch}`;
  switch (process.platform) {
    case 'linux':
      return [`${name}-gnu.node`, `${name}-musl.node`];
    case 'win32':
      return [`${name}-msvc.node`];
    default:
      return [`${name}.node`];
  }
}

function load() {
  const problems = [];
  for (const name of names()) {
    try {
      return require(`../${name}`);
    } catch (error) {
      problems.push(`${name}: ${error.message.split('\n')[0]}`);
    }
  }
  throw new TenureError({
    code: 'unsupported',
    message: `failed to load tenure: no addon for ${process.platform} ${process.arch} (${problems.join('; ')})`,
    action: 'load tenure',
  });
}

module.exports = load();
