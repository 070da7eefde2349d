'use strict';

const { later, laterAtOnce, now } = require('./call.cjs');
const { invalid } = require('./errors.cjs');
const json = require('./json.cjs');
const native = require('./native.cjs');
const options = require('./options.cjs');

const { signal } = options;
const encoding = options.oneOf('utf8', 'buffer');
const APPEND = { ...options.WRITE, header: line, json: options.flag, newMode: options.whole };
const READ = { encoding, from: options.whole, limit: options.whole };
const FOLLOW = { encoding, from: options.whole, waitMs: options.time };
const COMPACT = { ...options.WRITE, from: options.whole, keep: options.callback };

/** One line: text and bytes as they are, any other value as JSON. */
function line(value) {
  return typeof value === 'string' || value instanceof Uint8Array ? value : json.stringify(value);
}

const batch = (lines) => (Array.isArray(lines) ? lines : [lines]).map(line);

/** The arguments of the native `append`, behind the lines. */
function appending({ header, json: checked = false, ...write }) {
  return [checked, header, options.forWrite(write)];
}

/** A report whose fields are always there. */
const told = (report) => ({ ...report, quarantine: report.quarantine ?? null });

/** The native half of a journal; throws for anything else. */
let nativeOf;

/** A file of lines that many processes append to. Opening it touches nothing. */
class Journal {
  #native;

  static {
    nativeOf = (journal) => journal.#native;
  }

  constructor(path, given) {
    options.read(given, {});
    this.#native = path instanceof native.Journal ? path : now(() => new native.Journal(options.path(path)));
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
    const { encoding: wanted, from = 1, limit, signal: aborts } = options.read(given, { ...READ, signal });
    const journal = this.#native;
    return (async function* entries() {
      const found = await later(aborts, (call) => journal.entries(call, from, limit));
      for (;;) {
        const portion = await later(aborts, (call) => found.next(call, wanted === 'buffer'));
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  entriesSync(given) {
    const { encoding: wanted, from = 1, limit } = options.read(given, READ);
    const journal = this.#native;
    return (function* entries() {
      const found = now(() => journal.entries(undefined, from, limit));
      for (;;) {
        const portion = now(() => found.next(undefined, wanted === 'buffer'));
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  /** Entries as they appear, across rotations. Ends when none comes for `waitMs`. */
  follow(given) {
    const { encoding: wanted, from = 1, waitMs = Infinity, signal: aborts } = options.read(given, { ...FOLLOW, signal });
    const follow = now(() => this.#native.follow(from));
    return (async function* entries() {
      for (;;) {
        const portion = await laterAtOnce(aborts, (call) => follow.next(call, waitMs, wanted === 'buffer'));
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  followSync(given) {
    const { encoding: wanted, from = 1, waitMs = Infinity } = options.read(given, FOLLOW);
    const follow = now(() => this.#native.follow(from));
    return (function* entries() {
      for (;;) {
        const portion = now(() => follow.next(undefined, waitMs, wanted === 'buffer'));
        if (portion.length === 0) return;
        yield* portion;
      }
    })();
  }

  async verify() {
    return told(await later(undefined, (call) => this.#native.verify(call)));
  }

  verifySync() {
    return told(now(() => this.#native.verify()));
  }

  async repair(given) {
    const { signal: aborts, ...write } = options.read(given, { ...options.WRITE, signal });
    return told(await later(aborts, (call) => this.#native.repair(call, options.forWrite(write))));
  }

  repairSync(given) {
    const write = options.read(given, options.WRITE);
    return told(now(() => this.#native.repair(undefined, options.forWrite(write))));
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
      for await (const entry of this.entries({ from, signal: aborts })) {
        if (!(await keep(entry))) dropped.push(entry.seq);
      }
    }
    return later(aborts, (call) => this.#native.compact(call, from, dropped, options.forWrite(write)));
  }

  compactSync(given) {
    const { from = 0, keep, ...write } = asked(options.read(given, COMPACT));
    const dropped = [];
    if (keep) {
      for (const entry of this.entriesSync({ from })) if (!keep(entry)) dropped.push(entry.seq);
    }
    return now(() => this.#native.compact(undefined, from, dropped, options.forWrite(write)));
  }
}

function asked(found) {
  if (found.from === undefined && !found.keep) throw invalid('compact', 'nothing says what to keep; pass from or keep');
  return found;
}

module.exports = { APPEND, Journal, appending, batch, journalOf: (journal) => nativeOf(journal) };
