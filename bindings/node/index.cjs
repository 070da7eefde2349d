'use strict';

// A part is loaded when it is first used: a hook that updates one document pays for no more. ES modules
// load all of them.

function part(load, ...names) {
  for (const name of names) {
    const get = () => {
      const value = load()[name];
      Object.defineProperty(exports, name, { value, enumerable: true });
      return value;
    };
    Object.defineProperty(exports, name, { get, enumerable: true, configurable: true });
  }
}

part(() => require('./lib/blob.cjs'), 'Blob');
part(() => require('./lib/collection.cjs'), 'Collection');
part(() => require('./lib/document.cjs'), 'Document');
part(() => require('./lib/errors.cjs'), 'JournalGapError', 'OnceFailedError', 'TenureError');
part(() => require('./lib/journal.cjs'), 'Journal');
part(() => require('./lib/lease.cjs'), 'HeldLease', 'HeldLeases', 'Lease', 'lease', 'leaseAll', 'leaseAllSync', 'leaseSync');
part(() => require('./lib/lock.cjs'), 'Guard', 'Guards', 'Lock', 'lock', 'lockAll', 'lockAllSync', 'lockSync', 'tryLock', 'tryLockSync', 'withLock', 'withLockSync');
part(() => require('./lib/once.cjs'), 'once', 'onceSync');
part(() => require('./lib/queue.cjs'), 'Queue');
part(() => require('./lib/status.cjs'), 'status', 'statusSync');
part(() => require('./lib/store.cjs'), 'Store');
part(() => require('./lib/together.cjs'), 'updateAndAppend', 'updateAndAppendSync');
