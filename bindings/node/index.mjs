// The same instance as `require('tenure')`: there is one registry of holds per process.
import tenure from './index.cjs';

export const {
  Collection,
  Document,
  Guard,
  HeldLease,
  Journal,
  JournalGapError,
  Lease,
  Lock,
  TenureError,
  lease,
  leaseSync,
  lock,
  lockSync,
  status,
  statusSync,
  tryLock,
  tryLockSync,
  updateAndAppend,
  updateAndAppendSync,
  withLock,
  withLockSync,
} = tenure;
export default tenure;
