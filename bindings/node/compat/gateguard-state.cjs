'use strict';

// The session state of ECC GateGuard: `{ checked, last_active }` in `state-<key>.json`. Same files, same
// rules; a change is computed under the lock, so that no hook process undoes another's.
//
// Fail open: whatever goes wrong, nothing here throws; a change that could not be made returns false.

const { createHash } = require('crypto');
const fs = require('fs');
const path = require('path');
const { Collection, Document, lockSync } = require('../index.cjs');

const SESSION_TIMEOUT_MS = 30 * 60 * 1000;
const READ_HEARTBEAT_MS = 60 * 1000;
const MAX_CHECKED_ENTRIES = 500;
const MAX_SESSION_KEYS = 50;
const PINNED_KEY = '__bash_session__';
const MAX_EVIDENCE = 200;
const KEY_MAX = 64;
/** A hook must answer in a moment; a holder that keeps the state longer than this is not waited for. */
const WAIT_MS = 2000;
const PREFIX = 'state-';

const digest = (text) => createHash('sha256').update(text).digest('hex').slice(0, 24);

/** Letters, digits, `_` and `-`; a long key becomes a digest of itself. */
function sanitizeSessionKey(raw) {
  const key = String(raw).replace(/[^a-zA-Z0-9_-]/g, '_');
  return key.length > KEY_MAX ? `sid-${digest(String(raw))}` : key;
}

/** The key of the session that a hook's input, or the environment, names. */
function resolveSessionKey(data = {}) {
  const { env } = process;
  const named = [data?.session_id, data?.sessionId, data?.session?.id, env.CLAUDE_SESSION_ID, env.ECC_SESSION_ID];
  const id = named.find((each) => (typeof each === 'string' && each.trim() !== '') || (Number.isFinite(each) && each !== 0));
  if (id !== undefined) return sanitizeSessionKey(String(id).trim());
  const transcript = data?.transcript_path ?? data?.transcriptPath ?? env.CLAUDE_TRANSCRIPT_PATH;
  if (typeof transcript === 'string' && transcript.trim() !== '') return `tx-${digest(path.resolve(transcript.trim()))}`;
  return `proj-${digest(path.resolve(env.CLAUDE_PROJECT_DIR || process.cwd()))}`;
}

function stateDir() {
  const { GATEGUARD_STATE_DIR, HOME, USERPROFILE } = process.env;
  return GATEGUARD_STATE_DIR || path.join(HOME || USERPROFILE || '/tmp', '.gateguard');
}

let sessionKey;

/** Chooses the session of the calls that follow by a hook's input. Returns its key. */
function useSession(data) {
  sessionKey = resolveSessionKey(data);
  return sessionKey;
}

/** The file of the present session. */
function stateFile() {
  sessionKey ??= resolveSessionKey();
  return path.join(stateDir(), `${PREFIX}${sessionKey}.json`);
}

const emptyState = () => ({ checked: [], last_active: Date.now() });
const isExpired = (state) => Date.now() - state.last_active > SESSION_TIMEOUT_MS;

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What a file says, as far as it is a state. Fields of newer versions stay. */
function asState(value) {
  const found = isObject(value) ? value : {};
  const checked = Array.isArray(found.checked) ? found.checked.filter((key) => typeof key === 'string') : [];
  const last = Number(found.last_active);
  return { ...found, checked, last_active: Number.isFinite(last) ? last : 0 };
}

/** The pinned key, the newest session keys (`__...`) and the newest files, oldest first. */
function pruneCheckedEntries(checked) {
  if (checked.length <= MAX_CHECKED_ENTRIES) return checked;
  const session = checked.filter((key) => key.startsWith('__') && key !== PINNED_KEY);
  const files = checked.filter((key) => !key.startsWith('__'));
  const pinned = checked.includes(PINNED_KEY) ? [PINNED_KEY] : [];
  const kept = [...pinned, ...session.slice(-(MAX_SESSION_KEYS - pinned.length))];
  const room = MAX_CHECKED_ENTRIES - kept.length;
  return [...kept, ...files.slice(-room)];
}

const identityOf = ({ kind, target, pattern, ts } = {}) => [kind, target, pattern, ts].join('|');

/** Fields of newer versions: evidence once, the later of two times, the larger of two counts. What is not
 * known here is as it is on the disk: memory may be old. */
function newerFields(disk, memory) {
  const fields = {};
  if (Array.isArray(disk.evidence) && Array.isArray(memory.evidence)) {
    const both = [...disk.evidence, ...memory.evidence].map((each) => [identityOf(each), each]);
    fields.evidence = [...new Map(both).values()].slice(-MAX_EVIDENCE);
  }
  for (const name of ['read_files', 'scope_passes']) {
    if (!isObject(disk[name]) || !isObject(memory[name])) continue;
    const times = new Map(Object.entries(disk[name]));
    for (const [key, time] of Object.entries(memory[name])) times.set(key, Math.max(time, times.get(key) ?? time));
    fields[name] = Object.fromEntries(times);
  }
  if (Number.isFinite(disk.fact_force_denials) && Number.isFinite(memory.fact_force_denials)) {
    fields.fact_force_denials = Math.max(disk.fact_force_denials, memory.fact_force_denials);
  }
  return fields;
}

