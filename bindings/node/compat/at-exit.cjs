'use strict';

// Cleans up when the process ends, also by a signal, without getting in the way of anybody else's
// listeners. What is cleaned up are files for other programs; locks end with the process by themselves.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGABRT', 'SIGHUP'];

/** Calls `act` once at the end. Returns what takes the listeners away again. */
function atExit(act) {
  const onSignal = Object.fromEntries(
    SIGNALS.map((signal) => [
      signal,
      () => {
        act();
        // Others decide what the signal does. If there are none, it does what it always did.
        if (process.listenerCount(signal) > 1) return;
        forget();
        process.kill(process.pid, signal);
      },
    ]),
  );
  const forget = () => {
    process.removeListener('exit', act);
    for (const [signal, listener] of Object.entries(onSignal)) process.removeListener(signal, listener);
  };
  process.on('exit', act);
  for (const [signal, listener] of Object.entries(onSignal)) process.on(signal, listener);
  return forget;
}

module.exports = { atExit };
