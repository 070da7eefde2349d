export interface State {
  checked: string[];
  last_active: number;
  [field: string]: unknown;
}

export const MAX_CHECKED_ENTRIES: number;
export const MAX_SESSION_KEYS: number;
export const READ_HEARTBEAT_MS: number;
export const SESSION_TIMEOUT_MS: number;
/** Chooses the session of the calls that follow by a hook's input. Returns its key. */
export function useSession(data?: unknown): string;
export function resolveSessionKey(data?: unknown): string;
export function sanitizeSessionKey(raw: string): string;
export function stateFile(): string;
export function loadState(): State;
export function saveState(state: State): boolean;
export function markChecked(key: string): boolean;
export function isChecked(key: string): boolean;
export function pruneCheckedEntries(checked: string[]): string[];
/** Removes states and temporary files of sessions long gone. Loading this module, and the first use of a directory, do it too. */
export function pruneStaleFiles(): void;