/** Two states as one: nothing that either has checked is lost. */
function merged(disk, memory) {
  const base = isExpired(disk) ? { checked: [], last_active: 0 } : disk;
  const checked = [...new Set([...base.checked, ...memory.checked])];
  return {
    ...memory,
    ...base,
    ...newerFields(base, memory),
    checked: pruneCheckedEntries(checked),
    last_active: Math.max(base.last_active, memory.last_active),
  };
}

/** Changes the state on the disk under the lock. False if that was not possible. */
function change(compute) {
  try {
    pruneOnce();
    const file = stateFile();
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    const document = new Document(file);
    const act = () =>
      document.updateTextSync(
        (text) => {
          const before = text === undefined ? { checked: [], last_active: 0 } : asState(JSON.parse(text));
          return JSON.stringify(compute(before), null, 2);
        },
        { noSync: true, waitMs: WAIT_MS },
      );
    try {
      act();
    } catch (error) {
      if (error.code !== 'damaged') throw error;
      setAside(file);
      act();
    }
    return true;
  } catch {
    return false;
  }
}

/** A state that cannot be read guards nothing, and would stop every later change. It is kept for people. */
function setAside(file) {
  const guard = lockSync(file, { waitMs: WAIT_MS });
  try {
    new Document(file).readSync({ numbers: 'lossy' }); // Another process may have fixed it meanwhile.
  } catch (error) {
    if (error.code === 'damaged') fs.renameSync(file, path.join(path.dirname(file), `corrupt-${Date.now()}.txt`));
  } finally {
    guard.releaseSync();
  }
}

/** Removes the state if it has still expired, under the lock: a fresh one must not go with it. */
function expire(file) {
  try {
    const guard = lockSync(file, { waitMs: WAIT_MS });
    try {
      if (isExpired(asState(JSON.parse(fs.readFileSync(file, 'utf8'))))) fs.unlinkSync(file);
    } finally {
      guard.releaseSync();
    }
  } catch {
    // Its present holder keeps it.
  }
}

/** The state of this session; an empty one if there is none, or none that counts. */
function loadState() {
  try {
    pruneOnce();
    const file = stateFile();
    const state = asState(JSON.parse(fs.readFileSync(file, 'utf8')));
    if (!isExpired(state)) return state;
    expire(file);
  } catch {
    // Missing or unreadable.
  }
  return emptyState();
}

/** Merges a state into the one on the disk. */
function saveState(state) {
  try {
    const memory = asState(state);
    return change((disk) => merged(disk, memory));
  } catch {
    return false;
  }
}

/** Remembers that `key` was checked. */
function markChecked(key) {
  if (typeof key !== 'string') return false;
  return change((disk) => merged(disk, { checked: [key], last_active: Date.now() }));
}

/** Whether `key` was checked. Now and then it also says that the session lives. */
function isChecked(key) {
  const state = loadState();
  const found = state.checked.includes(key);
  if (found && Date.now() - state.last_active > READ_HEARTBEAT_MS) {
    change((disk) => merged(disk, { checked: [], last_active: Date.now() }));
  }
  return found;
}

/** Directories that this process has pruned. The variable that names the directory may be set after this
 * module was loaded, so the first use prunes too. */
const pruned = new Set();

function pruneOnce() {
  if (!pruned.has(stateDir())) pruneStaleFiles();
}

/** Removes what sessions long gone have left: their states, and temporary files of older versions. */
function pruneStaleFiles() {
  const dir = stateDir();
  pruned.add(dir);
  const maxAgeMs = 2 * SESSION_TIMEOUT_MS;
  try {
    const names = fs.readdirSync(dir);
    for (const name of names.filter((each) => each.startsWith(PREFIX) && each.includes('.tmp.'))) {
      const file = path.join(dir, name);
      if (Date.now() - fs.statSync(file).mtimeMs > maxAgeMs) fs.unlinkSync(file);
    }
    if (!names.some((each) => each.startsWith(PREFIX) && each.endsWith('.json'))) return;
    const states = new Collection(dir);
    const keep = states.keysSync().filter((key) => !key.startsWith(PREFIX));
    states.pruneSync({ maxAgeMs, keep, noSync: true, waitMs: 0 });
  } catch {
    // The next hook tries again.
  }
}

pruneOnce();

module.exports = {
  MAX_CHECKED_ENTRIES,
  MAX_SESSION_KEYS,
  READ_HEARTBEAT_MS,
  SESSION_TIMEOUT_MS,
  isChecked,
  loadState,
  markChecked,
  pruneCheckedEntries,
  pruneStaleFiles,
  resolveSessionKey,
  sanitizeSessionKey,
  saveState,
  stateFile,
  useSession,
};
