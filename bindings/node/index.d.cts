/// <reference types="node" />

/** A file name: text, the bytes of a name that is not text, or a `file:` URL. */
export type PathLike = string | Uint8Array | URL;

/** One line about the health of a store. */
export interface Finding {
  /** What was looked at: `server`, `schema`, `replication`, `quota`. */
  what: string;
  found: string;
  /** How it endangers what tenure promises; null if it does not. */
  problem: string | null;
}

/**
 * A store on PostgreSQL or etcd that several machines share: opened once, and passed as the option `store`. Its name
 * has no password. `TENURE_STORE` is for commands only: a program names its store itself.
 */
export class Store {
  private constructor();
  /**
   * The store at a URL, `postgres://user:password@host/database` or `etcd://host:2379/prefix`. Nothing is sent to the
   * server yet. In one process the same URL is the same connection.
   */
  static open(url: string): Store;
  readonly name: string;
  /** The health of the server. */
  check(): Promise<Finding[]>;
  checkSync(): Finding[];
}

export interface StoreOptions {
  /** Where the target is: a store, or its URL. Its name is then a name in the store. Default: local files. */
  store?: Store | string | undefined;
}

/** The stable names of errors, the same in every language and on the command line. */
export type ErrorCode =
  | 'busy'
  | 'deadlock'
  | 'cancelled'
  | 'conflict'
  | 'fenced'
  | 'lease_lost'
  | 'compromised'
  | 'damaged'
  | 'unsupported'
  | 'newer_format'
  | 'not_durable'
  | 'invalid'
  | 'not_found'
  | 'io'
  | 'internal';

/** Who holds (or last held) a target, as they wrote it down themselves. It decides nothing. */
export interface Holder {
  pid: number;
  host: string;
  command: string;
  label: string;
  owner: string;
  /** 0 for a shared hold. */
  fence: number;
  /** Microseconds of the wall clock. */
  sinceUs: number;
  kind: 'lock' | 'shared' | 'lease' | 'unknown';
  pidNamespace: number;
  start: number;
}

/** What failed, where, why, and what to do about it. */
export class TenureError extends Error {
  protected constructor();
  readonly name: 'TenureError' | 'JournalGapError' | 'OnceFailedError';
  readonly code: ErrorCode;
  /** What was being done. */
  readonly action: string | null;
  readonly path: string | null;
  /** Who is in the way, if it is known. */
  readonly holder: Holder | null;
  /** What to do next. */
  readonly hint: string | null;
  /** Whether the change is visible, where that could be in doubt. */
  readonly committed: boolean | null;
}

/** Entries of a journal that cannot be read any more. Its code is `damaged`; what is behind the gap can still be read. */
export class JournalGapError extends TenureError {
  private constructor();
  readonly name: 'JournalGapError';
  readonly code: 'damaged';
  /** The first entry that is gone. */
  readonly first: number;
  /** The last one. */
  readonly last: number;
}

/** The function of `once` failed in the call that this one waited for. It was not run again. */
export class OnceFailedError extends TenureError {
  private constructor();
  readonly name: 'OnceFailedError';
  readonly code: 'cancelled';
  /** 1, or the exit code of a command that failed. */
  readonly exitCode: number;
}

export interface Signal {
  /** Ends the wait; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface WaitOptions {
  /** How long to wait for others, in milliseconds: 0 is not at all, Infinity for ever. Default: `TENURE_WAIT`, else 10 s. */
  waitMs?: number | undefined;
}

export interface MaxHold {
  /** How long is too long, in milliseconds. */
  afterMs: number;
  /** Release the lock as well; its fence is refused from then on. */
  end?: boolean | undefined;
  /** Called once, when it is too long. */
  report?: (() => void) | undefined;
}

export interface LockOptions extends WaitOptions {
  /** Together with other readers; draws no fence. */
  shared?: boolean | undefined;
  /** What it is for, shown to those who wait. */
  label?: string | undefined;
  /** Who it is for. */
  owner?: string | undefined;
  /** Let the same `owner` in again while it holds the lock in this process. */
  reentrant?: boolean | undefined;
  /**
   * Take one of so many slots, 1 to 64: as many callers hold the target at once. A slot draws no fence. If callers
   * name different numbers, the largest bounds all of them.
   */
  slots?: number | undefined;
  /** The fence of a hold that the caller is part of: nothing is locked. */
  fence?: number | bigint | undefined;
  /** Lock exactly this file as well, to exclude others that lock it. */
  lockFile?: PathLike | undefined;
  /** Work on a network file system although its locks cannot be trusted. */
  allowNetwork?: boolean | undefined;
  /** Report, or end, a hold of ours that lasts too long. */
  maxHold?: MaxHold | undefined;
}

