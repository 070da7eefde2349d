'use strict';

// Which files this process holds by a drop-in, so that another drop-in does not wait for it. As with the
// originals, that lets in every task of the process.

const guards = (globalThis[Symbol.for('tenure.compat.held')] ??= new Map());

const remember = (path, guard) => guards.set(path, guard);
const forget = (path, guard) => guards.get(path) === guard && guards.delete(path);

/** The fence of a hold on this path, or undefined. */
const fenceOf = (path) => guards.get(path)?.fence;

module.exports = { fenceOf, forget, remember };
