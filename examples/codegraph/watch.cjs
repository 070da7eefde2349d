// A watcher in the manner of codegraph: it notes which files have changed, and a build reads them, does
// its work and starts a new journal. Both may run at the same time, in several processes.
//
// Before:  const journal = require('./journal');
// After:   const journal = require('tenure/compat/changes-journal');
//
//   node watch.cjs DIR note FILE...     notes changed files
//   node watch.cjs DIR build            prints what has changed since the last build

const journal = require('tenure/compat/changes-journal');

const [, , dir, verb, ...files] = process.argv;

if (verb === 'note' && files.length > 0) {
  journal.appendJournalEntries(dir, files.map((file) => ({ file })));
} else if (verb === 'build') {
  // Read and start anew under one lock, so that changes noted during a build are not lost.
  const changes = journal.withJournalLock(dir, () => {
    const found = journal.readJournal(dir);
    journal.writeJournalHeader(dir, Date.now());
    return found;
  });
  console.log(changes.valid ? changes.changed.join('\n') : 'no valid journal: everything has to be built');
} else {
  console.error('usage: node watch.cjs DIR note FILE... | build');
  process.exitCode = 2;
}
