'use strict';

// The names of this platform: the ends of the names of its addon (tenure.NAME.node) and of the package that has it and
// the command (@tenure/NAME). On Linux there are two, by C library. Asking which one is there (process.report) would cost
// more than everything else at load; trying costs nothing.

function names() {
  const name = `${process.platform}-${process.arch}`;
  switch (process.platform) {
    case 'linux':
      return [`${name}-gnu`, `${name}-musl`];
    case 'win32':
      return [`${name}-msvc`];
    default:
      return [name];
  }
}

module.exports = { names };
