'use strict';

// Loads the native half: the addon beside this package, as a build puts it there, or that of the package for this platform.

const { TenureError } = require('./errors.cjs');
const { names } = require('./platform.cjs');

function load() {
  const problems = [];
  const platforms = names();
  for (const request of [...platforms.map((name) => `../tenure.${name}.node`), ...platforms.map((name) => `@tenure/${name}`)]) {
    try {
      return require(request);
    } catch (error) {
      problems.push(`${request.replace('../', '')}: ${error.message.split('\n')[0]}`);
    }
  }
  throw new TenureError({
    code: 'unsupported',
    message: `failed to load tenure: no addon for ${process.platform} ${process.arch} (${problems.join('; ')})`,
    action: 'load tenure',
    hint: 'install it with its optional dependencies, on the system that it runs on: npm install tenure --include=optional',
  });
}

module.exports = load();
