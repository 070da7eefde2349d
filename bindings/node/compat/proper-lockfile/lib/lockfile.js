'use strict';

// `lib/lockfile` of proper-lockfile: the same calls with callbacks, and the locks of this process.

const { callbackify } = require('util');
const lockfile = require('../../proper-lockfile.cjs');

function lock(file, options, callback) {
  lockfile.lock(file, options).then(
    (release) => callback(null, (done) => callbackify(release)(done ?? (() => {}))),
    (error) => process.nextTick(callback, error),
  );
}

module.exports.lock = lock;
module.exports.unlock = callbackify(lockfile.unlock);
module.exports.check = callbackify(lockfile.check);
module.exports.getLocks = lockfile[Symbol.for('tenure.compat.proper-lockfile.getLocks')];
