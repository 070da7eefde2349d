'use strict';

// Which files this process holds by a drop-in, so that another drop-in does not wait for it. As with the
// originals, that lets in every task of the process.

const fences = (globalThis[Symbol.for('tenure.compat.held')] ??= new Map());

const remember = (path, fence) => fences.set(path, fence);
const forget = (path, fence) => fences.get(path) === fence && fences.delete(path);

/** The proof of a hold on this path, or undefined. */
const fenceOf = (path) => fences.get(path);

module.exports = { fenceOf, forget, remember };
