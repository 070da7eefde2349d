'use strict';

// Cleans up when the process ends, also by a signal, without getting in the way of other
// listeners. What is cleaned up are files for other programs; locks end with the process by themselves.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGABRT'];

/** One listener per signal, whichever drop-ins and copies of them are in this process. */
const shared = (globalThis[Symbol.for('tenure.compat.at-exit')] ??= { acts: new Set(), listeners: new Map() });

function listen() {
  shared.listeners.set('exit', () => shared.acts.forEach((act) => act({ ends: true })));
  for (const signal of SIGNALS) shared.listeners.set(signal, () => handle(signal));
  for (const [event, listener] of shared.listeners) process.on(event, listener);
}

/** Others decide what a signal does, and may go on working. If there are none, it ends us. */
function handle(signal) {
  const ends = process.listenerCount(signal) === 1 && shared.listeners.has(signal);
  shared.acts.forEach((act) => act({ ends }));
  if (!ends) return;
  stopListening();
  process.kill(process.pid, signal);
}

function stopListening() {
  for (const [event, listener] of shared.listeners) process.removeListener(event, listener);
  shared.listeners.clear();
}

/** Calls `act` at the end, or at a signal that may not be the end. To ask again for the same changes nothing. */
function atExit(act) {
  shared.acts.add(act);
  if (shared.listeners.size === 0) listen();
}

function notAtExit(act) {
  shared.acts.delete(act);
  if (shared.acts.size === 0) stopListening();
}

module.exports = { SIGNALS, atExit, handle, notAtExit };
