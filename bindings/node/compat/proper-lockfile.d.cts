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
    /** After how many milliseconds a lock directory that nobody refreshed is taken away; at least 2000. */
    stale?: number;
    /** How often ours is refreshed. */
    update?: number | null;
    /** The sum of the pauses is how long is waited. */
    retries?: number | RetryOptions;
    realpath?: boolean;
    onCompromised?: (error: Error) => unknown;
    lockfilePath?: string;
    /** Only `node:fs` itself or graceful-fs: the lock is the kernel's, on real files. Anything else is `EINVAL`. */
    fs?: object;
  }
  interface FileOptions {
    realpath?: boolean;
    stale?: number;
    lockfilePath?: string;
    fs?: object;
  }
  interface Release {
    (): Promise<void>;
    /** Proves the hold to writes of tenure to the same file. */
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
