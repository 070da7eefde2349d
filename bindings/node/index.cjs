'use strict';

const { TenureError } = require('./lib/errors.cjs');
const { Guard, lock, lockSync, tryLock, tryLockSync, withLock, withLockSync } = require('./lib/lock.cjs');
const { Document } = require('./lib/document.cjs');
const { Journal } = require('./lib/journal.cjs');
const { HeldLease, Lease, lease, leaseSync } = require('./lib/lease.cjs');
const { Collection } = require('./lib/collection.cjs');
const { status, statusSync } = require('./lib/status.cjs');

module.exports = {
  Collection,
  Document,
  Guard,
  HeldLease,
  Journal,
  Lease,
  TenureError,
  lease,
  leaseSync,
  lock,
  lockSync,
  status,
  statusSync,
  tryLock,
  tryLockSync,
  withLock,
  withLockSync,
};