/** A lock that is held until it is released, or until its thread of JavaScript ends. */
export class Guard implements Disposable, AsyncDisposable {
  private constructor();
  /**
   * The fence of this hold; 0 for a shared one. Pass it to writes of the same target. A hold whose fence
   * no caller asked for ends faster. After the hold it is the same number, and writes with it are refused.
   */
  readonly fence: number;
  readonly path: string;
  /** False once it was released, its `maxHold` ended it, or it was not renewed in time in its store. */
  readonly held: boolean;
  /** Who held it before and died without releasing: what it protects may be half done. */
  readonly recoveredFrom: Holder | null;
  /** Checks that the lock file was not removed or replaced during the hold. */
  verify(): Promise<void>;
  verifySync(): void;
  /** Releases the lock. The second time does nothing. */
  release(): Promise<void>;
  releaseSync(): void;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A target to be locked again and again: its path is resolved once, and its files stay open until no caller
 * refers to this. Opening it touches nothing.
 */
export class Lock {
  constructor(path: PathLike, options?: StoreOptions);
  readonly path: string;
  /** Takes the lock; waits without blocking the event loop. */
  acquire(options?: LockOptions & Signal): Promise<Guard>;
  /** The same, asleep in the kernel. A lock that this thread holds already is `deadlock`. */
  acquireSync(options?: LockOptions): Guard;
  /** Takes the lock if it is free; null if it is held. */
  tryAcquire(options?: Omit<LockOptions, 'waitMs'>): Promise<Guard | null>;
  tryAcquireSync(options?: Omit<LockOptions, 'waitMs'>): Guard | null;
}

/** Takes the lock on a path; waits without blocking the event loop. */
export function lock(path: PathLike, options?: LockOptions & StoreOptions & Signal): Promise<Guard>;
/** The same, asleep in the kernel. A lock that this thread holds already is `deadlock`. */
export function lockSync(path: PathLike, options?: LockOptions & StoreOptions): Guard;
/** Takes the lock if it is free; null if it is held. */
export function tryLock(path: PathLike, options?: Omit<LockOptions, 'waitMs'> & StoreOptions): Promise<Guard | null>;
export function tryLockSync(path: PathLike, options?: Omit<LockOptions, 'waitMs'> & StoreOptions): Guard | null;
export type LockAllOptions = Omit<LockOptions, 'fence' | 'lockFile' | 'maxHold'>;

/** Several locks that are held together. */
export class Guards implements Disposable, AsyncDisposable {
  private constructor();
  /** The guard of each target, in the order of the resolved names. */
  readonly guards: readonly Guard[];
  /** False once one of them is not held any more. */
  readonly held: boolean;
  verify(): Promise<void>;
  verifySync(): void;
  /** Releases all of them. The second time does nothing. */
  release(): Promise<void>;
  releaseSync(): void;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Takes the locks on several paths, all or none, with one deadline. They are taken in the order of their resolved
 * names, so that callers never wait for each other in a circle.
 */
export function lockAll(paths: readonly PathLike[], options?: LockAllOptions & StoreOptions & Signal): Promise<Guards>;
export function lockAllSync(paths: readonly PathLike[], options?: LockAllOptions & StoreOptions): Guards;
/** Runs a function under the lock and releases it, whatever happens. */
export function withLock<T>(path: PathLike, act: (guard: Guard) => T | PromiseLike<T>): Promise<T>;
export function withLock<T>(
  path: PathLike,
  options: (LockOptions & StoreOptions & Signal) | undefined,
  act: (guard: Guard) => T | PromiseLike<T>,
): Promise<T>;
export function withLockSync<T>(path: PathLike, act: (guard: Guard) => T): T;
export function withLockSync<T>(path: PathLike, options: (LockOptions & StoreOptions) | undefined, act: (guard: Guard) => T): T;

/** The fence of a hold on another target. */
export interface GuardProof {
  target: PathLike;
  fence: number | bigint;
}

export interface WriteOptions extends WaitOptions {
  /**
   * The fence of a hold on the target itself: the write then skips the wait for the hold. Default: that of the
   * `tenure run` or `tenure lease hold` on this target that the program runs under, if there is one.
   */
  fence?: number | bigint | undefined;
  /** Fences of holds on other targets, checked in the same step. */
  guards?: readonly GuardProof[] | undefined;
  /** Return without waiting for the disk: survives any process crash, not a power loss. */
  noSync?: boolean | undefined;
  /** Names the operation: repeated, it is not done again (of the 4,096 newest of a file). */
  operation?: string | undefined;
  /** What it is for, shown to those who wait. */
  label?: string | undefined;
  /** Lock exactly this file as well. */
  lockFile?: PathLike | undefined;
  /** Work on a network file system although its locks cannot be trusted. */
  allowNetwork?: boolean | undefined;
}

export interface DocumentWriteOptions extends WriteOptions {
  /** The version the document must have, else `conflict`. */
  ifVersion?: string | undefined;
  /** The mode of a file that does not exist yet. Default 0o600. */
  newMode?: number | undefined;
  /** Write a document that has several hard links, leaving the other names behind. */
  breakLink?: boolean | undefined;
}

export interface NumberOptions {
  /**
   * What becomes of numbers that a JavaScript number does not keep. `exact` (the default) refuses
   * such a document with `invalid`; `bigint` gives whole ones as BigInt; `lossy` rounds them.
   */
  numbers?: 'exact' | 'bigint' | 'lossy' | undefined;
}

export interface UpdateOptions extends DocumentWriteOptions, NumberOptions {
  /** What the function is given when there is no document. */
  init?: unknown;
}

export interface MergeRules {
  /** JSON Pointers of arrays that are sets. Unsafe for anything that can be revoked. */
  union?: readonly string[] | undefined;
  max?: readonly string[] | undefined;
  min?: readonly string[] | undefined;
  sum?: readonly string[] | undefined;
  last?: readonly string[] | undefined;
}

export interface MergeOptions extends DocumentWriteOptions {
  rules?: MergeRules | undefined;
}

/** A document as it was at one moment. */
export interface Snapshot<T = unknown> {
  value: T;
  /** Opaque: compare it, store it, and give it back. */
  version: string;
  /** The file was cut by a power loss; this is its last synced version. */
  repaired: boolean;
  /** The text of the file. */
  text: string;
}

/** What a change did. */
export interface Written {
  version: string;
  /** False if the content was that already; then nothing was rewritten. */
  changed: boolean;
  /** The operation had been done before. */
  replayed: boolean;
}

/** A JSON document in a file, or in a store. Opening it touches nothing. */
export class Document<T = any> {
  /** `numbers` is what its calls do unless they say otherwise. */
  constructor(path: PathLike, options?: NumberOptions & StoreOptions);
  /** The resolved path. */
  readonly path: string;
  /** The document, or undefined if there is none. Takes no lock. */
  read(options?: NumberOptions & Signal): Promise<Snapshot<T> | undefined>;
  readSync(options?: NumberOptions): Snapshot<T> | undefined;
  version(): Promise<string | undefined>;
  versionSync(): string | undefined;
  /** Replaces the whole document. */
  set(value: T, options?: DocumentWriteOptions & Signal): Promise<Written>;
  setSync(value: T, options?: DocumentWriteOptions): Written;
  /**
   * Runs a function on the fresh document while the lock is held, and writes what it returns; if it
   * returns nothing, what it made of its argument. What it throws changes nothing. It runs again if
   * a tool that does not use tenure replaced the file meanwhile. Without a document and without `init` it
   * is given undefined and has to return one, else the update is `not_found`. A function that changes its argument
   * and returns something else is `invalid`: for a result use `edit`.
   */
  update(
    compute: (current: T) => T | void | PromiseLike<T | void>,
    options: UpdateOptions & Signal & { init: T; maxHoldMs?: number | undefined },
  ): Promise<Written>;
  update(
    compute: (current: T | undefined) => T | void | PromiseLike<T | void>,
    options?: UpdateOptions &
      Signal & {
        /** How long the function may take, in milliseconds. Default 10 s. */
        maxHoldMs?: number | undefined;
      },
  ): Promise<Written>;
  updateSync(compute: (current: T) => T | void, options: UpdateOptions & { init: T }): Written;
  updateSync(compute: (current: T | undefined) => T | void, options?: UpdateOptions): Written;
  /**
   * Changes the document in place while the lock is held, and returns what the function returns. What it throws
   * changes nothing. It takes no `operation`: what the function returned is not kept.
   */
  edit<R>(
    change: (current: T) => R | PromiseLike<R>,
    options: UpdateOptions & Signal & { init: T; maxHoldMs?: number | undefined },
  ): Promise<R>;
  edit<R>(
    change: (current: T | undefined) => R | PromiseLike<R>,
    options?: UpdateOptions & Signal & { maxHoldMs?: number | undefined },
  ): Promise<R>;
  editSync<R>(change: (current: T) => R, options: UpdateOptions & { init: T }): R;
  editSync<R>(change: (current: T | undefined) => R, options?: UpdateOptions): R;
  /** The same from text to text, which is stored as it is, to the byte, if it is JSON. */
  updateText(
    compute: (current: string | undefined) => string | void | PromiseLike<string | void>,
    options?: DocumentWriteOptions & Signal & { init?: string | undefined; maxHoldMs?: number | undefined },
  ): Promise<Written>;
  updateTextSync(
    compute: (current: string | undefined) => string | void,
    options?: DocumentWriteOptions & { init?: string | undefined },
  ): Written;
  /** Merges a patch (RFC 7396), with rules for single fields. */
  merge(patch: unknown, options?: MergeOptions & Signal): Promise<Written>;
  mergeSync(patch: unknown, options?: MergeOptions): Written;
  /** Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is `conflict`. */
  patch(operations: readonly object[], options?: DocumentWriteOptions & Signal): Promise<Written>;
  patchSync(operations: readonly object[], options?: DocumentWriteOptions): Written;
  /** Replaces the document if it still has this version, else `conflict`. */
  compareAndSet(version: string, value: T, options?: DocumentWriteOptions & Signal): Promise<Written>;
  compareAndSetSync(version: string, value: T, options?: DocumentWriteOptions): Written;
  /** Brings back the last good version of a document that cannot be parsed. */
  restore(options?: DocumentWriteOptions & Signal): Promise<Written>;
  restoreSync(options?: DocumentWriteOptions): Written;
  /** The document after each change from now on; quick ones may be passed over. */
  watch(options?: NumberOptions & WaitOptions & Signal): AsyncGenerator<Snapshot<T>, void, undefined>;
  watchSync(options?: NumberOptions & WaitOptions): Generator<Snapshot<T>, void, undefined>;
}

/** A line: text and bytes as they are, any other value as JSON. */
export type Line = string | Uint8Array | object | number | boolean | null;

export interface AppendOptions extends WriteOptions {
  /** Refuse lines that are not JSON. */
  json?: boolean | undefined;
  /** Make this the first line of the file, in the same step. It is not an entry. */
  header?: Line | undefined;
  /** The mode of a file that does not exist yet. Default 0o600. */
  newMode?: number | undefined;
}

export interface Appended {
  /** The number of the batch's first entry. */
  first: number;
  last: number;
  /** Lines of other tools that got a number on the way. */
  adopted: number;
  /** An unterminated line of another tool was closed with a newline. */
  closedTail: boolean;
  /** Batches that a crash had left unfinished, finished on the way. */
  rolledForward: number;
  /** The operation was done before; these are its entries. */
  replayed: boolean;
}

export interface Entry<L = string> {
  /** Its number: grows over the life of the journal, rotated files included. */
  seq: number;
  /** Without the newline. */
  line: L;
}

export interface GapOptions {
  /**
   * The first number. Default: the oldest entry that is there. With a number, entries that are gone from there on
   * are a gap.
   */
  from?: number | bigint | undefined;
  /** Called for each gap; the entries go on behind it. Without it a gap is thrown, and ends them. */
  onGap?: ((gap: JournalGapError) => unknown) | undefined;
}

export interface Encoding {
  /** `buffer` for journals with lines that are not UTF-8. Default `utf8`. */
  encoding?: 'utf8' | 'buffer' | undefined;
}

export interface EntriesOptions extends GapOptions, Encoding, Signal {
  limit?: number | undefined;
}

export interface FollowOptions extends WaitOptions, GapOptions, Encoding, Signal {}

/** Numbers of entries. */
export interface Numbers {
  first: number;
  last: number;
}

/** A range of bytes that is not what was written. */
export interface Damage {
  /** The journal, or one of its archives. */
  file: string;
  start: number;
  end: number;
  why: string;
}

export interface Report {
  /** Nothing is damaged. */
  sound: boolean;
  entries: number;
  foreignEntries: number;
  segments: number;
  bytes: number;
  /** The number that the next entry gets; 0 if tenure has not written to it yet. */
  next: number;
  /** What is not as it was, in the archives too. */
  damaged: Damage[];
  /** Entries that are gone: cut off, replaced, or lost with the power. */
  lost: Numbers[];
  /** Numbers that were reserved when the machine restarted; entries without a sync may have had them. */
  skipped: Numbers[];
  /** Archives that were checked. */
  archives: number;
  tornTail: boolean;
  /** Complete lines of other tools that the next write gives a number. */
  unadopted: number;
  nulBytes: number;
  /** Logged batches that the next write finishes. */
  pending: number;
  rolledForward: number;
  unbound: boolean;
  /** Damage that a repair has written over or accepted, and where a copy of the bytes is. */
  setAside: Damage[];
  quarantine: string | null;
}

export interface Rotated {
  /** Where the entries so far are now; null if there were none. */
  archive: string | null;
  next: number;
}

export interface RepairOptions extends WriteOptions {
  /** Take damage in the journal as it is: an edited line keeps its number. */
  accept?: boolean | undefined;
}

export interface CompactOptions extends WriteOptions {
  /** Keep entries from this number on. */
  from?: number | bigint | undefined;
}

export interface Compacted {
  kept: number;
  dropped: number;
  bytesBefore: number;
  bytesAfter: number;
  /** Where the file from before is, until the next compaction or header. */
  replaced: string | null;
}

/** A file of lines that many processes append to. Opening it touches nothing. */
export class Journal {
  constructor(path: PathLike, options?: StoreOptions);
  /** The resolved path. */
  readonly path: string;
  /** Appends a line, or an array of lines, as one batch: readers see all of it or none. */
  append(lines: Line | readonly Line[], options?: AppendOptions & Signal): Promise<Appended>;
  appendSync(lines: Line | readonly Line[], options?: AppendOptions): Appended;
  read(options: EntriesOptions & { encoding: 'buffer' }): Promise<Entry<Buffer>[]>;
  read(options?: EntriesOptions): Promise<Entry[]>;
  readSync(options: Omit<EntriesOptions, 'signal'> & { encoding: 'buffer' }): Entry<Buffer>[];
  readSync(options?: Omit<EntriesOptions, 'signal'>): Entry[];
  /** The entries as they are when the first one is asked for, in memory that does not grow. */
  entries(options: EntriesOptions & { encoding: 'buffer' }): AsyncGenerator<Entry<Buffer>, void, undefined>;
  entries(options?: EntriesOptions): AsyncGenerator<Entry, void, undefined>;
  entriesSync(
    options: Omit<EntriesOptions, 'signal'> & { encoding: 'buffer' },
  ): Generator<Entry<Buffer>, void, undefined>;
  entriesSync(options?: Omit<EntriesOptions, 'signal'>): Generator<Entry, void, undefined>;
  /** Entries as they appear, across rotations. Ends when none comes for `waitMs` (default: never). */
  follow(options: FollowOptions & { encoding: 'buffer' }): AsyncGenerator<Entry<Buffer>, void, undefined>;
  follow(options?: FollowOptions): AsyncGenerator<Entry, void, undefined>;
  followSync(
    options: Omit<FollowOptions, 'signal'> & { encoding: 'buffer' },
  ): Generator<Entry<Buffer>, void, undefined>;
  followSync(options?: Omit<FollowOptions, 'signal'>): Generator<Entry, void, undefined>;
  /** Lines of other tools that have no number yet, an unterminated one included. The next write adopts them. */
  pending(options: Encoding & Signal & { encoding: 'buffer' }): Promise<Buffer[]>;
  pending(options?: Encoding & Signal): Promise<string[]>;
  pendingSync(options: Encoding & { encoding: 'buffer' }): Buffer[];
  pendingSync(options?: Encoding): string[];
  /** Checks every byte against what was written, in the archives too. Takes no lock. */
  verify(): Promise<Report>;
  verifySync(): Report;
  /** Finishes what crashes have left, writes back what the log still holds of damaged batches, and verifies. */
  repair(options?: RepairOptions & Signal): Promise<Report>;
  repairSync(options?: RepairOptions): Report;
  /** Moves the entries so far to a file of their own. */
  rotate(options?: WriteOptions & Signal): Promise<Rotated>;
  rotateSync(options?: WriteOptions): Rotated;
  /** Writes the journal anew with the entries that are wanted. They keep their numbers. */
  compact(
    options: CompactOptions & Signal & { keep?: ((entry: Entry) => unknown) | undefined },
  ): Promise<Compacted>;
  compactSync(options: CompactOptions & { keep?: ((entry: Entry) => unknown) | undefined }): Compacted;
}

export interface AcquireOptions extends WaitOptions {
  /** How long it lasts without a renewal, in milliseconds. */
  ttlMs: number;
  /** Who it is for: a label, not a credential. Default: the user's name. */
  owner?: string | undefined;
  /** What it is for, shown to those who wait. */
  label?: string | undefined;
  /** The token of an earlier acquire: renews that lease and keeps its fence, if it still can. Default: `TENURE_TOKEN`. */
  token?: string | undefined;
  allowNetwork?: boolean | undefined;
}

export interface Leased {
  /** Names the lease to `renew` and `release`. Keep it secret. */
  token: string;
  /** Pass it to writes, which are refused once the lease is lost. */
  fence: number;
  owner: string;
  ttlMs: number;
  expiresInMs: number;
}

export interface LeaseInfo {
  expired: boolean;
  owner: string;
  fence: number;
  ttlMs: number;
  expiresInMs: number;
  holder: Holder;
}

export interface TakeOverOptions extends Omit<AcquireOptions, 'token'> {
  /** Why; it is written down. */
  reason: string;
}

/** A target that can be leased. Opening it touches nothing. */
export class Lease {
  constructor(path: PathLike, options?: StoreOptions);
  readonly path: string;
  acquire(options: AcquireOptions & Signal): Promise<Leased>;
  acquireSync(options: AcquireOptions): Leased;
  /** Takes the lease from its holder, for a reason that is recorded. */
  takeOver(options: TakeOverOptions & Signal): Promise<Leased>;
  takeOverSync(options: TakeOverOptions): Leased;
  /** Extends the lease from now. The fence stays. */
  renew(token: string, options?: { ttlMs?: number | undefined }): Promise<Leased>;
  renewSync(token: string, options?: { ttlMs?: number | undefined }): Leased;
  release(token: string): Promise<void>;
  releaseSync(token: string): void;
  /** Who has the lease, running or expired; null if there is none. */
  show(): Promise<LeaseInfo | null>;
  showSync(): LeaseInfo | null;
}

/** A lease that we have. It outlives this process unless it is released. */
export class HeldLease implements Leased, Disposable, AsyncDisposable {
  private constructor();
  readonly path: string;
  readonly token: string;
  readonly fence: number;
  readonly owner: string;
  readonly ttlMs: number;
  /** As it was when it was acquired or renewed. */
  readonly expiresInMs: number;
  renew(options?: { ttlMs?: number | undefined }): Promise<void>;
  renewSync(options?: { ttlMs?: number | undefined }): void;
  release(): Promise<void>;
  releaseSync(): void;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Acquires the lease of a path. */
export function lease(path: PathLike, options: AcquireOptions & StoreOptions & Signal): Promise<HeldLease>;
export function leaseSync(path: PathLike, options: AcquireOptions & StoreOptions): HeldLease;

/** Several leases that this program has, all with one token. They outlive it unless they are released. */
export class HeldLeases implements Disposable, AsyncDisposable {
  private constructor();
  /** The lease of each target, in the order of the resolved names. */
  readonly leases: readonly HeldLease[];
  /** Names all of them to `renew` and `release`. Keep it secret. */
  readonly token: string;
  renew(options?: { ttlMs?: number | undefined }): Promise<void>;
  renewSync(options?: { ttlMs?: number | undefined }): void;
  /** Releases all of them, whatever happens to one; then throws what happened. */
  release(): Promise<void>;
  releaseSync(): void;
  [Symbol.dispose](): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Acquires the leases on several paths, all or none, with one deadline and one token. With the token of earlier leases it
 * renews those; `TENURE_TOKEN` is not used.
 */
export function leaseAll(paths: readonly PathLike[], options: AcquireOptions & StoreOptions & Signal): Promise<HeldLeases>;
export function leaseAllSync(paths: readonly PathLike[], options: AcquireOptions & StoreOptions): HeldLeases;

export interface PruneOptions extends WriteOptions {
  /** Remove entries that did not change for so long. */
  maxAgeMs?: number | undefined;
  /** Keep only so many, the newest. */
  maxCount?: number | undefined;
  /** Never remove these keys. */
  keep?: readonly string[] | undefined;
  /** Only tell what would be removed. */
  dryRun?: boolean | undefined;
}

export interface Pruned {
  removed: string[];
  /** Keys that were due but are held, leased, or were changed just now. */
  skipped: string[];
  remaining: number;
}

export interface Split {
  created: string[];
  present: string[];
  /** Keys that were there with other content; they were left as they are. */
  differing: string[];
}

/** A directory of documents or journals by key. Opening it touches nothing. */
export class Collection {
  constructor(dir: PathLike, options?: NumberOptions & StoreOptions & { kind?: 'documents' | 'journals' | undefined });
  readonly path: string;
  /** The file of a key. */
  pathOf(key: string): string;
  document<T = any>(key: string): Document<T>;
  journal(key: string): Journal;
  /** The keys that have a file, sorted. */
  keys(): Promise<string[]>;
  keysSync(): string[];
  /** Removes what is due; entries that are held stay. */
  prune(options: PruneOptions & Signal): Promise<Pruned>;
  pruneSync(options: PruneOptions): Pruned;
  /** Writes every member of the JSON object in `index` as a document of its own into `dir`. */
  static split(index: PathLike, dir: PathLike, options?: WriteOptions & StoreOptions & Signal): Promise<Split>;
  static splitSync(index: PathLike, dir: PathLike, options?: WriteOptions & StoreOptions): Split;
}

/** The content of a file at one moment. */
export interface Content {
  bytes: Buffer;
  /** Opaque: compare it, store it, and give it back. */
  version: string;
}

export type BlobWriteOptions = Omit<DocumentWriteOptions, 'noSync'>;

/** A file with any content, with the versions, guards and history of a document. Opening it touches nothing. */
export class Blob {
  constructor(path: PathLike, options?: StoreOptions);
  /** The resolved path. */
  readonly path: string;
  /** The content, or undefined if there is no file. Takes no lock. */
  get(): Promise<Content | undefined>;
  getSync(): Content | undefined;
  version(): Promise<string | undefined>;
  versionSync(): string | undefined;
  /** Replaces the whole content. It is always synced. */
  put(content: string | Uint8Array, options?: BlobWriteOptions & Signal): Promise<Written>;
  putSync(content: string | Uint8Array, options?: BlobWriteOptions): Written;
  /** Publishes the content from before the last change. A second undo redoes. */
  undo(options?: BlobWriteOptions & Signal): Promise<Written>;
  undoSync(options?: BlobWriteOptions): Written;
}

export type QueueWriteOptions = Pick<WriteOptions, 'allowNetwork' | 'label' | 'noSync' | 'waitMs'>;

export interface AddOptions extends QueueWriteOptions {
  /** Its id: if there is a task with this id, done or not, nothing is added. Default: a new one, which sorts by time. */
  id?: string | undefined;
  /** Set it aside when so many attempts have failed or expired. */
  maxAttempts?: number | undefined;
}

export interface ClaimOptions {
  /** How long the claim lasts without a renewal, in milliseconds. */
  ttlMs: number;
  /** Who wants it: a label, not a credential. Default: the user's name. */
  owner?: string | undefined;
  /** How long to wait for a task, in milliseconds. Default 0; Infinity for ever. */
  waitMs?: number | undefined;
}

/** A task that the caller has claimed. */
export interface Claimed<T = any> {
  id: string;
  task: T;
  /** The document of the task: with the fence it guards other writes. */
  target: string;
  /** Names the claim to `done`, `fail` and `renew`. Keep it secret. */
  token: string;
  fence: number;
  /** Which attempt it is, from 1 on. */
  attempt: number;
  ttlMs: number;
}

export interface FailOptions {
  /** It is not given out before this time has passed. */
  delayMs?: number | undefined;
  /** Set it aside if it has had so many attempts, whatever it was added with. */
  maxAttempts?: number | undefined;
  /** Why, for people. */
  reason?: string | undefined;
}

/** A task as it is now. */
export interface Task<T = any> {
  id: string;
  task: T;
  state: 'open' | 'delayed' | 'claimed' | 'done' | 'set_aside' | 'damaged';
  /** How often it was claimed. */
  attempts: number;
  /** Microseconds of the wall clock. */
  addedUs: number;
  /** The last worker that claimed it. */
  owner: string | null;
  /** What is left of its claim, or of its delay. */
  leftMs: number | null;
  /** Why it failed last. */
  reason: string | null;
}

/** An answer that is there at once. */
type NotPromise = boolean | string | number | bigint | null | undefined | void;

/** Which tasks a worker takes. */
export interface Accepts<T, R> {
  /**
   * Says of an open task whether to claim it. No lock is held meanwhile, and it may be asked about a task again. What it
   * throws is thrown, and nothing is claimed.
   */
  accepts?: ((task: T) => R) | undefined;
}

/**
 * Tasks for many workers. Each runs at least once and is completed exactly once: a claim that expires returns its task,
 * and the worker that lost it gets `lease_lost`. Opening it touches nothing.
 */
export class Queue<T = any> {
  constructor(dir: PathLike, options?: NumberOptions & StoreOptions);
  /** The resolved directory. */
  readonly path: string;
  /** Adds a task. With an id it is idempotent: `new` is false if there was one. */
  add(task: T, options?: AddOptions & Signal): Promise<{ id: string; new: boolean }>;
  addSync(task: T, options?: AddOptions): { id: string; new: boolean };
  /** Claims the oldest open task; undefined if there is none before the wait is over. */
  next(options: ClaimOptions & Accepts<T, unknown> & Signal): Promise<Claimed<T> | undefined>;
  nextSync(options: ClaimOptions & Accepts<T, NotPromise>): Claimed<T> | undefined;
  /** Completes a task; false if this claim had completed it before. */
  done(id: string, token: string): Promise<boolean>;
  doneSync(id: string, token: string): boolean;
  /** Returns a task to the queue, or sets it aside; says which. */
  fail(id: string, token: string, options?: FailOptions): Promise<Task['state']>;
  failSync(id: string, token: string, options?: FailOptions): Task['state'];
  /** Extends the claim from now. The fence stays. */
  renew(id: string, token: string, options?: { ttlMs?: number | undefined }): Promise<Leased>;
  renewSync(id: string, token: string, options?: { ttlMs?: number | undefined }): Leased;
  /** Every task, the oldest first. */
  list(): Promise<Task<T>[]>;
  listSync(): Task<T>[];
  /** Removes tasks that are done or set aside and were added longer ago than `maxAgeMs` (default 0); their ids. */
  prune(options?: QueueWriteOptions & Signal & { maxAgeMs?: number | undefined }): Promise<string[]>;
  pruneSync(options?: QueueWriteOptions & { maxAgeMs?: number | undefined }): string[];
}

export interface OnceOptions extends WaitOptions, NumberOptions, StoreOptions {
  /** How long the result is fresh, in milliseconds. */
  ttlMs: number;
  label?: string | undefined;
  owner?: string | undefined;
  allowNetwork?: boolean | undefined;
}

/**
 * Runs a function in one of many calls, of any process; the others wait and get its result, which is JSON, while it is
 * fresh. What the function throws is thrown to its own caller; those who wait at that moment get `OnceFailedError`. A
 * process that dies in its turn hands over to the next. A result of more than 1 MiB is not stored.
 */
export function once<T>(path: PathLike, options: OnceOptions & Signal, act: () => T | PromiseLike<T>): Promise<T>;
export function onceSync<T>(path: PathLike, options: OnceOptions, act: () => T): T;

export interface Together {
  written: Written;
  appended: Appended;
}

/**
 * Changes a document and appends a batch to a journal: all checks (version, fences, guards, what the function
 * throws) come before the first write, so that both are changed or neither. `fence` and `ifVersion` are the
 * document's; for a hold on the journal pass a guard that names it. A crash in between leaves the document
 * changed and the entry missing: with an `operation` the call can be repeated until it is known to be done.
 */
export function updateAndAppend<T = any>(
  document: Document<T>,
  compute: (current: T) => T | void | PromiseLike<T | void>,
  journal: Journal,
  lines: Line | readonly Line[],
  options: UpdateOptions & AppendOptions & Signal & { init: T; maxHoldMs?: number | undefined },
): Promise<Together>;
export function updateAndAppend<T = any>(
  document: Document<T>,
  compute: (current: T | undefined) => T | void | PromiseLike<T | void>,
  journal: Journal,
  lines: Line | readonly Line[],
  options?: UpdateOptions & AppendOptions & Signal & { maxHoldMs?: number | undefined },
): Promise<Together>;
export function updateAndAppendSync<T = any>(
  document: Document<T>,
  compute: (current: T) => T | void,
  journal: Journal,
  lines: Line | readonly Line[],
  options: UpdateOptions & AppendOptions & { init: T },
): Together;
export function updateAndAppendSync<T = any>(
  document: Document<T>,
  compute: (current: T | undefined) => T | void,
  journal: Journal,
  lines: Line | readonly Line[],
  options?: UpdateOptions & AppendOptions,
): Together;

/** What a target is doing, and who has it. */
export interface Status {
  /** The resolved path. */
  path: string;
  /** The directory that its lock is in. */
  sidecars: string;
  kind: 'free' | 'lock' | 'shared' | 'lease' | 'expired' | 'abandoned';
  /** Whether other callers have to wait for it. */
  held: boolean;
  holder: Holder | null;
  /** The newest fence that was given out; 0 for none. */
  fence: number;
  expiresInMs: number | null;
  ttlMs: number | null;
  /** Those who keep the lock: the holder, and children that inherited it. */
  processes: { pid: number; command: string }[];
  waiters: { pid: number; command: string }[];
  /** A process holds a lock file that no longer has its name. */
  compromised: boolean;
}

/** Who holds a target, and who waits for it. For people: the answer may be old when it arrives. */
export function status(path: PathLike, options?: StoreOptions): Promise<Status>;
export function statusSync(path: PathLike, options?: StoreOptions): Status;
