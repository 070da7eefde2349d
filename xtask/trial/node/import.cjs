// How long the first import of a process takes, in milliseconds.
const start = performance.now();
require('tenure');
console.log(performance.now() - start);
