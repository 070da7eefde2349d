export interface SessionWriteLock {
  release(): Promise<void>;
  /** Throws {@link SessionWriteLockStaleError} if the hold ended. */
  assertOwned(): void;
}

export interface AcquireOptions {
  sessionFile: string;
  /** 60,000 by default; Infinity waits for ever. */
  timeoutMs?: number;
  /** How old a lock file of another program may be whose owner cannot be proven to live. */
  staleMs?: number;
  /** A hold that lasts longer is ended. */
  maxHoldMs?: number;
  /** Let this process in again while it holds the lock. */
  allowReentrant?: boolean;
  signal?: AbortSignal;
}

export function acquireSessionWriteLock(options: AcquireOptions): Promise<SessionWriteLock>;

export interface InspectedLock {
  lockPath: string;
  pid: number | null;
  pidAlive: boolean;
  createdAt: string | null;
  ageMs: number | null;
  stale: boolean;
  staleReasons: string[];
  removed: boolean;
}

export function cleanStaleLockFiles(options: {
  sessionsDir: string;
  staleMs?: number;
  removeStale?: boolean;
  nowMs?: number;
  readOwnerProcessArgs?: (pid: number) => string[] | null;
  log?: { info?: (message: string) => void };
}): { locks: InspectedLock[]; cleaned: InspectedLock[] };

export function releaseAllLocksSync(): void;
export function resetSessionWriteLockStateForTest(): void;
export function resolveSessionLockMaxHoldFromTimeout(options: {
  timeoutMs: number;
  graceMs?: number;
  minMs?: number;
}): number;
export function resolveSessionWriteLockOptions(
  config?: unknown,
  env?: Record<string, string | undefined>,
): { timeoutMs: number; staleMs: number; maxHoldMs: number };

export class SessionWriteLockError extends Error {
  readonly code: string;
  readonly lockPath: string;
}
export class SessionWriteLockTimeoutError extends SessionWriteLockError {
  readonly reason: 'session_busy';
  readonly timeoutMs: number;
  readonly owner: string;
}
export class SessionWriteLockStaleError extends SessionWriteLockError {
  readonly staleReasons: string[];
}
