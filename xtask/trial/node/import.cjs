// How long the first import of a process takes, with the addon, in milliseconds. Parts are loaded when they are first used.
const start = performance.now();
require('tenure').Document;
console.log(performance.now() - start);
