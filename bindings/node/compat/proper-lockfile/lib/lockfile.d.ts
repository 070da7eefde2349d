import lockfile = require('../../proper-lockfile.cjs');

type Callback<T> = (error: Error | null, value?: T) => void;

export function lock(
  file: string,
  options: lockfile.LockOptions | null | undefined,
  callback: Callback<(released?: Callback<void>) => void>,
): void;
export function unlock(file: string, options: lockfile.FileOptions | null | undefined, callback: Callback<void>): void;
export function check(file: string, options: lockfile.FileOptions | null | undefined, callback: Callback<boolean>): void;
/** The locks of this process, by file. */
export function getLocks(): Record<string, { lockfilePath: string }>;
