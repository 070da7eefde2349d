export interface JournalEntry {
  file: string;
  deleted?: boolean;
}
export type JournalState =
  | { valid: false }
  | { valid: true; timestamp: number; changed: string[]; removed: string[] };

export const JOURNAL_FILENAME: 'changes.journal';
export function readJournal(dir: string): JournalState;
export function appendJournalEntries(dir: string, entries: JournalEntry[]): void;
export function writeJournalHeader(dir: string, timestamp: number): void;
export function appendJournalEntriesAndStampHeader(dir: string, entries: JournalEntry[], timestamp: number): void;
/** Runs the function while no other process changes the journal; calls of this module inside are part of it. */
export function withJournalLock<T>(dir: string, act: () => T): T;
