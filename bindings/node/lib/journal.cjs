'use strict';

const { isUint8Array } = require('util/types');
const { later, laterAtOnce, now } = require('./call.cjs');
const { JournalGapError, invalid } = require('./errors.cjs');
const json = require('./json.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');
const { store } = require('./store.cjs');

const { signal } = options;
const encoding = options.oneOf('utf8', 'buffer');
const APPEND = { ...options.WRITE, header: line, json: options.flag, newMode: options.whole };
const READ = { encoding, from: options.whole, limit: options.whole, onGap: options.callback };
const FOLLOW = { encoding, from: options.whole, onGap: options.callback, waitMs: options.time };
const PENDING = { encoding };
const REPAIR = { ...options.WRITE, accept: options.flag };
/** Begins with the oldest entry that is there. */
const OLDEST = 0;
const COMPACT = { ...options.WRITE, from: options.whole, keep: options.callback };

/** One line: text and bytes as they are, any other value as JSON. */
function line(value) {
  return typeof value === 'string' || isUint8Array(value) ? value : json.stringify(value);
}

const batch = (lines) => (Array.isArray(lines) ? lines : [lines]).map(line);

/** The arguments of the native `append`, behind the lines. */
function appending({ header, json: checked = false, ...write }) {
  return [checked, header, options.forWrite(write)];
}

/** A report whose fields are always there. */
const complete = (report) => ({ ...report, quarantine: report.quarantine ?? null });

/** What `next` gives. Gaps before that go to `onGap`, if there is one. */
async function behindGaps(onGap, next) {
  for (;;) {
    try {
      return await next();
    } catch (error) {
      if (!onGap || !(error instanceof JournalGapError)) throw error;
      await onGap(error);
    }
  }
}

function behindGapsSync(onGap, next) {
  for (;;) {
    try {
      return next();
    } catch (error) {
      if (!onGap || !(error instanceof JournalGapError)) throw error;
      onGap(error);
    }
  }
}

/** The native half of a journal; throws for anything else. */
let nativeOf;

/** A file of lines that many processes append to. Opening it touches nothing. */
class Journal {
  #native;

  static {
    nativeOf = (journal) => journal.#native;
  }

  constructor(path, given) {
    const { store: place } = options.read(given, { store });
    this.#native = path instanceof native.Journal ? path : now(() => new native.Journal(options.path(path), place));
  }

  /** The resolved path. */
  get path() {
    return this.#native.path;
  }

