// Compiled by the tests, never run: the same for `require`.

import tenure = require('tenure');

const guard: tenure.Guard = tenure.lockSync('x');
guard.releaseSync();
const document = new tenure.Document<number[]>('x');
const length: number | undefined = document.readSync()?.value.length;
void length;
