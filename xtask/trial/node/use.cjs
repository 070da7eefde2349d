// The installed package in CommonJS.
const assert = require('node:assert/strict');
const { Document, lockSync } = require('tenure');
const { lockSync: compat } = require('tenure/compat/proper-lockfile');

const guard = lockSync('state.json');
new Document('state.json').updateSync((value) => { value.n++; }, { init: { n: 0 }, fence: guard.fence });
guard.releaseSync();
assert.equal(new Document('state.json').readSync().value.n, 1);
assert.equal(typeof compat, 'function');
assert.equal(require('tenure/package.json').name, 'tenure');
console.log('ok');