  async append(lines, given) {
    const { signal: aborts, ...found } = options.read(given, { ...APPEND, signal });
    return later(aborts, (call) => this.#native.append(call, batch(lines), ...appending(found)));
  }

  appendSync(lines, given) {
    const found = options.read(given, APPEND);
    return now(() => this.#native.append(undefined, batch(lines), ...appending(found)));
  }

  async read(given) {
    const all = [];
    for await (const entry of this.entries(given)) all.push(entry);
    return all;
  }

  readSync(given) {
    return [...this.entriesSync(given)];
  }

  /** The entries as they are when the first one is asked for, in portions: a large journal fits. */
  entries(given) {
    const { encoding: wanted, from = OLDEST, limit, onGap, signal: aborts } = options.read(given, { ...READ, signal });
    const journal = this.#native;
    return (async function* entries() {
      const found = await later(aborts, (call) => journal.entries(call, from, limit));
      const next = () => later(aborts, (call) => found.next(call, wanted === 'buffer'));
      for (;;) {
        const portion = await behindGaps(onGap, next);
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  entriesSync(given) {
    const { encoding: wanted, from = OLDEST, limit, onGap } = options.read(given, READ);
    const journal = this.#native;
    return (function* entries() {
      const found = now(() => journal.entries(undefined, from, limit));
      const next = () => now(() => found.next(undefined, wanted === 'buffer'));
      for (;;) {
        const portion = behindGapsSync(onGap, next);
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  /** Entries as they appear, across rotations. Ends when none comes for `waitMs`. */
  follow(given) {
    const { encoding: wanted, from = OLDEST, onGap, waitMs = Infinity, signal: aborts } = options.read(given, { ...FOLLOW, signal });
    const follow = now(() => this.#native.follow(from));
    const next = () => laterAtOnce(aborts, (call) => follow.next(call, waitMs, wanted === 'buffer'));
    return (async function* entries() {
      for (;;) {
        const portion = await behindGaps(onGap, next);
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  followSync(given) {
    const { encoding: wanted, from = OLDEST, onGap, waitMs = Infinity } = options.read(given, FOLLOW);
    const follow = now(() => this.#native.follow(from));
    const next = () => now(() => follow.next(undefined, waitMs, wanted === 'buffer'));
    return (function* entries() {
      for (;;) {
        const portion = behindGapsSync(onGap, next);
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  /** Lines of other tools that have no number yet. */
  async pending(given) {
    const { encoding: wanted, signal: aborts } = options.read(given, { ...PENDING, signal });
    return later(aborts, (call) => this.#native.pending(call, wanted === 'buffer'));
  }

  pendingSync(given) {
    const { encoding: wanted } = options.read(given, PENDING);
    return now(() => this.#native.pending(undefined, wanted === 'buffer'));
  }

  async verify() {
    return complete(await later(undefined, (call) => this.#native.verify(call)));
  }

  verifySync() {
    return complete(now(() => this.#native.verify()));
  }

  async repair(given) {
    const { signal: aborts, accept = false, ...write } = options.read(given, { ...REPAIR, signal });
    return complete(await later(aborts, (call) => this.#native.repair(call, accept, options.forWrite(write))));
  }

  repairSync(given) {
    const { accept = false, ...write } = options.read(given, REPAIR);
    return complete(now(() => this.#native.repair(undefined, accept, options.forWrite(write))));
  }

  async rotate(given) {
    const { signal: aborts, ...write } = options.read(given, { ...options.WRITE, signal });
    const done = await later(aborts, (call) => this.#native.rotate(call, options.forWrite(write)));
    return { ...done, archive: done.archive ?? null };
  }

  rotateSync(given) {
    const write = options.read(given, options.WRITE);
    const done = now(() => this.#native.rotate(undefined, options.forWrite(write)));
    return { ...done, archive: done.archive ?? null };
  }

  /** Writes the journal anew with the entries that `keep` wants. Entries that come meanwhile stay. */
  async compact(given) {
    const { signal: aborts, from = 0, keep, ...write } = asked(options.read(given, { ...COMPACT, signal }));
    const dropped = [];
    // Before anything is changed, so that what `keep` throws changes nothing.
    if (keep) {
      for await (const entry of this.entries({ from, onGap: nothing, signal: aborts })) {
        if (!(await keep(entry))) dropped.push(entry.seq);
      }
    }
    const done = await later(aborts, (call) => this.#native.compact(call, from, dropped, options.forWrite(write)));
    return { ...done, replaced: done.replaced ?? null };
  }

  compactSync(given) {
    const { from = 0, keep, ...write } = asked(options.read(given, COMPACT));
    const dropped = [];
    if (keep) {
      const entries = this.entriesSync({ from, onGap: nothing });
      for (const entry of entries) if (!keep(entry)) dropped.push(entry.seq);
    }
    const done = now(() => this.#native.compact(undefined, from, dropped, options.forWrite(write)));
    return { ...done, replaced: done.replaced ?? null };
  }
}

/** What is gone cannot be dropped. */
function nothing() {}

function asked(found) {
  if (found.from === undefined && !found.keep) throw invalid('compact', 'nothing says what to keep; pass from or keep');
  return found;
}

module.exports = { APPEND, Journal, appending, batch, journalOf: (journal) => nativeOf(journal) };
