/** Lock a file; ends by the returned function, by `unlock`, or with the process. */
declare function lock(file: string, options?: lock.LockOptions): Promise<lock.Release>;

declare namespace lock {
  interface RetryOptions {
    retries?: number;
    factor?: number;
    minTimeout?: number;
    maxTimeout?: number;
    randomize?: boolean;
    forever?: boolean;
  }
  interface LockOptions {
    /** After how many milliseconds a lock directory that was not refreshed is removed; at least 2000, also for `false`. */
    stale?: number | false;
    /** How often ours is refreshed. */
    update?: number | false | null;
    /** The sum of the pauses is how long is waited. */
    retries?: number | RetryOptions;
    realpath?: boolean;
    onCompromised?: (error: Error) => unknown;
    lockfilePath?: string;
    /** Does every operation on the directory. If that is not on the real disk then, the directory alone is the lock. */
    fs?: object;
  }
  interface FileOptions {
    realpath?: boolean;
    stale?: number | false;
    lockfilePath?: string;
    fs?: object;
  }
  interface Release {
    (): Promise<void>;
    /** Proves the hold to writes of tenure to the same file; undefined if that is not on the real disk. */
    readonly fence: number;
  }
  interface ReleaseSync {
    (): void;
    readonly fence: number;
  }
  function lock(file: string, options?: LockOptions): Promise<Release>;
  function lockSync(file: string, options?: LockOptions): ReleaseSync;
  function unlock(file: string, options?: FileOptions): Promise<void>;
  function unlockSync(file: string, options?: FileOptions): void;
  function check(file: string, options?: FileOptions): Promise<boolean>;
  function checkSync(file: string, options?: FileOptions): boolean;
}

export = lock;
