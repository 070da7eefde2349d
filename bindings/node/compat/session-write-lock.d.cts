export interface SessionWriteLock {
  release(): Promise<void>;
  /** Throws {@link SessionWriteLockStaleError} if the hold ended. */
  assertOwned(): void;
}

export interface AcquireOptions {
  sessionFile: string;
  /** 60,000 by default; Infinity waits for ever. */
  timeoutMs?: number;
  /** A lock file of another program that is older is an error ({@link SessionWriteLockStaleError}) while its owner lives. */
  staleMs?: number;
  /** A hold that lasts longer is ended, after a second at the earliest. */
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
  removable: boolean;
  removed: boolean;
}

export interface WriteLockConfig {
  session?: { writeLock?: { acquireTimeoutMs?: number; staleMs?: number; maxHoldMs?: number } };
}
type Environment = Record<string, string | undefined>;

export function cleanStaleLockFiles(options: {
  sessionsDir: string;
  config?: WriteLockConfig;
  env?: Environment;
  staleMs?: number;
  removeStale?: boolean;
  nowMs?: number;
  readOwnerProcessArgs?: (pid: number) => string[] | null;
  log?: { warn?: (message: string) => void; info?: (message: string) => void };
}): Promise<{ locks: InspectedLock[]; cleaned: InspectedLock[] }>;

export function releaseAllLocksSync(): void;
export function resetSessionWriteLockStateForTest(): void;
export function drainSessionWriteLockStateForTest(): Promise<void>;
export function resolveSessionLockMaxHoldFromTimeout(options: {
  timeoutMs: number;
  graceMs?: number;
  minMs?: number;
}): number;
export function resolveSessionWriteLockAcquireTimeoutMs(config?: WriteLockConfig, env?: Environment): number;
export function resolveSessionWriteLockStaleMs(config?: WriteLockConfig, env?: Environment): number;
export function resolveSessionWriteLockOptions(
  config?: WriteLockConfig,
  options?: { env?: Environment; maxHoldMsFallback?: number },
): { timeoutMs: number; staleMs: number; maxHoldMs: number };

type CleanupSignal = 'SIGINT' | 'SIGTERM' | 'SIGQUIT' | 'SIGABRT';
/** What OpenClaw's own tests reach for. */
export const testing: {
  readonly cleanupSignals: CleanupSignal[];
  handleTerminationSignal(signal: CleanupSignal): void;
  inspectLockPayloadForTest(
    payload: { pid?: number; createdAt?: string; starttime?: number; maxHoldMs?: number } | null,
    staleMs: number,
    nowMs: number,
    options?: { respectMaxHold?: boolean },
  ): Omit<InspectedLock, 'lockPath' | 'removable' | 'removed'>;
  releaseAllLocksSync(): void;
  resolveRemainingAcquireTimeoutMs(timeoutMs: number, startedAtMs: number, nowMs: number): number;
  runLockWatchdogCheck(nowMs?: number): Promise<number>;
  setProcessStartTimeResolverForTest(resolver: ((pid: number) => number | null) | null): void;
};
export { testing as __testing };

/** Whether an error says that the lock was not got. */
export function isSessionWriteLockAcquireError(error: unknown): boolean;
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
  readonly owner: string;
  readonly staleReasons: string[];
}
